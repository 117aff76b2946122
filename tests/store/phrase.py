"""Looks for a phrase in files: raw, as hex, base64 and UTF-16, and inside every zstd frame found by its magic."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import zstandard

_MAGIC = b"\x28\xb5\x2f\xfd"
_FRAME_BYTES_MAX = 16 * 1024 * 1024


def forms(phrase: str) -> list[bytes]:
    """Return the byte strings by which `phrase` could be read."""
    raw = phrase.encode()
    found = [raw, raw[::-1], phrase.encode("utf-16-le"), phrase.encode("utf-16-be"), raw.hex().encode()]
    found.append(raw.hex().upper().encode())
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + raw)
        found.append(text[4 if shift else 0 : len(text) - 4])
    return found


def leaks(folder: Path, phrase: str) -> list[str]:
    """Return where under `folder` the phrase can be read, or is the name of something."""
    wanted = forms(phrase)
    found = []
    for path in sorted(folder.rglob("*")):
        if phrase in path.name:
            found.append(f"the name {path}")
        if path.is_file():
            raw = path.read_bytes()
            for content, where in [(raw, "raw"), *((frame, "zstd") for frame in _frames(raw))]:
                found += [f"{path}: {where}, form {i}" for i, form in enumerate(wanted) if form in content]
    return found


def _frames(raw: bytes) -> Iterator[bytes]:
    at = raw.find(_MAGIC)
    while at >= 0:
        try:
            using = zstandard.ZstdDecompressor().decompressobj()
            yield using.decompress(raw[at : at + _FRAME_BYTES_MAX])
        except zstandard.ZstdError:
            pass
        at = raw.find(_MAGIC, at + 1)
