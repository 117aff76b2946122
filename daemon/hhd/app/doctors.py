"""What may keep hhd from working on this device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hhd.app import sessions

if TYPE_CHECKING:
    from hhd.node.doctor.finding import Finding


def findings() -> Iterator[tuple[str, Finding]]:
    """What each look finds, by its name, as it is done."""
    from hhd.node.doctor import table

    return table.findings(sessions.daemon_link)
