"""The index of a git repository, written and read without running git.

Git's plumbing can make an index, but only `git update-index --refresh` puts into it what a file looks like on this
disk, and that reads the files through whatever filter an attribute names. Attributes come from outside here. So the
file is written by us: entries without that knowledge (git reads the file when it next looks), or with what we saw when
we wrote the file ourselves (git takes it as unchanged, as it was where it came from). Format: git's
`Documentation/gitformat-index`, versions 2 to 4 read, 2 or 3 written; extensions are caches and are dropped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

INTENT_TO_ADD, SKIP_WORKTREE, ASSUME_VALID = 1, 2, 4
"""Flags of an entry, numbered as in `hhd_protocol.workspace.Flag`."""

BYTES_MAX = 1024 * 1024 * 1024
"""Of an index that is read: a million entries take some 100 MB."""

_HEAD = Struct(">4sII")
_STAT = Struct(">10I")
_FLAGS = Struct(">H")
_NO_STAT = b"\0" * _STAT.size
_VALID, _EXTENDED, _NAME = 0x8000, 0x4000, 0x0FFF
_SKIP, _INTENT = 0x4000, 0x2000
_MODE_AT = 24
_U32 = Struct(">I")


class UnreadableIndex(Exception):
    """An index that is damaged, of a newer version, or split over several files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexEntry:
    """One entry: `stage` 0 to 3, `flags` of ASSUME_VALID and so on, `seen` the 40 bytes about the file, or zeros."""

    path: bytes
    mode: int
    oid: bytes
    stage: int = 0
    flags: int = 0
    seen: bytes = _NO_STAT


def seen(found: os.stat_result, mode: int) -> bytes:
    """What git notes of a file to know it again, for the 40 bytes of an entry of `mode`."""
    ctime, mtime = found.st_ctime_ns, found.st_mtime_ns
    fields = (
        ctime // 10**9, ctime % 10**9, mtime // 10**9, mtime % 10**9, found.st_dev, found.st_ino, mode,
        found.st_uid, found.st_gid, found.st_size,
    )  # fmt: skip
    return _STAT.pack(*(field & 0xFFFFFFFF for field in fields))


def encode(entries: Iterable[IndexEntry], *, algorithm: str = "sha1") -> bytes:
    """Return the index that holds `entries`, of a repository with object names by `algorithm` (sha1, sha256)."""
    ordered = sorted(entries, key=lambda one: (one.path, one.stage))
    extended = any(one.flags & (SKIP_WORKTREE | INTENT_TO_ADD) for one in ordered)
    parts = [_HEAD.pack(b"DIRC", 3 if extended else 2, len(ordered))]
    for one in ordered:
        parts.append(_encode_entry(one))
    body = b"".join(parts)
    return body + hashlib.new(algorithm, body).digest()


def _encode_entry(one: IndexEntry) -> bytes:
    more = one.flags & (SKIP_WORKTREE | INTENT_TO_ADD)
    flags = one.stage << 12 | min(len(one.path), _NAME)
    flags |= (_VALID if one.flags & ASSUME_VALID else 0) | (_EXTENDED if more else 0)
    raw = one.seen[:_MODE_AT] + _U32.pack(one.mode) + one.seen[_MODE_AT + 4 :] + one.oid + _FLAGS.pack(flags)
    if more:
        raw += _FLAGS.pack((_SKIP if more & SKIP_WORKTREE else 0) | (_INTENT if more & INTENT_TO_ADD else 0))
    raw += one.path
    return raw + b"\0" * (8 - len(raw) % 8)


def decode(raw: bytes, *, algorithm: str = "sha1") -> list[IndexEntry]:
    """Return the entries of an index; raises UnreadableIndex."""
    try:
        return list(_entries(raw, hashlib.new(algorithm).digest_size))
    except (IndexError, ValueError, OverflowError, StructError) as error:
        raise UnreadableIndex("the index of the repository is damaged") from error


def _entries(raw: bytes, oid_bytes: int) -> Iterator[IndexEntry]:
    magic, version, count = _HEAD.unpack_from(raw)
    if magic != b"DIRC" or version not in (2, 3, 4) or count > len(raw) // (_STAT.size + oid_bytes):
        raise UnreadableIndex("the index of the repository is of a kind that is not read here")
    at, path = _HEAD.size, b""
    for _ in range(count):
        begin = at
        known = raw[at : at + _STAT.size]
        oid = raw[at + _STAT.size : at + _STAT.size + oid_bytes]
        at += _STAT.size + oid_bytes
        (bits,) = _FLAGS.unpack_from(raw, at)
        at += 2
        flags = ASSUME_VALID if bits & _VALID else 0
        if bits & _EXTENDED:
            (more,) = _FLAGS.unpack_from(raw, at)
            at += 2
            flags |= (SKIP_WORKTREE if more & _SKIP else 0) | (INTENT_TO_ADD if more & _INTENT else 0)
        if version == 4:
            cut, at = _varint(raw, at)
            if cut > len(path):
                raise UnreadableIndex("the index of the repository is damaged")
            end = raw.index(b"\0", at)
            path = path[: len(path) - cut] + raw[at:end]
            at = end + 1
        else:
            end = at + (bits & _NAME) if bits & _NAME < _NAME else raw.index(b"\0", at)
            path = raw[at:end]
            at = begin + (end - begin) // 8 * 8 + 8
        (mode,) = _U32.unpack_from(known, _MODE_AT)
        yield IndexEntry(path=path, mode=mode, oid=oid, stage=bits >> 12 & 3, flags=flags, seen=known)
    while at + 8 <= len(raw) - oid_bytes:
        name, size = raw[at : at + 4], _U32.unpack_from(raw, at + 4)[0]
        if not 0x41 <= name[0] <= 0x5A:  # Not optional: a shared index, or folders in place of their files.
            raise UnreadableIndex("the index of the repository is split, or sparse")
        at += 8 + size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    byte = raw[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = raw[at]
        value = (value + 1 << 7) | byte & 0x7F
    return value, at + 1


def places(raw: bytes, paths: Collection[bytes], *, algorithm: str = "sha1") -> dict[bytes, int]:
    """Return where in the index `raw`, which `encode` made, the entries of `paths` begin, those of stage 0.

    Raises UnreadableIndex.
    """
    found, flags_at, at = {}, _STAT.size + hashlib.new(algorithm).digest_size, _HEAD.size
    try:
        for _ in range(_HEAD.unpack_from(raw)[2]):
            bits = raw[at + flags_at]
            name_at = at + flags_at + (4 if bits & _EXTENDED >> 8 else 2)
            end = raw.index(b"\0", name_at)
            if not bits >> 4 & 3 and (path := raw[name_at:end]) in paths:
                found[path] = at
            at += (end - at) // 8 * 8 + 8
    except (IndexError, ValueError, StructError) as error:
        raise UnreadableIndex("the index of the repository is damaged") from error
    return found


def filled(
    raw: bytes, known: Mapping[bytes, os.stat_result], at: Mapping[bytes, int], *, algorithm: str = "sha1"
) -> list[tuple[int, bytes]]:
    """Return what to write where in the index `raw`, so that it has what `known` files look like in their entries.

    `at`: as `places` returns it. Each piece takes the place of as many bytes.
    """
    pieces = []
    for path, found in known.items():
        (mode,) = _U32.unpack_from(raw, at[path] + _MODE_AT)
        pieces.append((at[path], seen(found, mode)))
    digest, done = hashlib.new(algorithm), 0
    body = len(raw) - digest.digest_size
    for begin, piece in sorted(pieces):
        digest.update(memoryview(raw)[done:begin])
        digest.update(piece)
        done = begin + len(piece)
    digest.update(memoryview(raw)[done:body])
    return [*pieces, (body, digest.digest())]
