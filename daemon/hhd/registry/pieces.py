"""What is kept of the document: the whole now and then, changes since, and a mark that says what these come to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hhd.registry.document import Document
from hhd.registry.registers import Writer
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError


def whole(document: Document) -> bytes:
    """Return the piece that is all of a document."""
    return encode([1, "saved", document.save()])


def changes(document: Document, several: Iterable[bytes]) -> bytes:
    """Return the piece of these changes to a document."""
    return encode([1, "changes", *document.age, list(several)])


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


def assembled(pieces: list[bytes]) -> Document | None:
    """Return the document of these pieces, None if its beginning is not among them."""
    saved: bytes | None = None
    since: list[tuple[tuple[int, bytes], list[bytes]]] = []
    for piece in pieces:
        try:
            match decode(piece):
                case [1, "saved", bytes(raw)]:
                    saved = raw
                case [1, "changes", int(number), bytes(base), list(several)]:
                    since.append(((number, base), [one for one in several if isinstance(one, bytes)]))
        except FormatError:
            continue
    try:
        if saved is None:
            begin = Document.begin(0, {})
            saved = begin.save() if any(age == begin.age for age, _ in since) else None
        if saved is None:
            return None
        age = Document.age_of(saved)
        return Document.load(saved, (one for of, several in since if of == age for one in several))
    except FormatError:
        return None
