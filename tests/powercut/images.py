"""Builds the disks that a power cut could leave of what was recorded.

The model. A disk is names for inodes, and bytes in inodes. What was synced is there. Of the rest any part may be: of
names, any subset of the changes in order; of each inode, any subset of its writes in order, the last one torn at a
sector; and the two independently, so a name may be there before its bytes. A sync of a file keeps its bytes; `posix`
says whether that is all (strict reading) or keeps its name too, as Linux file systems do. A sync of a folder keeps the
names in it. A link or rename takes along the inode that the name stands for at that moment.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.powercut.recorder import Record

SECTOR_BYTES = 512
_OF_NAMES = "crlu"
_OF_BYTES = "wt"


@dataclass(frozen=True, kw_only=True)
class Image:
    """A disk after a cut: files by path, the marks made before the cut, how many records were made before it."""

    files: dict[str, bytes]
    marks: list[str]
    moment: int = 0


@dataclass(kw_only=True)
class _Disk:
    names: dict[str, int] = field(default_factory=dict)
    inodes: dict[int, bytearray] = field(default_factory=dict)

    def copy(self) -> _Disk:
        return _Disk(names=dict(self.names), inodes={key: bytearray(value) for key, value in self.inodes.items()})

    def apply(self, one: Record) -> None:
        if one.op == "c":
            self.names[one.path] = one.inode
        elif one.op == "u":
            self.names.pop(one.path, None)
        elif one.op in "rl":
            self.names[one.data.decode()] = one.inode
            if one.op == "r":
                self.names.pop(one.path, None)
        elif one.op in _OF_BYTES:
            content = self.inodes.setdefault(one.inode, bytearray())
            end = one.offset + len(one.data) if one.op == "w" else one.offset
            content.extend(bytes(max(0, (one.offset if one.op == "w" else end) - len(content))))
            if one.op == "w":
                content[one.offset : end] = one.data
            else:
                del content[end:]

    def files(self) -> dict[str, bytes]:
        return {path: bytes(self.inodes.get(inode, b"")) for path, inode in self.names.items()}


def images(
    records: Sequence[Record], rng: random.Random, *, per_moment: int = 6, posix: bool = True
) -> Iterator[Image]:
    """Disks that a cut at any moment could leave: nothing, all, and random parts of what was not synced."""
    kept, pending, marks = _Disk(), list[Record](), list[str]()
    for moment, one in enumerate(_told_apart(records)):
        if one.op == "m":
            marks.append(one.path)
        elif one.op == "s":
            pending = _synced(kept, pending, one, posix)
        else:
            pending.append(one)
        for chosen in _choices(pending, rng, per_moment):
            disk = kept.copy()
            for each in chosen:
                disk.apply(each)
            yield Image(files=disk.files(), marks=list(marks), moment=moment)


def _told_apart(records: Sequence[Record]) -> Iterator[Record]:
    """The records with a number of its own for each inode ever made (the system uses them again), also in renames."""
    numbers: dict[int, int] = {}
    stands_for: dict[str, int] = {}
    for one in records:
        if one.op == "c":
            numbers[one.inode] = max(numbers.values(), default=0) + 1
            stands_for[one.path] = numbers[one.inode]
        inode = stands_for.get(one.path, 0) if one.op in "rl" else numbers.get(one.inode, 0)
        if one.op in "rl":
            stands_for[one.data.decode()] = inode
        if one.op in "ru":
            stands_for.pop(one.path, None)
        yield replace(one, inode=inode)


def without(records: Sequence[Record], number: int) -> list[Record]:
    """The records with the sync at place `number` (of all records) forgotten."""
    assert records[number].op == "s"
    return [one for place, one in enumerate(records) if place != number]


def _synced(kept: _Disk, pending: list[Record], sync: Record, posix: bool) -> list[Record]:
    """Move what `sync` makes durable from `pending` to `kept`; return what still is pending."""
    left = []
    for one in pending:
        paths = [one.path, *([one.data.decode()] if one.op in "rl" else [])]
        of_its_bytes = one.op in _OF_BYTES and one.inode == sync.inode
        of_its_names = one.op in _OF_NAMES and any(os.path.dirname(path) == sync.path for path in paths)
        its_own_name = not posix and one.op in "crl" and one.inode == sync.inode
        if of_its_bytes or of_its_names or its_own_name:
            kept.apply(one)
        else:
            left.append(one)
    return left


def _choices(pending: list[Record], rng: random.Random, count: int) -> Iterator[list[Record]]:
    yield []
    if not pending:
        return
    yield pending
    yield [one for one in pending if one.op in _OF_NAMES]
    yield [one for one in pending if one.op in _OF_BYTES]
    for _ in range(count):
        share = rng.choice((0.2, 0.5, 0.9))
        chosen = [one for one in pending if rng.random() < share]
        if chosen and chosen[-1].op == "w" and rng.random() < 0.5:
            chosen[-1] = _torn(chosen[-1], rng)
        yield chosen


def _torn(one: Record, rng: random.Random) -> Record:
    sectors = len(one.data) // SECTOR_BYTES + 1
    part = one.data[: SECTOR_BYTES * rng.randrange(sectors)]
    return Record(op=one.op, inode=one.inode, offset=one.offset, path=one.path, data=part)
