"""One command under way: started, watched, and ended with everything it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hhd.effects import scope
from hhd.effects.cancel import Cancel
from hhd.effects.limits import BASH_DRAIN_SECONDS, BASH_GRACE_SECONDS, OUTPUT_BYTES_MAX
from hhd.effects.tools import supervisor
from hhd.effects.tools.kept import Kept
from hhd.effects.tools.tool import Context

_PIECE_BYTES = 64 * 1024

_PR_SET_DUMPABLE = 4
_hidden = False

_TICK_SECONDS = 0.02
"""How often to look whether a process ended, where no descriptor tells."""

_GRACE_AND_MORE_SECONDS = BASH_GRACE_SECONDS + 0.5
"""Without a sandbox the supervisor kills after the grace; it gets a moment to do so before it is killed itself."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended. `status`: as of bash. `by`: what ended it early, empty if it ended by itself."""

    output: str
    status: int
    by: str


def run_to_end(command: list[str], context: Context, timeout_seconds: float) -> Ended:
    """Run `command` to its end, or end it, with everything it started; raises OSError if it cannot be started."""
    start = _Walled if context.sandbox.program is not None else _Supervised
    running = start(command, context)
    try:
        return _watch(running, context.cancel, time.monotonic() + timeout_seconds)
    finally:
        running.end()
        assert running.process.stdout is not None
        running.process.stdout.close()


class _Running(Protocol):
    """A command under way."""

    process: subprocess.Popen[bytes]

    def politely(self) -> None:
        """Ask it to end; what does not is killed by `end`, or before."""

    def end(self) -> bool:
        """Kill what still runs and wait for it; return whether nothing is left. Repeating it is safe."""


class _Supervised:
    """Without a sandbox: the supervisor ends everything when the pipe to it closes, or when the command has ended."""

    def __init__(self, command: list[str], context: Context) -> None:
        hide_own_memory()
        control, self._held = os.pipe()
        script = str(Path(supervisor.__file__))
        words = [sys.executable, "-I", "-S", script, str(BASH_GRACE_SECONDS), *command]
        try:
            self.process = _start(words, context, stdin=control, cwd=context.workspace.folder)
        except BaseException:
            os.close(self._held)
            raise
        finally:
            os.close(control)

    def politely(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def end(self) -> bool:
        self.politely()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(BASH_GRACE_SECONDS + BASH_DRAIN_SECONDS)
        return self.process.poll() is not None


def hide_own_memory() -> None:
    """Keep other processes of this user out of our environment and memory, where the model key is (Linux only).

    In the sandbox this process cannot be seen at all; without it, /proc would show what its environment was.
    """
    global _hidden
    if _hidden or sys.platform != "linux":
        return
    _hidden = True
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class _Walled:
    """In a sandbox: its first process takes all others with it, and only when that is gone is everything over.

    bubblewrap itself ends a moment earlier, as soon as it knows the command's status.
    """

    def __init__(self, command: list[str], context: Context) -> None:
        said, info = os.pipe()
        try:
            words = context.sandbox.wrap(command, context.workspace.folder, info_fd=info)
            self.process = _start(words, context, stdin=subprocess.DEVNULL, pass_fds=(info,))
            os.close(info)
            info = -1
            self._first = _pidfd(_child_pid(said))
        finally:
            os.close(said)
            if info >= 0:
                os.close(info)

    def politely(self) -> None:
        supervisor.send(supervisor.descendants(self.process.pid)[1:], signal.SIGTERM)  # All but the first process.

    def end(self) -> bool:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._first is None:
            return True
        poll = select.poll()
        poll.register(self._first, select.POLLIN)
        over = bool(poll.poll(1000 * BASH_DRAIN_SECONDS))
        os.close(self._first)
        self._first = None
        return over


def _start(
    words: list[str], context: Context, *, stdin: int, cwd: Path | None = None, pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    words, environment = scope.detect().wrap(words, context.environment)
    return subprocess.Popen(
        words, cwd=cwd, env=environment, stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, pass_fds=pass_fds,
    )  # fmt: skip


def _child_pid(said: int) -> int | None:
    """What bubblewrap says of its first process; None if it failed before it had one."""
    raw = b""
    while (piece := os.read(said, 4096)) and len(raw) < 65536:
        raw += piece
    try:
        return int(json.loads(raw)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _pidfd(pid: int | None) -> int | None:
    """A descriptor that becomes readable when process `pid` ends; None if it has, or the system has no such thing."""
    try:
        return None if pid is None else os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _watch(running: _Running, cancel: Cancel, deadline: float) -> Ended:
    """Collect output until the command has ended, or end it at `deadline` or when the person asks.

    The end is that of the process, not of its output: a command may close its streams and work on.
    """
    process = running.process
    assert process.stdout is not None
    out, kept, by = process.stdout.fileno(), Kept(OUTPUT_BYTES_MAX), ""
    with _exit_descriptor(process) as gone:
        poll = select.poll()
        for fd in (out, cancel.fileno(), gone):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        open_ = True
        while open_ or process.poll() is None:
            left = max(0.0, deadline - time.monotonic())
            wait = left if open_ or gone is not None else min(left, _TICK_SECONDS)
            ready = {fd for fd, _ in poll.poll(1000 * wait)}
            if out in ready:
                piece = os.read(out, _PIECE_BYTES)
                kept.add(piece)
                if not piece:
                    poll.unregister(out)
                    open_ = False
            elif gone in ready:
                break  # It has ended with all it started; whoever still holds the pipe escaped.
            late = time.monotonic() >= deadline
            if by and late:
                break
            if not by and (late or cancel.is_set):
                by = "person" if cancel.is_set else "timeout"
                poll.unregister(cancel.fileno())
                running.politely()
                deadline = time.monotonic() + _GRACE_AND_MORE_SECONDS
    by = by if running.end() else "stuck"
    for piece in _rest(out if open_ else None):
        kept.add(piece)
    status = process.returncode or 0
    return Ended(output=kept.text(), status=128 - status if status < 0 else status, by=by)


def _rest(out: int | None) -> Iterator[bytes]:
    """What is still in the pipe, without waiting for more."""
    if out is None:
        return
    os.set_blocking(out, False)
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(out, _PIECE_BYTES):
            yield piece


@contextlib.contextmanager
def _exit_descriptor(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that becomes readable when `process` ends; None where the system has none."""
    fd = _pidfd(process.pid)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)
