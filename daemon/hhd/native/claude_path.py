"""Which records of a Claude Code session the client would send, and which only came before: the rules of its tree.

Leaf, parallel calls, gaps, duplicates and compaction are the client's rules, not those of its SDK, where the two
differ: the SDK's reader ignores `last-prompt.leafUuid`, loses the record behind a byte order mark and bridges no gaps.
"""

from __future__ import annotations

import operator
from array import array
from itertools import islice

from hhd.native.claude_lookup import Lookup
from hhd.native.claude_shape import BOUNDARY, REPLY, SIDE, TALK, Shape
from hhd.native.tree import MISSING, ROOT

DEAD, LIVE, PAST, HELPER, DOUBLE = range(5)
"""What became of a node."""

_BRIDGE_SECONDS = 5.0


class Conversation:
    """The line of conversation of a session, told from what lies beside it."""

    def __init__(self, shape: Shape, lookup: Lookup, *, leaf: str | None, helper: str | None, tail: bool) -> None:
        """`leaf`: the record at which it ends. `helper`: read that of helpers. `tail`: only a file's end is here."""
        self._shape, self._lookup, self._tree = shape, lookup, shape.tree
        self._leaf, self._tail = leaf, tail
        self.state = bytearray(len(shape.tree))
        """What became of each node."""
        self.gaps: dict[int, tuple[bool, int, str]] = {}
        """By the node behind it: whether it is bridged, how many records lie behind, and the id that is missing."""
        self._resolve(helper)

    def _resolve(self, helper: str | None) -> None:
        tree = self._tree
        state = self.state
        for node in tree.duplicates:
            state[node] = DOUBLE
        talk = [n for n in (self.last(side=False), self.last(side=True)) if n >= 0]
        self.is_helper = helper is not None or (bool(talk) and self.last(side=False) < 0)
        if self._shape.sides and not self.is_helper:
            for node, flags in enumerate(tree.flags):
                if flags & SIDE and not state[node]:
                    state[node] = HELPER
        leaf = self._choose_leaf()
        order = self._walk(leaf)
        order.reverse()
        self._siblings(order)
        self.order = order
        self.sequential = all(map(operator.lt, order, islice(order, 1, None)))

    def last(self, *, side: bool) -> int:
        """The last record of talk, of helpers or not; -1 where there is none."""
        tree = self._tree
        wanted = TALK | (SIDE if side else 0)
        if not tree.duplicates:
            for node in range(len(tree) - 1, -1, -1):
                if tree.flags[node] & (TALK | SIDE) == wanted:
                    return node
            return -1
        nodes = (n for n, f in enumerate(tree.flags) if f & (TALK | SIDE) == wanted and n not in tree.duplicates)
        return max(nodes, key=tree.place, default=-1)

    def _last_tip(self, last: int) -> int:
        """The last record that no other follows; in the order of a native file that is the last one."""
        tree = self._tree
        followed = set(tree.parents)
        side = SIDE if self.is_helper else 0
        tips = (n for n, f in enumerate(tree.flags) if n not in followed and f & SIDE == side and not self.state[n])
        tip = max(tips, key=tree.place, default=last)
        return next((node for node in tree.up(tip) if tree.flags[node] & TALK), last)

    def _choose_leaf(self) -> int:
        tree = self._tree
        if self._leaf is not None:
            return tree.find(self._leaf)
        last = self.last(side=self.is_helper)
        if tree.has_forward():
            last = self._last_tip(last)
        named = MISSING if self.is_helper else tree.find(self._shape.prompt_leaf)
        if named < 0 or last < 0 or named == last or tree.flags[named] & SIDE:
            return last
        if tree.is_above(named, last) or tree.is_above(last, named):
            return last
        return named

    def _walk(self, leaf: int) -> array[int]:
        """Mark what is sent and what came before it; return the nodes from the leaf to the root."""
        tree, state = self._tree, self.state
        parents, flags = tree.parents, tree.flags
        order = array("i")
        last_boundary = max((b for b in self._shape.boundaries if not flags[b] & SIDE), default=-1)
        kept = self._kept(last_boundary)
        node, mark = leaf, LIVE
        while node >= 0:
            if state[node] and state[node] != HELPER:
                break  # A circle; the client breaks it silently.
            if not kept:
                begin = tree.run_of(node)
                fresh = node + 1 - begin
                if fresh > 1 and state.count(DEAD, begin, node + 1) == fresh:
                    # A whole run at once; its first node may have more to it and goes the long way.
                    state[begin + 1 : node + 1] = bytes((mark,)) * (fresh - 1)
                    order.extend(range(node, begin, -1))
                    node = begin
            state[node] = LIVE if mark == LIVE or node in kept else PAST
            order.append(node)
            if node in kept and mark == LIVE and last_boundary >= 0:
                # The record after a compaction may hang on a kept record: its history goes on at the summary.
                order.pop()
                state[node] = DEAD
                node = self._anchor(last_boundary)
                continue
            parent = parents[node]
            if flags[node] & BOUNDARY:
                mark = PAST
                if parent < 0:
                    parent = tree.find(self._shape.boundaries[node].logicalParentUuid)
                if parent < 0:
                    parent = self._before(node)
                if node == last_boundary and kept:
                    parent = self._after_kept(parent, kept)
            elif parent == MISSING:
                parent = self._before(node)
                if parent >= 0:
                    bridged = self._near(parent, node)
                    if not bridged:
                        mark = PAST
                    self.gaps[node] = (bridged, len(order), self._missing(node))
                else:
                    self.gaps[node] = (False, len(order), self._missing(node))
            node = parent
        for gap, (bridged, place, missing) in list(self.gaps.items()):
            self.gaps[gap] = (bridged, len(order) - place, missing)
        return order

    def _kept(self, boundary: int) -> frozenset[int]:
        meta = self._shape.boundaries[boundary].compactMetadata if boundary >= 0 else None
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
        meta = self._shape.boundaries[boundary].compactMetadata
        named = meta.preservedMessages.anchorUuid if meta and meta.preservedMessages else None
        found = self._tree.find(named)
        return found if found >= 0 and self.state[found] == DEAD else boundary

    def _before(self, node: int) -> int:
        """The record of the main line that stands before `node` in the file, or ROOT."""
        if self._tail:
            return ROOT
        flags = self._tree.flags
        side = SIDE if self.is_helper else 0
        for earlier in range(node - 1, -1, -1):
            if flags[earlier] & SIDE == side and self.state[earlier] == DEAD:
                return earlier
        return ROOT

    def _near(self, earlier: int, later: int) -> bool:
        """Whether the client would bridge the gap between two records: the earlier is older, by at most 5 seconds."""
        from datetime import datetime

        times = []
        for node in (earlier, later):
            rec = self._lookup.fetch(node)
            try:
                times.append(datetime.fromisoformat((rec.timestamp or "") if rec else ""))
            except ValueError:
                return False
        if (times[0].tzinfo is None) != (times[1].tzinfo is None):
            return False
        return 0 <= (times[1] - times[0]).total_seconds() <= _BRIDGE_SECONDS

    def _missing(self, node: int) -> str:
        rec = self._lookup.fetch(node)
        return (rec.parentUuid if rec else None) or ""

    def _siblings(self, order: array[int]) -> None:
        """Add to the path the results of parallel calls, which hang beside it."""
        tree, state = self._tree, self.state
        beside: dict[int, list[int]] = {}
        links: dict[int, int] = {}
        if self._shape.links:
            wanted = set(self._shape.links.values())
            known = {key: node for node, key in enumerate(tree.hashes) if key in wanted}
            links = {node: known[key] for node, key in self._shape.links.items() if key in known}
        node = -1
        while (node := state.find(DEAD, node + 1)) >= 0:
            if tree.flags[node] & (TALK | REPLY) != TALK:
                continue
            for parent in (links.get(node, MISSING), tree.parents[node]):
                if parent >= 0 and state[parent] in (LIVE, PAST) and tree.flags[parent] & REPLY:
                    if self._lookup.has_result(node) and self._lookup.reply(parent) is not None:
                        beside.setdefault(parent, []).append(node)
                    break
        if not beside:
            return
        path = order[:]
        del order[:]
        waiting: list[int] = []
        reply: str | None = None
        for node in path:
            if waiting and not (tree.flags[node] & REPLY and self._lookup.reply(node) == reply):
                # The results go after the group of calls: the records of one reply.
                if not tree.flags[node] & REPLY and self._lookup.has_result(node):
                    before = [n for n in waiting if tree.lines[n] < tree.lines[node]]
                    order.extend(before)
                    waiting = waiting[len(before) :]
                else:
                    order.extend(waiting)
                    waiting = []
            order.append(node)
            if node in beside:
                reply = self._lookup.reply(node)
                for result in beside[node]:
                    state[result] = state[node]
                waiting = sorted([*waiting, *beside[node]], key=lambda n: tree.lines[n])
        order.extend(waiting)
