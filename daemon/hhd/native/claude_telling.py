"""The items of a Claude Code session, in the second pass over its file, and what became of every record of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hhd.native.claude_items import Translator
from hhd.native.claude_lookup import Lookup
from hhd.native.claude_path import DEAD, DOUBLE, HELPER, LIVE, PAST, Conversation
from hhd.native.claude_ready import Ready, attachment, loose
from hhd.native.claude_records import Head, Record
from hhd.native.claude_shape import REPLY, TALK, Shape
from hhd.native.reading import Lines, damaged, note_mending
from hhd.native.source import ChangedError, Source
from hhd_protocol.transcript import (
    AccountBook,
    At,
    Call,
    Compaction,
    Gap,
    Item,
    Note,
    NoteKind,
    Reason,
    Result,
    TextPart,
    Verdict,
)

_CHAINED = frozenset({"user", "assistant", "attachment", "system", "progress"})


@dataclass(frozen=True, kw_only=True)
class Session:
    """What the first pass found, for as many second ones as are asked for.

    `ready`: by block, what is given if all its records are on the path. `shift`: from lines of the tree to lines as
    they are told. `tail`: only the end of the file is read.
    """

    path: Path
    source: Source
    records: Lines[Record]
    shape: Shape
    conversation: Conversation
    lookup: Lookup
    ready: Sequence[Ready | None]
    translator: Callable[[], Translator]
    shift: int
    tail: bool


class Telling:
    """One second pass."""

    def __init__(self, session: Session, book: AccountBook) -> None:
        self._session, self._book = session, book
        self._source, self._records, self._lookup = session.source, session.records, session.lookup
        self._tree, self._state, self._gaps = session.shape.tree, session.conversation.state, session.conversation.gaps
        self._shift = session.shift
        self._queued = frozenset(session.shape.queue)
        self._boundary: Record | None = None
        """A compaction whose summary did not come yet."""
        self._boundary_at = 0

    def items(self) -> Iterator[list[Item]]:
        """The items in order, some at a time. Raises ChangedError if the file was cut or overwritten meanwhile."""
        return self._in_file_order() if self._session.conversation.sequential else self._in_path_order()

    def _in_file_order(self) -> Iterator[list[Item]]:
        book, translator = self._book, self._session.translator()
        assistant, user = translator.assistant, translator.user
        state, lines, hashes = self._state, self._tree.lines, self._tree.hashes
        gaps, shift = self._gaps, self._shift
        replies, requests = (book.row(Verdict.USED, Reason.ITEM, kind) for kind in ("assistant", "user"))
        node, nodes = 0, len(lines)
        whole = [ready if self._stands(ready) else None for ready in self._session.ready]
        reread = self._source.again_each(
            block for block, ready in zip(self._lookup.blocks, whole, strict=True) if not ready
        )
        for block, ready in zip(self._lookup.blocks, whole, strict=True):
            if ready is not None:
                yield from self._give_ready(ready, book)
                node = ready.end
                continue
            out: list[Item] = []
            kept = self._records.decode(block, next(reread))
            line = block.first_line
            for rec in kept:
                if isinstance(rec, Reason):
                    damaged(book, rec, line + shift)
                    if node < nodes and lines[node] == line:
                        if rec is not Reason.TOO_DEEP:
                            raise ChangedError(f"{self._session.path} was overwritten while it was read; run it again.")
                        node += 1
                    line += 1
                    continue
                own = rec.uuid
                if own is None:
                    self._tell_loose(rec, line, book)
                    line += 1
                    continue
                if node >= nodes or lines[node] != line or hashes[node] != hash(own):
                    raise ChangedError(f"{self._session.path} was overwritten while it was read; run it again.")
                what = state[node]
                kind = rec.type
                if (what == LIVE or what == PAST) and (kind == "assistant" or kind == "user"):  # noqa: SIM109
                    before = len(out)
                    if node in gaps or self._boundary is not None:
                        self._emit(translator, rec, node, line, out)
                    elif kind == "assistant":
                        assistant(rec, line, what == LIVE, out)
                    else:
                        user(rec, line, what == LIVE, out)
                    if len(out) == before:
                        book.add(Verdict.RECOGNISED, Reason.EMPTY, kind, line + shift)
                    elif kind == "assistant":
                        replies.add(line + shift)
                    else:
                        requests.add(line + shift)
                else:
                    self._tell_node(rec, node, line, book, out)
                node += 1
                line += 1
            for index, mended in self._records.mended.items():
                note_mending(book, mended, At(0, block.first_line + index + shift))
            if out:
                yield out
        yield self._close_boundary()
        self._source.verify()

    def _stands(self, ready: Ready | None) -> bool:
        """Whether all records of a block made ready are on the path, and nothing in it needs more."""
        if ready is None or any(ready.begin <= node < ready.end for node in self._gaps):
            return False
        return self._state.count(LIVE, ready.begin, ready.end) == ready.end - ready.begin

    def _give_ready(self, ready: Ready, book: AccountBook) -> Iterator[list[Item]]:
        book.extend(ready.book)
        for line in ready.queue:
            reason = Reason.QUEUED if line in self._queued else Reason.BOOKKEEPING
            book.add(Verdict.RECOGNISED, reason, "queue-operation", line)
        if self._boundary is not None:
            yield self._close_boundary()
        yield ready.items

    def _in_path_order(self) -> Iterator[list[Item]]:
        """The same for a file whose records do not stand in the order of the conversation (never written natively)."""
        book, translator = self._book, self._session.translator()
        out: list[Item] = []
        node = 0
        for block in self._lookup.blocks:
            kept = self._records.decode(block, self._source.again(block))
            for index, rec in enumerate(kept):
                line = block.first_line + index
                if isinstance(rec, Reason):
                    damaged(book, rec, line + self._shift)
                elif rec.uuid is None:
                    self._tell_loose(rec, line, book)
                elif self._state[node] in (LIVE, PAST) and rec.type in ("user", "assistant"):
                    book.used(rec.type, line + self._shift)
                else:
                    self._tell_node(rec, node, line, book, [])
                if node < len(self._tree) and self._tree.lines[node] == line:
                    node += 1
            for index, mended in self._records.mended.items():
                note_mending(book, mended, At(0, block.first_line + index + self._shift))
        self._boundary = None
        for node in self._session.conversation.order:
            found = self._lookup.fetch(node)
            if found is None:
                continue
            out = []
            if found.type in ("user", "assistant"):
                self._emit(translator, found, node, self._tree.lines[node], out)
            else:
                self._tell_node(found, node, self._tree.lines[node], AccountBook(), out)
            yield out
        yield self._close_boundary()
        self._source.verify()

    def _emit(self, translator: Translator, rec: Record, node: int, line: int, out: list[Item]) -> None:
        """Append the items of one record of the path."""
        live = self._state[node] == LIVE
        if node in self._gaps and not self._session.tail:
            bridged, behind, missing = self._gaps[node]
            why = "the client goes on: they are 5 seconds apart at most" if bridged else "the client starts here"
            at = At(0, line + self._shift, rec.uuid)
            out.append(Gap(at=at, missing=missing, bridged=bridged, behind=behind, why=why))
        if self._boundary is not None:
            if rec.isCompactSummary:
                self._compaction(self._boundary, rec, line, live, translator, out)
                return
            out.extend(self._close_boundary())
        if rec.type == "assistant":
            translator.assistant(rec, line, live, out)
        else:
            translator.user(rec, line, live, out)

    def _tell_node(self, rec: Record, node: int, line: int, book: AccountBook, out: list[Item]) -> None:
        """Account for a record of the tree that is not an item; remember a boundary of the path."""
        what = self._state[node]
        kind = rec.type
        place = line + self._shift
        if what == DOUBLE:
            book.add(Verdict.RECOGNISED, Reason.DUPLICATE, kind, place)
        elif kind == "attachment":
            book.add(*attachment(rec.attachment.type if rec.attachment else ""), place)
        elif kind == "system" and rec.subtype == "compact_boundary" and what in (LIVE, PAST):
            book.used("system/compact_boundary", place)
            out.extend(self._close_boundary())
            self._boundary = rec
            self._boundary_at = place
        elif kind == "system" and rec.subtype == "local_command" and rec.content and what in (LIVE, PAST):
            book.used("system/local_command", place)
            out.extend(self._close_boundary())
            parts = (TextPart(rec.content),)
            note = NoteKind.LOCAL_COMMAND
            at = At(0, place, rec.uuid)
            live = what == LIVE
            out.append(Note(at=at, kind=note, parts=parts, label="local_command", time=rec.timestamp, live=live))
        elif kind == "system":
            book.add(Verdict.RECOGNISED, Reason.DISPLAY, f"system/{rec.subtype}", place)
        elif kind not in _CHAINED:
            book.add(*loose(kind), place)
        elif kind == "progress":
            book.add(Verdict.RECOGNISED, Reason.DISPLAY, kind, place)
        elif what == HELPER:
            book.add(Verdict.RECOGNISED, Reason.SIDECHAIN, kind, place)
        else:
            book.add(Verdict.RECOGNISED, Reason.DEAD_BRANCH, kind, place)

    def _compaction(
        self, boundary: Head, rec: Record, line: int, live: bool, translator: Translator, out: list[Item]
    ) -> None:
        meta = boundary.compactMetadata
        self._boundary = None
        out.append(
            Compaction(
                at=At(0, line + self._shift, rec.uuid),
                summary=translator.summary(rec),
                trigger=meta.trigger if meta else None,
                tokens_before=meta.preTokens if meta else None,
                time=rec.timestamp,
                live=live,
            )
        )

    def _close_boundary(self) -> list[Item]:
        """The compaction of a boundary that no summary follows."""
        boundary = self._boundary
        if boundary is None:
            return []
        self._boundary = None
        meta = boundary.compactMetadata
        at = At(0, self._boundary_at, boundary.uuid)
        return [Compaction(at=at, summary=None, trigger=meta.trigger if meta else None, live=False)]

    def _tell_loose(self, rec: Record, line: int, book: AccountBook) -> None:
        kind = rec.type
        if kind == "queue-operation":
            reason = Reason.QUEUED if line in self._queued else Reason.BOOKKEEPING
            book.add(Verdict.RECOGNISED, reason, kind, line + self._shift)
        elif kind in ("user", "assistant"):
            book.add(Verdict.UNKNOWN, Reason.UNKNOWN_SHAPE, kind, line + self._shift)
        else:
            book.add(*loose(kind), line + self._shift)

    def results(self, calls: Mapping[str, Call], at_end: bool) -> Mapping[str, Result | None]:
        """Where results are that do not follow their calls: further on, before them, or off the path.

        The client finds a result by the id of its call wherever it stands in the file. This reads the file once more,
        except at the end, where only records off the path are looked at.
        """
        found: dict[str, Result | None] = {}
        begin = max(call.at.line - self._shift for call in calls.values())
        out: list[Item] = []
        translator = self._session.translator()
        for node, flags in enumerate(self._tree.flags):
            what = self._state[node]
            if flags & (TALK | REPLY) != TALK or what in (HELPER, DOUBLE) or (at_end and what != DEAD):
                continue
            rec = self._lookup.fetch(node)
            content = rec.message.content if rec is not None and rec.message is not None else None
            if rec is None or not isinstance(content, list):
                continue
            named = {piece.tool_use_id for piece in content if piece.type == "tool_result"} & calls.keys()
            if not named - found.keys():
                continue
            line = self._tree.lines[node]
            if what != DEAD and line > begin:
                found.update(dict.fromkeys(name for name in named if name is not None))
                continue
            out.clear()
            translator.user(rec, line, True, out)
            for item in out:
                if isinstance(item, Result) and item.call in named:
                    found.setdefault(item.call, item)
        return found
