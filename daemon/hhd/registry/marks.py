"""The mark of the document that is kept: what its pieces come to, known without loading them."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from hhd.registry.registers import Writer
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError


class Mark(NamedTuple):
    """The document's `age` and `heads`, who writes in it here, how many changes its `history` has."""

    age: tuple[int, bytes]
    heads: tuple[bytes, ...]
    writer: Writer
    history: int

    def encoded(self) -> bytes:
        """Return what is kept of it."""
        return encode([1, *self.age, list(self.heads), self.writer, self.history])


def decoded_mark(raw: bytes | None) -> Mark | None:
    """Return what a mark says; None if it is none."""
    try:
        match None if raw is None else decode(raw):
            case [1, int(number), bytes(base), list(heads), str(writer), int(history)]:
                whole_heads = tuple(one for one in heads if isinstance(one, bytes))
                return Mark((number, base), whole_heads, Writer(writer), history)
    except FormatError:
        pass
    return None


def digest(raw: bytes | None) -> bytes:
    """Return what two devices compare, the hash of age and heads; empty where there is no document, or it is damaged.

    Whoever writes in it, and how long its history is, differs between devices that have the same.
    """
    mark = decoded_mark(raw)
    if mark is None:
        return b""
    heads: list[Value] = list(mark.heads)
    return hashlib.sha256(encode([*mark.age, heads])).digest()
