"""Why a device may not do a thing in a session, in words, with the way out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Why(enum.Enum):
    """Why not; each has its words and its way out in `WORDS`."""

    NO_RECORD = "no-record"
    NOT_FULL = "not-full"
    REVOKED = "revoked"
    NOT_OWNER = "not-owner"
    OWNER_REVOKED = "owner-revoked"
    SPLIT = "split"
    HEAD_NOT_HERE = "head-not-here"
    ROLLED_BACK = "rolled-back"
    ADDED_AGAIN = "added-again"
    STALE = "stale"
    WAKING = "waking"
    ALONE = "alone"
    NOT_ASKED = "not-asked"
    ANSWERED = "answered"
    UNCERTAIN = "uncertain"
    OTHER_REQUEST = "other-request"
    RUNNING = "running"
    UNSAVED = "unsaved"
    REMOVED = "removed"
    NO_TARGET = "no-target"


class WayOut(enum.Enum):
    """What somebody can do about it."""

    NONE = "none"
    SYNC = "sync"
    """Wait for, or connect to, a device that has what is missing."""
    TAKE_OVER = "take-over"
    TAKE_OVER_A_HEAD = "take-over-a-head"
    """Take over, and name the head to go on from."""
    RELOAD = "reload"
    """Load the head again; what runs here is an older state."""
    WAIT = "wait"
    PERSON = "person"
    """Attach to it here, connect another device, or revoke one that is gone for good."""
    SETTLE = "settle"
    FINISH = "finish"
    """Let the effect end, or cancel it, and store a checkpoint of what is not in one."""
    OTHER_DEVICE = "other-device"


WORDS: Mapping[Why, tuple[str, WayOut]] = {
    Why.NO_RECORD: ("the record that created this session is not here yet", WayOut.SYNC),
    Why.NOT_FULL: ("this device is no full member, so it cannot advance a session", WayOut.OTHER_DEVICE),
    Why.REVOKED: ("this device was revoked", WayOut.OTHER_DEVICE),
    Why.NOT_OWNER: ("another device owns this session", WayOut.TAKE_OVER),
    Why.OWNER_REVOKED: ("the device that owns this session was revoked", WayOut.TAKE_OVER),
    Why.SPLIT: ("the owner's line is split: two checkpoints continue one", WayOut.TAKE_OVER_A_HEAD),
    Why.HEAD_NOT_HERE: ("the checkpoint to go on from is not here yet", WayOut.SYNC),
    Why.ROLLED_BACK: ("this store was rolled back: another one has newer statements of this device", WayOut.TAKE_OVER),
    Why.ADDED_AGAIN: (
        "this device was revoked and added again, so it goes on with the session by taking it over",
        WayOut.TAKE_OVER,
    ),
    Why.STALE: ("the session went on elsewhere since it was loaded here", WayOut.RELOAD),
    Why.WAKING: ("this device just woke and asks the others what happened meanwhile", WayOut.WAIT),
    Why.ALONE: ("this device woke and no other full member that could know more has answered", WayOut.PERSON),
    Why.NOT_ASKED: ("the session does not wait for this effect", WayOut.NONE),
    Why.ANSWERED: ("this effect has its answer", WayOut.NONE),
    Why.UNCERTAIN: ("this effect may have run already", WayOut.SETTLE),
    Why.OTHER_REQUEST: ("another request was started at this place of the session", WayOut.SETTLE),
    Why.RUNNING: ("an effect is running", WayOut.FINISH),
    Why.UNSAVED: ("there is work here that is in no checkpoint yet", WayOut.FINISH),
    Why.REMOVED: ("a person removed this session everywhere", WayOut.NONE),
    Why.NO_TARGET: ("a session is released to another full member", WayOut.NONE),
}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Nothing was done. `until_ms`: when to ask again, for a wait that ends by itself; None otherwise."""

    why: Why
    until_ms: int | None = None

    @property
    def words(self) -> str:
        return WORDS[self.why][0]

    @property
    def way_out(self) -> WayOut:
        return WORDS[self.why][1]
