"""A response body that ends by a deadline and below a size, however slowly or endlessly the other side sends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx2

from hhd.effects.assembly import BrokenReply


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, bytes_max: int, deadline: float) -> None:
        self._stream = stream
        self._left = bytes_max
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise BrokenReply("is longer than any reply may be")
            if time.monotonic() > self._deadline:
                raise BrokenReply("took longer than timeout_seconds allows")
            yield piece

    def close(self) -> None:
        self._stream.close()


def bounded(stream: object, bytes_max: int, deadline: float) -> httpx2.SyncByteStream:
    """`stream`, raising BrokenReply past `bytes_max` bytes or `deadline` (by the monotonic clock)."""
    assert isinstance(stream, httpx2.SyncByteStream)
    return _Bounded(stream, bytes_max, deadline)
