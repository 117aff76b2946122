"""How much memory this process had at the highest, for scripts that tests start."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_kib() -> int:
    """Return the highest resident set of this program in KiB.

    On Linux `ru_maxrss` of a program that a large process started is that of the large one, until it grows past it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 10 if sys.platform == "darwin" else peak
