"""Who is at the other end of a unix socket: the kernel says so."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable

_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1
"""Of macOS, which Python has no names for; the answer is a version, the user and groups."""

_SO_PEERPIDFD = 77
"""Of Linux 6.5: a handle of the process, which nobody else can have after it."""


def user_of(peer: socket.socket) -> int:
    """Return the user id of the process that connected, or that listens; raises OSError."""
    if sys.platform == "darwin":
        version_and_user: tuple[int, int] = struct.unpack_from("II", peer.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))
        return version_and_user[1]
    process_user_group: tuple[int, int, int] = struct.unpack(
        "iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return process_user_group[1]


def process_of(peer: socket.socket) -> tuple[int | None, Callable[[], bool]]:
    """Return the process that connected, None where nobody knows, and what says whether it is still the same one.

    A process may connect, end, and another one get its number; where the kernel cannot tell, it is taken for the same.
    """
    if sys.platform != "linux":
        return None, lambda: True
    process: int = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    try:
        handle = peer.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return process or None, lambda: True

    def alive() -> bool:
        try:
            with open(f"/proc/self/fdinfo/{handle}", "rb") as file:
                return f"Pid:\t{process}\n".encode() in file.read()
        finally:
            os.close(handle)

    return process or None, alive
