"""The files of a session that may be about to come, prepared ahead where they are to appear.

Only the switch is left (`hhd.workspace.ahead`). They count for one folder and one capture, and for as long as a look at
the folder does; whatever else it comes to is done all at once, as if nothing had been prepared.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from hhd.node.looked import FRESH_SECONDS
from hhd.workspace.ahead import Ahead
from hhd_protocol.ids import FamilyId
from hhd_protocol.objects import Ref


@dataclass(frozen=True, kw_only=True)
class Readied:
    """Who has it drops it in the end, in whichever thread; nothing else of it may be done meanwhile."""

    ahead: Ahead
    ref: Ref
    last: tuple[FamilyId, Ref] | None
    """The capture that hhd knew the folder by."""
    at: float = field(default_factory=time.monotonic)

    def is_of(self, folder: Path, ref: Ref) -> bool:
        """Whether it is that capture in that folder, and new enough."""
        return self.ahead.folder == folder and self.ref == ref and time.monotonic() - self.at < FRESH_SECONDS

    def drop(self) -> None:
        """Leave nothing of it beside the folder; again does nothing. Raises LeftBetween."""
        self.ahead.drop()
