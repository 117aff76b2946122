"""Who may advance a session, or change the store as a whole: locks on files that nobody reads."""

from __future__ import annotations

from pathlib import Path

from hhd.base.locks import Lock as Lock
from hhd.base.locks import held as held
from hhd.base.locks import take as take
from hhd.base.locks import take_within as take_within
from hhd_protocol.crypto import derive

SESSION = "session"
"""The kind of lock that is the right to advance a session."""


def path_of(folder: Path, key: bytes, name: bytes, kind: str = SESSION) -> Path:
    """Return the file of a store whose lock is a right, say to advance a session; it says nothing without the `key`."""
    return folder / "locks" / derive(key, kind, name).hex()[:32]
