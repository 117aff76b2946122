"""What is left out of a capture, gathered: each thing once, a bounded list, the rest counted."""

from __future__ import annotations

from hhd_protocol.limits import WORKSPACE_LEFT_OUT_MAX, WORKSPACE_TEXT_BYTES_MAX
from hhd_protocol.workspace import LeftOut, Reason


class LeftOuts:
    """A growing set of what was left out."""

    def __init__(self) -> None:
        self._found: set[LeftOut] = set()

    def add(self, one: LeftOut) -> None:
        """Note one thing."""
        if len(one.path) > WORKSPACE_TEXT_BYTES_MAX:
            one = LeftOut(path=one.path[:WORKSPACE_TEXT_BYTES_MAX], reason=one.reason, size=one.size)
        self._found.add(one)

    def of(self, reason: Reason) -> list[bytes]:
        """The paths left out for `reason`."""
        return [one.path for one in self._found if one.reason is reason]

    def listed(self) -> tuple[tuple[LeftOut, ...], int]:
        """What the capture says: the list, ascending, and how much more there was. Ignored things make room first."""
        kept = self._found
        if len(kept) > WORKSPACE_LEFT_OUT_MAX:
            by_weight = sorted(kept, key=lambda one: (one.reason is Reason.IGNORED, one.path))
            kept = set(by_weight[:WORKSPACE_LEFT_OUT_MAX])
        listed = sorted(kept, key=lambda one: (one.path, one.reason, one.size))
        return tuple(listed), len(self._found) - len(listed)
