"""Frames: values one after another on a stream of bytes, each behind its length (`spec/control.md`).

A length says nothing about how much memory is taken: what is held is what came. A length past the bound is refused as
soon as its four bytes are there, and a decoder that refused once takes nothing more: where the next frame would begin,
nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import CONTROL_ANSWER_BYTES_MAX

LENGTH_BYTES = 4
"""The length of the value, unsigned, the most significant byte first."""


def frame(value: Value, *, bytes_max: int = CONTROL_ANSWER_BYTES_MAX) -> bytes:
    """Return `value` as a frame; raises TooLargeError where its encoding passes `bytes_max`."""
    raw = encode(value)
    if len(raw) > bytes_max:
        raise TooLargeError(f"a message of {len(raw)} bytes passes the bound of {bytes_max}")
    return len(raw).to_bytes(LENGTH_BYTES, "big") + raw


class Frames:
    """Cuts a stream into values as its bytes come in; `bytes_max`: of one encoded value."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._broken: FormatError | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes of a frame that has not come whole are held: at most the bound and the length before it."""
        return len(self._held)

    def feed(self, raw: bytes | bytearray | memoryview) -> Iterator[Value]:
        """Yield the values that are whole with `raw`; raises FormatError at the first that is none, and ever after."""
        if self._broken is not None:
            raise self._broken
        self._held += raw
        try:
            yield from self._whole()
        except FormatError as error:
            self._broken = error
            self._held = bytearray()
            raise

    def _whole(self) -> Iterator[Value]:
        at, held = 0, self._held
        try:
            while len(held) - at >= LENGTH_BYTES:
                length = int.from_bytes(held[at : at + LENGTH_BYTES], "big")
                if length > self._bytes_max:
                    raise TooLargeError(f"a frame of {length} bytes passes the bound of {self._bytes_max}")
                if length == 0:
                    raise FormatError("a frame is empty")
                if len(held) - at < LENGTH_BYTES + length:
                    break
                begin = at + LENGTH_BYTES
                at = begin + length
                yield decode(bytes(held[begin:at]), bytes_max=self._bytes_max)
        finally:
            del held[:at]  # Once a call: a cut for each of a thousand small frames would be quadratic.
