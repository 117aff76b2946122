"""Something goes wrong at the n-th call that writes: the process is killed, or the disk is full from then on.

Hooks stand at every call of the system by which this process changes a file, and at every start of git.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hhd.base import beneath

_CALLS = (
    "open",
    "write",
    "writev",
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "link",
    "symlink",
    "fsync",
    "chmod",
    "fchmod",
)
_TAKES_ROOM = frozenset({"open", "write", "writev", "mkdir", "link", "symlink", "git"})


class Faults:
    """Counts; `strike` is called before and after each call with its number, and what kind it is."""

    def __init__(self, strike: Callable[[int, str], None]) -> None:
        self.count = 0
        self._strike = strike

    def step(self, kind: str) -> None:
        self._strike(self.count, kind)
        self.count += 1

    @contextmanager
    def installed(self, *, after: bool = True) -> Iterator[None]:
        """Hook everything while the block lasts; `after`: also when a call is done."""
        kept: list[tuple[object, str, object]] = []

        def hook(owner: object, name: str, kind: str, counts: Callable[..., bool] = lambda *_a, **_k: True) -> None:
            real = getattr(owner, name)
            kept.append((owner, name, real))

            def call(*words: object, **named: object) -> object:
                if not counts(*words, **named):
                    return real(*words, **named)
                self.step(kind)
                result = real(*words, **named)
                if after:
                    self.step(kind)
                return result

            setattr(owner, name, call)

        for name in _CALLS:
            creates = (lambda *words, **_: bool(words[1] & os.O_CREAT)) if name == "open" else (lambda *_a, **_k: True)
            hook(os, name, name, creates)
        renamer = beneath._renamer()
        real_renamer = beneath._renamer
        kept.append((beneath, "_renamer", real_renamer))

        def rename(*words: object) -> None:
            self.step("rename")
            renamer(*words)  # type: ignore[arg-type]
            if after:
                self.step("rename")

        beneath._renamer = lambda: rename  # type: ignore[assignment]
        hook(subprocess.Popen, "_execute_child", "git")
        try:
            yield
        finally:
            for owner, name, real in reversed(kept):
                setattr(owner, name, real)


def count(act: Callable[[], object]) -> int:
    """How many places there are in `act` where something can go wrong."""
    faults = Faults(lambda number, kind: None)
    with faults.installed():
        act()
    return faults.count


def killed(act: Callable[[], object], at: int) -> bool:
    """Run `act` in a child that is killed at place `at`; whether it was."""

    def strike(number: int, kind: str) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            with Faults(strike).installed():
                act()
        except BaseException:  # noqa: BLE001 (the child ends here, whatever it was)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the act failed instead of being killed"
    return False


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """From place `at` on nothing more fits on the disk; renaming and removing still work."""

    def strike(number: int, kind: str) -> None:
        if number >= at and kind in _TAKES_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Faults(strike).installed(after=False):
        yield
