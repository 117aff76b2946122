"""What `hhd check --repair` does for signed statements: lists, chains' ends and second copies are made again from them.

A statement proves itself, so what is left of them is enough. A checkpoint whose row does not say what its record says
keeps the record and loses the row; what is not signed as it says is given up, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from hhd.store.checkpoints import Checkpoint
from hhd.store.errors import DamagedStoreError
from hhd.store.statement_check import Keys, holds, record_fault
from hhd.store.statements import REMOVED, STATEMENT, STATEMENTS, TOMBSTONE
from hhd_protocol import lineage
from hhd_protocol.bodies import CreateBody, TombstoneBody
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, FamilyId, SessionId, StatementId
from hhd_protocol.lineage import Signed

if TYPE_CHECKING:
    from hhd.store.store import Store

Say = Callable[[str], object]
Found = dict[SessionId, dict[CheckpointId, Checkpoint]]


def statement_of(store: Store, name: bytes, value: bytes) -> Signed | None:
    """Return the statement that a row is, None if it is another row."""
    try:
        signed = lineage.decode(value)
    except FormatError:
        return None
    return signed if name == store.rows.name(STATEMENT, b"", signed.id) else None


def own_families(store: Store, statements: Iterable[Signed]) -> dict[SessionId, FamilyId]:
    """Return the family of each session that this device created, as the create records among `statements` say."""
    return {
        one.session: one.body.family
        for one in statements
        if isinstance(one.body, CreateBody) and one.body.by == store.device
    }


def part_with_false_rows(store: Store, found: Found, keys: Keys, lost: Say) -> list[Signed]:
    """Remove from `found` each checkpoint that is not what its record says; return the records that are kept."""
    kept: list[Signed] = []
    for session, checkpoints in found.items():
        for one, checkpoint in list(checkpoints.items()):
            fault = record_fault(checkpoint, keys)
            if fault is None:
                continue
            del checkpoints[one]
            store.rows.delete("checkpoint", b"", one)
            what = f"checkpoint {one.hex()[:16]} of session {session.hex()[:16]}: {fault}"
            try:
                signed = lineage.decode(checkpoint.record)
            except FormatError:
                signed = None
            if signed is not None and holds(signed, keys):
                kept.append(signed)
                what += "; the record is kept, its content is not"
            lost(what)
    return kept


def mend_statements(store: Store, statements: Iterable[Signed], found: Found, keys: Keys, done: Say, lost: Say) -> None:
    """Make lists, ends and copies again; within a transaction, after the lists of checkpoints."""
    by_session: dict[SessionId, dict[StatementId, Signed]] = {}
    for one in statements:
        if holds(one, keys):
            by_session.setdefault(one.session, {})[one.id] = one
        else:
            store.rows.delete_both(STATEMENT, b"", one.id)
            lost(f"statement {one.id.hex()[:16]} of session {one.session.hex()[:16]}: its signature does not hold")
    buried: dict[SessionId, list[StatementId]] = {}
    for session in {*by_session, *found}:
        here = by_session.get(session, {})
        tombstones = [one for one in here.values() if isinstance(one.body, TombstoneBody)]
        if tombstones:
            buried[session] = sorted(one.id for one in tombstones)
        if session in found or len(tombstones) < len(here):
            _relist(store, session, here, set(found.get(session, ())), done, lost)
        records = [one.signed() for one in found.get(session, {}).values()]
        if store.statements.set_ends(session, [*here.values(), *(one for one in records if one is not None)]):
            lost(f"the last statement of a chain of session {session.hex()[:16]}")
    _rebury(store, buried, done)


def _relist(
    store: Store,
    session: SessionId,
    here: Mapping[StatementId, Signed],
    with_content: set[CheckpointId],
    done: Say,
    lost: Say,
) -> None:
    whose = f"session {session.hex()[:16]}"
    try:
        listed = [StatementId(entry) for entry in store.rows.listing(STATEMENTS, session)]
    except DamagedStoreError:
        listed = []
    for one in listed:
        if one not in here and one not in with_content:
            lost(f"statement {one.hex()[:16]} of {whose}: its row is gone")
    own = {id: one for id, one in here.items() if not isinstance(one.body, TombstoneBody)}
    kept = [one for one in listed if one in own or one in with_content]
    missing = sorted(own.keys() - set(kept), key=lambda one: (own[one].body.at_ms, own[one].body.seq, one))
    if kept + missing != listed:
        store.rows.relist(STATEMENTS, session, [bytes(one) for one in kept + missing])
        done(f"the list of statements of {whose} was made again")
    for signed in here.values():
        store.statements.write(signed)


def _rebury(store: Store, buried: Mapping[SessionId, list[StatementId]], done: Say) -> None:
    try:
        removed = store.statements.removed()
    except DamagedStoreError:
        removed = []
    for session, ids in buried.items():
        try:
            noted = store.statements.tombstone_ids(session)
        except DamagedStoreError:
            noted = []
        kept = [one for one in noted if one in ids]
        kept += [one for one in ids if one not in kept]
        store.rows.put_twice(TOMBSTONE, b"", session, b"".join(kept))
    entries = [one for one in removed if one in buried]
    entries += sorted(buried.keys() - set(entries))
    if entries != removed:
        store.rows.relist(REMOVED, b"", [bytes(one) for one in entries])
        done("the list of removed sessions was made again")
