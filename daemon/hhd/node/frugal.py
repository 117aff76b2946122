"""Whether this device is to be spared: on battery, as the system says it.

Looked up at most once in some seconds: it is asked whenever content could be sent.
"""

from __future__ import annotations

import time
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
ASKED_SECONDS = 10.0


class Frugal:
    """`battery`: whether a battery is spared; `supplies`: where Linux lists what feeds the machine."""

    def __init__(self, *, battery: bool, supplies: Path = SUPPLIES) -> None:
        self._battery, self._supplies = battery, supplies
        self._at, self._why = float("-inf"), ""

    def why(self) -> str:
        """Return why content is coalesced, in words; empty: it goes at once."""
        if time.monotonic() - self._at > ASKED_SECONDS:
            self._at = time.monotonic()
            self._why = "this device is on battery" if self._battery and on_battery(self._supplies) else ""
        return self._why


def on_battery(supplies: Path = SUPPLIES) -> bool:
    """Whether a battery feeds the machine and nothing else does; False where the system does not say."""
    discharging = False
    try:
        for one in sorted(supplies.iterdir()):
            kind = _read(one / "type")
            if kind in ("Mains", "USB") and _read(one / "online") == "1":
                return False
            if kind == "Battery" and _read(one / "scope") != "Device" and _read(one / "status") == "Discharging":
                discharging = True
    except OSError:
        return False
    return discharging


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
