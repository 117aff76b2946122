"""What a person removed everywhere, and what of it is newer than the removal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hhd_protocol.fencing.cutoffs import Cutoffs
from hhd_protocol.ids import DeviceId, StatementId
from hhd_protocol.statements import Role, Tombstone

_COVER_BYTES = 8


def valid_tombstones(
    tombstones: Iterable[Tombstone], members: Mapping[DeviceId, Role], cutoffs: Cutoffs | None = None
) -> list[Tombstone]:
    """Return the tombstones that mean something: well signed, by a full member, not after its cut-off."""
    return [
        tombstone
        for tombstone in tombstones
        if tombstone.signature_good
        and members.get(tombstone.by) is Role.FULL
        and not (cutoffs is not None and cutoffs.seals(tombstone))
    ]


def uncovered(tombstones: Iterable[Tombstone], checkpoints: Iterable[StatementId]) -> frozenset[StatementId]:
    """Return those of `checkpoints` that no tombstone covers: work that the removing devices did not know.

    Also for a device that has the tombstone and nothing else: a session of which it is offered only what is covered
    stays removed.
    """
    known: set[bytes] = set()
    heads: set[StatementId] = set()
    for tombstone in tombstones:
        known |= tombstone.covers
        heads.update(tombstone.heads)
    return frozenset(id for id in checkpoints if id not in heads and id[:_COVER_BYTES] not in known)
