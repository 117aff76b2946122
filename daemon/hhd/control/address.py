"""Where the daemon is: it says so in the file whose lock it holds (`spec/control.md`, The socket).

Where it may put its socket depends on its environment, and a program's environment may be another one. So who asks
only reads what the daemon wrote.
"""

from __future__ import annotations

import os
from pathlib import Path

LOCK_FILE = "daemon.lock"
_PATH_BYTES_MAX = 4096


def said(data: Path) -> Path | None:
    """Return where the daemon that holds the lock of `data`, or the last one that did, said that its socket is."""
    try:
        with open(data / LOCK_FILE, "rb") as file:
            raw = file.read(_PATH_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Path(os.fsdecode(raw)) if raw.startswith(b"/") and b"\0" not in raw else None
