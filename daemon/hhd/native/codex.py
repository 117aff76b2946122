"""The reader of Codex's rollouts: bases of forks, rollbacks and compactions applied as the client does on resume.

Every text is in a rollout twice, as an item for the model and as an event for the screen. Conversation comes from the
items; events say which user items the person wrote, how commands ended, and where turns begin.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from hhd.native.codex_records import (
    LINES,
    SUMMARY_KIND,
    Line,
    Meta,
    MetaLine,
    Payload,
    Translator,
    event_verdict,
    mark_of,
    said,
    standins,
    told,
)
from hhd.native.reading import Lines, Pairing, Progress, Reading, collect, damaged, nothing
from hhd.native.source import BOM, Block, Source
from hhd_protocol.limits import NATIVE_BASES_MAX
from hhd_protocol.transcript import (
    Account,
    AccountBook,
    At,
    Branch,
    Call,
    Compaction,
    Did,
    Gap,
    Harness,
    Header,
    Item,
    LossKind,
    Message,
    Note,
    Reason,
    Result,
    SourceFile,
    TextPart,
    Verdict,
    parts_text,
)

UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
UNKNOWN_STANDIN = "an item that a compaction put in, of a kind that is not known here"
VENDOR_STANDIN = "system, developer or client text that a compaction put in"

_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(" + UUID.pattern + r")\.jsonl(?:\.zst)?\Z")

_PENDING_MAX = 16
_BRANCHES_MAX = 1000


class _Segment:
    """One file's share of the history: a base up to where the fork left it, or the session itself."""

    def __init__(self, source: Source, meta: Meta | None, ordinal_end: int | None) -> None:
        self.source = source
        self.meta = meta
        self.ordinal_end = ordinal_end
        self.blocks: list[Block] = []
        self.begin = 0
        """The place of the line before its first: places count lines through all segments."""
        self.lines = Lines(source, Line, lenient=False, keeps_bom=False)


class CodexReading(Reading):
    """One thread of Codex."""

    def __init__(self, path: Path, *, progress: Progress = nothing, begin: int = 0) -> None:
        """Open `path`. `begin`: read a tail only, from this byte; lines then count from the end, -1 last."""
        self._path = path
        self._progress = progress
        self._tail = begin > 0
        self._refused: str | None = None
        self._gap: tuple[str, str] | None = None
        self._segments: list[_Segment] = []
        try:
            self._open(begin)
            self._turns: list[int] = []
            self._dead: list[tuple[int, int]] = []
            self._compactions: list[tuple[int, bool]] = []
            self._spoken: set[int] = set()
            self._exits: dict[int, int] = {}
            self._cwds: list[str] = []
            self._models: list[str] = []
            self._title: str | None = None
            self._times: list[str | None] = [None, None]
            self._events = False
            self._no_ordinal = False
            self._pending_items: list[tuple[int, str]] = []
            self._pending_events: list[str] = []
            self._index()
            self._resolve()
            self._book = AccountBook()
            self.header = self._facts()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for segment in self._segments:
            segment.source.close()

    @property
    def account(self) -> Account:
        return self._book.close(self._total)

    # ---- files

    def _open(self, begin: int) -> None:
        own = _Segment(Source(self._path, begin=begin), None, None)
        self._segments = [own]
        first = _first_line(own.source)
        bom = first.startswith(BOM)
        own.meta = meta = _meta(first[len(BOM) :] if bom else first)
        if bom:
            self._refused = "a byte order mark stands before the first line"
        elif meta is None:
            self._refused = "the file does not start with session metadata"
        elif missing := [
            n for n in ("id", "timestamp", "cwd", "originator", "cli_version") if getattr(meta, n) is None
        ]:
            self._refused = f"its session metadata has no {missing[0]}"
        elif (named := _NAME.match(self._path.name)) and named.group(1).lower() != (meta.id or "").lower():
            self._refused = "the id in the file's name is not the id in its first line"
        if not self._tail:
            self._open_bases(meta)

    def _open_bases(self, meta: Meta | None) -> None:
        seen = {meta.id if meta else None}
        while meta is not None and meta.history_base is not None:
            base = meta.history_base
            thread = base.thread_id or ""
            if base.end_byte_offset is None or base.end_ordinal_exclusive is None or not UUID.fullmatch(thread):
                return self._no_base(thread, "its history_base is incomplete")
            if thread in seen or len(self._segments) > NATIVE_BASES_MAX:
                return self._no_base(thread, "its bases go in a circle" if thread in seen else "it has too many bases")
            seen.add(thread)
            path = _find(self._path, thread)
            if path is None:
                return self._no_base(thread, "its base is missing")
            try:
                source = Source(path, end=base.end_byte_offset)
            except OSError:
                return self._no_base(thread, "its base cannot be read")
            self._segments.insert(0, _Segment(source, None, base.end_ordinal_exclusive))
            if source.stat.st_size < base.end_byte_offset:
                return self._no_base(thread, "the cutoff offset is past the end of its base")
            meta = self._segments[0].meta = _meta(_first_line(source))
            if meta is None:
                return self._no_base(thread, "its base does not start with session metadata")
        return None

    def _no_base(self, thread: str, why: str) -> None:
        self._refused = self._refused or why
        self._gap = (thread, why)

    # ---- first pass

    def _index(self) -> None:
        place = 0
        for segment in self._segments:
            segment.begin = place
            for block, raw in segment.source.blocks():
                segment.blocks.append(block)
                self._note(segment, place + block.first_line, segment.lines.decode(block, raw))
                self._progress(len(raw))
            last = segment.blocks[-1] if segment.blocks else None
            place += last.first_line + last.lines - 1 if last else 0
        self._total = place
        self._shift = -place - 1 if self._tail else 0

    def _note(self, segment: _Segment, place: int, found: Iterable[Line | Reason]) -> None:
        own = segment is self._segments[-1]
        for record in found:
            if isinstance(record, Reason):
                if record is Reason.BAD_TEXT:
                    self._refused = self._refused or "a line holds bytes that are no UTF-8"
                place += 1
                continue
            if record.timestamp is None:
                place += 1
                continue
            if record.ordinal is None:
                self._no_ordinal = self._no_ordinal or own
            elif segment.ordinal_end is not None and record.ordinal >= segment.ordinal_end:
                place += 1
                continue
            payload = record.payload
            if self._times[0] is None:
                self._times[0] = record.timestamp
            self._times[1] = record.timestamp
            if payload is not None:
                kind = record.type
                if kind == "response_item":
                    if payload.type == "message" and payload.role == "user":
                        self._user_item(payload, place)
                    elif payload.role not in ("developer", "system"):
                        self._pending_items, self._pending_events = [], []
                elif kind == "event_msg":
                    self._event(payload, place)
                elif kind == "compacted":
                    self._compacted(payload, place)
                elif kind == "turn_context":
                    collect(self._cwds, payload.cwd)
                    collect(self._models, payload.model)
                elif kind == "session_meta":
                    collect(self._cwds, payload.cwd)
            place += 1

    def _compacted(self, payload: Payload, place: int) -> None:
        """A compaction counts even if it is rolled back later; what it puts in are turns that can be rolled back."""
        if payload.replacement_history is UNSET:
            self._turns.append(place)
            self._compactions.append((place, False))
        else:
            users = sum(1 for item in standins(payload.replacement_history) if item is not None and item.role == "user")
            self._turns = [place] * users
            self._compactions.append((place, True))

    def _user_item(self, payload: Payload, place: int) -> None:
        text = said(payload)
        if text in self._pending_events:
            self._pending_events = []
            self._spoken.add(place)
        else:
            self._pending_items = [*self._pending_items[-_PENDING_MAX:], (place, text)]

    def _event(self, payload: Payload, place: int) -> None:
        text = told(payload)
        if text is not None:
            self._events = True
            start = place
            for item, own in reversed(self._pending_items):
                if own == text:
                    self._spoken.add(item)
                    start = item
                    break
            else:
                self._pending_events = [*self._pending_events[-_PENDING_MAX:], text]
            self._pending_items = []
            self._turns.append(start)
        elif payload.type == "thread_rolled_back":
            for _ in range(min(payload.num_turns or 0, len(self._turns))):
                start = self._turns.pop()
                if self._dead and self._dead[-1][0] >= start:
                    self._dead.pop()
                self._dead.append((start, place))
        elif payload.type == "thread_name_updated":
            self._title = payload.thread_name or self._title
        elif payload.exit_code is not None and payload.call_id is not None:
            self._exits[hash(payload.call_id)] = payload.exit_code
        elif payload.item is not None and payload.item.exit_code is not None and payload.item.id is not None:
            self._exits[hash(payload.item.id)] = payload.item.exit_code

    def _resolve(self) -> None:
        self._dead_starts = [start for start, _ in self._dead]
        self._last_compaction = self._compactions[-1][0] if self._compactions else 0
        self._floor = max((place for place, full in self._compactions if full), default=0)
        own = self._segments[-1].meta
        if self._no_ordinal and own is not None and own.history_mode == "paginated" and not self._tail:
            self._refused = self._refused or "it says that it is paginated, but a line has no ordinal"

    def _is_dead(self, place: int) -> bool:
        number = bisect_right(self._dead_starts, place) - 1
        return number >= 0 and place <= self._dead[number][1]

    # ---- facts

    def _facts(self) -> Header:
        own = self._segments[-1].meta
        prompt = None
        for number, item in enumerate(self._generate(AccountBook())):
            if type(item) is Message and not self._tail:
                prompt = parts_text(item.parts)[:1000]
                break
            if number > 200:
                break
        versions: list[str] = []
        for segment in self._segments:
            collect(versions, segment.meta.cli_version if segment.meta else None)
        files = [
            SourceFile(path=str(s.source.path), role="session" if s is self._segments[-1] else "base")
            for s in self._segments
        ]
        parent = None
        if own is not None:
            parent = own.parent_thread_id or own.forked_from_id or (own.history_base and own.history_base.thread_id)
            if own.parent_thread_id or (own.source is not UNSET and bytes(own.source).lstrip()[:1] == b"{"):
                files[-1] = SourceFile(path=files[-1].path, role="subagent")
        return Header(
            harness=Harness.CODEX,
            id=own.id if own else None,
            files=tuple(files),
            format_version=(own.history_mode or "legacy") if own else None,
            versions=tuple(versions),
            cwds=tuple(self._cwds),
            models=tuple(self._models),
            git_branch=own.git.branch if own and own.git else None,
            git_revision=own.git.commit_hash if own and own.git else None,
            title=self._title,
            first_prompt=prompt,
            started=(own.timestamp if own else None) or self._times[0],
            ended=self._times[1],
            parent=parent or None,
            refused=self._refused,
            branches=tuple(self._branch(start, end) for start, end in self._dead[:_BRANCHES_MAX]),
        )

    def _branch(self, start: int, end: int) -> Branch:
        number, line = self._line_of(start)
        return Branch(at=At(number, line, None), from_record=None, records=end - start + 1, lines=(line,))

    def _line_of(self, place: int) -> tuple[int, int]:
        for number in range(len(self._segments) - 1, -1, -1):
            if place > self._segments[number].begin:
                return number, place - self._segments[number].begin + self._shift
        return 0, place

    # ---- second pass

    def items(self) -> Iterator[Item]:
        self._book = AccountBook()
        return self._generate(self._book)

    def _generate(self, book: AccountBook) -> Iterator[Item]:
        pairing = Pairing(
            dangling_is_live=True,
            orphans_are_live=False,
            seconds_are_live=True,
            replies_close=False,
            lookup=self._lookup,
        )
        return pairing.run(self._batches(book))

    def _batches(self, book: AccountBook) -> Iterator[list[Item]]:
        translator = Translator(self._exits)
        if self._gap is not None:
            thread, why = self._gap
            yield [Gap(at=At(0, 1), missing=thread, bridged=False, behind=0, why=why)]
        for number, segment in enumerate(self._segments):
            for block, raw in zip(segment.blocks, segment.source.again_each(segment.blocks), strict=True):
                out: list[Item] = []
                self._block(number, segment, block, segment.lines.decode(block, raw), translator, book, out)
                yield out
            segment.source.verify()

    def _block(
        self,
        number: int,
        segment: _Segment,
        block: Block,
        found: Sequence[Line | Reason],
        translator: Translator,
        book: AccountBook,
        out: list[Item],
    ) -> None:
        used = book.row(Verdict.USED, Reason.ITEM, "response_item")
        line = block.first_line - 1
        for record in found:
            line += 1
            shown = line + self._shift
            if isinstance(record, Reason):
                damaged(book, record, shown, number)
                continue
            kind = record.type
            if record.timestamp is None:
                book.add(Verdict.DAMAGED, Reason.NO_TIMESTAMP, kind, shown, number)
                continue
            if segment.ordinal_end is not None and record.ordinal is not None and record.ordinal >= segment.ordinal_end:
                book.add(Verdict.RECOGNISED, Reason.BEFORE_BASE, kind, shown, number)
                continue
            payload = record.payload
            place = segment.begin + line
            if payload is None:
                verdict, reason = LINES.get(kind, (Verdict.UNKNOWN, Reason.UNKNOWN_SHAPE))
                book.add(verdict, reason, kind, shown, number)
            elif kind == "response_item":
                if self._dead and self._is_dead(place):
                    book.add(Verdict.RECOGNISED, Reason.ROLLED_BACK, f"{kind}/{payload.type}", shown, number)
                    continue
                before = len(out)
                live = place > self._last_compaction
                at = At(number, shown, payload.id)
                why = translator.item(payload, at, record.timestamp, live, place in self._spoken, out)
                if why is None:
                    used.add(shown, number)
                    if not live:
                        self._keep_users(out, before, place)
                else:
                    verdict = (
                        Verdict.UNKNOWN if why in (Reason.UNKNOWN_TYPE, Reason.UNKNOWN_SHAPE) else Verdict.RECOGNISED
                    )
                    book.add(verdict, why, f"{kind}/{payload.type}", shown, number)
            elif kind == "event_msg":
                book.add(*event_verdict(payload.type), f"{kind}/{payload.type}", shown, number)
            elif kind == "compacted":
                if self._is_dead(place):
                    book.add(Verdict.RECOGNISED, Reason.ROLLED_BACK, kind, shown, number)
                else:
                    self._compaction(payload, number, shown, place, record.timestamp, translator, book, out)
                    book.used(kind, shown, number)
            elif kind == "session_meta":
                own = line == 1 and not self._tail
                verdict, reason = (Verdict.USED, Reason.HEADER) if own else (Verdict.RECOGNISED, Reason.FOREIGN_META)
                book.add(verdict, reason, kind, shown, number)
            else:
                if kind == "turn_context" and payload.model is not None:
                    translator.model = payload.model
                book.add(*LINES.get(kind, (Verdict.UNKNOWN, Reason.UNKNOWN_TYPE)), kind, shown, number)

    def _keep_users(self, out: list[Item], begin: int, place: int) -> None:
        """What the person said stays when a compaction has no replacement history."""
        if place <= self._floor:
            return
        for number in range(begin, len(out)):
            item = out[number]
            if type(item) is Message:
                out[number] = msgspec.structs.replace(item, live=True)

    def _compaction(
        self,
        payload: Payload,
        number: int,
        line: int,
        place: int,
        time: str | None,
        translator: Translator,
        book: AccountBook,
        out: list[Item],
    ) -> None:
        last = place == self._last_compaction
        live = place >= self._floor  # The summary is a user text to the client: a later compaction keeps it.
        summary, summary_is_sent = payload.message, payload.replacement_history is UNSET
        put: list[Item] = []
        if payload.replacement_history is not UNSET:
            for part, standin in enumerate(standins(payload.replacement_history)):
                if standin is None:
                    book.change(LossKind.UNKNOWN, Did.LOST, UNKNOWN_STANDIN, At(number, line, None, part))
                    continue
                spoken = standin.role == "user" and mark_of(said_text(standin)) is None
                at = At(number, line, standin.id, part)
                why = translator.item(standin, at, time, live, spoken, put)
                if why in (Reason.UNKNOWN_TYPE, Reason.UNKNOWN_SHAPE):
                    book.change(LossKind.UNKNOWN, Did.LOST, UNKNOWN_STANDIN, at)
                elif why is Reason.VENDOR_TEXT:
                    book.change(LossKind.PRIVILEGED, Did.LEFT_OUT, VENDOR_STANDIN, at)
            found = _summary_among(put, payload.message)
            if found is not None:
                summary, summary_is_sent = parts_text(found.parts), True
                put = [item for item in put if item is not found]
            if not last:
                put = [i if type(i) is Message else msgspec.structs.replace(i, live=False) for i in put]
        out.append(
            Compaction(
                at=At(number, line),
                summary=summary,
                kept_first=True,
                standins=len(put),
                time=time,
                live=live and summary_is_sent,
            )
        )
        out.extend(put)

    def _lookup(self, calls: Mapping[str, Call], at_end: bool) -> Mapping[str, Result | None]:
        """Where outputs are that do not follow their calls: further on (None), or before them."""
        found: dict[str, Result | None] = {}
        begin = max(self._segments[call.at.file].begin + call.at.line - self._shift for call in calls.values())
        translator = Translator(self._exits)
        for number, segment in enumerate(() if at_end else self._segments):
            for block in segment.blocks:
                line = block.first_line - 1
                for record in segment.lines.decode(block, segment.source.again(block)):
                    line += 1
                    payload = record.payload if isinstance(record, Line) else None
                    if payload is None or payload.output is UNSET or payload.call_id not in calls:
                        continue
                    place = segment.begin + line
                    if self._is_dead(place):
                        continue
                    if place > begin:
                        found[payload.call_id or ""] = None
                        continue
                    out: list[Item] = []
                    at = At(number, line + self._shift, payload.id)
                    translator.item(payload, at, None, place > self._last_compaction, False, out)
                    for item in out:
                        if isinstance(item, Result):
                            found.setdefault(item.call, item)
                if len(found) == len(calls):
                    return found
        return found


def said_text(payload: Payload) -> str:
    """The first text of a message, as it is."""
    from hhd.native.codex_records import contents

    parts = contents(payload.content)
    return (parts[0].text or "") if parts else ""


def _summary_among(put: list[Item], message: str | None) -> Note | Message | None:
    """The summary in a replacement history: what is marked as one, else the last text equal to `message`."""
    equal: Message | None = None
    for item in put:
        if isinstance(item, Note) and item.label == SUMMARY_KIND:
            return item
        if isinstance(item, Message) and message and item.parts == (TextPart(message),):
            equal = item
    return equal


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
