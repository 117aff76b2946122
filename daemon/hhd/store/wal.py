"""Reads SQLite's write-ahead log as it lies on the disk: which commits are whole, and whether damage hides later ones.

SQLite ends reading at the first frame whose checksum does not hold. After a power cut that is right: what follows was
never synced. After damage it is not: commits that were promised are dropped without a word. The two differ in what
stands behind the bad frame: a commit is synced before the next is written, so frames of a *later* commit there mean
damage. (Damage within the last commit looks like a power cut; only a peer's copy can tell then.)

Format: https://sqlite.org/fileformat2.html, section 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MAGIC = (0x377F0682, 0x377F0683)
_HEADER, _FRAME = 32, 24
_PAGE_BYTES = tuple(1 << shift for shift in range(9, 17))


@dataclass(frozen=True, kw_only=True)
class Log:
    """What a write-ahead log holds: `pages` as of its last whole commit, and `hidden` frames behind damage."""

    pages: dict[int, bytes] = field(default_factory=dict)
    size_pages: int = 0
    hidden: int = 0


def read_log(path: Path) -> Log:
    """Return what is in the log at `path`; a missing, empty or unreadable one holds nothing."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Log()
    if len(raw) < _HEADER or not any(raw):  # Made as long as it will be (`Database.lengthen_log`), and not begun.
        return Log()
    magic, _, page_bytes, _, salt1, salt2, sum1, sum2 = struct.unpack(">8I", raw[:_HEADER])
    order = ">" if magic & 1 else "<"
    sized = page_bytes in _PAGE_BYTES
    whole = magic in _MAGIC and sized and _checksum(order, raw[:24], (0, 0)) == (sum1, sum2)
    if not whole:
        return Log(hidden=1 if len(raw) > _HEADER else 0)
    good: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    size, sums = 0, (sum1, sum2)
    for at, number, commit, salts, wanted, page in _frames(raw, page_bytes):
        ours = salts == (salt1, salt2)
        if ours:
            sums = _checksum(order, page, _checksum(order, raw[at : at + 8], sums))
        if not ours or sums != wanted:
            return Log(pages=good, size_pages=size, hidden=_hidden(raw, at, page_bytes, (salt1, salt2)))
        pending[number] = page
        if commit:
            good.update(pending)
            pending, size = {}, commit
    return Log(pages=good, size_pages=size)


def _hidden(raw: bytes, bad: int, page_bytes: int, salts: tuple[int, int]) -> int:
    """Return how many frames of later commits stand behind the bad frame at offset `bad`."""
    ended, count = False, 0
    for at, _, commit, found, _, _ in _frames(raw, page_bytes):
        if at < bad:
            continue
        if found != salts and at != bad:
            break
        count += ended
        ended = ended or bool(commit)
    return count


def _frames(raw: bytes, page_bytes: int) -> Iterator[tuple[int, int, int, tuple[int, int], tuple[int, int], bytes]]:
    for at in range(_HEADER, len(raw) - _FRAME - page_bytes + 1, _FRAME + page_bytes):
        number, commit, salt1, salt2, sum1, sum2 = struct.unpack(">6I", raw[at : at + _FRAME])
        yield at, number, commit, (salt1, salt2), (sum1, sum2), raw[at + _FRAME : at + _FRAME + page_bytes]


def _checksum(order: str, content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for i in range(0, len(words), 2):
        one = (one + words[i] + two) & 0xFFFFFFFF
        two = (two + words[i + 1] + one) & 0xFFFFFFFF
    return one, two
