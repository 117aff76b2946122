"""What is kept of the document: the whole now and then, and changes since (`marks`: what these come to)."""

from __future__ import annotations

from collections.abc import Iterable

from hhd.registry.document import Document
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError


def whole(document: Document) -> bytes:
    """Return the piece that is all of a document."""
    return encode([1, "saved", document.save()])


def changes(document: Document, several: Iterable[bytes]) -> bytes:
    """Return the piece of these changes to a document."""
    return encode([1, "changes", *document.age, list(several)])


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
