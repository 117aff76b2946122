"""Transcripts as JSON Lines: the header on the first line, then one item a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.transcript.items import Header, Item, Part, TextPart

TRANSCRIPT_VERSION = 1

_encoder = msgspec.json.Encoder()


class _Versioned(msgspec.Struct):
    transcript: Annotated[int, msgspec.Meta(ge=1)]


_items: msgspec.json.Decoder[Item] = msgspec.json.Decoder(Item)


def encode_item(item: Item) -> bytes:
    """One line of JSON without its newline."""
    return _encoder.encode(item)


def encode_header(header: Header) -> bytes:
    """The first line of a transcript, without its newline."""
    return _encoder.encode({"transcript": TRANSCRIPT_VERSION, **msgspec.structs.asdict(header)})


def decode_header(line: bytes) -> Header:
    """The header that `line` holds; raises FormatError, NewerVersionError if it is of a later version."""
    try:
        version = msgspec.json.decode(line, type=_Versioned).transcript
        if version > TRANSCRIPT_VERSION:
            raise NewerVersionError(f"this transcript has version {version}; this program knows {TRANSCRIPT_VERSION}")
        return msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError("the line is not the header of a transcript") from error


def decode_item(line: bytes) -> Item:
    """The item that `line` holds; raises FormatError."""
    try:
        return _items.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError("the line is not an item of a transcript") from error


def parts_text(parts: Iterable[Part]) -> str:
    """The plain text of `parts`, joined; pictures and other parts have none."""
    return "".join(part.text for part in parts if type(part) is TextPart)


def well_formed(text: str) -> str:
    """`text` with every half of a surrogate pair replaced by U+FFFD (a pair of halves becomes its character)."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
