"""Checkpoints that show that a removed session is alive, kept in mind until all of it came (`spec/sync.md`, Outlived).

A long session comes in several messages. Where it is removed here, the first may hold nothing that the tombstones do
not cover, and is dropped with the create record. So what shows otherwise is kept, the sender is asked once more, and
whatever comes next is judged as if it came along. Rejected: keeping what came before, which has no bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hhd_protocol.fencing import View
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.limits import SYNC_OUTLIVING_MAX
from hhd_protocol.lineage import Signed


class Outliving:
    """One checkpoint of each such session, of which the signature holds; in memory alone."""

    def __init__(self) -> None:
        self._of: dict[SessionId, Signed] = {}

    def copy(self) -> Outliving:
        """Return what is kept in mind now."""
        made = Outliving()
        made._of.update(self._of)
        return made

    def along(self, session: SessionId, known: Collection[StatementId], fresh: Iterable[Signed]) -> list[Signed]:
        """Return `fresh`, and behind it what is kept in mind of the session, unless it is there or in `known`."""
        found = list(fresh)
        kept = self._of.get(session)
        if kept is not None and kept.id not in known and all(one.id != kept.id for one in found):
            found.append(kept)
        return found

    def note(self, session: SessionId, fresh: Iterable[Signed], view: View) -> bool:
        """Keep in mind what of `fresh` no tombstone covers; False where there is none, or one was known."""
        beyond = next((one for one in fresh if one.id in view.beyond_removal), None)
        if beyond is None or session in self._of:
            return False
        self._of[session] = beyond
        while len(self._of) > SYNC_OUTLIVING_MAX:
            self._of.pop(next(iter(self._of)))
        return True

    def forget(self, session: SessionId, refused: Collection[StatementId] | None = None) -> None:
        """The session is here again, or is removed for good; with `refused`: if what is kept is among them."""
        if refused is None or (session in self._of and self._of[session].id in refused):
            self._of.pop(session, None)
