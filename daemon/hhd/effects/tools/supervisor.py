"""Runs one command and ends everything it left behind: `python -I -S supervisor.py GRACE_SECONDS COMMAND...`

Used where there is no sandbox. Three ways out of a process group are closed here:

* a grandchild that left group and session (setsid, double fork) is still a descendant: this process is a
  "child subreaper", so orphans become its children instead of pid 1's, and it finds them in /proc;
* the command ends while something goes on in the background: that is ended too, as a sandbox would;
* hhd itself dies: standard input here is a pipe that hhd holds, and its end means "end everything".

It exits as the command did (128 + N for signal N). A command that kills this process first gets away: only the
sandbox is a wall. Elsewhere than on Linux there is no subreaper and only the process group is ended.

Nothing of hhd and little of the standard library is imported: this starts for each command, and `contextlib` and
`signal` alone would double the time that takes.
"""

import os
import select
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL, _SIGPIPE, _SIGTERM, _SIGXFSZ = 9, 13, 15, 25
"""The same numbers on Linux and macOS."""

_POLL_SECONDS = 0.02
_REAP_SECONDS = 1.0
"""How often orphans that ended are collected while the command runs."""


def descendants(ancestor: int) -> "list[int]":
    """Process ids below `ancestor` that have not ended, parents first; empty where there is no /proc."""
    try:
        return _by_children(ancestor)
    except FileNotFoundError:
        return _by_parents(ancestor)


def _by_children(ancestor: int) -> "list[int]":
    """By the kernel's own lists; raises FileNotFoundError where the kernel keeps none."""
    found: list[int] = []
    todo = [ancestor]
    while todo:
        pid = todo.pop(0)
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            if pid == ancestor:
                raise FileNotFoundError from None
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                    children = [int(child) for child in file.read().split()]
            except OSError:
                if pid == ancestor:
                    raise FileNotFoundError from None
                continue
            todo += children
            found += [child for child in children if _parent(child) is not None]
    return found


def _by_parents(ancestor: int) -> "list[int]":
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(ancestor, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _parent(pid: int) -> "int | None":
    """The parent of `pid`, None if `pid` has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in b"ZX" else int(fields[1])


def send(pids: "list[int]", number: int) -> None:
    """Signal each of `pids` that is still there; a negative one is a process group."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def main(grace_seconds: float, command: "list[str]") -> int:
    """Run `command`, return the exit status to end with."""
    _adopt_orphans()
    child = os.fork()
    if child == 0:
        _hold_session(command)
    poll, control = select.poll(), 0
    poll.register(control, select.POLLIN | select.POLLHUP)
    wait_ms = 1000 * _POLL_SECONDS
    try:
        poll.register(os.pidfd_open(child), select.POLLIN)
        wait_ms = 1000 * _REAP_SECONDS
    except (AttributeError, OSError):
        pass
    status: int | None = None
    while status is None:
        ready = [fd for fd, _ in poll.poll(wait_ms)]
        status = _reap(child)
        if control in ready and status is None:
            status = _end(child, grace_seconds)
    _end(child, 0)
    return 128 - status if status < 0 else status


def _adopt_orphans() -> None:
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


def _hold_session(command: "list[str]") -> None:
    """Be a process that holds a session of its own for the command, and ends as the command does.

    The command is not itself the leader: programs that leave their session behave then as they do in a sandbox.
    """
    try:
        os.setsid()
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        inner = os.posix_spawn(
            command[0], command, os.environ, file_actions=[nothing], setsigdef=[_SIGPIPE, _SIGXFSZ]
        )  # fmt: skip
        status = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
        os._exit(128 - status if status < 0 else status)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _reap(child: int) -> "int | None":
    """Collect whoever ended; the status of `child` if it was among them, negative for a signal."""
    status = None
    try:
        while True:
            pid, raw = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                status = os.waitstatus_to_exitcode(raw)
    except ChildProcessError:
        pass
    return status


def _end(child: int, grace_seconds: float) -> int:
    """End the group of `child` and every descendant: politely, then surely, until none is left."""
    me, status = os.getpid(), None
    deadline = time.monotonic() + grace_seconds
    if grace_seconds:
        send([*descendants(me), -child], _SIGTERM)
        while descendants(me) and time.monotonic() < deadline:
            found = _reap(child)
            status = found if found is not None else status
            time.sleep(_POLL_SECONDS)
    for _ in range(500):
        left = descendants(me)
        send([-child, *left], _SIGKILL)
        found = _reap(child)
        status = found if found is not None else status
        if not left:
            break
        time.sleep(_POLL_SECONDS / 10)
    return -_SIGKILL if status is None else status


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
