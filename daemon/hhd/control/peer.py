"""Who is at the other end of a unix socket: the kernel says so."""

from __future__ import annotations

import socket
import struct
import sys

_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1
"""Of macOS, which Python has no names for; the answer is a version, the user and groups."""


def user_of(peer: socket.socket) -> int:
    """Return the user id of the process that connected, or that listens; raises OSError."""
    if sys.platform == "darwin":
        version_and_user: tuple[int, int] = struct.unpack_from("II", peer.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))
        return version_and_user[1]
    process_user_group: tuple[int, int, int] = struct.unpack(
        "iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return process_user_group[1]
