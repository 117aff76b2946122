"""What the daemon says of other devices: who is linked, where they may be, what is in the way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another member. `address`: of the other end of the link, "" without one.

    `seen_ms`: when it was linked last, 0 for never; now, while it is linked. `ago_ms`: how long ago that was by this
    device's own clock, None where that cannot be said: the clock was set since. `trouble`: why it could not be linked
    when that was tried last, "" if it could. `refuses`: it proved who it is, and did not let this device in.
    """

    id: str
    name: str
    role: str
    linked: bool
    address: str
    seen_ms: int
    ago_ms: int | None
    trouble: str
    refuses: bool = False


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """An address that a person fixed, and the id of the device that was found there, "" if none was; `trouble`: why."""

    address: str
    device: str
    name: str
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class Around:
    """All of it. `listening`: this device's addresses for others, with the port; `trouble`: of discovery, or ""."""

    peers: tuple[Peer, ...]
    fixed: tuple[Fixed, ...]
    listening: tuple[str, ...]
    trouble: str
