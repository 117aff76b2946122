"""Bytes of a file as text, and back without changing what was not meant."""

from __future__ import annotations

import codecs

from hhd.effects.limits import SNIFF_BYTES

_MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "gzip data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x7fELF": "an ELF program",
    b"SQLite format 3\0": "an SQLite database",
    b"\0asm": "a WebAssembly module",
    b"RIFF": "a RIFF file (WebP, WAV)",
}


def kind_if_binary(begin: bytes) -> str:
    """What a file that begins with `begin` is if it is not text; empty for text.

    As git does, a NUL in the first bytes means binary; UTF-16 and UTF-32 with a byte order mark are text all the same.
    """
    for magic, kind in _MAGIC.items():
        if begin.startswith(magic) and (b"\0" in begin[:SNIFF_BYTES] or not is_utf8(begin[:SNIFF_BYTES])):
            return kind
    if wide(begin):
        return ""
    return "a binary file" if b"\0" in begin[:SNIFF_BYTES] else ""


def wide(begin: bytes) -> str:
    """The codec of a file whose byte order mark says UTF-16 or UTF-32, else empty."""
    if begin.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ""


def decode(raw: bytes) -> str:
    """`raw` as text: UTF-8, or Latin-1 where it is not (each byte then is one character, and can be found again)."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def is_utf8(raw: bytes) -> bool:
    """Whether `raw` is UTF-8, but for a character cut off at its end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return False
    return True
