"""What a session may do on this device, told to the person before a session asks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hhd.base import config
from hhd.base.errors import RefusedError, UsageError
from hhd.effects.confine import PathRefused, Workspace
from hhd.effects.environment import ALLOWED, FIXED, named
from hhd.effects.policy import DEFAULTS, Policy, Verdict
from hhd.effects.sandbox import Sandbox, SandboxConfig, detect
from hhd.effects.tools.gitplace import refuse_gits_own
from hhd.effects.tools.tool import Subject, places


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The policy of this device as it is in force. `defaults`: tool and verdict where no rule speaks."""

    file: Path
    rules: tuple[tuple[str, str], ...]
    defaults: tuple[tuple[str, str], ...]
    environment: tuple[str, ...]
    sandbox: bool
    walls: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What would become of one call: `verdict` is allow, ask, deny or refused (whatever the rules say)."""

    verdict: str
    reason: str


def in_force() -> Rules:
    """Read the configuration and try the sandbox; raises UserError for a configuration that cannot be used."""
    table = config.load().policy
    policy, extra, sandbox = Policy.from_table(table), named(table), _sandbox(table)
    return Rules(
        file=config.path(),
        rules=tuple((_word(rule.verdict), rule.text) for rule in policy.rules),
        defaults=tuple((tool, _word(verdict)) for tool, verdict in DEFAULTS.items()),
        environment=tuple(sorted({*ALLOWED, *FIXED, *extra})),
        sandbox=sandbox.program is not None,
        walls=tuple(sandbox.status()),
    )


def judge(tool: str, what: str, folder: Path) -> Judged:
    """What would become of `tool` with the command or path `what` in `folder`; raises UserError."""
    if tool not in DEFAULTS:
        raise UsageError(f"There is no tool {tool!r}; there are {', '.join(sorted(DEFAULTS))}.")
    policy = Policy.from_table(config.load().policy)
    if tool == "bash":
        subject = Subject(tool=tool, command=what)
    else:
        with Workspace(folder) as workspace:
            try:
                place = workspace.resolve(what)
                if tool in ("write", "edit"):
                    refuse_gits_own(place)
            except PathRefused as error:
                return Judged(verdict="refused", reason=str(error))
        subject = Subject(tool=tool, places=places(what, place))
    judged = policy.judge(subject)
    return Judged(verdict=_word(judged.verdict), reason=judged.reason)


def _sandbox(table: object) -> Sandbox:
    walls = table.get("sandbox", {}) if isinstance(table, dict) else {}
    if not isinstance(walls, dict):
        raise RefusedError("[policy.sandbox] must be a table.")
    return detect(SandboxConfig.from_table(walls))


def _word(verdict: Verdict) -> str:
    return verdict.name.lower()
