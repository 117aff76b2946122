"""What the daemon says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Status:
    """The daemon that runs: its release `hhd`, process, since when it runs, and its `socket`.

    `connections`: how many there are, the one that asks too. `process` is 0 where the daemon is of another age, and all
    that is known of it is its release. `says`: sentences of its parts, for the person.
    """

    hhd: str
    process: int
    since_ms: int
    socket: str
    connections: int
    says: tuple[str, ...] = ()
