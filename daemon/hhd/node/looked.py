"""What a folder held when it was looked at, shortly before a capture is to appear in it.

It may be some moments old: whatever is to be replaced is compared with it once more, under git's lock, and so are the
index and where HEAD stands; what else somebody changed meanwhile stays as it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from hhd_protocol.ids import FamilyId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture

FRESH_SECONDS = 30.0
"""After which a folder is looked at again."""


@dataclass(frozen=True, kw_only=True)
class Looked:
    """`now` is what `folder` held; `last` the capture of `family` that hhd knew it by, None for none."""

    folder: Path
    now: Capture
    family: FamilyId
    last: Ref | None
    at: float = field(default_factory=time.monotonic)

    def is_of(self, folder: Path) -> bool:
        """Whether it is of that folder, and new enough."""
        return self.folder == folder and self.is_fresh

    @property
    def is_fresh(self) -> bool:
        """Whether it is new enough."""
        return time.monotonic() - self.at < FRESH_SECONDS
