"""Whether this device is to be spared: on battery, or on a metered network, as the system says it.

Looked up at most once in some seconds: it is asked whenever content could be sent. What takes longer than reading a
file is asked in a thread, and counts from when the answer is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from hhd.node.metered import is_metered

SUPPLIES = Path("/sys/class/power_supply")
ASKED_SECONDS = 10.0


class Frugal:
    """`battery`, `metered`: whether these are spared; `supplies`: where Linux lists what feeds the machine.

    `network`: asked whether the network is metered; it may take its time.
    """

    def __init__(
        self,
        *,
        battery: bool,
        metered: bool,
        supplies: Path = SUPPLIES,
        network: Callable[[], bool] = is_metered,
    ) -> None:
        self._battery, self._metered = battery, metered
        self._supplies, self._network = supplies, network
        self._at, self._on_battery, self._on_metered = float("-inf"), False, False
        self._asking: threading.Thread | None = None

    def why(self) -> str:
        """Return why content is coalesced, in words; empty: it goes at once."""
        if time.monotonic() - self._at > ASKED_SECONDS:
            self._at = time.monotonic()
            self._on_battery = self._battery and on_battery(self._supplies)
            if self._metered and (self._asking is None or not self._asking.is_alive()):
                self._asking = threading.Thread(target=self._ask, name="metered", daemon=True)
                self._asking.start()
        reasons = [("on battery", self._on_battery), ("on a metered network", self._on_metered)]
        said = " and ".join(words for words, so in reasons if so)
        return f"this device is {said}" if said else ""

    def _ask(self) -> None:
        self._on_metered = self._network()


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
