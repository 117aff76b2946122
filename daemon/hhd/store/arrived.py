"""What came of sessions from other devices and is not whole yet, and what this store remembers of those devices.

A checkpoint whose record is here and whose content is not has its payload kept beside it, so that a restart knows what
is missing. What a session comes to in a comparison with others is kept as a copy, with what it was made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hhd.store.checkpoints import Checkpoint, decode_payload
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import LEDGER, decoded, position_key
from hhd.store.statements import STATEMENTS, TOMBSTONE
from hhd_protocol.codec import Value, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId, StatementId

if TYPE_CHECKING:
    from hhd.store.checkpoints import Payload
    from hhd.store.store import Store

AWAITED, LEVEL, KNOWING, TOLD_KEYS, RECORDS_HAD = "awaited", "level", "knowing", "told-keys", "records-had"
"""Tables of rows: payloads of checkpoints without content; what sessions come to; who acknowledged a checkpoint of a
session; which keys were given to whom; which records granting a session to a device it acknowledged."""
_CHECKPOINTS = "checkpoints"


Mark = tuple[tuple[bytes, object], ...]
"""The rows that the revision of a session is made of, by their names, each with the nonce it was last set under."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """What a session comes to: its `digest` for `hhd_protocol.sync`; the heads whose content is not here; whether
    that of any checkpoint is not here."""

    digest: bytes
    lacking: tuple[CheckpointId, ...]
    bare: bool = False


@dataclass(frozen=True, kw_only=True)
class Awaited:
    """The content of a checkpoint that is not here; `thinned`: who gave its record has given it up."""

    raw: bytes = field(repr=False)
    payload: Payload
    thinned: bool


class Arrived:
    """The rows of one store that sync keeps."""

    def __init__(self, store: Store) -> None:
        self._store, self._rows = store, store.rows

    # Checkpoints without their content

    def await_content(self, checkpoint: CheckpointId, payload: bytes, thinned: bool) -> None:
        """Keep what the content of a checkpoint is, until it is here; within a transaction."""
        self._rows.put(AWAITED, b"", checkpoint, encode([1, payload, thinned]))

    def awaited(self, checkpoint: CheckpointId) -> Awaited | None:
        """Return what the content of a checkpoint is, None if nobody said yet."""
        raw = self._rows.get(AWAITED, b"", checkpoint)
        match decoded(raw, "row of what a checkpoint waits for") if raw is not None else None:
            case None if raw is None:
                return None
            case [1, bytes(payload), bool(thinned)]:
                return Awaited(raw=payload, payload=read_payload(payload), thinned=thinned)
        raise DamagedStoreError("The row of what a checkpoint waits for is not in the form it was written in.")

    def came(self, checkpoint: Checkpoint) -> None:
        """Its content is here now, or is given up for good; within a transaction."""
        self._rows.delete(AWAITED, b"", checkpoint.id)

    # What sessions come to

    def revision(self, session: SessionId) -> bytes:
        """Return something that changes with every statement added to a session, and with its content."""
        ledger = self._rows.ledger(session)
        found: list[Value] = [self._rows.get_either(TOMBSTONE, b"", session)]
        for table in (_CHECKPOINTS, STATEMENTS):
            blocks = ledger.get(table, 0)
            found += [blocks, self._rows.at(table, session, blocks - 1) if blocks else None]
        return hashlib.sha256(encode(found)).digest()

    def mark(self, session: SessionId) -> Mark:
        """Return what tells whether the revision of a session may be another than now, for a tenth of its price."""
        ledger = self._rows.ledger(session)
        names = [self._rows.name(LEDGER, session, b""), self._rows.name(TOMBSTONE, b"", session)]
        for table in (_CHECKPOINTS, STATEMENTS):
            if blocks := ledger.get(table, 0):
                names.append(self._rows.name(table, session, position_key(blocks - 1)))
        nonces = self._rows.nonces(names)
        return tuple((name, nonces.get(name)) for name in names)

    def as_marked(self, marks: Mapping[SessionId, Mark]) -> set[SessionId]:
        """Return the sessions of which nothing was set since they were marked: their revisions are what they were."""
        nonces = self._rows.nonces([name for mark in marks.values() for name, _ in mark])
        return {session for session, mark in marks.items() if all(nonces.get(name) == one for name, one in mark)}

    def level(self, session: SessionId, revision: bytes) -> Level | None:
        """Return what a session was found to come to, None if it is another one by now, or damaged."""
        try:
            raw = self._rows.get(LEVEL, b"", session)
            match decoded(raw, "copy of what a session comes to") if raw is not None else None:
                case [1, bytes(of), bytes(digest), bytes(lacking), bool(bare)] if of == revision:
                    return Level(digest=digest, lacking=tuple(_ids(lacking)), bare=bare)
        except DamagedStoreError:
            pass
        return None

    def keep_level(self, session: SessionId, revision: bytes, level: Level) -> None:
        """Keep what a session comes to; within a transaction."""
        self._rows.put(LEVEL, b"", session, encode([1, revision, level.digest, b"".join(level.lacking), level.bare]))

    # Other devices

    def knowing(self, session: SessionId) -> frozenset[DeviceId]:
        """Return the devices that said that they have a checkpoint of a session, content and all."""
        raw = self._rows.get(KNOWING, b"", session) or b""
        return frozenset(DeviceId(raw[at : at + 32]) for at in range(0, len(raw), 32))

    def knows(self, session: SessionId, device: DeviceId) -> None:
        """Note that a device has a checkpoint of a session."""
        known = self.knowing(session)
        if device not in known:
            self._rows.put(KNOWING, b"", session, b"".join(sorted({*known, device})))

    def keys_told(self, device: DeviceId, family: bytes) -> int:
        """Return how many keys of a family were given to a device."""
        raw = self._rows.get(TOLD_KEYS, device, family)
        return 0 if raw is None else int.from_bytes(raw, "big")

    def tell_keys(self, device: DeviceId, family: bytes, count: int) -> None:
        """Note how many keys of a family a device was given."""
        self._rows.put(TOLD_KEYS, device, family, count.to_bytes(4, "big"))

    def had(self, session: SessionId, device: DeviceId) -> dict[Incarnation, frozenset[StatementId]]:
        """Return which records that grant `session` to `device` it acknowledged, by the opening of its store."""
        raw = self._rows.get(RECORDS_HAD, session, device)
        found: dict[Incarnation, frozenset[StatementId]] = {}
        match decoded(raw, "row of acknowledged records") if raw is not None else None:
            case list(pairs):
                for pair in pairs:
                    match pair:
                        case [bytes(incarnation), bytes(ids)]:
                            found[Incarnation(incarnation)] = frozenset(_ids(ids))
        return found

    def note_had(
        self, session: SessionId, device: DeviceId, incarnation: Incarnation, records: Iterable[StatementId]
    ) -> None:
        """Note that `device` acknowledged `records`."""
        found = self.had(session, device)
        found[incarnation] = found.get(incarnation, frozenset()) | frozenset(records)
        kept = list(found.items())[-8:]  # Openings of a store that a release was taken in: eight go back far enough.
        self._rows.put(RECORDS_HAD, session, device, encode([[one, b"".join(sorted(ids))] for one, ids in kept]))

    def forget(self, session: SessionId) -> None:
        """The session is removed; within a transaction."""
        for table in (LEVEL, KNOWING):
            self._rows.delete(table, b"", session)


def read_payload(raw: bytes) -> Payload:
    """Return the payload that `raw` encodes; raises FormatError for what a peer may not say."""
    try:
        return decode_payload(raw)
    except DamagedStoreError as error:
        raise FormatError("what the content of a checkpoint is, is not in its form") from error


def _ids(joined: bytes) -> list[CheckpointId]:
    return [CheckpointId(StatementId(joined[at : at + 32])) for at in range(0, len(joined), 32)]
