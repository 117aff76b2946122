"""A program's end of the control socket: asks, and waits for what comes of it.

Blocking, and without asyncio: that alone takes longer to import than a daemon takes to answer.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hhd.base.errors import Exit, RefusedError, UncertainError, UserError, error_of
from hhd.control import peer, place
from hhd_protocol import control
from hhd_protocol.codec import Value
from hhd_protocol.control import Answer, End, Event, Failed, FromDaemon, Hello, Request
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.frames import Frames, frame
from hhd_protocol.limits import CONTROL_ANSWER_BYTES_MAX, CONTROL_REQUEST_BYTES_MAX

HELLO_SECONDS = 10
"""A daemon says hello as soon as it is asked; one that does not in this time hangs."""

READ_BYTES = 256 * 1024


C = TypeVar("C", bound="Connection")


class GoneError(RefusedError):
    """The daemon has closed the connection: it ended, or it was killed."""


class TooLargeRequestError(RefusedError):
    """A request does not fit a message."""


class Connection:
    """One connection to the daemon; requests go one after the other. Close it, or use it as a context."""

    def __init__(self, connected: socket.socket, *, hhd: str) -> None:
        self._socket, self._hhd = connected, hhd
        self._frames = Frames(bytes_max=CONTROL_ANSWER_BYTES_MAX)
        self._came: deque[FromDaemon] = deque()
        self._next_id = 0
        self.daemon: Hello | None = None
        """What the daemon said of itself; None before it did."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection: what has not begun does not begin."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor that is readable once the daemon said something more; see `unread` first."""
        return self._socket.fileno()

    @property
    def unread(self) -> bool:
        """Whether something that came is not read yet, so that there is nothing to wait for."""
        return bool(self._came)

    def ask(self, verb: str, arguments: dict[Value, Value], *, changes: bool = True) -> Value:
        """Return the result of `verb`; `changes`: unless it was answered, something may have been done.

        Raises the UserError that the daemon said, RefusedError where one of the two is too old.
        """
        id = self._send(verb, arguments)
        match self._receive(id, changes):
            case Answer(result=result):
                return result
            case Failed() as failed:
                raise _error(failed)
        raise self._nonsense()

    def stream(self, verb: str, arguments: dict[Value, Value], *, changes: bool = False) -> Iterator[Value]:
        """Yield the events of `verb` as they come; raises what `ask` does. `changes`: as in `ask`."""
        id = self._send(verb, arguments)
        position = 0
        while True:
            match self._receive(id, changes):
                case Event(position=at, event=event) if at == position:
                    position += 1
                    yield event
                case Failed() as failed:
                    raise _error(failed)
                case End():
                    return
                case _:
                    raise self._nonsense()

    def ended(self, seconds: float) -> bool:
        """Wait until the daemon closes the connection; False where it does not in this time."""
        self._wait(seconds)
        try:
            while self._socket.recv(READ_BYTES):
                pass
        except ConnectionError:
            return True
        except BlockingIOError:
            return False
        return True

    def _send(self, verb: str, arguments: dict[Value, Value]) -> int:
        id = self._next_id
        self._next_id += 1
        try:
            raw = frame(control.encoded(Request(id, verb, arguments)), bytes_max=CONTROL_REQUEST_BYTES_MAX)
        except TooLargeError as error:
            raise TooLargeRequestError("What was asked for does not fit a message to the daemon.") from error
        if id == 0:  # Hello and the first request go together: nothing is gained by waiting between them.
            raw = frame(control.encoded(Hello(control.VERSIONS, self._hhd))) + raw
        with suppress(OSError):  # What the daemon said before it went away is read; if there is nothing, that is said.
            self._socket.sendall(raw)
        if self.daemon is None:
            self._greet(verb)
        return id

    def _greet(self, verb: str) -> None:
        """Take the daemon's hello, and insist that the two understand each other."""
        self._wait(HELLO_SECONDS)
        message = self._next()
        self._wait(0)
        if message is None:
            raise GoneError("The daemon closed the connection without a word; nothing was changed. Try again.")
        if not isinstance(message, Hello):
            raise self._nonsense()
        self.daemon = message
        if control.common(control.VERSIONS, message.versions) is None and verb not in control.EVERLASTING:
            raise RefusedError(version_sentence(self._hhd, message))

    def _wait(self, seconds: float) -> None:
        """Wait so long for what the daemon says; 0: for ever."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds), 0))

    def _receive(self, id: int, changes: bool) -> FromDaemon:
        while True:
            message = self._next()
            if message is None:
                raise _gone(changes)
            if isinstance(message, Hello):
                raise self._nonsense()
            if message.id == id:
                return message  # What comes of an earlier one, a stream that was left, is passed over.

    def _next(self) -> FromDaemon | None:
        """The next message; None where the connection ended."""
        while not self._came:
            try:
                raw = self._socket.recv(READ_BYTES)
            except BlockingIOError as error:
                raise RefusedError(
                    f"The daemon has not answered for {HELLO_SECONDS} seconds; nothing was changed. "
                    "If it hangs, end its process and run hhd up."
                ) from error
            except ConnectionError:
                raw = b""
            if not raw:
                return None
            self._feed(raw)
        return self._came.popleft()

    def _feed(self, raw: bytes) -> None:
        """Take what came; raises UserError, and ends the connection, for what is no message."""
        try:
            self._came.extend(control.from_daemon(value) for value in self._frames.feed(raw))
        except FormatError as error:
            raise self._nonsense() from error

    def _nonsense(self) -> UserError:
        self.close()
        return UserError("The daemon said something that is no answer; hhd down, and then hhd up, starts a new one.")


def connect(path: Path, *, hhd: str, kind: type[C] = Connection) -> C | None:  # type: ignore[assignment]
    """Return a connection of a kind to the daemon whose socket is `path`; None where no daemon listens there.

    `hhd`: which release this is. Raises RefusedError where somebody else's daemon is there.
    """
    connected = socket.socket(socket.AF_UNIX)
    try:
        # Not a timeout of Python's: with one, a daemon with many waiting before us would not be waited for.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", HELLO_SECONDS, 0))
        with place.reachable(path) as short:
            connected.connect(short)
        if peer.user_of(connected) != os.geteuid():
            raise RefusedError(f"The daemon at {path} is another user's; nothing was asked of it.")
    except (FileNotFoundError, ConnectionError, NotADirectoryError):
        connected.close()
        return None
    except BlockingIOError as error:
        connected.close()
        raise RefusedError(
            f"The daemon has not let us in for {HELLO_SECONDS} seconds; nothing was changed. "
            "If it hangs, end its process and run hhd up."
        ) from error
    except BaseException:
        connected.close()
        raise
    return kind(connected, hhd=hhd)


def version_sentence(ours: str, daemon: Hello) -> str:
    """Say which of the two is older, and what to do."""
    if max(daemon.versions) < min(control.VERSIONS):
        return (
            f"The daemon that runs (hhd {daemon.hhd}) is older than this hhd ({ours}); nothing was changed. "
            "hhd down, and then hhd up, starts a new one."
        )
    return (
        f"This hhd ({ours}) is older than the daemon that runs (hhd {daemon.hhd}); nothing was changed. "
        "Run the newer hhd, or upgrade this one."
    )


def _error(failed: Failed) -> UserError:
    return error_of(Exit(failed.exit), failed.sentence)


def _gone(changes: bool) -> UserError:
    if changes:
        return UncertainError(
            "The daemon ended before it answered, so it is not known whether this was done; look before you repeat it."
        )
    return UserError("The daemon ended before it answered; nothing was changed, and the same command asks again.")
