"""Sorts the statements of a session: the four passes in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hhd_protocol.fencing.chain import Chain
from hhd_protocol.fencing.cutoffs import Cutoffs
from hhd_protocol.fencing.doubts import Doubts
from hhd_protocol.fencing.graph import Graph
from hhd_protocol.fencing.view import Standing, Token, View
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import Checkpoint, EffectKind, Intent, Record, Revocation, Role, Statement


def resolve(
    *,
    session: StatementId,
    members: Mapping[DeviceId, Role],
    records: Iterable[Record],
    checkpoints: Iterable[Checkpoint],
    revocations: Iterable[Revocation] = (),
    intents: Iterable[Intent] = (),
    kinds: Mapping[EffectId, EffectKind] | None = None,
) -> View:
    """Sort the statements of `session`, its id being that of its create record."""
    every_record = {record.id: record for record in records}
    every_checkpoint = {checkpoint.id: checkpoint for checkpoint in checkpoints}
    every_revocation = {revocation.id: revocation for revocation in revocations}
    statements: dict[StatementId, Statement] = {**every_record, **every_checkpoint, **every_revocation}
    cutoffs = Cutoffs(statements, every_revocation, members)
    chain = Chain(session, every_record, members, cutoffs)
    graph = Graph(every_checkpoint, members, cutoffs, chain)
    doubts = Doubts(chain, graph, cutoffs, list(intents), kinds or {})
    standings = {**chain.standings, **graph.standings}

    def of(standing: Standing) -> frozenset[StatementId]:
        return frozenset(id for id, found in standings.items() if found is standing)

    top = chain.top
    return View(
        owner=top.to if top else None,
        owner_revoked=top is not None and top.to in cutoffs.revoked,
        token=Token(number=top.number, id=top.id) if top else None,
        main=graph.main,
        heads=graph.heads,
        refused=of(Standing.REFUSED),
        held=of(Standing.HELD),
        sealed=of(Standing.SEALED),
        revoked=frozenset(cutoffs.revoked),
        rolled_back=cutoffs.rolled_back,
        uncertain=doubts.uncertain,
        evidence=doubts.evidence,
    )
