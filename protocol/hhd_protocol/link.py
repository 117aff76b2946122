"""What goes over a link between two devices: a hello, then frames of channels (`spec/link.md`).

The bytes are those that a transport carries encrypted; the device at the other end is known, and still not believed.
A `Decoder` owns the memory into which a transport reads, so what a peer can make it hold is that one buffer.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import (
    LINK_BYE_BYTES_MAX,
    LINK_FRAME_BYTES_MAX,
    LINK_HELLO_BYTES_MAX,
    LINK_NAME_BYTES_MAX,
    LINK_VERSION_BYTES_MAX,
    LINK_VERSIONS_MAX,
    LINK_WINDOW_BYTES,
)

VERSIONS = (1,)
"""The versions of this page that are spoken here, the newest first."""

MAGIC = b"hhd-link"
"""What both sides say first, in every version."""

INSTANCE_BYTES = 16
"""Names one start of a device's daemon."""

NUMBER_MAX = 2**53 - 1
"""Counts of dials and pings: exact in every language that may read one."""

HEADER_BYTES = 8
"""Of a frame: channel, kind, flags, length of what follows."""

FRAME_COST_BYTES = 64
"""What a frame takes of a window besides its content: an empty message takes memory too."""

BUFFER_BYTES = 4 * (HEADER_BYTES + LINK_FRAME_BYTES_MAX)
"""Of a decoder: what one turn reads, and a frame that has not come whole."""

ROOM_BYTES_MIN = 2 * (HEADER_BYTES + LINK_FRAME_BYTES_MAX)
"""There is always room for so much, so that a transport can read several records of its own at a time."""

_HEADER = struct.Struct(">IBBH")
_HELLO = struct.Struct(f">{len(MAGIC)}sH")


class Kind(enum.IntEnum):
    """What a frame is."""

    OPEN = 1
    DATA = 2
    CREDIT = 3
    END = 4
    PING = 5
    PONG = 6
    BYE = 7


LAST = 1
"""Flag of data: a message ends here."""

URGENT = 1
"""Flag of open: what is sent on this channel goes before what is sent on others."""

_OF_THE_LINK = frozenset({Kind.PING, Kind.PONG, Kind.BYE})
_FLAGS = {Kind.OPEN: URGENT, Kind.DATA: LAST}
_LENGTHS = {
    Kind.OPEN: (1, LINK_NAME_BYTES_MAX),
    Kind.DATA: (0, LINK_FRAME_BYTES_MAX),
    Kind.CREDIT: (4, 4),
    Kind.END: (0, 0),
    Kind.PING: (8, 8),
    Kind.PONG: (8, 8),
    Kind.BYE: (0, LINK_BYE_BYTES_MAX),
}
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyz-")
_KINDS = {int(kind): kind for kind in Kind}


class Hello(NamedTuple):
    """The first thing that each side says: the versions it speaks, and which of its links this is."""

    versions: tuple[int, ...]
    instance: bytes
    """Which start of its daemon says this."""
    dials: int
    """How often it had dialled since that start, this time included; 0 from who was dialled."""
    hhd: str
    """Its release, to tell a person which of two is older."""


class Frame(NamedTuple):
    """One frame as it came; `flag`: whether the one flag that its kind may have is set."""

    kind: Kind
    channel: int
    flag: bool
    content: bytes | memoryview
    """Of data that was just `filled`: a view of the decoder's buffer, which holds until the next call."""


def hello(said: Hello) -> bytes:
    """Return a hello in bytes."""
    raw = encode(
        {"versions": list(said.versions), "instance": said.instance, "dials": said.dials, "hhd": said.hhd},
    )
    assert len(raw) <= LINK_HELLO_BYTES_MAX
    return _HELLO.pack(MAGIC, len(raw)) + raw


def frame(kind: Kind, channel: int, content: bytes | memoryview = b"", *, flag: bool = False) -> bytes:
    """Return a frame in bytes."""
    return b"".join((header(kind, channel, len(content), flag=flag), content))


def header(kind: Kind, channel: int, length: int, *, flag: bool = False) -> bytes:
    """Return what comes before `length` bytes of content."""
    return _HEADER.pack(channel, kind, int(flag), length)


def number(value: int) -> bytes:
    """Return the content of a ping, and of the pong that answers it."""
    return value.to_bytes(8, "big")


def credit(released: int) -> bytes:
    """Return the content of a credit: the cost of what was taken from the channel."""
    return released.to_bytes(4, "big")


def common(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int | None:
    """Return the newest version that both speak, None if there is none."""
    return max(set(ours) & set(theirs), default=None)


def precedence(dialler: DeviceId, dialled: DeviceId, dials: int) -> tuple[bool, int]:
    """Say which of several links between the same two processes stays: the one where this is greatest.

    Of links that both dialled, the one of the device with the lesser id; of links that one of them dialled, the last.
    """
    return dialler < dialled, dials


class Decoder:
    """Cuts what comes over a link into its hello and its frames; after an error it takes nothing more."""

    def __init__(self) -> None:
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._begin = self._end = 0
        self._greeted = False
        self._broken: FormatError | None = None

    def room(self) -> memoryview:
        """Return the memory that the next bytes belong into: at least `ROOM_BYTES_MIN`.

        What is not whole moves to the begin of the buffer where there would be less: views of it hold no longer.
        """
        if len(self._buffer) - self._end < ROOM_BYTES_MIN:
            left = self._end - self._begin
            self._buffer[:left] = bytes(self._view[self._begin : self._end])
            self._begin, self._end = 0, left
        return self._view[self._end :]

    def filled(self, count: int) -> tuple[Hello | None, list[Frame]]:
        """Take the first `count` bytes of `room()`; returns the hello if it is whole now, and all frames that are.

        Raises FormatError for what breaks `spec/link.md`, and ever after.
        """
        if self._broken is not None:
            raise self._broken
        self._end += count
        try:
            return self._cut()
        except FormatError as error:
            self._broken = error
            raise

    def feed(self, raw: bytes | memoryview) -> tuple[Hello | None, list[Frame]]:
        """Take bytes that are somewhere else."""
        said: Hello | None = None
        frames: list[Frame] = []
        at, raw = 0, memoryview(raw)
        while at < len(raw):
            room = self.room()
            count = min(len(room), len(raw) - at)
            room[:count] = raw[at : at + count]
            at += count
            first, more = self.filled(count)
            said = said or first
            frames += [one._replace(content=bytes(one.content)) for one in more]
        return said, frames

    def _cut(self) -> tuple[Hello | None, list[Frame]]:
        at, end, view = self._begin, self._end, self._view
        said: Hello | None = None
        frames: list[Frame] = []
        if not self._greeted:
            said, at = self._hello()
            if said is None:
                return None, frames
            self._greeted = True
        while end - at >= HEADER_BYTES:
            channel, raw_kind, flags, length = _HEADER.unpack_from(view, at)
            kind = _KINDS.get(raw_kind)
            if kind is None:
                raise FormatError(f"a frame is of the unknown kind {raw_kind}")
            least, most = _LENGTHS[kind]
            if length > most:
                raise TooLargeError(f"a frame of {length} bytes passes the bound of {most}")
            if length < least or flags & ~_FLAGS.get(kind, 0) or (channel == 0) != (kind in _OF_THE_LINK):
                raise FormatError("a frame has a length, a flag or a channel that its kind has not")
            begin = at + HEADER_BYTES
            if end - begin < length:
                break
            at = begin + length
            if kind is Kind.DATA:
                frames.append(Frame(kind, channel, flags != 0, view[begin:at]))
            else:
                content = bytes(view[begin:at])
                _insist(kind, content)
                frames.append(Frame(kind, channel, flags != 0, content))
        self._begin = at
        if at == end:
            self._begin = self._end = 0
        return said, frames

    def _hello(self) -> tuple[Hello | None, int]:
        """Return the hello and where it ends, None while it is not whole; raises FormatError at once."""
        begun = bytes(self._view[: min(self._end, len(MAGIC))])
        if not MAGIC.startswith(begun):
            raise FormatError("the other end is no hhd")
        if self._end < _HELLO.size:
            return None, 0
        _, length = _HELLO.unpack_from(self._view)
        if length > LINK_HELLO_BYTES_MAX:
            raise TooLargeError(f"a hello of {length} bytes passes the bound of {LINK_HELLO_BYTES_MAX}")
        whole = _HELLO.size + length
        if self._end < whole:
            return None, 0
        return _read_hello(decode(bytes(self._view[_HELLO.size : whole]), bytes_max=LINK_HELLO_BYTES_MAX)), whole


def _insist(kind: Kind, content: bytes) -> None:
    """Raise FormatError where the content of a frame is none of its kind."""
    match kind:
        case Kind.OPEN if not _NAME.issuperset(content):
            raise FormatError("the name of a channel has other signs than small letters")
        case Kind.CREDIT if not 1 <= int.from_bytes(content, "big") <= LINK_WINDOW_BYTES:
            raise FormatError("a credit is of nothing, or of more than a window")
        case Kind.PING | Kind.PONG if int.from_bytes(content, "big") > NUMBER_MAX:
            raise FormatError("the number of a ping is too large")
        case Kind.BYE:
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise FormatError("a reason is no text") from error


def _read_hello(value: Value) -> Hello:
    match value:
        case {"versions": [*versions], "instance": bytes(instance), "dials": int(dials), "hhd": str(hhd), **others} if (
            not others
            and len(instance) == INSTANCE_BYTES
            and type(dials) is int
            and 0 <= dials <= NUMBER_MAX
            and 1 <= len(hhd.encode("utf-8")) <= LINK_VERSION_BYTES_MAX
            and 1 <= len(versions) <= LINK_VERSIONS_MAX
        ):
            pass
        case _:
            raise FormatError("a hello does not have the fields of one")
    found: list[int] = []
    for one in versions:
        if type(one) is not int or not 1 <= one <= NUMBER_MAX or (found and one >= found[-1]):
            raise FormatError("the versions of a hello are no numbers from the newest to the oldest")
        found.append(one)
    return Hello(tuple(found), instance, dials, hhd)
