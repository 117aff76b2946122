"""Where a daemon puts its socket, and how a socket is made and reached there."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.paths import private_folder, runtime_folder

SOCKET_FILE = "control.sock"
PATH_BYTES_MAX = 100
"""Of a path that the kernel takes for a socket: 108 on Linux, 104 on macOS, with the zero behind it."""


def socket_path(data: Path) -> Path:
    """Return where a daemon for the folder `data` puts its socket.

    That is the runtime folder of the login, or a folder below `data`: where there is none, and for any `data` that is
    not this user's usual one, since a runtime folder has room for one daemon only.
    """
    runtime = runtime_folder()
    if runtime is not None and data == Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".local/share/hhd":
        return runtime / SOCKET_FILE
    return data / "run" / SOCKET_FILE


def listen(path: Path, *, backlog: int) -> socket.socket:
    """Return a socket that listens at `path`, for the holder of the lock: what a daemon before left there is removed.

    Raises RefusedError where something else is in the way, OSError.
    """
    private_folder(path.parent)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise RefusedError(f"{path} is in the way of the daemon's socket; nothing was changed. Move it elsewhere.")
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(OSError):  # On Linux the file gets this mode, so it is never there with another one.
            os.fchmod(listener.fileno(), 0o600)
        with reachable(path) as short:
            listener.bind(short)
        os.chmod(path, 0o600)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name of `path` that is short enough for a socket: while it lasts, through an open descriptor of its folder."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    if not os.path.isdir("/proc/self/fd"):
        raise RefusedError(f"The path of the daemon's socket is too long for this system: {path}.")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
