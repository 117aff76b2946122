"""The reader of Claude Code's sessions: what `claude --resume` would send, and what lies beside it.

The rules (leaf, parallel calls, gaps, duplicates, compaction) are those of the client, not of its SDK, where the two
differ: the SDK's reader ignores `last-prompt.leafUuid`, loses the record behind a byte order mark and bridges no gaps.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec

from hhd.native.claude_records import LOOSE, Head, Record, Translator
from hhd.native.mend import Mended, mend
from hhd.native.reading import (
    RETAINED_BYTES_MAX,
    RETAINED_WHOLE_BYTES_MAX,
    Lines,
    Pairing,
    Progress,
    Reading,
    collect,
    damaged,
    note_mending,
    nothing,
)
from hhd.native.source import Block, ChangedError, Source
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
    Row,
    SourceFile,
    Subagent,
    TextPart,
    Verdict,
)

_TALK, _SIDE, _BOUNDARY, _REPLY, _ATTACHED = 1, 2, 4, 8, 16
"""Flags of a node."""

_DEAD, _LIVE, _PAST, _HELPER, _DOUBLE = range(5)
"""What became of a node."""

_BRIDGE_SECONDS = 5.0
_BRANCHES_MAX = 1000
_QUEUED_MAX = 10_000
_SIDE_FILES_MAX = 10_000

_CHAINED = frozenset({"user", "assistant", "attachment", "system", "progress"})


@dataclass(slots=True)
class _Ready:
    """A block as it will be given if all its records turn out to be on the path."""

    items: list[Item]
    book: AccountBook
    queue: list[int]
    begin: int
    end: int
    """Its nodes: from `begin`, before `end`."""


def _attachment(name: str) -> tuple[Verdict, Reason, str]:
    reason = Reason.QUEUED if name == "queued_command" else Reason.VENDOR_TEXT
    return Verdict.RECOGNISED, reason, f"attachment/{name}"


class ClaudeReading(Reading):
    """One session of Claude Code, or one helper's record."""

    def __init__(
        self,
        path: Path,
        *,
        progress: Progress = nothing,
        begin: int = 0,
        leaf: str | None = None,
        helper: str | None = None,
    ) -> None:
        """Open `path`.

        `begin`: read a tail only, from this byte (a line's begin); lines then count from the end, -1 last.
        `leaf`: read the line of conversation that ends at this record. `helper`: read the conversation of helpers.
        """
        self._source = Source(path, begin=begin)
        try:
            self._path = path
            self._progress = progress
            self._tail = begin > 0
            self._leaf = leaf
            self._tree = Tree()
            self._blocks: list[tuple[Block, _Ready | None]] = []
            self._heads = Lines(self._source, Head, lenient=True, keeps_bom=False)
            self._records = Lines(self._source, Record, lenient=True, keeps_bom=False)
            self._boundaries: dict[int, Head] = {}
            self._links: dict[int, int] = {}
            self._agents: dict[str, int] = {}
            self._sides = 0
            self._boundary: Record | None = None
            self._boundary_at = 0
            self._fetched: tuple[int, Sequence[Record | Reason]] = (-1, ())
            self._queue: list[int] = []
            self._prompt_leaf: str | None = None
            self._titles: dict[str, str] = {}
            self._cwds: list[str] = []
            self._versions: list[str] = []
            self._models: list[str] = []
            self._shift = 0
            self._side_files = _side_files(path)
            self._index()
            self._resolve(helper)
            self._book = AccountBook()
            self.header = self._facts()
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()

    @property
    def plain(self) -> bool:
        return not self._boundaries and not self._gaps

    @property
    def account(self) -> Account:
        return self._book.close(self._lines)

    # ---- first pass: the shape

    def _index(self) -> None:
        lines = 0
        translator = self._translator()
        whole = self._source.size <= RETAINED_WHOLE_BYTES_MAX
        room = 0 if self._tail else RETAINED_WHOLE_BYTES_MAX if whole else RETAINED_BYTES_MAX
        for block, raw in self._source.blocks():
            self._blocks.append((block, None))
            if block.size <= room:
                begin = len(self._tree)
                records = self._records.decode(block, raw)
                self._note(block.first_line, records)
                ready = None if self._records.mended else self._make_ready(translator, block, records, begin)
                if ready is not None:
                    self._blocks[-1] = (block, ready)
                    room -= block.size
            else:
                self._note(block.first_line, self._heads.decode(block, raw))
            lines += block.lines
            self._progress(len(raw))
        self._lines = lines
        self._shift = -lines - 1 if self._tail else 0
        self._tree.close()

    def _make_ready(
        self, translator: Translator, block: Block, records: Sequence[Record | Reason], begin: int
    ) -> _Ready | None:
        """The items of a block that is likely to be sent whole; None if it holds anything but plain conversation."""
        book = AccountBook()
        items: list[Item] = []
        queue: list[int] = []
        replies, requests = (book.row(Verdict.USED, Reason.ITEM, kind) for kind in ("assistant", "user"))
        attached: dict[str, Row] = {}
        line = block.first_line
        for rec in records:
            if isinstance(rec, Reason) or rec.isSidechain or rec.isCompactSummary:
                return None
            kind = rec.type
            if rec.uuid is None:
                if kind == "queue-operation":
                    queue.append(line)
                elif kind in ("user", "assistant"):
                    return None
                else:
                    self._tell_loose(rec, line, book)
            elif kind == "assistant":
                before = len(items)
                translator.assistant(rec, line, True, items)
                if len(items) > before:
                    replies.add(line)
                else:
                    book.add(Verdict.RECOGNISED, Reason.EMPTY, kind, line)
            elif kind == "user":
                before = len(items)
                translator.user(rec, line, True, items)
                if len(items) > before:
                    requests.add(line)
                else:
                    book.add(Verdict.RECOGNISED, Reason.EMPTY, kind, line)
            elif kind == "attachment":
                name = rec.attachment.type if rec.attachment else ""
                row = attached.get(name)
                if row is None:
                    row = attached[name] = book.row(*_attachment(name))
                row.add(line)
            else:
                return None
            line += 1
        return _Ready(items=items, book=book, queue=queue, begin=begin, end=len(self._tree))

    def _note(self, line: int, found: Iterable[Head | Reason]) -> None:
        tree = self._tree
        note_parent, note_hash = tree.parents.append, tree.hashes.append
        note_line, note_flags = tree.lines.append, tree.flags.append
        node = len(tree)
        last = tree.last
        cwd = version = None
        for head in found:
            if isinstance(head, Reason):
                line += 1
                continue
            own = head.uuid
            if own is None:
                self._loose(head, line)
                line += 1
                continue
            kind = head.type
            parent = head.parentUuid
            if kind == "assistant":
                flags = _TALK | _REPLY
            elif kind == "user":
                flags = _TALK
                source = head.sourceToolAssistantUUID
                if source is not None and source != parent:
                    self._links[node] = hash(source)
            else:
                flags = self._flags(head, node)
            if head.isSidechain:
                flags |= _SIDE
                self._helper_record(head)
            # This is `Tree.add`, written out: it runs once a record.
            if parent == last and parent is not None and flags != _BOUNDARY:
                note_parent(node - 1)
            else:
                tree.branch(parent)
            note_hash(hash(own))
            note_line(line)
            note_flags(flags)
            last = own
            node += 1
            if head.cwd != cwd:
                cwd = head.cwd
                collect(self._cwds, cwd)
            if head.version != version:
                version = head.version
                collect(self._versions, version)
            line += 1
        tree.last = last

    def _flags(self, head: Head, node: int) -> int:
        if head.type == "attachment":
            return _ATTACHED
        if head.type == "system" and head.subtype == "compact_boundary":
            self._boundaries[node] = head
            return _BOUNDARY
        return 0

    def _helper_record(self, head: Head) -> None:
        self._sides += 1
        if head.agentId is not None and len(self._agents) < _BRANCHES_MAX:
            self._agents[head.agentId] = self._agents.get(head.agentId, 0) + 1

    def _loose(self, head: Head, line: int) -> None:
        kind = head.type
        if kind == "last-prompt":
            if head.leafUuid is not None:
                self._prompt_leaf = head.leafUuid
        elif kind == "queue-operation":
            if head.operation == "enqueue":
                if len(self._queue) < _QUEUED_MAX:
                    self._queue.append(line)
            elif self._queue:
                self._queue.pop(0)
        elif title := (head.customTitle if kind == "custom-title" else head.aiTitle if kind == "ai-title" else None):
            self._titles[kind] = title
        elif kind == "summary" and head.summary:
            self._titles[kind] = head.summary

    # ---- what belongs to the conversation

    def _resolve(self, helper: str | None) -> None:
        tree = self._tree
        self._state = state = bytearray(len(tree))
        self._gaps: dict[int, tuple[bool, int, str]] = {}
        for node in tree.duplicates:
            state[node] = _DOUBLE
        talk = [n for n in (self._last(side=False), self._last(side=True)) if n >= 0]
        self._is_helper = helper is not None or (bool(talk) and self._last(side=False) < 0)
        if self._sides and not self._is_helper:
            for node, flags in enumerate(tree.flags):
                if flags & _SIDE and not state[node]:
                    state[node] = _HELPER
        leaf = self._choose_leaf()
        order = self._walk(leaf)
        order.reverse()
        self._siblings(order)
        self._order = order
        self._sequential = all(map(operator.lt, order, islice(order, 1, None)))

    def _last(self, *, side: bool) -> int:
        tree = self._tree
        wanted = _TALK | (_SIDE if side else 0)
        if not tree.duplicates:
            for node in range(len(tree) - 1, -1, -1):
                if tree.flags[node] & (_TALK | _SIDE) == wanted:
                    return node
            return -1
        nodes = (n for n, f in enumerate(tree.flags) if f & (_TALK | _SIDE) == wanted and n not in tree.duplicates)
        return max(nodes, key=tree.place, default=-1)

    def _last_tip(self, last: int) -> int:
        """The last record that no other follows; in the order of a native file that is the last one."""
        tree = self._tree
        followed = set(tree.parents)
        side = _SIDE if self._is_helper else 0
        tips = (n for n, f in enumerate(tree.flags) if n not in followed and f & _SIDE == side and not self._state[n])
        tip = max(tips, key=tree.place, default=last)
        return next((node for node in tree.up(tip) if tree.flags[node] & _TALK), last)

    def _choose_leaf(self) -> int:
        tree = self._tree
        if self._leaf is not None:
            return tree.find(self._leaf)
        last = self._last(side=self._is_helper)
        if tree.has_forward():
            last = self._last_tip(last)
        named = MISSING if self._is_helper else tree.find(self._prompt_leaf)
        if named < 0 or last < 0 or named == last or tree.flags[named] & _SIDE:
            return last
        if tree.is_above(named, last) or tree.is_above(last, named):
            return last
        return named

    def _walk(self, leaf: int) -> array[int]:
        """Mark what is sent and what came before it; return the nodes from the leaf to the root."""
        tree, state = self._tree, self._state
        parents, flags = tree.parents, tree.flags
        order = array("i")
        last_boundary = max((b for b in self._boundaries if not flags[b] & _SIDE), default=-1)
        kept = self._kept(last_boundary)
        node, mark = leaf, _LIVE
        while node >= 0:
            if state[node] and state[node] != _HELPER:
                break  # A circle; the client breaks it silently.
            if not kept:
                begin = tree.run_of(node)
                fresh = node + 1 - begin
                if fresh > 1 and state.count(_DEAD, begin, node + 1) == fresh:
                    # A whole run at once; its first node may have more to it and goes the long way.
                    state[begin + 1 : node + 1] = bytes((mark,)) * (fresh - 1)
                    order.extend(range(node, begin, -1))
                    node = begin
            state[node] = _LIVE if mark == _LIVE or node in kept else _PAST
            order.append(node)
            if node in kept and mark == _LIVE and last_boundary >= 0:
                # The record after a compaction may hang on a kept record: its history goes on at the summary.
                order.pop()
                state[node] = _DEAD
                node = self._anchor(last_boundary)
                continue
            parent = parents[node]
            if flags[node] & _BOUNDARY:
                mark = _PAST
                if parent < 0:
                    parent = tree.find(self._boundaries[node].logicalParentUuid)
                if parent < 0:
                    parent = self._before(node)
                if node == last_boundary and kept:
                    parent = self._after_kept(parent, kept)
            elif parent == MISSING:
                parent = self._before(node)
                if parent >= 0:
                    bridged = self._near(parent, node)
                    if not bridged:
                        mark = _PAST
                    self._gaps[node] = (bridged, len(order), self._missing(node))
                else:
                    self._gaps[node] = (False, len(order), self._missing(node))
            node = parent
        for gap, (bridged, place, missing) in list(self._gaps.items()):
            self._gaps[gap] = (bridged, len(order) - place, missing)
        return order

    def _kept(self, boundary: int) -> frozenset[int]:
        meta = self._boundaries[boundary].compactMetadata if boundary >= 0 else None
        if meta is None or meta.preservedMessages is None:
            return frozenset()
        nodes = (self._tree.find(own) for own in meta.preservedMessages.uuids[:10_000])
        return frozenset(node for node in nodes if node >= 0 and self._tree.lines[node] < self._tree.lines[boundary])

    def _after_kept(self, parent: int, kept: frozenset[int]) -> int:
        """Where history before a compaction goes on: at the kept records if they are not above `parent` anyway."""
        if any(node in kept for _, node in zip(range(100_000), self._tree.up(parent), strict=False)):
            return parent
        return max(kept)

    def _anchor(self, boundary: int) -> int:
        meta = self._boundaries[boundary].compactMetadata
        named = meta.preservedMessages.anchorUuid if meta and meta.preservedMessages else None
        found = self._tree.find(named)
        return found if found >= 0 and self._state[found] == _DEAD else boundary

    def _before(self, node: int) -> int:
        """The record of the main line that stands before `node` in the file, or ROOT."""
        if self._tail:
            return ROOT
        flags = self._tree.flags
        side = _SIDE if self._is_helper else 0
        for earlier in range(node - 1, -1, -1):
            if flags[earlier] & _SIDE == side and self._state[earlier] == _DEAD:
                return earlier
        return ROOT

    def _near(self, earlier: int, later: int) -> bool:
        """Whether the client would bridge the gap between two records: the earlier is older, by at most 5 seconds."""
        from datetime import datetime

        times = []
        for node in (earlier, later):
            rec = self._fetch(node)
            try:
                times.append(datetime.fromisoformat((rec.timestamp or "") if rec else ""))
            except ValueError:
                return False
        if (times[0].tzinfo is None) != (times[1].tzinfo is None):
            return False
        return 0 <= (times[1] - times[0]).total_seconds() <= _BRIDGE_SECONDS

    def _missing(self, node: int) -> str:
        rec = self._fetch(node)
        return (rec.parentUuid if rec else None) or ""

    def _siblings(self, order: array[int]) -> None:
        """Add to the path the results of parallel calls, which hang beside it."""
        tree, state = self._tree, self._state
        beside: dict[int, list[int]] = {}
        links: dict[int, int] = {}
        if self._links:
            wanted = set(self._links.values())
            known = {key: node for node, key in enumerate(tree.hashes) if key in wanted}
            links = {node: known[key] for node, key in self._links.items() if key in known}
        node = -1
        while (node := state.find(_DEAD, node + 1)) >= 0:
            if tree.flags[node] & (_TALK | _REPLY) != _TALK:
                continue
            for parent in (links.get(node, MISSING), tree.parents[node]):
                if parent >= 0 and state[parent] in (_LIVE, _PAST) and tree.flags[parent] & _REPLY:
                    if self._has_result(node) and self._reply(parent) is not None:
                        beside.setdefault(parent, []).append(node)
                    break
        if not beside:
            return
        path = order[:]
        del order[:]
        waiting: list[int] = []
        reply: str | None = None
        for node in path:
            if waiting and not (tree.flags[node] & _REPLY and self._reply(node) == reply):
                # The results go after the group of calls: the records of one reply.
                if not tree.flags[node] & _REPLY and self._has_result(node):
                    before = [n for n in waiting if tree.lines[n] < tree.lines[node]]
                    order.extend(before)
                    waiting = waiting[len(before) :]
                else:
                    order.extend(waiting)
                    waiting = []
            order.append(node)
            if node in beside:
                reply = self._reply(node)
                for result in beside[node]:
                    state[result] = state[node]
                waiting = sorted([*waiting, *beside[node]], key=lambda n: tree.lines[n])
        order.extend(waiting)

    def _reply(self, node: int) -> str | None:
        rec = self._fetch(node)
        return rec.message.id if rec is not None and rec.message is not None else None

    def _has_result(self, node: int) -> bool:
        rec = self._fetch(node)
        content = rec.message.content if rec and rec.message else None
        return isinstance(content, list) and any(piece.type == "tool_result" for piece in content)

    # ---- single records

    def _block_of(self, line: int) -> int:
        low, high = 0, len(self._blocks)
        while high - low > 1:
            middle = (low + high) // 2
            if self._blocks[middle][0].first_line <= line:
                low = middle
            else:
                high = middle
        return low

    def _fetch(self, node: int) -> Record | None:
        """One record, wherever it is."""
        line = self._tree.lines[node]
        number = self._block_of(line)
        block = self._blocks[number][0]
        if self._fetched[0] != number:
            self._fetched = (number, self._records.decode(block, self._source.again(block)))
        kept = self._fetched[1]
        found = kept[line - block.first_line]
        return found if isinstance(found, Record) else None

    # ---- facts

    def _facts(self) -> Header:
        tree = self._tree
        first = next((rec for rec in self._ends(range(len(tree))) if rec.timestamp), None)
        last = next((rec for rec in self._ends(range(len(tree) - 1, -1, -1)) if rec.timestamp), None)
        branches = self._branches()
        title = next((self._titles[k] for k in ("custom-title", "ai-title", "summary") if k in self._titles), None)
        prompt: str | None = None
        for number, item in enumerate(self._generate(AccountBook())):
            if type(item) is Message and not self._tail:
                prompt = "".join(part.text for part in item.parts if isinstance(part, TextPart))[:1000]
                break
            if number > 200:
                break
        for rec in filter(None, (first, last)):
            if rec.message:
                collect(self._models, rec.message.model)
        refused = None
        if self._is_helper:
            refused = "all its records are a helper's: the client neither lists nor resumes it"
        elif self._last(side=False) < 0:
            refused = "it has no record of a conversation"
        return Header(
            harness=Harness.CLAUDE,
            id=self._path.stem,
            files=(SourceFile(path=str(self._path), role="subagent" if self._is_helper else "session"),),
            versions=tuple(self._versions),
            cwds=tuple(self._cwds),
            models=tuple(self._models),
            git_branch=last.gitBranch if last else None,
            title=title,
            first_prompt=prompt,
            started=first.timestamp if first else None,
            ended=last.timestamp if last else None,
            refused=refused,
            branches=branches,
            subagents=self._helpers(),
            side_files=self._side_files,
        )

    def _ends(self, nodes: Iterable[int]) -> Iterator[Record]:
        for _, node in zip(range(50), nodes, strict=False):
            rec = self._fetch(node)
            if rec is not None:
                yield rec

    def _branches(self) -> tuple[Branch, ...]:
        tree, state = self._tree, self._state
        if self._tail or state.find(_DEAD) < 0:
            return ()
        roots: dict[int, int] = {}
        found: list[list[int]] = []
        node = -1
        while (node := state.find(_DEAD, node + 1)) >= 0:
            if not tree.flags[node] & (_TALK | _ATTACHED | _BOUNDARY):
                continue
            parent = tree.parents[node]
            number = roots.get(parent, -1)
            if number < 0:
                if len(found) >= _BRANCHES_MAX:
                    continue
                number = len(found)
                found.append([node])
            roots[node] = number
            if found[number][-1] != node:
                found[number].append(node)
        branches = []
        for nodes in found:
            talk = [node for node in nodes if tree.flags[node] & _TALK]
            if not talk:
                continue
            first = self._fetch(talk[0])
            own = self._fetch(nodes[0])
            branches.append(
                Branch(
                    at=At(0, tree.lines[talk[0]] + self._shift, first.uuid if first else None),
                    from_record=own.parentUuid if own else None,
                    records=len(talk),
                    lines=tuple(tree.lines[node] + self._shift for node in talk[:256]),
                )
            )
        return tuple(branches)

    def _helpers(self) -> tuple[Subagent, ...]:
        found = []
        if self._sides and not self._is_helper:
            named = sum(self._agents.values())
            inline = sum(1 for flags in self._tree.flags if flags & _SIDE and flags & _TALK)
            for agent, records in self._agents.items():
                found.append(Subagent(id=agent, path=None, records=records))
            if inline > named:
                found.append(Subagent(id="", path=None, records=inline - named))
        folder = self._path.parent
        for name in self._side_files:
            if name.endswith(".jsonl") and "/subagents/" in name:
                meta = _meta(folder / (name[: -len(".jsonl")] + ".meta.json"))
                own = name.rsplit("/", 1)[1][len("agent-") : -len(".jsonl")]
                found.append(
                    Subagent(
                        id=own,
                        path=name,
                        records=None,
                        call=meta.toolUseId,
                        type=meta.agentType,
                        description=meta.description,
                    )
                )
        return tuple(found)

    # ---- second pass: the items

    def items(self) -> Iterator[Item]:
        self._book = AccountBook()
        return self._generate(self._book)

    def _generate(self, book: AccountBook) -> Iterator[Item]:
        pairing = Pairing(
            dangling_is_live=False,
            orphans_are_live=False,
            seconds_are_live=False,
            replies_close=True,
            lookup=self._lookup,
        )
        return pairing.run(self._in_file_order(book) if self._sequential else self._in_path_order(book))

    def _in_file_order(self, book: AccountBook) -> Iterator[list[Item]]:
        translator = self._translator()
        assistant, user = translator.assistant, translator.user
        state, lines, hashes = self._state, self._tree.lines, self._tree.hashes
        gaps, shift = self._gaps, self._shift
        replies, requests = (book.row(Verdict.USED, Reason.ITEM, kind) for kind in ("assistant", "user"))
        node, nodes = 0, len(lines)
        whole = [ready if self._stands(ready) else None for _, ready in self._blocks]
        reread = self._source.again_each(
            block for (block, _), ready in zip(self._blocks, whole, strict=True) if not ready
        )
        for (block, _), ready in zip(self._blocks, whole, strict=True):
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
                            raise ChangedError(f"{self._path} was overwritten while it was read; run it again.")
                        node += 1
                    line += 1
                    continue
                own = rec.uuid
                if own is None:
                    self._tell_loose(rec, line, book)
                    line += 1
                    continue
                if node >= nodes or lines[node] != line or hashes[node] != hash(own):
                    raise ChangedError(f"{self._path} was overwritten while it was read; run it again.")
                what = state[node]
                kind = rec.type
                if (what == _LIVE or what == _PAST) and (kind == "assistant" or kind == "user"):  # noqa: SIM109
                    before = len(out)
                    if node in gaps or self._boundary is not None:
                        self._emit(translator, rec, node, line, out)
                    elif kind == "assistant":
                        assistant(rec, line, what == _LIVE, out)
                    else:
                        user(rec, line, what == _LIVE, out)
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

    def _stands(self, ready: _Ready | None) -> bool:
        """Whether all records of a block made ready are on the path, and nothing in it needs more."""
        if ready is None or any(ready.begin <= node < ready.end for node in self._gaps):
            return False
        return self._state.count(_LIVE, ready.begin, ready.end) == ready.end - ready.begin

    def _give_ready(self, ready: _Ready, book: AccountBook) -> Iterator[list[Item]]:
        book.extend(ready.book)
        for line in ready.queue:
            reason = Reason.QUEUED if line in self._queued else Reason.BOOKKEEPING
            book.add(Verdict.RECOGNISED, reason, "queue-operation", line)
        if self._boundary is not None:
            yield self._close_boundary()
        yield ready.items

    def _in_path_order(self, book: AccountBook) -> Iterator[list[Item]]:
        """The same for a file whose records do not stand in the order of the conversation (never written natively)."""
        translator = self._translator()
        out: list[Item] = []
        node = 0
        for block, _ in self._blocks:
            kept = self._records.decode(block, self._source.again(block))
            for index, rec in enumerate(kept):
                line = block.first_line + index
                if isinstance(rec, Reason):
                    damaged(book, rec, line + self._shift)
                elif rec.uuid is None:
                    self._tell_loose(rec, line, book)
                elif self._state[node] in (_LIVE, _PAST) and rec.type in ("user", "assistant"):
                    book.used(rec.type, line + self._shift)
                else:
                    self._tell_node(rec, node, line, book, [])
                if node < len(self._tree) and self._tree.lines[node] == line:
                    node += 1
            for index, mended in self._records.mended.items():
                note_mending(book, mended, At(0, block.first_line + index + self._shift))
        self._boundary = None
        for node in self._order:
            found = self._fetch(node)
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

    def _translator(self) -> Translator:
        self._boundary = None
        self._boundary_at = 0
        self._queued = frozenset(self._queue)
        return Translator(frozenset(self._side_files), self._path.stem, self._shift, self._raw_line)

    def _raw_line(self, line: int) -> bytes | None:
        block = self._blocks[self._block_of(line)][0]
        raw = self._source.again(block).split(b"\n")[line - block.first_line]
        mended = mend(raw, last_and_open=False)
        return mended.line if isinstance(mended, Mended) else None

    def _emit(self, translator: Translator, rec: Record, node: int, line: int, out: list[Item]) -> None:
        """Append the items of one record of the path."""
        live = self._state[node] == _LIVE
        if node in self._gaps and not self._tail:
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
        if what == _DOUBLE:
            book.add(Verdict.RECOGNISED, Reason.DUPLICATE, kind, place)
        elif kind == "attachment":
            book.add(*_attachment(rec.attachment.type if rec.attachment else ""), place)
        elif kind == "system" and rec.subtype == "compact_boundary" and what in (_LIVE, _PAST):
            book.used("system/compact_boundary", place)
            out.extend(self._close_boundary())
            self._boundary = rec
            self._boundary_at = place
        elif kind == "system" and rec.subtype == "local_command" and rec.content and what in (_LIVE, _PAST):
            book.used("system/local_command", place)
            out.extend(self._close_boundary())
            parts = (TextPart(rec.content),)
            note = NoteKind.LOCAL_COMMAND
            at = At(0, place, rec.uuid)
            live = what == _LIVE
            out.append(Note(at=at, kind=note, parts=parts, label="local_command", time=rec.timestamp, live=live))
        elif kind == "system":
            book.add(Verdict.RECOGNISED, Reason.DISPLAY, f"system/{rec.subtype}", place)
        elif kind not in _CHAINED:
            book.add(*LOOSE.get(kind, (Verdict.UNKNOWN, Reason.UNKNOWN_TYPE)), kind, place)
        elif kind == "progress":
            book.add(Verdict.RECOGNISED, Reason.DISPLAY, kind, place)
        elif what == _HELPER:
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
            verdict, reason = LOOSE.get(kind, (Verdict.UNKNOWN, Reason.UNKNOWN_TYPE))
            book.add(verdict, reason, kind, line + self._shift)

    def _lookup(self, calls: Mapping[str, Call], at_end: bool) -> Mapping[str, Result | None]:
        """Where results are that do not follow their calls: further on, before them, or off the path.

        The client finds a result by the id of its call wherever it stands in the file. This reads the file once more,
        except at the end, where only records off the path are looked at.
        """
        found: dict[str, Result | None] = {}
        begin = max(call.at.line - self._shift for call in calls.values())
        out: list[Item] = []
        translator = Translator(frozenset(self._side_files), self._path.stem, self._shift, self._raw_line)
        for node, flags in enumerate(self._tree.flags):
            what = self._state[node]
            if flags & (_TALK | _REPLY) != _TALK or what in (_HELPER, _DOUBLE) or (at_end and what != _DEAD):
                continue
            rec = self._fetch(node)
            content = rec.message.content if rec is not None and rec.message is not None else None
            if rec is None or not isinstance(content, list):
                continue
            named = {piece.tool_use_id for piece in content if piece.type == "tool_result"} & calls.keys()
            if not named - found.keys():
                continue
            line = self._tree.lines[node]
            if what != _DEAD and line > begin:
                found.update(dict.fromkeys(name for name in named if name is not None))
                continue
            out.clear()
            translator.user(rec, line, True, out)
            for item in out:
                if isinstance(item, Result) and item.call in named:
                    found.setdefault(item.call, item)
        return found


class _Meta(msgspec.Struct, gc=False):
    agentType: str | None = None
    description: str | None = None
    toolUseId: str | None = None


def _meta(path: Path) -> _Meta:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(1 << 20), type=_Meta)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return _Meta()


def _side_files(path: Path) -> tuple[str, ...]:
    """What lies in the session's own side folder, relative to the session's folder; links are not followed."""
    found: list[str] = []
    root = path.parent / path.stem
    folders = [root] if path.suffix == ".jsonl" and root.is_dir() and not root.is_symlink() else []
    while folders and len(found) < _SIDE_FILES_MAX:
        try:
            for entry in sorted(folders.pop().iterdir()):
                if entry.is_symlink():
                    continue
                if entry.is_dir() and len(entry.parts) - len(root.parts) < 8:
                    folders.append(entry)
                elif entry.is_file():
                    found.append(str(entry.relative_to(path.parent)))
        except OSError:
            continue
    return tuple(sorted(found))
