"""Processes that commands of a session leave behind: they stay below the worker that ran them, and end with it.

A command may put a process out of reach of its group, by two forks and a session of its own; the parent of such an
orphan would be the first process of the system. A worker takes in its orphans instead (PR_SET_CHILD_SUBREAPER, of
Linux), and so does the process that workers are forked from, for those of a worker that was killed. So all that
commands started can be found below them: to be ended, and to be told from the person's own programs
(`hhd.node.ancestry`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Container

_PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 2.0
"""For killed processes to be gone: longer takes only one that a file system holds."""


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends; elsewhere than on Linux, nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(process: int | None = None) -> list[int]:
    """The processes whose parent `process` (None: this one) is; none where the system does not say."""
    own = os.getpid() if process is None else process
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{own}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{own}/task/{thread}/children", "rb") as file:
                found += [int(one) for one in file.read().split()]
    return found


def end_children(but: Container[int] = ()) -> None:
    """Kill every child of this process but some, and theirs as they come to be children of it, and see them gone."""
    end = time.monotonic() + END_SECONDS
    while (left := [one for one in children() if one not in but]) and time.monotonic() < end:
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        for one in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(one, os.WNOHANG)
        time.sleep(0.001)
