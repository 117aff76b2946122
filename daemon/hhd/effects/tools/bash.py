"""Runs one command in the workspace by bash, and says how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from hhd.effects.confine import Workspace
from hhd.effects.limits import (
    BASH_DRAIN_SECONDS,
    BASH_GRACE_SECONDS,
    BASH_SECONDS_DEFAULT,
    BASH_SECONDS_MAX,
    COMMAND_BYTES_MAX,
    OUTPUT_BYTES_MAX,
)
from hhd.effects.tools import supervisor
from hhd.effects.tools.kept import Kept
from hhd.effects.tools.tool import Context, Input, Reply, Subject, Tool, failed

_PIECE_BYTES = 64 * 1024

_TICK_SECONDS = 0.02
"""How often to look whether a process ended, where no descriptor tells."""

_GRACE_AND_MORE_SECONDS = BASH_GRACE_SECONDS + 0.5
"""Without a sandbox the supervisor kills after the grace; it gets a moment to do so before it is killed itself."""


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
        ended = _run([bash, "--noprofile", "--norc", "-c", asked.command], context, timeout)
    except OSError as error:
        return failed(f"The command could not be started ({error.strerror}); nothing was run.")
    return _reply(ended, timeout)


BASH: Tool[BashInput] = Tool(
    name="bash", input=BashInput, repeatable=False, changes=True, subject=_subject, act=_act
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """How a command ended. `status`: as of bash. `by`: what ended it early, empty if it ended by itself."""

    output: str
    status: int
    by: str


def _reply(ended: _Ended, timeout: int) -> Reply:
    notes = {
        "timeout": f"[ended after the timeout of {timeout} seconds]",
        "person": "[ended because the person asked for it]",
        "stuck": "[it could not be ended and may still run]",
    }
    note = notes.get(ended.by) or (f"[exit status {ended.status}]" if ended.status else "")
    gap = "\n" if ended.output and note and not ended.output.endswith("\n") else ""
    return Reply(output=ended.output + gap + note, is_error=bool(note))


def _run(command: list[str], context: Context, timeout_seconds: float) -> _Ended:
    """Run `command` to its end, or end it, with everything it started; raises OSError if it cannot be started."""
    walled = context.sandbox.program is not None
    folder = context.workspace.folder
    words = context.sandbox.wrap(command, folder) if walled else _supervised(command)
    control, held = os.pipe()
    try:
        process = subprocess.Popen(
            words, cwd=None if walled else folder, env=dict(context.environment),
            stdin=subprocess.DEVNULL if walled else control,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(control)
    ending = _Ending(process=process, held=held, walled=walled)
    try:
        return _watch(process, ending, context, time.monotonic() + timeout_seconds)
    finally:
        ending.now()
        assert process.stdout is not None
        process.stdout.close()


def _supervised(command: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(supervisor.__file__)), str(BASH_GRACE_SECONDS), *command]


class _Ending:
    """Ends a command: first politely, then surely."""

    def __init__(self, *, process: subprocess.Popen[bytes], held: int, walled: bool) -> None:
        self._process, self._held, self._walled = process, held, walled

    def politely(self) -> None:
        """Ask; without a sandbox the supervisor goes on to the sure way by itself."""
        if self._walled:
            below = supervisor.descendants(self._process.pid)
            supervisor.send(below[1:], signal.SIGTERM)  # The first is the sandbox's own pid 1.
        else:
            self._let_go()

    def now(self) -> None:
        """Kill. The sandbox's process ids end with it; the supervisor ends all below it when the pipe closes."""
        self._let_go()
        if self._walled and self._process.poll() is None:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(BASH_DRAIN_SECONDS)

    def _let_go(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def _watch(process: subprocess.Popen[bytes], ending: _Ending, context: Context, deadline: float) -> _Ended:
    """Collect output until the command has ended, or end it at `deadline` or when the person asks.

    The end is that of the process, not of its output: a command may close its streams and work on.
    """
    assert process.stdout is not None
    out, kept, by, killed = process.stdout.fileno(), Kept(OUTPUT_BYTES_MAX), "", False
    with _exit_descriptor(process) as gone:
        poll = select.poll()
        for fd in (out, context.cancel.fileno(), gone):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        open_ = True
        while open_ or process.poll() is None:
            left = max(0.0, deadline - time.monotonic())
            ready = {fd for fd, _ in poll.poll(1000 * (left if open_ or gone is not None else min(left, _TICK_SECONDS)))}
            if out in ready:
                piece = os.read(out, _PIECE_BYTES)
                kept.add(piece)
                if not piece:
                    poll.unregister(out)
                    open_ = False
            elif gone in ready:
                break  # It has ended with all it started; whoever still holds the pipe escaped.
            late = time.monotonic() >= deadline
            if killed and late:
                by = "stuck"
                break
            if by and late:
                ending.now()
                killed, deadline = True, time.monotonic() + BASH_DRAIN_SECONDS
            elif not by and (late or context.cancel.is_set):
                by = "person" if context.cancel.is_set else "timeout"
                poll.unregister(context.cancel.fileno())
                ending.politely()
                deadline = time.monotonic() + _GRACE_AND_MORE_SECONDS
    ending.now()
    status = process.returncode or 0
    return _Ended(output=kept.text(), status=128 - status if status < 0 else status, by=by)


@contextlib.contextmanager
def _exit_descriptor(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that becomes readable when `process` ends; None where the system has none."""
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)
