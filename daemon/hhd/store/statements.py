"""The signed statements of this store's sessions: who owns them, what their checkpoints are, what was about to run.

Each method writes in the transaction around it, so that a statement becomes durable with what it speaks of. Nothing is
judged here: whose signature holds, and what a statement means, is `hhd_protocol.fencing`'s to say over all of them. So
statements of signers that are not known yet are held like any other.

The end of this device's own chain is the last statement that *this store* signed. One that a peer gives back, of this
device and of another opening of its store, shows that the store was rolled back, and does not move it (`holding.md`).

A checkpoint's record is kept once: here while only the record is known, in the checkpoint's row when its content is.
Ownership records and tombstones are kept twice, because nothing in a store can stand in for them. A tombstone, and the
end of this device's own chain, stay when the session is removed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd_protocol import fencing, lineage
from hhd_protocol.bodies import CheckpointBody, IntentBody, ReceiptBody, TombstoneBody
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Tombstone

if TYPE_CHECKING:
    from hhd.store.store import Store

STATEMENT, STATEMENTS, TIP, TOMBSTONE, REMOVED = "statement", "statements", "tip", "tombstone", "removed"
"""Tables of rows: a statement by id; a session's ids in the order they came; ends of chains; tombstones by session."""
_ONCE = (CheckpointBody, IntentBody, ReceiptBody)


class Statements:
    """The statements in one store."""

    def __init__(self, store: Store) -> None:
        self._store, self._rows = store, store.rows

    def add(self, session: SessionId, raw: bytes) -> Signed:
        """Keep a statement of `session`; again changes nothing.

        Raises FormatError if it is none, speaks of another session, or is said to be this device's, falsely.
        """
        signed = lineage.decode(raw)
        if signed.session != session:
            raise FormatError("a statement speaks of another session than the one it came for")
        self._insist_on_own(signed)
        with self._store.transaction():
            if self._known(signed.id):
                return signed
            self.write(signed)
            if isinstance(signed.body, TombstoneBody):
                self._bury(session, signed.id)
            else:
                self._rows.enlist(STATEMENTS, session, signed.id)
            self.follow(signed)
        return signed

    def all(self, session: SessionId, known: Mapping[StatementId, Signed] = MappingProxyType({})) -> list[Signed]:
        """Return every statement of `session`, in the order they came here by kind; raises DamagedStoreError.

        `known`: statements that were read before, by their ids. Those that are listed still are not read again.
        """
        return list(self._each(session, known))

    def listed(self, session: SessionId, start: int = 0) -> list[StatementId]:
        """Return the ids of a session's statements in the order they came, from the `start`-th on; those that came as
        checkpoints are not in it, nor are tombstones."""
        return [StatementId(entry) for entry in self._rows.listing_from(STATEMENTS, session, start)]

    def get(self, session: SessionId, statement: StatementId) -> Signed | None:
        """Return one statement, None if it is not here (or is of another session); raises DamagedStoreError."""
        raw = self.raw(statement) or self._store.record(statement)
        signed = None if raw is None else opened(statement, raw)
        return signed if signed is not None and signed.session == session else None

    def tip(self, session: SessionId, device: DeviceId) -> Signed | None:
        """Return the last statement of `device` in `session`, None before its first.

        Raises DamagedStoreError if that one is not here although it was: what is signed next would not follow it.
        """
        end = self.end(session, device)
        if end is None:
            return None
        signed = self.get(session, end[1])
        if signed is None:
            raise DamagedStoreError(
                f"What device {device.hex()[:16]} signed last in session {session.hex()[:16]} is missing; "
                "run `hhd check`."
            )
        return signed

    def tombstones(self, session: SessionId) -> list[Signed]:
        """Return the tombstones of `session`, also when nothing else of it is here."""
        return [self._insist(one) for one in self.tombstone_ids(session)]

    def tombstone_ids(self, session: SessionId) -> list[StatementId]:
        """Return the ids of the tombstones of `session`, in the order they came."""
        raw = self._rows.get_either(TOMBSTONE, b"", session) or b""
        return [StatementId(raw[at : at + 32]) for at in range(0, len(raw), 32)]

    def removed(self) -> list[SessionId]:
        """Return the sessions that there are tombstones of, oldest first."""
        return [SessionId(StatementId(entry)) for entry in self._rows.listing(REMOVED, b"")]

    def uncovered(self, session: SessionId, checkpoints: Iterable[StatementId]) -> frozenset[StatementId]:
        """Return those of `checkpoints` that no tombstone here covers: without one, a removed session stays removed."""
        facts = (lineage.fact(one, True) for one in self.tombstones(session))
        return fencing.uncovered([one for one in facts if isinstance(one, Tombstone)], checkpoints)

    # For the store, its check and its repair

    def end(self, session: SessionId, device: DeviceId) -> tuple[int, StatementId] | None:
        """Return number and id of the last statement of `device` in `session`, whether or not it is here.

        None where there is none, or where this store signed none of those that are here, which `noted` tells apart.
        """
        raw = self._rows.get(TIP, session, device)
        match decoded(raw, "end of a chain") if raw is not None else None:
            case None if raw is None:
                return None
            case []:
                return None
            case [int(seq), bytes(id)]:
                return seq, StatementId(id)
        raise DamagedStoreError(
            f"The end of a chain in session {session.hex()[:16]} is not in the form it was written."
        )

    def noted(self, session: SessionId, device: DeviceId) -> bool:
        """Whether it is noted where the chain of `device` ends, or that this store signed nothing of it."""
        return self._rows.get(TIP, session, device) is not None

    def raw(self, statement: StatementId) -> bytes | None:
        """Return the bytes of a statement whose content, if it has any, is not here; None if there is none."""
        return self._rows.get_either(STATEMENT, b"", statement)

    def committed(self, signed: Signed) -> None:
        """A checkpoint's row has its record from now on; within the transaction that wrote it.

        Raises FormatError if it is this device's and its signature does not hold.
        """
        self._insist_on_own(signed)
        self._rows.delete(STATEMENT, b"", signed.id)
        self.follow(signed)

    def forget(self, session: SessionId) -> None:
        """Remove the statements of a session that is being removed, tombstones excepted; within a transaction."""
        for entry in self._rows.listing(STATEMENTS, session):
            self._rows.delete_both(STATEMENT, b"", entry)
        self._rows.remove_log(STATEMENTS, session)

    def _each(self, session: SessionId, known: Mapping[StatementId, Signed]) -> Iterator[Signed]:
        with_content: set[bytes] = set()
        for entry, raw in self._store.records(session, known):
            with_content.add(entry)
            if entry in known:
                yield known[entry]
                continue
            if raw is None:
                raise DamagedStoreError(f"The row of checkpoint {entry.hex()[:16]} is missing; run `hhd check`.")
            if raw:
                yield opened(entry, raw)
        for one in map(StatementId, self._rows.listing(STATEMENTS, session)):
            if one not in with_content:
                yield known[one] if one in known else self._insist(one)
        yield from self.tombstones(session)

    def _insist(self, statement: StatementId) -> Signed:
        raw = self.raw(statement)
        if raw is None:
            raise DamagedStoreError(f"Statement {statement.hex()[:16]} is missing; run `hhd check`.")
        return opened(statement, raw)

    def _insist_on_own(self, signed: Signed) -> None:
        """Nobody makes this device say something: its own signatures are checked as they come, and not each time."""
        if signed.body.by == self._store.device and not lineage.verify(signed, self._store.public):
            raise FormatError("a statement is said to be this device's, and its signature does not hold")

    def _known(self, statement: StatementId) -> bool:
        return self.raw(statement) is not None or bool(self._store.record(statement))

    def _bury(self, session: SessionId, tombstone: StatementId) -> None:
        before = self._rows.get_either(TOMBSTONE, b"", session)
        self._rows.put_twice(TOMBSTONE, b"", session, (before or b"") + tombstone)
        if before is None:
            self._rows.enlist(REMOVED, b"", session)

    def write(self, signed: Signed) -> None:
        """Write the row of a statement, those that nothing can stand in for twice; within a transaction."""
        put = self._rows.put if isinstance(signed.body, _ONCE) else self._rows.put_twice
        put(STATEMENT, b"", signed.id, signed.raw)

    def set_ends(self, session: SessionId, statements: Iterable[Signed]) -> bool:
        """Make chains end where `statements`, all of a session, say; return whether an end that was noted is gone.

        The own chain's end stays where it is noted if that statement is here: what goes on from it came from peers.
        """
        ends: dict[DeviceId, tuple[int, StatementId]] = {}
        own: set[tuple[int, StatementId]] = set()
        for signed in statements:
            here = signed.body.seq, signed.id
            ends[signed.body.by] = max(ends.get(signed.body.by, here), here)
            if signed.body.by == self._store.device:
                own.add(here)
        gone = False
        for device, end in ends.items():
            try:
                noted, known = self.end(session, device), self.noted(session, device)
            except DamagedStoreError:
                noted, known = None, False
            if device == self._store.device and known:
                if noted is None or noted in own:
                    continue
                end = max((one for one in own if one < noted), default=end)
            gone = gone or (noted is not None and noted > end)
            if noted != end:
                self._rows.put(TIP, session, device, encode([*end]))
        return gone

    def follow(self, signed: Signed) -> None:
        """Make `signed` the end of its signer's chain if it is further along than what was here, and, where the signer
        is this device, was signed since this store was opened."""
        session, by, here = signed.session, signed.body.by, (signed.body.seq, signed.id)
        if by == self._store.device and signed.body.incarnation != self._store.incarnation:
            if not self.noted(session, by):
                self._rows.put(TIP, session, by, encode([]))
            return
        end = self.end(session, by)
        if end is None or here > end:
            self._rows.put(TIP, session, by, encode([*here]))


_decoded = functools.lru_cache(maxsize=4096)(lineage.decode)
"""A session's statements are read again at each of its steps, and most are those of before."""

_KEPT_BYTES = 4096
"""Of a statement that stays decoded; most have some hundreds."""


def opened(statement: StatementId, raw: bytes) -> Signed:
    """Return a statement of a row; raises DamagedStoreError if it is not the one of that id."""
    try:
        signed = _decoded(raw) if len(raw) <= _KEPT_BYTES else lineage.decode(raw)
    except FormatError as error:
        raise DamagedStoreError(f"Statement {statement.hex()[:16]} is not in the form it was written in.") from error
    if signed.id != statement:
        raise DamagedStoreError(f"Statement {statement.hex()[:16]} is not what its id names.")
    return signed
