"""The listening socket that a service manager hands to the daemon it starts (sd_listen_fds(3)).

The manager made it, keeps it while no daemon runs, and starts one when somebody connects. So who gets it neither makes
nor removes the file; but it looks whether it is what it would have made itself.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import MutableMapping
from pathlib import Path

from hhd.base.errors import RefusedError

FIRST_FD = 3


def inherited(environ: MutableMapping[str, str] | None = None, *, first: int = FIRST_FD) -> socket.socket | None:
    """Return the socket that was handed to this very process, None if none was; the variables that say so are removed.

    Raises RefusedError where it is not one listening unix socket that only this user can reach.
    """
    env = os.environ if environ is None else environ
    process, count = env.pop("LISTEN_PID", ""), env.pop("LISTEN_FDS", "")
    env.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count.isascii() or not count.isdigit() or count == "0":
        return None  # Meant for a parent of ours: the numbers are somebody else's.
    if count != "1":
        raise RefusedError(f"The service manager handed over {count:.20} sockets, and the daemon takes one.")
    try:
        os.set_inheritable(first, False)
        given = socket.socket(fileno=first)
    except OSError as error:
        raise RefusedError(f"What the service manager handed over is no socket ({error.strerror}).") from error
    try:
        _insist_on_ours(given)
    except BaseException:
        given.close()
        raise
    return given


def path_of(given: socket.socket) -> Path:
    """Where a unix socket is."""
    name = given.getsockname()
    return Path(name if isinstance(name, str) else os.fsdecode(name))


def _insist_on_ours(given: socket.socket) -> None:
    listens = given.family == socket.AF_UNIX and given.type == socket.SOCK_STREAM
    if not listens or not given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise RefusedError("What the service manager handed over is no listening unix socket: see hhd.socket.")
    path = path_of(given)
    if not path.is_absolute():  # An abstract one has no mode, so everybody on the machine could connect.
        raise RefusedError(
            "The socket that the service manager handed over has no file: see ListenStream= in hhd.socket."
        )
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return  # Removed, so nobody reaches it: the daemon makes it anew (`hhd.control.keeping`).
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise RefusedError(f"The socket {path} can be reached by others; SocketMode= in hhd.socket must be 0600.")
