"""One command line as a process of its own: what it printed and returned."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

HHD = (sys.executable, "-m", "hhd")


class Told:
    """What one command printed and returned."""

    def __init__(self, *words: str, **more: Any) -> None:
        done = subprocess.run([*HHD, *words], capture_output=True, text=True, timeout=240, **more)
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)
