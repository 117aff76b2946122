"""What a device is to write, send and run for a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol.holding.refusals import Refusal
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId, TransferId
from hhd_protocol.statements import Progress, RecordKind


@dataclass(frozen=True, kw_only=True)
class RecordDraft:
    """A release or takeover, to be signed. `transfer` names the handoff of a release, None for none."""

    kind: RecordKind
    to: DeviceId
    prev: StatementId
    number: int
    head: StatementId | None
    after: StatementId | None
    reason: str = ""
    transfer: TransferId | None = None


@dataclass(frozen=True, kw_only=True)
class CheckpointDraft:
    """A checkpoint, to be signed. One that carries new work gets its payload from whoever has it."""

    token: StatementId
    parents: tuple[StatementId, ...]
    after: StatementId | None
    effects: Mapping[EffectId, Progress] = field(default_factory=dict)
    closing: bool = False
    journal: Mapping[EffectId, Progress] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class IntentDraft:
    """This device is about to run `effect`; `request` is the SHA-256 of what was asked."""

    effect: EffectId
    token: StatementId
    request: Sha256
    after: StatementId | None


@dataclass(frozen=True, kw_only=True)
class ReceiptDraft:
    """A reply that came when the token was beaten already: evidence. `reply` is its SHA-256."""

    effect: EffectId
    token: StatementId
    reply: Sha256
    after: StatementId | None


Draft = RecordDraft | CheckpointDraft | IntentDraft | ReceiptDraft


@dataclass(frozen=True, kw_only=True)
class Persist:
    """Sign the draft and make it durable, with what it speaks of, in one step."""

    draft: Draft


@dataclass(frozen=True, kw_only=True)
class Send:
    """Give what was just persisted to the connected members; nobody waits for them."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Open the effect gate for this effect."""

    effect: EffectId


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Let the running effect end, or cancel it; then tell the part (`leg.running`) and decide again."""

    effect: EffectId


@dataclass(frozen=True, kw_only=True)
class Done:
    """The wish is fulfilled by this list; without it, decide again after carrying the list out."""


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """The wish is not granted; nothing was done for it."""

    refusal: Refusal


Output = Persist | Send | Run | Stop | Done | Refuse
