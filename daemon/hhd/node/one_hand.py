"""A session that only this device ever wrote, under one token: what its newest statements mean is known from them.

Most sessions never leave a device. In an unbroken chain of one device under the record that created the session,
nothing can be fenced, held or refused; so the end of a long log is told without reading the rest. Whatever does not
look like that is judged whole (`hhd.node.lineages`).
"""

from __future__ import annotations

from collections.abc import Iterable

from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody, CreateBody, IntentBody, ReceiptBody
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.lineage import Signed


def is_of_one_hand(store: Store, session: SessionId) -> bool:
    """Whether all statements of `session` that are here are one chain of this device with no ownership record but one.

    They are if the chain is as long as there are statements: numbers in a chain count from 0, and who lost or signed
    one twice has more or fewer. Checkpoints are not read for that; see `fits`.
    """
    statements = store.statements
    checkpoints = {StatementId(one) for one in store.checkpoint_ids(session)}
    others = set(statements.listed(session))
    end = statements.end(session, store.device)
    if end is None or end[0] + 1 != len(checkpoints | others) or statements.tombstone_ids(session):
        return False
    kept = [statements.get(session, one) for one in others - checkpoints]
    records = [one for one in kept if one is not None and isinstance(one.body, CreateBody)]
    return len(records) == 1 and all(one is not None and fits(one, session, store) for one in kept)


def fits(signed: Signed, session: SessionId, store: Store) -> bool:
    """Whether a statement is this device's, of the record that created the session or under its token."""
    match signed.body:
        case CreateBody():
            return signed.id == session and signed.body.by == store.device
        case CheckpointBody(by=by, token=token) | IntentBody(by=by, token=token) | ReceiptBody(by=by, token=token):
            return by == store.device and token == session
        case _:
            return False


def heads_among(newest: Iterable[Signed]) -> set[StatementId]:
    """Return the heads among the newest statements of such a session, all that came after each being among them."""
    checkpoints = {one.id: one.body for one in newest if isinstance(one.body, CheckpointBody)}
    return set(checkpoints) - {StatementId(parent) for body in checkpoints.values() for parent in body.parents}
