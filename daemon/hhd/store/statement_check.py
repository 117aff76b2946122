"""What `hhd check` asks of a session's statements: that they are here, in form, signed, and say what is beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hhd.store.checkpoints import Checkpoint
from hhd.store.errors import DamagedStoreError
from hhd.store.statements import STATEMENTS, opened
from hhd_protocol import lineage
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.lineage import Signed

if TYPE_CHECKING:
    from hhd.store.store import Store

Keys = Mapping[DeviceId, bytes]
"""Public keys of the devices whose signatures can be checked here."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something wrong with a statement or a chain of them."""

    what: str
    problem: str


def record_fault(checkpoint: Checkpoint, keys: Keys) -> str | None:
    """Return what is wrong with a checkpoint's record, None if nothing is."""
    try:
        signed = checkpoint.signed()
    except FormatError as error:
        return str(error)
    return None if signed is None or holds(signed, keys) else "its signature does not hold"


def holds(signed: Signed, keys: Keys) -> bool:
    """Whether nothing speaks against a signature: it is good, or of a device whose key is not among `keys`."""
    public = keys.get(signed.body.by)
    return public is None or lineage.verify(signed, public)


def faults(store: Store, session: SessionId, records: Iterable[Signed] | None, keys: Keys) -> Iterator[Fault]:
    """Yield what is wrong with the statements of `session`.

    `records`: those of its checkpoints, found to be sound; None if some are not, and then what chains lack is not said
    again. Raises DamagedStoreError where the list of statements cannot be read.
    """
    found = {signed.id: signed for signed in records or ()}
    whole = records is not None
    for one in _listed(store, session):
        if one in found:
            continue
        what = f"statement {one.hex()[:16]}"
        try:
            signed = _opened(store, one)
            if signed.session != session:
                raise DamagedStoreError("it is of another session")
            if not holds(signed, keys):
                raise DamagedStoreError("its signature does not hold")
            found[one] = signed
        except DamagedStoreError as error:
            whole = False
            yield Fault(what=what, problem=str(error))
    if whole:
        yield from _gaps(store, session, found)


def _gaps(store: Store, session: SessionId, found: Mapping[StatementId, Signed]) -> Iterator[Fault]:
    """Yield what is missing although nothing names it."""
    here = found.keys() - store.statements.tombstone_ids(session)
    if here and session not in found:
        yield Fault(what=f"session {session.hex()[:16]}", problem="the record that created it is missing")
    ends: dict[DeviceId, tuple[int, StatementId]] = {}
    for signed in found.values():
        end = signed.body.seq, signed.id
        ends[signed.body.by] = max(ends.get(signed.body.by, end), end)
    for device, end in ends.items():
        what = f"chain of device {device.hex()[:16]} in session {session.hex()[:16]}"
        try:
            noted, known = store.statements.end(session, device), store.statements.noted(session, device)
        except DamagedStoreError as error:
            yield Fault(what=what, problem=str(error))
            continue
        # What goes on from the own end came back from peers: it shows a roll-back, and is not to be hidden.
        own = device == store.device and known
        if not own and (noted is None or noted < end):
            yield Fault(what=what, problem="its end is not noted")
        elif noted is not None and noted[1] not in found:
            yield Fault(what=what, problem="its last statement is missing")


def _listed(store: Store, session: SessionId) -> list[StatementId]:
    listed = [StatementId(entry) for entry in store.rows.listing(STATEMENTS, session)]
    with_content = set(store.checkpoint_ids(session))
    return [one for one in listed if one not in with_content] + store.statements.tombstone_ids(session)


def _opened(store: Store, statement: StatementId) -> Signed:
    raw = store.statements.raw(statement)
    if raw is None:
        raise DamagedStoreError("it is missing")
    return opened(statement, raw)
