"""What was converted into what: so that a grown session updates its conversion, and a way back finds the original.

One small sealed file a conversion, in this device's data folder. It holds ids and paths, no conversation text. It is
written before the converted file becomes visible: a run that died in between is finished by the next one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hhd.base import files
from hhd.base.box import Box
from hhd.native.homes import UUID
from hhd_protocol.transcript import Harness

_READ_BYTES = 1 << 20
_SEALED, _PLAIN = ".sealed", ".json"

ANCESTORS_MAX = 64
"""How many conversions back an original is looked for: each one is a comparison with the bytes of a file."""


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The first `size` bytes of a file, by SHA-256 (hex), and how many lines they are."""

    path: str
    size: int
    sha256: str
    lines: int


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """One conversion: what was read, what was written."""

    format: int = 1
    source_harness: Harness
    source_id: str
    source: Stretch
    source_leaf: str | None
    target_harness: Harness
    target_id: str
    target_cwd: str
    target: Stretch
    redacted: bool = False
    replaced: Stretch | None = None
    """What `target` takes the place of: an update that was killed has left it there."""


class History:
    """The conversions of this device, in `folder`, sealed by `box`; those of an earlier hhd are sealed at once."""

    def __init__(self, folder: Path, box: Box) -> None:
        self._folder, self._box = folder, box
        self._seal_plain()

    def record(self, conversion: Conversion) -> None:
        """Remember `conversion` durably; a later one of the same target takes its place."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = self._name(conversion.target_harness, conversion.target_id)
        files.replace(self._folder / name, [self._box.sealed(name, msgspec.json.encode(conversion))])

    @contextmanager
    def alone(self, harness: Harness, source_id: str) -> Iterator[None]:
        """Of two processes that convert one session the second waits, and finds what the first made."""
        folder = self._folder / "locks"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Few files, whatever the number of sessions: two that share one only wait for each other.
        name = hashlib.sha256(f"{harness.value} {source_id}".encode("utf-8", "surrogatepass")).hexdigest()[:2]
        fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def from_source(
        self, harness: Harness, source_id: str, target: Harness, cwd: str, *, home: Path, redacted: bool
    ) -> Conversion | None:
        """The latest conversion of that session to that client and folder, below `home`, with secrets or without."""
        found = [
            conversion
            for conversion in self._all()
            if conversion.source_harness is harness
            and conversion.source_id == source_id
            and conversion.target_harness is target
            and conversion.target_cwd == cwd
            and conversion.redacted == redacted
            and Path(conversion.target.path).is_relative_to(home)
        ]
        return max(found, key=lambda conversion: conversion.source.size, default=None)

    def of_target(self, harness: Harness, target_id: str) -> Conversion | None:
        """The conversion that made that session, if one did. Our ids are UUIDs: another one names no file of ours."""
        if not UUID.fullmatch(target_id):
            return None
        return self._load(self._name(harness, target_id))

    def ancestors(self, harness: Harness, target_id: str) -> Iterator[Conversion]:
        """The conversion that made that session, the one that made its source, and so on."""
        seen: set[tuple[Harness, str]] = set()
        while (harness, target_id) not in seen and len(seen) < ANCESTORS_MAX:
            seen.add((harness, target_id))
            conversion = self.of_target(harness, target_id)
            if conversion is None:
                return
            yield conversion
            harness, target_id = conversion.source_harness, conversion.source_id

    def _all(self) -> Iterator[Conversion]:
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return
        for name in names:
            if name.endswith(_SEALED) and (conversion := self._load(name)) is not None:
                yield conversion

    def _name(self, harness: Harness, target_id: str) -> str:
        return self._box.name(f"{harness.value}-{target_id}") + _SEALED

    def _load(self, name: str) -> Conversion | None:
        try:
            raw = self._box.opened(name, (self._folder / name).read_bytes())
            return None if raw is None else msgspec.json.decode(raw, type=Conversion)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _seal_plain(self) -> None:
        for path in sorted(self._folder.glob(f"*{_PLAIN}")):
            try:
                self.record(msgspec.json.decode(path.read_bytes(), type=Conversion))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                pass  # Damaged: it says nothing any more.
            except OSError:
                continue  # Another process was quicker; or there is no room, and the next one does it.
            path.unlink(missing_ok=True)


def stretch(path: Path, size: int | None = None) -> Stretch | None:
    """The first `size` bytes of `path` (None: all of it), or None if it is shorter or cannot be read."""
    digest, left, lines = hashlib.sha256(), size, 0
    total = 0
    try:
        with open(path, "rb") as file:
            while left is None or left > 0:
                block = file.read(_READ_BYTES if left is None else min(left, _READ_BYTES))
                if not block:
                    break
                digest.update(block)
                lines += block.count(b"\n")
                total += len(block)
                left = None if left is None else left - len(block)
    except OSError:
        return None
    if left:
        return None
    return Stretch(path=str(path), size=total, sha256=digest.hexdigest(), lines=lines)


class Hashing:
    """A stretch taken beside other work: hashing and reading leave the interpreter free."""

    def __init__(self, path: Path, size: int | None = None) -> None:
        self._found: Stretch | None = None

        def take() -> None:
            self._found = stretch(path, size)

        self._thread = threading.Thread(target=take, daemon=True)
        self._thread.start()

    def result(self) -> Stretch | None:
        """The stretch, once it is there."""
        self._thread.join()
        return self._found


def same(path: Path, known: Stretch) -> bool:
    """Whether the file holds the known bytes and nothing more."""
    try:
        if os.stat(path).st_size != known.size:
            return False
    except OSError:
        return False
    found = stretch(path, known.size)
    return found is not None and found.sha256 == known.sha256
