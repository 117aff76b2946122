"""One statement of a session, as its log tells it."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One statement of a session.

    `position`: where it stands in this device's log; asked for what follows it, the log goes on from there. `kind`:
    create, release, takeover, checkpoint, intent, receipt or tombstone. `number`: in the chain of its device. `token`:
    of the record it is under, or is. `effects`: position and progress of each that it speaks of. `standing`: counts,
    held, refused or sealed. `note`: for whom, why, or what was asked.
    """

    position: str
    id: str
    kind: str
    device: Device
    number: int
    at_ms: int
    token: int | None
    turn: bool
    effects: tuple[tuple[int, str], ...]
    standing: str
    thinned: bool
    head: bool
    note: str
