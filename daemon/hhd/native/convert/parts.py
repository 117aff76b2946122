"""Parts of messages and results, in a form that the target takes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import msgspec

from hhd.native.convert.places import Places
from hhd_protocol.transcript import Did, Harness, LossKind, MediaPart, OtherPart, Part, TextPart

Note = Callable[[LossKind, Did, str], None]
"""Tells the manifest: kind, what happened, why."""

_MAGIC = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"%PDF", "application/pdf"),
)


def fit_parts(
    parts: tuple[Part, ...], places: Places, same: Harness | None, *, in_result: bool, note: Note
) -> tuple[Part, ...]:
    """The parts that the target takes, in order; `same` is the harness if source and target are of one.

    Texts of a result stay as they are, empty ones too; an empty or blank text of a message has no place anywhere.
    """
    if len(parts) == 1 and type(parts[0]) is TextPart and (in_result or parts[0].text.strip()):
        return parts
    return tuple(fitted for part in parts if (fitted := _fit(part, places, same, in_result, note)) is not None)


def _fit(part: Part, places: Places, same: Harness | None, in_result: bool, note: Note) -> Part | None:
    if isinstance(part, TextPart):
        if in_result or part.text.strip():
            return part
        note(LossKind.TEXT, Did.LEFT_OUT, "a text without content")
        return None
    if isinstance(part, OtherPart):
        if same is Harness.CLAUDE and in_result and _is_itself(part):
            return part
        note(LossKind.UNKNOWN, Did.LOST, f"a part of kind {part.form[:40]!r} has no place there")
        return None
    return _fit_media(part, places, in_result, note)


def _is_itself(part: OtherPart) -> bool:
    """Whether the JSON of a part is what its kind says: beside parts that are no objects it may be another's."""
    try:
        found = msgspec.json.decode(part.json)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return isinstance(found, dict) and found.get("type") == part.form


def _fit_media(part: MediaPart, places: Places, in_result: bool, note: Note) -> Part | None:
    if part.base64 is None and part.url is None:
        note(LossKind.MEDIA, Did.LOST, "the source names a picture or document without its bytes")
        return TextPart(f"[{part.form}: {part.name or part.mime or 'not in the record'}]")
    is_image = part.form == "image"
    if part.url is not None and part.base64 is None:
        if is_image and (places.result_picture_urls if in_result else places.picture_urls):
            return part
        if not is_image and (places.result_documents if in_result else places.documents):
            return part
        note(LossKind.MEDIA, Did.CHANGED, f"an {part.form} by address became its address as text")
        return TextPart(f"[{part.form}: {part.url}]")
    assert part.base64 is not None
    if is_image or (places.result_documents if in_result else places.documents):
        return _with_mime(part, is_image, note)
    size = len(part.base64) * 3 // 4
    note(LossKind.MEDIA, Did.LOST, "a document became its name, type and size as text")
    return TextPart(f"[document: {part.name or 'unnamed'}, {part.mime or 'unknown type'}, about {size} bytes]")


def _with_mime(part: MediaPart, is_image: bool, note: Note) -> MediaPart:
    if part.mime is not None:
        return part
    try:
        head = base64.b64decode((part.base64 or "")[:16], validate=True)
    except (binascii.Error, ValueError):
        head = b""
    guess = next((mime for magic, mime in _MAGIC if head.startswith(magic)), None)
    mime = guess or ("image/png" if is_image else "application/pdf")
    note(LossKind.MEDIA, Did.CHANGED, "the type of a picture or document is guessed from its bytes")
    return MediaPart(form=part.form, mime=mime, base64=part.base64, url=part.url, name=part.name)
