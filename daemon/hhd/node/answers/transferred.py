"""A handoff, under way or over, as the verbs answer it."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Transferred:
    """One handoff. `outgoing`: from this device. `stage`: how far it came, `over`: and no further.

    `continuity`: whether the state arrived whole, `ownership`: who holds the token, in a sentence each. `why`: how it
    ended, "" where that is plain. `way`: what to do next, a command or a sentence, "" for nothing. `at_ms`: when it
    came to this stage, by this device's clock. `notes`: what is otherwise at the target than it was, or could not be
    done there. `asked_of`: the device that it was from, where it was only asked for here; then all of this is what that
    one said last, and `peer` is the one that it was to.
    """

    transfer: str
    session: str
    title: str
    peer: Device
    outgoing: bool
    stage: str
    over: bool
    continuity: str
    ownership: str
    why: str
    way: str
    at_ms: int
    notes: tuple[str, ...] = ()
    asked_of: Device | None = None
