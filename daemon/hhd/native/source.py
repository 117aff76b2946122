"""The lines of one native file, as it was at one moment, read in blocks of whole lines.

Lines end at the byte `\\n` and nowhere else. The file is opened once and read up to the size it had then, so a file
that grows, is replaced or deleted meanwhile is read as it was; one that is cut or overwritten in place raises
`ChangedError`. A line past the bound is not held in memory: its block is empty and says so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hhd.base.errors import RefusedError
from hhd_protocol.limits import NATIVE_LINE_BYTES_MAX, NATIVE_UNPACKED_BYTES_MAX

BLOCK_BYTES = 256 * 1024
"""Fits the second-level cache: blocks of 1 MiB measured 20% slower."""

_OPEN, _CLOSE, _NEWLINE = b"{}\n"

BOM = b"\xef\xbb\xbf"

Progress = Callable[[int], None]
"""Is told how many more bytes have been read."""


class ChangedError(RefusedError):
    """The file was cut or overwritten while it was read."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where some whole lines are: `size` bytes from `offset`, `lines` of them, the first with the number `first_line`.

    `plain`: each line begins with `{` and ends with `}` right before its newline, so records and lines are the same
    if there are as many of them (no record can hold `}`, newline, `{`). `skipped`: one line past the bound.
    """

    offset: int
    size: int
    first_line: int
    lines: int
    plain: bool
    skipped: bool = False


class Source:
    """One file, opened; close it, or use it as a context."""

    def __init__(self, path: Path, *, end: int | None = None, begin: int = 0, packed: bool = False) -> None:
        """Open `path` for bytes `begin` (a line's begin) up to `end`.

        `.zst` is unpacked to an unnamed file first, unless `packed`: then its own bytes are read.

        Raises OSError; RefusedError if it is no ordinary file or unpacks past the bound.
        """
        self.path = path
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._file: BinaryIO = os.fdopen(fd, "rb", buffering=0)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise RefusedError(f"{path} is not an ordinary file; nothing was read.")
            if path.suffix == ".zst" and not packed:
                original, self._file = self._file, _unpacked(self._file)
                original.close()
            self.stat = os.fstat(self._file.fileno())
            self.mtime_ns = found.st_mtime_ns
        except BaseException:
            self._file.close()
            raise
        size = self.stat.st_size
        self.begin = min(begin, size)
        self.end = size if end is None else min(end, size)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        return self.end - self.begin

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes from `offset`; raises ChangedError."""
        raw = bytearray(size)
        self._fill(memoryview(raw), offset)
        return bytes(raw)

    def blocks(self) -> Iterator[tuple[Block, memoryview]]:
        """All lines in order: where they are, and their bytes (the last may lack its newline).

        The bytes are good until the next step: they lie in a buffer that is used again, which measured a third faster
        than new ones.
        """
        buffer = bytearray(BLOCK_BYTES)
        offset, line = self.begin, 1
        while offset < self.end:
            size = min(len(buffer), self.end - offset)
            view = memoryview(buffer)[:size]
            self._fill(view, offset)
            cut = size if offset + size == self.end else buffer.rfind(b"\n", 0, size) + 1
            if cut:
                lines, plain = _look(buffer, cut)
                yield Block(offset, cut, line, lines, plain), view[:cut]
                line += lines
                offset += cut
                if len(buffer) > BLOCK_BYTES:
                    buffer = bytearray(BLOCK_BYTES)
            elif size <= NATIVE_LINE_BYTES_MAX:
                buffer = bytearray(len(buffer) * 4)
            else:
                end = self._line_end(offset + size)
                yield Block(offset, end - offset, line, 1, False, True), view[:0]
                offset, line, buffer = end, line + 1, bytearray(BLOCK_BYTES)

    def again(self, block: Block) -> bytes:
        """The bytes of a block that was read before; raises ChangedError."""
        return b"" if block.skipped else self.read(block.offset, block.size)

    def again_each(self, blocks: Iterable[Block]) -> Iterator[memoryview]:
        """The bytes of some blocks in turn, each good until the next step; raises ChangedError."""
        buffer = bytearray(BLOCK_BYTES)
        for block in blocks:
            if block.size > len(buffer) and not block.skipped:
                buffer = bytearray(block.size)
            elif len(buffer) > BLOCK_BYTES >= block.size:
                buffer = bytearray(BLOCK_BYTES)
            view = memoryview(buffer)[: 0 if block.skipped else block.size]
            self._fill(view, block.offset)
            yield view

    def _fill(self, view: memoryview, offset: int) -> None:
        while view:
            got = os.preadv(self._file.fileno(), [view], offset)
            if not got:
                raise ChangedError(f"{self.path} was cut while it was read; run it again.")
            view = view[got:]
            offset += got

    def verify(self) -> None:
        """Raise ChangedError if the file is no longer what was read of it.

        It may have grown; one of the same size as when it was opened, but written to since, was overwritten.
        """
        now = os.fstat(self._file.fileno())
        rewritten = now.st_size == self.stat.st_size and now.st_mtime_ns != self.stat.st_mtime_ns
        if now.st_size < self.end or rewritten:
            raise ChangedError(f"{self.path} was cut or overwritten while it was read; run it again.")

    def _line_end(self, place: int) -> int:
        while place < self.end:
            raw = self.read(place, min(BLOCK_BYTES, self.end - place))
            found = raw.find(b"\n")
            if found >= 0:
                return place + found + 1
            place += len(raw)
        return place


def _look(raw: bytearray, size: int) -> tuple[int, bool]:
    """How many lines there are, and whether they are plain (see `Block`). A loop of `find` beats `count` threefold."""
    end = size - 1
    lines = 1
    find = raw.find
    at = find(b"\n", 0, size)
    plain = raw[0] == _OPEN
    while -1 < at < end:
        if raw[at - 1] != _CLOSE or raw[at + 1] != _OPEN:
            plain = False
        lines += 1
        at = find(b"\n", at + 1, size)
    return lines, plain and raw[end] == _NEWLINE and end > 0 and raw[end - 1] == _CLOSE


def _unpacked(packed: BinaryIO) -> BinaryIO:
    """What `packed` holds, as far as it can be unpacked; where that is not all, it ends in a line that is cut."""
    import tempfile

    import zstandard

    out = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    size = 0
    end = b""
    try:
        try:
            with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True, closefd=False) as reader:
                while piece := reader.read1(1 << 20):  # `read` gives nothing of what stands before damage
                    size += len(piece)
                    if size > NATIVE_UNPACKED_BYTES_MAX:
                        raise RefusedError("A compressed session unpacks past the bound of 16 GiB; nothing was read.")
                    out.write(piece)
                    end = piece[-1:]
            is_whole = _is_whole(packed)
        except zstandard.ZstdError:
            is_whole = False
        if not is_whole:
            if not size:
                raise RefusedError("A compressed session is damaged from its begin: nothing of it can be unpacked.")
            if end == b"\n":
                out.write(b"{")
    except BaseException:
        out.close()
        raise
    return out


def _is_whole(packed: BinaryIO) -> bool:
    """Whether each frame of a zstandard file has its last block; the library takes a cut file for a whole one."""
    import zstandard

    size = packed.seek(0, os.SEEK_END)
    place = packed.seek(0)
    while place < size:
        head = packed.read(18)
        if int.from_bytes(head[:4], "little") & 0xFFFFFFF0 == 0x184D2A50:
            place += 8 + int.from_bytes(head[4:8], "little")
        else:
            place += zstandard.frame_header_size(head)
            is_last = False
            while not is_last:
                packed.seek(place)
                block = int.from_bytes(packed.read(3), "little")
                is_last = bool(block & 1)
                place += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
                if place > size:
                    return False
            place += 4 if head[4] & 4 else 0
        packed.seek(place)
    return place == size
