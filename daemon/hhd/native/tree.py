"""Which record follows which: a few bytes for each record of a session whose records name their parents.

Ids are kept as Python's 64-bit string hashes (keyed by a secret of the process, so nobody can make two collide). Nearly
every record names the one before it: such stretches are *runs*, and are walked as one. Most others name one a few
records back; the rest is looked up at the end.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections.abc import Iterator

ROOT = -1
MISSING = -2

_NEAR = 32
"""How far back a parent is looked for at once: parallel calls hang on one of the last few records."""

_SET_MAX = 65536
"""Up to so many ids a set of them is small."""

_FEW = 8
"""Up to so many lookups a scan of all ids is cheaper than a table of them."""


class Tree:
    """Nodes in file order. `close` it before asking for parents."""

    def __init__(self) -> None:
        self.hashes = array("q")
        self.parents = array("i")
        self.lines = array("I")
        self.flags = bytearray()
        self.runs = array("i")
        """Nodes that do not follow the one before them, ascending; the first node is one."""
        self.duplicates: set[int] = set()
        """Nodes whose id a later node has too: the later one counts."""
        self._first: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self.last: str | None = None
        """The id added last."""

    def __len__(self) -> int:
        return len(self.flags)

    def add(self, own: str, parent: str | None, line: int, flags: int) -> None:
        """Note a record."""
        if parent != self.last or parent is None:
            self.branch(parent)
        else:
            self.parents.append(len(self.parents) - 1)
        self.hashes.append(hash(own))
        self.lines.append(line)
        self.flags.append(flags)
        self.last = own

    def branch(self, parent: str | None) -> None:
        """Note the parent of a record that does not follow the one before it."""
        node = len(self.parents)
        self.runs.append(node)
        if parent is None:
            self.parents.append(ROOT)
            return
        key = hash(parent)
        for earlier in range(node - 1, max(-1, node - _NEAR), -1):
            if self.hashes[earlier] == key:
                self.parents.append(earlier)
                return
        self._open[node] = key
        self.parents.append(MISSING)

    def close(self) -> None:
        """Resolve what was left open, and duplicate ids."""
        if len(self._open) > _FEW:
            every = {key: node for node, key in enumerate(self.hashes)}
            for node, key in self._open.items():
                self.parents[node] = every.get(key, MISSING)
            del every
        else:
            for node, key in self._open.items():
                self.parents[node] = self._find(key)
        self._open.clear()
        if self._any_twice():
            self._resolve_duplicates()

    def has_forward(self) -> bool:
        """Whether any record stands before the one it follows."""
        return any(map(operator.gt, self.parents, range(len(self.parents))))

    def find(self, own: str | None) -> int:
        """The node of a record id, or MISSING."""
        return MISSING if own is None else self._find(hash(own))

    def place(self, node: int) -> int:
        """Where the node counts in file order: where its id stood first."""
        return self._first.get(node, node)

    def run_of(self, node: int) -> int:
        """The node that begins the run of `node`: from there each follows the one before."""
        return self.runs[bisect_right(self.runs, node) - 1]

    def up(self, node: int) -> Iterator[int]:
        """`node` and its ancestors; ends at a root, a missing parent or a repetition."""
        seen: set[int] = set()
        while node >= 0:
            yield node
            parent = self.parents[node]
            if parent >= node:
                if parent in seen:
                    return
                seen.add(parent)
            node = parent

    def is_above(self, ancestor: int, node: int) -> bool:
        """Whether `ancestor` is `node` or above it."""
        seen: set[int] = set()
        while node >= 0:
            begin = self.run_of(node) if not self.duplicates else node
            if begin <= ancestor <= node:
                return True
            if begin in seen:
                return False
            seen.add(begin)
            node = self.parents[begin]
        return False

    def _any_twice(self) -> bool:
        """Whether any id stands twice: by a set, or for many by a filter of one byte for each few hashes."""
        if len(self.hashes) < _SET_MAX:
            return len(set(self.hashes)) < len(self.hashes)
        mask = min(1 << 25, 1 << (8 * len(self.hashes)).bit_length()) - 1
        seen = bytearray(mask + 1)
        again: set[int] = set()
        for key in self.hashes:
            if seen[key & mask]:
                again.add(key)
            else:
                seen[key & mask] = 1
        # A key that only met another one's mark stands once among the hashes; one that is there twice, more often.
        return sum(1 for _ in filter(again.__contains__, self.hashes)) > len(again)

    def _find(self, key: int) -> int:
        if key not in self.hashes:
            return MISSING
        if not self.duplicates:
            return self.hashes.index(key)
        return max(node for node, other in enumerate(self.hashes) if other == key)

    def _resolve_duplicates(self) -> None:
        last: dict[int, int] = {}
        first: dict[int, int] = {}
        for node, key in enumerate(self.hashes):
            first.setdefault(key, node)
            if key in last:
                self.duplicates.add(last[key])
            last[key] = node
        self._first = {last[key]: node for key, node in first.items() if last[key] != node}
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                self.parents[node] = last[self.hashes[parent]]
        self.runs = array("i", range(len(self.flags)))
