"""What a session may do on this device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.node.rules import Judged, Rules


def in_force() -> Rules:
    """What a session may do on this device."""
    from hhd.node import rules

    return rules.in_force()


def judge(tool: str, what: str, *, folder: Path) -> Judged:
    """What would become of one call of a tool."""
    from hhd.node import rules

    return rules.judge(tool, what, folder)
