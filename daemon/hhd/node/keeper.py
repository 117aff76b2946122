"""Where one session is kept while this process alone advances it: a capsule file, or the store.

A keeper does not run anything. It holds what is durable, and makes one step after the other durable; who drives the
session (`hhd.node.driver`) decides what a step is.
"""

from __future__ import annotations

from typing import Protocol

from hhd.node.foreign import Whence
from hhd.node.standing import Standing, Step
from hhd.node.tally import Tally
from hhd_protocol.abi import Snapshot


class Own(Protocol):
    """Whether this user of this device may trust what is kept, and where it was last at work."""

    place: bytes | None
    """None: it came from elsewhere, and nobody agreed to it yet. What is set is durable with the next step."""

    def adopt(self) -> None:
        """A person saw what it is, and agreed."""


class Keeper(Protocol):
    """One session, held."""

    incremental: bool
    """Whether a step wants to know which pages changed since the one before."""
    intended: bool
    """Whether the latest step that is durable has an intent: the effect begins now, and others should know of it."""

    @property
    def name(self) -> str:
        """What sentences about it call it."""

    @property
    def mark(self) -> bytes:
        """16 bytes or more that tell this session from others on this device."""

    @property
    def standing(self) -> Standing:
        """Where it stands, durably."""

    @property
    def owner(self) -> Own:
        """Whether it is one's own."""

    def wasm(self) -> bytes:
        """The instrumented module; raises UserError if it is not to be had."""

    def snapshot(self) -> Snapshot:
        """The memory where it stands; only for a session that stands in the middle of a run."""

    def tally(self) -> Tally:
        """What it has asked and spent so far."""

    def whence(self) -> Whence:
        """What it says of where it is from."""

    def save(self, step: Step) -> None:
        """Make `step` durable. Raises UserError (RolledBackError where there is no room), with all as it was."""

    def rest(self) -> None:
        """The session may stand where it is for long: make durable what was put off. Raises as `save` does."""

    def close(self) -> None:
        """Let others advance it."""
