"""How a handoff goes on, as the verb `transfer` tells it, one after the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One step of a handoff. `stage`: as in `hhd transfers`; `sentence`: in words; `notes`: what will be otherwise.

    The last one is `over`, with the exit `status`, and says apart whether the state arrived whole (`continuity`) and
    who has the session (`ownership`); `way`: what to do next, "" for nothing. `pause_ms`: how long it did not run, in
    the last one, where that is known here, else 0.
    """

    transfer: str
    session: str
    stage: str
    sentence: str
    notes: tuple[str, ...] = ()
    over: bool = False
    status: int = 0
    continuity: str = ""
    ownership: str = ""
    way: str = ""
    pause_ms: int = 0
