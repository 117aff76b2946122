"""Removing a session: here, or everywhere, by a signed tombstone that names what was known of it.

What is removed here only leaves a wish in the shared document, that this device is to have no copy of it: else the next
meeting with a device that has one would bring it back. Who wants it again says so (`Registry.wish`).

What is removed is what a person was shown: if a head came in between, nothing is. A session that is removed everywhere
never comes back, since whoever holds the tombstone takes nothing of it that the tombstone covers; a device with newer
work keeps that, and shows it (`protocol/spec/fencing.md`, Removal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import findings, here, registry
from hhd.node.answers.removal import Removal
from hhd.node.devices import Devices
from hhd.node.doors import Doors
from hhd.node.handoff import journal as handoff_journal
from hhd.node.lineages import Lineage
from hhd.node.listing import Listed
from hhd.node.members import members
from hhd.node.refused import short
from hhd.store.freshness import Reached
from hhd.store.retention import session_bytes
from hhd.store.store import Store
from hhd_protocol import lineage as signing
from hhd_protocol.bodies import TombstoneBody, covering
from hhd_protocol.crypto import device_text
from hhd_protocol.handoff import PENDING, UNTAKEN, Side, Stage
from hhd_protocol.ids import CheckpointId, Incarnation, SessionId, StatementId
from hhd_protocol.limits import TOMBSTONE_HEADS_MAX

TABLES = ("answers", "ends", "words")
"""Tables of rows that hold one row a session, and go with it."""


@dataclass(frozen=True, kw_only=True)
class Remover:
    """Removes sessions from `store`, in the name of `me`."""

    store: Store
    me: Identity

    def would(self, listed: Listed, lineage: Lineage, *, everywhere: bool) -> Removal:
        """Say what removing the session would destroy."""
        count, _, size = session_bytes(self.store, listed.id)
        return Removal(
            session=listed.id.hex(),
            title=listed.title,
            heads=tuple(sorted(_ends(lineage))),
            checkpoints=count,
            turns=sum(body.turn for body in lineage.bodies.values() if body.parents),
            bytes=size,
            everywhere=everywhere,
            warnings=tuple(self._warnings(listed.id, everywhere=everywhere)),
        )

    def _warnings(self, session: SessionId, *, everywhere: bool) -> Iterator[str]:
        """What removing it means besides, for a person who may not think of it."""
        names = registry.device_names(self.store.shared)[0]
        devices = Devices(me=self.me.id, members=members(self.store, self.me), names=names)
        for record in handoff_journal.unfinished(self.store):
            if record.session == session and (record.side, record.stage) == (Side.SOURCE, Stage.RELEASED):
                peer = devices.named(record.peer) or device_text(record.peer)[:9]
                yield (
                    f"It is released to {peer}, which has not said that it took it. Until it does, what is here is "
                    f"what hhd takeover {short(session)} would go on from, if {peer} never comes back."
                )
        places = self.store.freshness.places()
        if places and not everywhere:
            count, fresh = self.store.checkpoints_count(session), self.store.freshness.of(session)
            lacks = min(count - fresh.reached.get(place, Reached()).had for place in places.values())
            if lacks >= count > 0:
                yield "No other device has anything of it, as far as they said."
            elif lacks > 0:
                last = "last checkpoint" if lacks == 1 else f"last {lacks} checkpoints"
                yield f"No other device has its {last}, as far as they said."

    def remove(self, shown: Removal, session: SessionId, read: Callable[[], Lineage]) -> Removal:
        """Remove what `shown` said; durable when this returns. `read`: the session's lineage as it is by then.

        Raises RefusedError, with nothing changed, where there is another head than were shown, or where the session is
        on its way to or from another device; BusyError where a process advances it.
        """
        lock = self.store.advance(session)
        try:
            with self.store.transaction():
                self._insist_on_rest(session)
                lineage = read()
                if _ends(lineage) != set(shown.heads):
                    raise RefusedError(
                        f"Session {shown.session[:12]} has changed since it was shown; nothing was removed. Look at it "
                        "again."
                    )
                if shown.everywhere:
                    self.store.statements.add(session, self._tombstone(lineage).raw)
                here.forget(self.store, session)
                for table in TABLES:
                    self.store.rows.delete(table, b"", session)
                self.store.remove_session(session, (findings.TABLE,))
                if not shown.everywhere:
                    registry.opened(self.store).wish(session, self.me.id, False)
        finally:
            lock.release()
        return replace(shown)

    def _insist_on_rest(self, session: SessionId) -> None:
        """A target that said it is ready would be released a session that it has no more: then no device goes on."""
        for record in handoff_journal.unfinished(self.store):
            if record.session == session and record.stage in (*PENDING, *UNTAKEN):
                raise RefusedError(
                    f"A handoff of session {short(session)} is under way; nothing was removed. See hhd transfers."
                )

    def _tombstone(self, lineage: Lineage) -> signing.Signed:
        session, token = lineage.session, lineage.view.token
        if token is None:
            raise RefusedError("The record that created this session is not here, so it can be removed here only.")
        doors = Doors(self.store, self.me, session)
        heads: list[CheckpointId] = sorted(lineage.heads)[:TOMBSTONE_HEADS_MAX]
        body = TombstoneBody(
            session=SessionId(StatementId(session)),
            by=self.me.id,
            after=doors.part.after,
            seq=doors.seq,
            incarnation=Incarnation(self.store.incarnation),
            at_ms=self.store.now_ms(),
            record=token.id,
            number=token.number,
            heads=tuple(heads),
            covers=covering(sorted(lineage.bodies, key=lambda id: lineage.bodies[id].at_ms)),
        )
        return signing.sign(body, self.me.seed)


def _ends(lineage: Lineage) -> set[str]:
    """The ends of all lines of work, in hex."""
    return {tip.id.hex() for tip in lineage.tips}
