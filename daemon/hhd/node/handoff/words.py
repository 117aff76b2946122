"""A handoff in words: what each stage means for a person who waits for it, and how it ended."""

from __future__ import annotations

from hhd.base.errors import Exit
from hhd.node.refused import short
from hhd_protocol.handoff import Record, Side, Stage

REMOVED = "A person removed the session everywhere."
"""Why a handoff was closed whose session is gone; it stands in the journal."""
TARGET_OUT = "The device that it was to be handed to was put out."
"""Why a handoff was given up whose target may be handed nothing any more."""
GONE = ("it was removed, as a person wished", "no device has it any more")
"""Continuity and ownership then."""


def sentence_of(record: Record, peer: str) -> str:
    """The stage that a handoff came to, in a sentence."""
    match record.stage:
        case Stage.OFFERED:
            return f"Asking {peer} whether it can run there."
        case Stage.ADMITTED:
            return f"It can run on {peer}; its state is brought there while it runs on."
        case Stage.STAGED:
            return "Nearly all of it is there; it is being paused."
        case Stage.READY:
            return f"All of it is on {peer}, loaded and compared."
        case Stage.RELEASED:
            return f"Released to {peer}."
        case Stage.TAKEN | Stage.ACKNOWLEDGED | Stage.CLEANED:
            return f"It is on {peer} now." if record.side is Side.SOURCE else "It is on this device now."
        case Stage.ABORTED:
            return f"Given up: {record.why or 'nothing was changed.'}"
        case Stage.SUPERSEDED:
            return f"Closed: {record.why or 'another record of the session beats it.'}"
    return ""


def ended(record: Record, peer: str) -> tuple[str, str, Exit, str]:
    """Continuity, ownership, the exit status, and what to do next, of a handoff that is over at its source."""
    name = short(record.session)
    match record.stage:
        case Stage.ACKNOWLEDGED | Stage.CLEANED:
            return f"all of it arrived on {peer}, compared by its digests", f"{peer} has it", Exit.DONE, ""
        case Stage.SUPERSEDED if record.why == REMOVED:
            return *GONE, Exit.ROLLED_BACK, ""
        case Stage.SUPERSEDED:
            return (
                "what was done on either side is kept as a head",
                "a newer record says who has it",
                Exit.UNCERTAIN,
                f"hhd heads {name}",
            )
    return "nothing was changed", "this device kept it, and goes on with it", Exit.ROLLED_BACK, ""
