"""What one device has of a session's statements, told in few bytes: where each chain ends.

Each statement names its signer's previous one by hash, so the end of a chain that is whole stands for all of it. What a
peer lacks is found from its ends, without a list of all that it has. Ends that are not known here are ahead of us;
marks behind them, at distances 1, 3, 7, 15, …, tell how far we are level.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hhd_protocol.ids import CheckpointId, StatementId
from hhd_protocol.limits import SYNC_IDS_MAX, SYNC_LOOSE_MAX
from hhd_protocol.sync.messages import DIGEST_BYTES

_MARKED_ENDS_MAX = 64
"""A chain a device, and one for each time that one was restored."""


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """`ends` of whole chains; `marks` behind them; `loose`: statements whose chain has a gap, and tombstones."""

    ends: tuple[StatementId, ...] = ()
    marks: tuple[StatementId, ...] = ()
    loose: tuple[StatementId, ...] = ()


class Chains:
    """The statements of one session that are here: for each the one it follows, None for a first one."""

    def __init__(self, after: Mapping[StatementId, StatementId | None] | None = None) -> None:
        """`after` in the order in which the statements came."""
        self._after: dict[StatementId, StatementId | None] = {}
        self._followers: dict[StatementId, int] = {}
        self._waiting: dict[StatementId, list[StatementId]] = {}
        self._whole: set[StatementId] = set()
        self._ends: set[StatementId] = set()
        for id, before in (after or {}).items():
            self.add(id, before)

    def __contains__(self, id: object) -> bool:
        return id in self._after

    def __len__(self) -> int:
        return len(self._after)

    def add(self, id: StatementId, after: StatementId | None) -> bool:
        """Take in one statement and say whether it is new."""
        if id in self._after:
            return False
        self._after[id] = after
        if after is not None and after not in self._whole:
            self._waiting.setdefault(after, []).append(id)
            return True
        stack = [id]
        while stack:
            one = stack.pop()
            self._whole.add(one)
            before = self._after[one]
            if before is not None:
                self._followers[before] = self._followers.get(before, 0) + 1
                self._ends.discard(before)
            if not self._followers.get(one):
                self._ends.add(one)
            stack.extend(self._waiting.pop(one, ()))
        return True

    def frontier(self, *, marked: bool = True) -> Frontier:
        """Return where the chains end; without marks it is as much as a digest needs."""
        ends = tuple(sorted(self._ends))[:SYNC_IDS_MAX]
        loose = tuple(sorted(id for ids in self._waiting.values() for id in ids))[:SYNC_LOOSE_MAX]
        marks = tuple(self._marks(ends[:_MARKED_ENDS_MAX])) if marked else ()
        return Frontier(ends=ends, marks=marks, loose=loose)

    def lacking(self, theirs: Frontier) -> list[StatementId]:
        """Return what is here and a device with that frontier has not, in the order it came here."""
        had = set(theirs.loose)
        for id in (*theirs.ends, *theirs.marks):
            at: StatementId | None = id
            while at is not None and at in self._after and at not in had:
                had.add(at)
                at = self._after[at]
        return [id for id in self._after if id not in had]

    def unknown(self, theirs: Frontier) -> bool:
        """Whether that device names statements that are not here."""
        return any(id not in self._after for id in (*theirs.ends, *theirs.loose))

    def _marks(self, ends: Iterable[StatementId]) -> list[StatementId]:
        marks: dict[StatementId, None] = {}
        for end in ends:
            at, step, gap = end, 0, 1
            while (before := self._after[at]) is not None:
                at, step = before, step + 1
                if step == gap:
                    marks[at] = None
                    step, gap = 0, gap * 2
        return [*marks][:SYNC_IDS_MAX]


def session_digest(frontier: Frontier, lacking: Iterable[CheckpointId]) -> bytes:
    """Return what two devices that have the same of a session agree in; `lacking`: heads without their content."""
    parts = (frontier.ends, frontier.loose, tuple(sorted(lacking)))
    said = b"".join(len(part).to_bytes(4, "big") + b"".join(part) for part in parts)
    return hashlib.sha256(b"hhd sync session\0" + said).digest()[:DIGEST_BYTES]
