"""How a run of a session ends, and a person's word on what may have run."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from hhd.effects.spend import Spend


class End(enum.Enum):
    """How a run ends."""

    FINISHED = "finished"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that ended with its session whole: `sentence` says why, `ways` how to go on besides going on.

    `spent` is what the whole session has, as far as can be told.
    """

    end: End
    status: int
    effect: str | None = None
    sentence: str = ""
    ways: tuple[str, ...] = ()
    spent: Spend = field(default_factory=Spend)


@dataclass(frozen=True, kw_only=True)
class Settle:
    """A person's word on an effect that may have run: `how` is ran, did-not-run or again; what it said, if it ran."""

    how: str
    output: str = ""
