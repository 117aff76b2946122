"""Reads and writes the numbers of the WebAssembly binary format, refusing what runs past the end."""

from __future__ import annotations

from hhd_protocol.errors import FormatError

_U32_BYTES_MAX = 5
_S64_BYTES_MAX = 10


class Reader:
    """A cursor over `raw[pos:end]`; every read checks the end first and raises FormatError past it."""

    __slots__ = ("end", "pos", "raw")

    def __init__(self, raw: bytes, pos: int = 0, end: int | None = None) -> None:
        self.raw = raw
        self.pos = pos
        self.end = len(raw) if end is None else end

    def left(self) -> int:
        """How many bytes are still to be read."""
        return self.end - self.pos

    def byte(self) -> int:
        """One byte."""
        pos = self.pos
        if pos >= self.end:
            raise FormatError("the module ends in the middle of something")
        self.pos = pos + 1
        return self.raw[pos]

    def take(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        pos = self.pos
        if count > self.end - pos:
            raise FormatError("a length in the module points past the end of what holds it")
        self.pos = pos + count
        return self.raw[pos : pos + count]

    def inside(self, count: int) -> Reader:
        """A reader over the next `count` bytes, which this one then has behind it."""
        pos = self.pos
        if count > self.end - pos:
            raise FormatError("a length in the module points past the end of what holds it")
        self.pos = pos + count
        return Reader(self.raw, pos, pos + count)

    def u32(self) -> int:
        """An unsigned number of at most 32 bits."""
        value = shift = 0
        for _ in range(_U32_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 32:
                    break
                return value
            shift += 7
        raise FormatError("a number in the module is longer than 32 bits")

    def signed(self, bits: int) -> int:
        """A signed number of at most `bits` bits."""
        value = shift = 0
        for _ in range(_S64_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if byte & 0x40:
                    value -= 1 << shift
                if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                    break
                return value
        raise FormatError(f"a number in the module is longer than {bits} bits")

    def count(self, item_bytes_min: int, what: str) -> int:
        """A count of items that take at least `item_bytes_min` each, so that it cannot be more than what is left."""
        value = self.u32()
        if value * item_bytes_min > self.left():
            raise FormatError(f"the module counts more {what} than it has room for")
        return value

    def name(self) -> str:
        """A name in UTF-8."""
        try:
            return self.take(self.u32()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError("a name in the module is not UTF-8") from error

    def done(self, what: str) -> None:
        """Insist that nothing is left."""
        if self.pos != self.end:
            raise FormatError(f"there are bytes left over after {what}")


def u32(value: int) -> bytes:
    """The shortest encoding of an unsigned number."""
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """The shortest encoding of a signed number."""
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def name(text: str) -> bytes:
    """A name with its length before it."""
    raw = text.encode("utf-8")
    return u32(len(raw)) + raw


def vector(items: list[bytes]) -> bytes:
    """Encoded items with their count before them."""
    return u32(len(items)) + b"".join(items)


_SHORT = [bytes([value]) for value in range(0x80)]
