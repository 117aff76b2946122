"""What devices sign in a session, as facts: ownership records, checkpoints, revocations, intents.

A statement's id is its hash. Each device's statements in a session form one chain through `after`, the id of that
device's previous statement there; two statements with the same `after` show that the device's disk was rolled back.
`signature_good` is what the reader found when it checked; a statement is never trusted for carrying one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId


class Role(enum.Enum):
    """What a member of the group may do (`handoff.md`: identity, group, pairing)."""

    FULL = "full"
    CONTROLLER = "controller"
    STORE_ONLY = "store-only"


class RecordKind(enum.Enum):
    """How ownership came about."""

    CREATE = "create"
    RELEASE = "release"
    TAKEOVER = "takeover"


class EffectKind(enum.Enum):
    """What may be done twice: a tool never, waiting for the person and what is declared repeatable always."""

    TOOL = "tool"
    INPUT = "input"
    REPEATABLE = "repeatable"


class Progress(enum.Enum):
    """How far an effect came, as a checkpoint says; settled and rerun are a person's words."""

    ASKED = "asked"
    STARTED = "started"
    ANSWERED = "answered"
    SETTLED = "settled"
    RERUN = "rerun"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What all statements have: `by` signed it, `after` is the signer's previous statement (None: its first)."""

    id: StatementId
    by: DeviceId
    after: StatementId | None
    signature_good: bool


@dataclass(frozen=True, kw_only=True)
class Record(Statement):
    """One link of the ownership chain.

    `prev`: the record before it (None for create). `head`: the checkpoint that it hands on (None for create).
    `pending`: in the create record of a fork, the effects that were unanswered in the origin.
    """

    kind: RecordKind
    to: DeviceId
    prev: StatementId | None
    number: int
    head: StatementId | None
    pending: tuple[EffectId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Statement):
    """One node of the lineage, made under the token whose record is `token`.

    `effects`: what changed since its parents. `closing`: the one a fenced holder writes under its old token, with
    `journal`, the progress of each effect that it knows.
    """

    token: StatementId
    parents: tuple[StatementId, ...]
    effects: Mapping[EffectId, Progress] = field(default_factory=dict)
    closing: bool = False
    journal: Mapping[EffectId, Progress] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Revocation(Statement):
    """Puts `device` out; `last` is the last statement of it that still counts (None: none does).

    `judged`: the group's records already said that it counts (`group.md`); it is no statement of the session then, and
    has no good signature in it. `anew`: memberships that the device was given again; chains of its statements that
    begin at one of these count in spite of it.
    """

    device: DeviceId
    last: StatementId | None
    judged: bool = False
    anew: tuple[StatementId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Intent(Statement):
    """`by` was about to run `effect` under `token`; `request`: digest of what was asked (None: not said)."""

    effect: EffectId
    token: StatementId
    request: Sha256 | None = None


@dataclass(frozen=True, kw_only=True)
class Receipt(Statement):
    """`by`, fenced meanwhile, got an answer to `effect`, which it had begun under `token`; `reply`: its digest."""

    effect: EffectId
    token: StatementId
    reply: Sha256 | None = None


@dataclass(frozen=True, kw_only=True)
class Tombstone(Statement):
    """A person removed the session everywhere, with these `heads`.

    `covers`: the first 8 bytes of the id of each checkpoint that the removing device knew.
    """

    heads: tuple[StatementId, ...]
    covers: frozenset[bytes]


Fact = Record | Checkpoint | Revocation | Intent | Receipt | Tombstone
