"""The reader of Codex's rollouts: bases of forks, rollbacks and compactions applied as the client does on resume.

Every text is in a rollout twice, as an item for the model and as an event for the screen. Conversation comes from the
items; events say which user items the person wrote, how commands ended, and where turns begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from hhd.native.codex_files import Segment, Thread
from hhd.native.codex_items import Translator
from hhd.native.codex_records import (
    LINES,
    SUMMARY_KIND,
    Line,
    Payload,
    event_verdict,
    mark_of,
    standins,
)
from hhd.native.codex_shape import Shape
from hhd.native.reading import Pairing, Progress, Reading, collect, damaged, nothing
from hhd.native.source import Block
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

UNKNOWN_STANDIN = "an item that a compaction put in, of a kind that is not known here"
VENDOR_STANDIN = "system, developer or client text that a compaction put in"

_BRANCHES_MAX = 1000


class CodexReading(Reading):
    """One thread of Codex."""

    def __init__(self, path: Path, *, progress: Progress = nothing, begin: int = 0) -> None:
        """Open `path`. `begin`: read a tail only, from this byte; lines then count from the end, -1 last."""
        self._tail = begin > 0
        self._thread = Thread(path, begin=begin)
        self._segments = self._thread.segments
        try:
            self._shape = Shape(self._thread, tail=self._tail, progress=progress)
            self._shift = -self._shape.total - 1 if self._tail else 0
            self._book = AccountBook()
            self.header = self._facts()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._thread.close()

    @property
    def account(self) -> Account:
        return self._book.close(self._shape.total)

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
            cwds=tuple(self._shape.cwds),
            models=tuple(self._shape.models),
            git_branch=own.git.branch if own and own.git else None,
            git_revision=own.git.commit_hash if own and own.git else None,
            title=self._shape.title,
            first_prompt=prompt,
            started=(own.timestamp if own else None) or self._shape.times[0],
            ended=self._shape.times[1],
            parent=parent or None,
            refused=self._thread.refused,
            branches=tuple(self._branch(start, end) for start, end in self._shape.dead[:_BRANCHES_MAX]),
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
        translator = Translator(self._shape.exits)
        if self._thread.gap is not None:
            thread, why = self._thread.gap
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
        segment: Segment,
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
                if self._shape.dead and self._shape.is_dead(place):
                    book.add(Verdict.RECOGNISED, Reason.ROLLED_BACK, f"{kind}/{payload.type}", shown, number)
                    continue
                before = len(out)
                live = place > self._shape.last_compaction
                at = At(number, shown, payload.id)
                why = translator.item(payload, at, record.timestamp, live, place in self._shape.spoken, out)
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
                if self._shape.is_dead(place):
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
        if place <= self._shape.floor:
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
        last = place == self._shape.last_compaction
        live = place >= self._shape.floor  # The summary is a user text to the client: a later compaction keeps it.
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
        translator = Translator(self._shape.exits)
        for number, segment in enumerate(() if at_end else self._segments):
            for block in segment.blocks:
                line = block.first_line - 1
                for record in segment.lines.decode(block, segment.source.again(block)):
                    line += 1
                    payload = record.payload if isinstance(record, Line) else None
                    if payload is None or payload.output is UNSET or payload.call_id not in calls:
                        continue
                    place = segment.begin + line
                    if self._shape.is_dead(place):
                        continue
                    if place > begin:
                        found[payload.call_id or ""] = None
                        continue
                    out: list[Item] = []
                    at = At(number, line + self._shift, payload.id)
                    translator.item(payload, at, None, place > self._shape.last_compaction, False, out)
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
