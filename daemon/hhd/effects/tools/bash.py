"""Runs one command in the workspace by bash, and says how it ended."""

from __future__ import annotations

import shutil
from typing import Annotated

import msgspec

from hhd.effects.confine import Workspace
from hhd.effects.limits import BASH_SECONDS_DEFAULT, BASH_SECONDS_MAX, COMMAND_BYTES_MAX
from hhd.effects.tools.running import Ended, run_to_end
from hhd.effects.tools.tool import Context, Input, Reply, Subject, Tool, failed


class BashInput(Input, frozen=True, kw_only=True):
    """`command` is a program for bash, handed over as it is."""

    command: str
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=BASH_SECONDS_MAX)] | None = None


def _subject(asked: BashInput, workspace: Workspace) -> Subject:
    return Subject(tool="bash", command=asked.command)


def _act(asked: BashInput, context: Context) -> Reply:
    if not asked.command.strip() or "\0" in asked.command:
        return failed("The command is empty or contains a NUL character; nothing was run.")
    if len(asked.command.encode()) > COMMAND_BYTES_MAX:
        return failed(f"The command passes {COMMAND_BYTES_MAX} bytes; write it to a file and run that.")
    bash = shutil.which("bash", path=context.environment.get("PATH"))
    if bash is None:
        return failed("bash is not installed on this device; nothing was run.")
    if context.sandbox.program is None and context.sandbox.required:
        return failed("Commands need a sandbox by this device's configuration, and it has none; nothing was run.")
    timeout = asked.timeout_seconds or BASH_SECONDS_DEFAULT
    try:
        ended = run_to_end([bash, "--noprofile", "--norc", "-c", asked.command], context, timeout)
    except OSError as error:
        return failed(f"The command could not be started ({error.strerror}); nothing was run.")
    return _reply(ended, timeout)


BASH: Tool[BashInput] = Tool(
    name="bash", input=BashInput, repeatable=False, changes=True, subject=_subject, act=_act
)  # fmt: skip


def _reply(ended: Ended, timeout: int) -> Reply:
    notes = {
        "timeout": f"[ended after the timeout of {timeout} seconds]",
        "person": "[ended because the person asked for it]",
        "stuck": "[it could not be ended and may still run]",
    }
    note = notes.get(ended.by) or (f"[exit status {ended.status}]" if ended.status else "")
    gap = "\n" if ended.output and note and not ended.output.endswith("\n") else ""
    return Reply(output=ended.output + gap + note, is_error=bool(note))
