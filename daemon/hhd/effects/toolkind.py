"""Tool calls as effects: parsed, judged by this device's policy, shown to the person, run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.effects.approvals import Grant, Grants, Question
from hhd.effects.cancel import Cancel
from hhd.effects.confine import PathRefused, Workspace
from hhd.effects.environment import for_commands, named
from hhd.effects.executor import Ready, Refusal, Waits, Why
from hhd.effects.policy import Judgement, Policy, Verdict
from hhd.effects.sandbox import Sandbox, SandboxConfig, detect
from hhd.effects.tools.table import TOOLS
from hhd.effects.tools.tool import Call, CallRefused, Context, Reply, Subject, failed, parse
from hhd_protocol.journal import Entry

_ORDER = ("command", "path", "pattern", "glob", "old", "new", "content")
"""Fields in the order a person reads them; others follow."""


@dataclass(frozen=True, kw_only=True)
class ToolKind:
    """Answers `tool` effects of one session in one folder."""

    session: bytes
    workspace: Workspace
    sandbox: Sandbox
    environment: dict[str, str]
    policy: Policy
    grants: Grants

    @classmethod
    def open(
        cls,
        *,
        session: bytes,
        folder: Path,
        table: Mapping[str, object],
        grants: Grants,
        secrets: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> ToolKind:
        """The tools of `session` in `folder` under the table `[policy]` of this device's configuration.

        `secrets`: values that no command may see (the model key). Raises RefusedError for a folder or a setting that
        cannot be used.
        """
        policy, names = Policy.from_table(table), named(table)
        walls = table.get("sandbox", {})
        if not isinstance(walls, dict):
            raise RefusedError("sandbox must be a table, [policy.sandbox].")
        sandbox = detect(SandboxConfig.from_table(walls))
        variables = os.environ if environ is None else environ
        return cls(
            session=session,
            workspace=Workspace(folder),
            sandbox=sandbox,
            environment=for_commands(variables, named=names, secrets=secrets, walled=sandbox.program is not None),
            policy=policy,
            grants=grants,
        )

    def prepare(self, entry: Entry) -> Ready | Refusal | Waits:
        """Judge the call that `entry` asks for; nothing is done yet."""
        try:
            call = parse(entry.request, TOOLS)
            subject = call.tool.subject(call.input, self.workspace)
        except (CallRefused, PathRefused) as error:
            return Refusal(reply=failed(str(error)).encode())
        except OSError as error:
            return Refusal(reply=failed(_said(error)).encode())
        judged = self.policy.judge(subject)
        if judged.verdict is Verdict.DENY:
            sentence = f"This device's policy refuses the call ({judged.reason}); do it another way or ask the person."
            return Refusal(reply=failed(sentence).encode())
        if call.tool.changes and not self.workspace.writable():
            return Waits(
                why=Why.MEND,
                sentence=f"The folder {self.workspace.folder} cannot be written by this user; nothing was run.",
                ways=("make it writable and go on", "go on in another folder with -C DIR"),
            )
        if call.tool.name == "bash" and self.sandbox.required and self.sandbox.program is None:
            return Waits(
                why=Why.MEND,
                sentence=f"[policy.sandbox] requires a sandbox for commands, and there is none: {self.sandbox.reason}.",
                ways=("install bubblewrap and go on", 'set use = "auto" under [policy.sandbox]'),
            )
        grant = self._grant(subject, judged)
        question = None
        if judged.verdict is Verdict.ASK and not self.grants.covers(grant):
            question = self._question(call, subject, grant, judged.reason)
        return Ready(
            run=lambda cancel: self._run(call, subject, cancel), repeatable=call.tool.repeatable, question=question
        )

    def repeatable(self, request: bytes) -> bool:
        """Whether the tool of `request` may be run twice."""
        return repeatable(request)

    def refused(self, entry: Entry, message: str) -> bytes:
        """The reply to the model where the person said no."""
        said = f" They say: {message}" if message else ""
        return failed(f"The person refused this call; it was not run.{said}").encode()

    def _run(self, call: Call, subject: Subject, cancel: Cancel) -> bytes:
        context = Context(
            workspace=self.workspace,
            sandbox=self.sandbox,
            environment=self.environment,
            cancel=cancel,
            judged=subject if subject.places else None,
            passed_over=self.policy.passed_over(subject),
        )
        try:
            reply: Reply = call.tool.act(call.input, context)
        except PathRefused as error:
            reply = failed(str(error))
        except OSError as error:
            reply = failed(_said(error))
        return reply.encode()

    def _grant(self, subject: Subject, judged: Judgement) -> Grant:
        """What "always" would cover: where something special was asked about, no more than that very place."""
        return Grant(
            session=self.session,
            folder=str(self.workspace.folder),
            tool=subject.tool,
            command=subject.command,
            places=subject.places if judged.special else (),
        )

    def _question(self, call: Call, subject: Subject, grant: Grant, reason: str) -> Question:
        """Everything that will be used is in the text: every field, whole, and where links really lead."""
        lines = [f"in {visible(str(self.workspace.folder), one_line=True)}, asked because: {reason}"]
        given = _given(call)
        for name in sorted(given, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)):
            lines += _shown(name, given[name])
        if len(subject.places) > 1:
            lines.append(f"links lead to: {visible(subject.places[0], one_line=True)}")
        if call.tool.name == "bash":
            lines.append("in the sandbox" if self.sandbox.program is not None else "WITHOUT a sandbox")
        covers = "this exact command" if subject.command else "this place" if grant.places else f"every {subject.tool}"
        return Question(
            title=f"The session asks to run {call.tool.name}:",
            text="\n".join(lines),
            grant=grant,
            always=f"{covers}, in this session",
        )


def repeatable(request: bytes) -> bool:
    """Whether the tool of `request` may be run twice; of one that this hhd does not know nobody can say so."""
    try:
        return parse(request, TOOLS).tool.repeatable
    except CallRefused:
        return False


def _given(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(call.input)
    return {name: value for name, value in found.items() if value is not None}


def _shown(name: str, value: object) -> list[str]:
    """A field for the person: one line, or a block whose every line is marked and whose end is unmistakable."""
    text = visible(str(value))
    if isinstance(value, str) and ("\n" in text or len(text) > 100):
        body = text.split("\n")
        ending = "" if text.endswith("\n") else ", no line end after the last"
        body = body[:-1] if text.endswith("\n") else body
        return [f"{name} ({len(body)} line{'s' * (len(body) != 1)}{ending}):", *(f"  | {line}" for line in body)]
    return [f"{name}: {text}"]


def _said(error: OSError) -> str:
    """A sentence without the path of this device that Python's own message would hold."""
    if error.errno is None and error.args:
        return str(error.args[0])
    return f"It could not be done: {error.strerror or 'unknown error'}."
