"""A program's end of the control socket that has several things asked at a time, and waits for none of them.

A terminal that shows a session has one stream open for hours, and says words, answers and keys meanwhile. It waits for
the daemon, the person and signals at once, so nothing here blocks but the first greeting.
"""

from __future__ import annotations

import socket
from pathlib import Path

from hhd.control import client
from hhd.control.client import Connection, GoneError
from hhd_protocol.codec import Value
from hhd_protocol.control import Answer, End, Event, Failed, Hello

Said = Answer | Event | End | Failed
"""What the daemon says of a request; which one, its `id` says."""


class Talk(Connection):
    """One connection to the daemon on which requests are open side by side."""

    def __init__(self, connected: socket.socket, *, hhd: str) -> None:
        super().__init__(connected, hhd=hhd)
        self._streamed: dict[int, int] = {}

    def begin(self, verb: str, arguments: dict[Value, Value]) -> int:
        """Ask for `verb`; the id that what comes of it will carry. Raises RefusedError where one of the two is too old.

        A connection that has ended is not noticed here, but by `arrived`.
        """
        return self._send(verb, arguments)

    def arrived(self) -> list[Said]:
        """What came since, in order, none of it left `unread`; never waits.

        Raises GoneError once there is no more and will be none; UserError for what is no message, and closes the
        connection.
        """
        if not self._came:
            try:
                raw = self._socket.recv(client.READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return []
            except ConnectionError:
                raw = b""
            if not raw:
                raise GoneError("The daemon has ended; nothing was changed.")
            self._feed(raw)
        found: list[Said] = []
        while self._came:
            match self._came.popleft():
                case Hello():
                    raise self._nonsense()
                case Event(id=id, position=at) as event:
                    if self._streamed.get(id, 0) != at:
                        raise self._nonsense()
                    self._streamed[id] = at + 1
                    found.append(event)
                case other:
                    self._streamed.pop(other.id, None)
                    found.append(other)
        return found


def connect(path: Path, *, hhd: str) -> Talk | None:
    """As `client.connect`, for a talk."""
    return client.connect(path, hhd=hhd, kind=Talk)
