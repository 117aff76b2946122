"""The reader of Pi's sessions: versions 1 to 3, a tree of entries whose leaf is the last one in the file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET

from hhd.native.pi_records import KNOWN, Entry, message, name, parts_of
from hhd.native.reading import Lines, Pairing, Progress, Reading, collect, damaged, note_mending, nothing
from hhd.native.source import BOM, Block, ChangedError, Source
from hhd.native.tree import MISSING, ROOT, Tree
from hhd_protocol.transcript import (
    Account,
    AccountBook,
    At,
    Branch,
    Call,
    Compaction,
    Gap,
    Harness,
    Header,
    Item,
    Message,
    Note,
    NoteKind,
    Reason,
    Result,
    SourceFile,
    TextPart,
    Verdict,
    parts_text,
)

_REPLY, _COMPACTION, _TALK, _NO_USAGE = 1, 2, 4, 8
_DEAD, _LIVE, _PAST, _DOUBLE = range(4)
_BRANCHES_MAX = 1000


class PiReading(Reading):
    """One session of Pi."""

    def __init__(self, path: Path, *, progress: Progress = nothing, begin: int = 0) -> None:
        """Open `path`. `begin`: read a tail only, from this byte; lines then count from the end, -1 last."""
        self._path = path
        self._source = Source(path, begin=begin)
        self._progress = progress
        self._tail = begin > 0
        self._head: Entry | None = None
        self._refused: str | None = None
        try:
            self._lines = Lines(self._source, Entry, lenient=True, keeps_bom=False)
            self._tree = Tree()
            self._blocks: list[Block] = []
            self._kept_ids: dict[int, tuple[str | None, int | None]] = {}
            self._models: list[str] = []
            self._title: str | None = None
            self._times: list[str | None] = [None, None]
            self._read_head()
            self._index()
            self._resolve()
            self._book = AccountBook()
            self.header = self._facts()
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()

    @property
    def account(self) -> Account:
        return self._book.close(self._total)

    # ---- first pass

    def _read_head(self) -> None:
        raw = self._source.read(0, min(1 << 20, self._source.stat.st_size)).split(b"\n", 1)[0]
        if raw.startswith(BOM):
            self._refused = "a byte order mark stands before the first line"
            raw = raw[len(BOM) :]
        try:
            head = msgspec.json.decode(raw, type=Entry)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            head = None
        if head is None or head.type != "session" or head.id is None:
            self._refused = self._refused or "the file does not start with a session header"
        else:
            self._head = head
        self._linear = self._head is not None and (self._head.version or 1) < 2

    def _index(self) -> None:
        total = 0
        for block, raw in self._source.blocks():
            self._blocks.append(block)
            self._note(block.first_line, self._lines.decode(block, raw))
            total += block.lines
            self._progress(len(raw))
        self._total = total
        self._shift = -total - 1 if self._tail else 0
        self._tree.close()

    def _note(self, line: int, found: Iterable[Entry | Reason]) -> None:
        tree = self._tree
        for entry in found:
            if not isinstance(entry, Reason) and (own := self._id(entry, line)) is not None:
                kind, body = entry.type, entry.message
                flags = 0
                if kind == "message" and body is not None:
                    flags = _TALK if body.role in ("user", "toolResult", "bashExecution") else 0
                    if body.role == "assistant":
                        flags = _TALK | _REPLY | (_NO_USAGE if body.usage is UNSET else 0)
                        collect(self._models, body.model)
                elif kind == "compaction":
                    flags = _COMPACTION
                    self._kept_ids[len(tree)] = (entry.firstKeptEntryId, entry.firstKeptEntryIndex)
                elif kind == "session_info":
                    self._title = entry.name or self._title
                parent = tree.last if self._linear else entry.parentId
                tree.add(own, parent, line, flags)
                if entry.timestamp is not None:
                    self._times = [self._times[0] or entry.timestamp, entry.timestamp]
            line += 1

    def _id(self, entry: Entry, line: int) -> str | None:
        """The id of an entry of the tree; version 1 has none, so the line stands in."""
        if entry.type == "session" or not entry.type:
            return None
        if entry.id is None:
            return f"line {line}" if self._linear else None
        return entry.id

    # ---- what belongs to the conversation

    def _resolve(self) -> None:
        tree = self._tree
        self._state = state = bytearray(len(tree))
        self._gap: tuple[int, int] | None = None
        self._last_compaction = -1
        for node in tree.duplicates:
            state[node] = _DOUBLE
        order = array("i")
        node = len(tree) - 1
        if node >= 0 and state[node] == _DOUBLE:
            node = tree.find(None)
        mark, bound, has_compaction = _LIVE, -1, False
        while node >= 0:
            if state[node] in (_LIVE, _PAST):
                self._refused = self._refused or "an entry is its own ancestor: the client breaks on it"
                break
            state[node] = mark
            order.append(node)
            if tree.flags[node] & _COMPACTION and not has_compaction:
                has_compaction = True
                self._last_compaction = node
                bound = self._first_kept(node)
                mark = _PAST if bound < 0 or bound == node else _LIVE
            elif node == bound:
                mark = _PAST
            parent = tree.parents[node]
            if parent == MISSING and not self._tail:
                parent = self._before(node)
                self._gap = (node, len(order))
                mark = _PAST
            node = parent
        if has_compaction and bound >= 0 and state[bound] not in (_LIVE, _PAST):
            # It names an entry that is not on the path: only the summary and what follows is sent.
            for node in order:
                if tree.flags[node] & _COMPACTION:
                    break
            for other in order[order.index(node) + 1 :]:
                state[other] = _PAST
        if self._gap is not None:
            self._gap = (self._gap[0], len(order) - self._gap[1])
        if not has_compaction and any(tree.flags[n] & _NO_USAGE for n in order if state[n] == _LIVE):
            self._refused = self._refused or "a reply has no usage: the client breaks on it"
        order.reverse()
        self._order = order
        self._sequential = all(order[i] < order[i + 1] for i in range(len(order) - 1))

    def _first_kept(self, node: int) -> int:
        named, index = self._kept_ids[node]
        if named is not None:
            return self._tree.find(named)
        return index - 1 if index is not None and 0 < index <= node + 1 else MISSING

    def _before(self, node: int) -> int:
        for earlier in range(node - 1, -1, -1):
            if self._state[earlier] == _DEAD:
                return earlier
        return ROOT

    # ---- facts

    def _facts(self) -> Header:
        head = self._head
        prompt = None
        for number, item in enumerate(self._generate(AccountBook())):
            if type(item) is Message and not self._tail:
                prompt = parts_text(item.parts)[:1000]
                break
            if number > 200:
                break
        version = "1" if head is not None and head.version is None else str(head.version) if head else None
        return Header(
            harness=Harness.PI,
            id=head.id if head else None,
            files=(SourceFile(path=str(self._path)),),
            format_version=version,
            cwds=(head.cwd,) if head and head.cwd else (),
            models=tuple(self._models),
            title=self._title,
            first_prompt=prompt,
            started=(head.timestamp if head else None) or self._times[0],
            ended=self._times[1],
            parent=head.parentSession if head else None,
            refused=self._refused,
            branches=self._branches(),
        )

    def _branches(self) -> tuple[Branch, ...]:
        tree, state = self._tree, self._state
        if self._tail or state.find(_DEAD) < 0:
            return ()
        roots: dict[int, int] = {}
        found: list[list[int]] = []
        node = -1
        while (node := state.find(_DEAD, node + 1)) >= 0:
            number = roots.get(tree.parents[node], -1)
            if number < 0:
                if len(found) >= _BRANCHES_MAX:
                    continue
                number = len(found)
                found.append([])
            roots[node] = number
            if tree.flags[node] & _TALK:
                found[number].append(node)
        return tuple(
            Branch(
                at=At(0, tree.lines[nodes[0]] + self._shift, None),
                from_record=None,
                records=len(nodes),
                lines=tuple(tree.lines[n] + self._shift for n in nodes[:256]),
            )
            for nodes in found
            if nodes
        )

    # ---- second pass

    def items(self) -> Iterator[Item]:
        self._book = AccountBook()
        return self._generate(self._book)

    def _generate(self, book: AccountBook) -> Iterator[Item]:
        pairing = Pairing(
            dangling_is_live=True,
            orphans_are_live=True,
            seconds_are_live=True,
            replies_close=False,
            lookup=self._lookup,
        )
        return pairing.run(self._batches(book))

    def _batches(self, book: AccountBook) -> Iterator[list[Item]]:
        tree, state = self._tree, self._state
        node = 0
        later: dict[int, list[Item]] = {}
        for block, raw in zip(self._blocks, self._source.again_each(self._blocks), strict=True):
            out: list[Item] = []
            for index, entry in enumerate(self._lines.decode(block, raw)):
                line = block.first_line + index
                shown = line + self._shift
                if isinstance(entry, Reason):
                    damaged(book, entry, shown)
                    continue
                own = self._id(entry, line)
                if own is None:
                    self._tell_loose(entry, line, book)
                    continue
                if node >= len(tree) or tree.lines[node] != line or tree.hashes[node] != hash(own):
                    raise ChangedError(f"{self._path} was overwritten while it was read; run it again.")
                what = state[node]
                if what in (_LIVE, _PAST):
                    items = out if self._sequential else later.setdefault(node, [])
                    self._entry(entry, node, shown, what == _LIVE, raw, index, book, items)
                elif what == _DOUBLE:
                    book.add(Verdict.RECOGNISED, Reason.DUPLICATE, entry.type, shown)
                elif entry.type in KNOWN:
                    book.add(*KNOWN[entry.type], entry.type, shown)
                else:
                    book.add(Verdict.RECOGNISED, Reason.DEAD_BRANCH, entry.type, shown)
                node += 1
            for index, mended in self._lines.mended.items():
                note_mending(book, mended, At(0, block.first_line + index + self._shift))
            yield out
        for node in self._order if later else ():
            yield later.get(node, [])
        self._source.verify()

    def _tell_loose(self, entry: Entry, line: int, book: AccountBook) -> None:
        shown = line + self._shift
        if entry.type == "session":
            first = line == 1 and not self._tail
            verdict, reason = (Verdict.USED, Reason.HEADER) if first else (Verdict.RECOGNISED, Reason.FOREIGN_META)
            book.add(verdict, reason, "session", shown)
        else:
            book.add(Verdict.UNKNOWN, Reason.UNKNOWN_SHAPE, entry.type, shown)

    def _entry(
        self,
        entry: Entry,
        node: int,
        line: int,
        live: bool,
        raw: memoryview,
        index: int,
        book: AccountBook,
        out: list[Item],
    ) -> None:
        before = len(out)
        if self._gap is not None and self._gap[0] == node:
            at = At(0, line, entry.id)
            why = "the client starts here"
            out.append(Gap(at=at, missing=entry.parentId or "", bridged=False, behind=self._gap[1], why=why))
        at = At(0, line, entry.id)
        kind = entry.type
        if kind == "message" and entry.message is not None:
            why_not = message(entry, entry.message, at, live, out)
        elif kind == "compaction":
            why_not = None
            out.append(
                Compaction(
                    at=at,
                    summary=entry.summary or "",
                    tokens_before=entry.tokensBefore,
                    time=entry.timestamp,
                    live=live and node == self._last_compaction,
                )
            )
        elif kind in ("branch_summary", "custom_message"):
            why_not = None
            custom = kind == "custom_message"
            out.append(
                Note(
                    at=at,
                    kind=NoteKind.CUSTOM if custom else NoteKind.BRANCH_SUMMARY,
                    parts=parts_of(entry.content) if custom else (TextPart(entry.summary or ""),),
                    label=entry.customType if custom else None,
                    about=None if custom else entry.fromId,
                    time=entry.timestamp,
                    live=live,
                )
            )
        else:
            verdict, reason = KNOWN.get(kind, (Verdict.UNKNOWN, Reason.UNKNOWN_TYPE))
            told = f"custom/{entry.customType}" if kind == "custom" else kind
            book.add(verdict, reason, told, line)
            return
        if len(out) > before:
            book.used(name(entry), line)
        else:
            reason = why_not or Reason.EMPTY
            verdict = Verdict.UNKNOWN if reason is Reason.UNKNOWN_SHAPE else Verdict.RECOGNISED
            book.add(verdict, reason, name(entry), line)

    def _lookup(self, calls: Mapping[str, Call], at_end: bool) -> Mapping[str, Result | None]:
        """Which of `calls` have a result further on; reads the file once more."""
        found: dict[str, Result | None] = {}
        begin = max(call.at.line - self._shift for call in calls.values())
        node = 0
        for block in () if at_end else self._blocks:
            for index, entry in enumerate(self._lines.decode(block, self._source.again(block))):
                line = block.first_line + index
                if node >= len(self._tree) or self._tree.lines[node] != line:
                    continue
                body = entry.message if isinstance(entry, Entry) else None
                on_path = self._state[node] in (_LIVE, _PAST) and (line > begin or not self._sequential)
                if body is not None and body.toolCallId in calls and on_path:
                    found[body.toolCallId or ""] = None
                node += 1
        return found
