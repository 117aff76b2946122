"""The first and the last part of a stream of bytes, as text."""

from __future__ import annotations

from collections import deque


class Kept:
    """Takes any number of bytes, holds at most `bytes_max` of them (and one piece), and says what it left out."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = self._tail_max = bytes_max // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._cut = 0

    def add(self, piece: bytes) -> None:
        """Take `piece`, which comes after all others."""
        room = self._head_max - len(self._head)
        self._head += piece[:room]
        rest = piece[room:]
        if not rest:
            return
        self._tail.append(rest)
        self._tail_bytes += len(rest)
        while self._tail_bytes - len(self._tail[0]) >= self._tail_max:
            gone = len(self._tail.popleft())
            self._tail_bytes -= gone
            self._cut += gone

    def text(self) -> str:
        """What was kept; bytes that are not UTF-8 appear as `\\xNN`, and the place of the cut says how much is gone."""
        tail = b"".join(self._tail)
        over = max(0, len(tail) - self._tail_max)
        cut, tail = self._cut + over, tail[over:]
        if not cut:
            return _decoded(bytes(self._head) + tail)
        head = bytes(self._head[: self._head.rfind(b"\n") + 1] or self._head)
        if (begin := tail.find(b"\n") + 1) and begin < len(tail):
            cut, tail = cut + begin, tail[begin:]
        cut += len(self._head) - len(head)
        gap = "" if head.endswith(b"\n") else "\n"
        return f"{_decoded(head)}{gap}[{cut} bytes are left out here]\n{_decoded(tail)}"


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
