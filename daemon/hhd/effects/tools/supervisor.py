"""Runs one command and ends everything it left behind: `python -I -S supervisor.py GRACE_SECONDS COMMAND...`

Used where there is no sandbox. Three ways out of a process group are closed here:

* a grandchild that left group and session (setsid, double fork) is still a descendant: this process is a
  "child subreaper", so orphans become its children instead of pid 1's, and it finds them in /proc;
* the command ends while something goes on in the background: that is ended too, as a sandbox would;
* hhd itself dies: standard input here is a pipe that hhd holds, and its end means "end everything".

It exits as the command did (128 + N for signal N). A command that kills this process first gets away: only the
sandbox is a wall. Elsewhere than on Linux there is no subreaper and only the process group is ended.

Standard library only, and no import of hhd: this starts for each command, so it starts fast.
"""

import contextlib
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.02


def descendants(ancestor: int) -> list[int]:
    """Process ids below `ancestor`, children first; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (parent := _parent(int(name))) is not None:
                children.setdefault(parent, []).append(int(name))
    found = list(children.get(ancestor, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _parent(pid: int) -> "int | None":
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else int(fields[1])


def send(pids: "list[int]", number: int) -> None:
    """Signal each of `pids` that is still there; a negative one is a process group."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def main(grace_seconds: float, command: "list[str]") -> int:
    """Run `command`, return the exit status to end with."""
    with contextlib.suppress(OSError, ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    child = os.fork()
    if child == 0:
        _become(command)
    status: int | None = None
    control = 0
    while status is None:
        ready = select.select([woken, control], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
        status = _reap(child)
        if control in ready and status is None:
            status = _end(child, grace_seconds)
    _end(child, 0)
    return 128 - status if status < 0 else status


def _become(command: "list[str]") -> None:
    """Be a process that holds a session of its own for the command, and ends as the command does.

    The command is not itself the leader: programs that leave their session behave then as they do in a sandbox.
    """
    os.setsid()
    inner = os.fork()
    if inner == 0:
        _exec(command)
    status = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
    os._exit(128 - status if status < 0 else status)


def _exec(command: "list[str]") -> None:
    try:
        os.set_inheritable(1, True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _reap(child: int) -> "int | None":
    """Collect whoever ended; the status of `child` if it was among them, negative for a signal."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, raw = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                status = os.waitstatus_to_exitcode(raw)
    return status


def _end(child: int, grace_seconds: float) -> int:
    """End the group of `child` and every descendant: politely, then surely, until none is left."""
    me, status = os.getpid(), None
    deadline = time.monotonic() + grace_seconds
    if grace_seconds:
        send([*descendants(me), -child], signal.SIGTERM)
        while descendants(me) and time.monotonic() < deadline:
            found = _reap(child)
            status = found if found is not None else status
            time.sleep(_POLL_SECONDS)
    for _ in range(500):
        send([-child, *descendants(me)], signal.SIGKILL)
        found = _reap(child)
        status = found if found is not None else status
        if not descendants(me):
            break
        time.sleep(_POLL_SECONDS)
    return -signal.SIGKILL if status is None else status


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
