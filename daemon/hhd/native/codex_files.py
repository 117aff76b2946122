"""The files of a Codex thread: its rollout, and the bases of the forks that it came from."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hhd.native.codex_records import Line, Meta, MetaLine
from hhd.native.homes import UUID
from hhd.native.reading import Lines
from hhd.native.source import BOM, Block, Source
from hhd_protocol.limits import NATIVE_BASES_MAX

_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(" + UUID.pattern + r")\.jsonl(?:\.zst)?\Z")


class Segment:
    """One file's share of the history: a base up to where the fork left it, or the session itself."""

    def __init__(self, source: Source, meta: Meta | None, ordinal_end: int | None) -> None:
        self.source = source
        self.meta = meta
        self.ordinal_end = ordinal_end
        self.blocks: list[Block] = []
        self.begin = 0
        """The place of the line before its first: places count lines through all segments."""
        self.lines = Lines(source, Line, lenient=False, keeps_bom=False)


class Thread:
    """The segments of a thread, oldest first, the session's own last."""

    def __init__(self, path: Path, *, begin: int) -> None:
        """Open `path`, from the byte `begin` on, and its bases if that is 0. Raises OSError."""
        self._path = path
        self.refused: str | None = None
        """Why the client would not resume it."""
        self.gap: tuple[str, str] | None = None
        """The thread of a base that is not here, and why."""
        self.segments: list[Segment] = []
        try:
            self._open(begin)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        for segment in self.segments:
            segment.source.close()

    def _open(self, begin: int) -> None:
        own = Segment(Source(self._path, begin=begin), None, None)
        self.segments = [own]
        first = _first_line(own.source)
        bom = first.startswith(BOM)
        own.meta = meta = _meta(first[len(BOM) :] if bom else first)
        if bom:
            self.refused = "a byte order mark stands before the first line"
        elif meta is None:
            self.refused = "the file does not start with session metadata"
        elif missing := [
            n for n in ("id", "timestamp", "cwd", "originator", "cli_version") if getattr(meta, n) is None
        ]:
            self.refused = f"its session metadata has no {missing[0]}"
        elif (named := _NAME.match(self._path.name)) and named.group(1).lower() != (meta.id or "").lower():
            self.refused = "the id in the file's name is not the id in its first line"
        if begin == 0:
            self._open_bases(meta)

    def _open_bases(self, meta: Meta | None) -> None:
        seen = {meta.id if meta else None}
        while meta is not None and meta.history_base is not None:
            base = meta.history_base
            thread = base.thread_id or ""
            if base.end_byte_offset is None or base.end_ordinal_exclusive is None or not UUID.fullmatch(thread):
                return self._no_base(thread, "its history_base is incomplete")
            if thread in seen or len(self.segments) > NATIVE_BASES_MAX:
                return self._no_base(thread, "its bases go in a circle" if thread in seen else "it has too many bases")
            seen.add(thread)
            path = _find(self._path, thread)
            if path is None:
                return self._no_base(thread, "its base is missing")
            try:
                source = Source(path, end=base.end_byte_offset)
            except OSError:
                return self._no_base(thread, "its base cannot be read")
            self.segments.insert(0, Segment(source, None, base.end_ordinal_exclusive))
            if source.stat.st_size < base.end_byte_offset:
                return self._no_base(thread, "the cutoff offset is past the end of its base")
            meta = self.segments[0].meta = _meta(_first_line(source))
            if meta is None:
                return self._no_base(thread, "its base does not start with session metadata")
        return None

    def _no_base(self, thread: str, why: str) -> None:
        self.refused = self.refused or why
        self.gap = (thread, why)


def _first_line(source: Source) -> bytes:
    size = 64 * 1024
    while True:
        raw = source.read(0, min(size, source.stat.st_size))
        cut = raw.find(b"\n")
        if cut >= 0 or len(raw) == source.stat.st_size or size > 1 << 26:
            return raw[:cut] if cut >= 0 else raw
        size *= 8


def _meta(line: bytes) -> Meta | None:
    try:
        found = msgspec.json.decode(line, type=MetaLine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found.payload if found.type == "session_meta" else None


def _find(path: Path, thread: str) -> Path | None:
    """The rollout of `thread`: beside `path`, or anywhere in the same home."""
    for suffix in (".jsonl", ".jsonl.zst"):
        for found in sorted(path.parent.glob(f"rollout-*-{thread}{suffix}")):
            return found
    for folder in path.parents:
        if folder.name in ("sessions", "archived_sessions"):
            for root in (folder, folder.parent / "sessions", folder.parent / "archived_sessions"):
                for suffix in (".jsonl", ".jsonl.zst"):
                    for found in sorted(root.rglob(f"rollout-*-{thread}{suffix}")):
                        return found
            return None
    return None
