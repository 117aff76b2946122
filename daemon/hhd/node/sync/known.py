"""What everything that is here of a session means, kept for the sessions that somebody works on."""

from __future__ import annotations

from hhd.identity.key import Identity
from hhd.node.lineages import lineage_of
from hhd.node.members import members
from hhd.store.errors import MissingError
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.holding import Known
from hhd_protocol.ids import GroupRecordId, SessionId, StatementId
from hhd_protocol.statements import Fact

KNOWN_KEPT = 8
"""Sessions whose statements are kept judged in memory."""

Of = tuple[bytes, GroupRecordId | None, int]
"""What a judgement was made from: the session's revision, the group's root and how many records it has."""


class Judged:
    """The statements of one store's sessions, judged by the members that the device `me` knows."""

    def __init__(self, store: Store, me: Identity) -> None:
        self._store, self._me = store, me
        self._kept: dict[SessionId, tuple[Of, Known]] = {}

    def of(self, session: SessionId) -> Known:
        """Return what is known of a session; read anew where somebody else added to it, or to the group."""
        store = self._store
        of = store.arrived.revision(session), *self.group()
        kept = self._kept.get(session)
        if kept is not None and kept[0] == of:
            return kept[1]
        known = members(store, self._me)
        try:
            store.session(session)
        except MissingError:
            roles = {device: member.role for device, member in known.items()}
            facts: dict[StatementId, Fact] = {}
            for one in store.statements.tombstones(session):
                member = known.get(one.body.by)
                good = member is not None and lineage.verify(one, member.public)
                facts[one.id] = lineage.fact(one, good)
            found = Known(session=StatementId(session), members=roles, statements=facts)
        else:
            found = lineage_of(store, session, known).known
        self.keep(session, found, of)
        return found

    def group(self) -> tuple[GroupRecordId | None, int]:
        """Return what changes with the records of the group: a revocation judges sessions anew."""
        return self._store.group.root(), self._store.group.count()

    def keep(self, session: SessionId, known: Known, of: Of) -> None:
        """Keep what is known now, made from `of`."""
        self.drop(session)
        self._kept[session] = of, known
        while len(self._kept) > KNOWN_KEPT:
            self._kept.pop(next(iter(self._kept)))

    def drop(self, session: SessionId) -> None:
        """Read a session anew when it is asked for."""
        self._kept.pop(session, None)

    def forget(self) -> None:
        """Read every session anew."""
        self._kept.clear()
