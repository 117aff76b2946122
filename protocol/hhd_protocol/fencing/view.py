"""The answer of fencing: who owns a session, which heads it has, what may have run."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol.ids import DeviceId, EffectId, StatementId


class Standing(enum.Enum):
    """What became of a statement."""

    COUNTS = "counts"
    HELD = "held"
    """Its signer, parents or records are not here yet."""
    REFUSED = "refused"
    """It, or what it stands on, breaks a rule; nothing that comes later can mend that."""
    SEALED = "sealed"
    """From a revoked device, after the cut-off: kept, shown, grants nothing."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """The right to advance a session: never the number alone."""

    number: int
    id: StatementId


@dataclass(frozen=True, kw_only=True)
class View:
    """What one set of statements means.

    `token` and `owner` are None only while the create record is not here. `main` is the tip of the owner's line; None
    when the line is split or its start is not here. `uncertain`: effects that may have run, on the main line.
    `evidence`: those of them for which another head, or a fenced holder, holds a receipt. `rolled_back`: devices whose
    chain forks. `removed`: a person removed the session, and everything here was known then; `beyond_removal`: the
    checkpoints that were not. `anew`: of devices that were revoked and added again, where their chains begin now.
    """

    owner: DeviceId | None
    owner_revoked: bool
    token: Token | None
    main: StatementId | None
    heads: frozenset[StatementId]
    refused: frozenset[StatementId]
    held: frozenset[StatementId]
    sealed: frozenset[StatementId]
    revoked: frozenset[DeviceId]
    rolled_back: frozenset[DeviceId]
    uncertain: frozenset[EffectId]
    evidence: frozenset[EffectId]
    removed: bool = False
    beyond_removal: frozenset[StatementId] = frozenset()
    anew: Mapping[DeviceId, frozenset[StatementId]] = field(default_factory=dict)

    @property
    def competing(self) -> bool:
        """Whether there is more than one head."""
        return len(self.heads) > 1
