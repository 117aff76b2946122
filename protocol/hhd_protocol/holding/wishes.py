"""What a session's person, or its guest, wants of it on this device."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId, TransferId
from hhd_protocol.statements import Progress


@dataclass(frozen=True, kw_only=True)
class Append:
    """Store a checkpoint of new work; `effects`: what changed since the head."""

    effects: Mapping[EffectId, Progress] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Start:
    """Run an effect that the head says was asked; `request` is the SHA-256 of what was asked."""

    effect: EffectId
    request: Sha256


@dataclass(frozen=True, kw_only=True)
class Release:
    """Hand the session on to `to`."""

    to: DeviceId
    transfer: TransferId


@dataclass(frozen=True, kw_only=True)
class TakeOver:
    """Own the session and go on from `head`; None: from the owner's tip. A person's wish, with a reason."""

    head: StatementId | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class GoOnFrom:
    """Advance `head` here: by the token that names it, else by a new record, also for the owner."""

    head: StatementId
    reason: str


class Word(enum.Enum):
    """What a person says of an effect that may have run."""

    RAN = "ran"
    """It ran, and this is its output (in the checkpoint's journal)."""
    DID_NOT_RUN = "did-not-run"
    AGAIN = "again"


@dataclass(frozen=True, kw_only=True)
class Settle:
    """A person's word on an effect that may have run."""

    effect: EffectId
    word: Word


Wish = Append | Start | Release | TakeOver | GoOnFrom | Settle
