"""git's own lock of the index, held while a working tree is changed, so that git changes nothing meanwhile.

It holds a token, so that it is known for ours after a crash, and it appears with that token in it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hhd.base.files import create, sync_folder, temporary_start
from hhd.workspace.errors import NotOurs


def take_lock(lock: Path, token: bytes) -> None:
    """Hold `lock`; raises NotOurs if git, or a git that was killed, holds it."""
    try:
        create(lock, [token])
    except FileExistsError:
        raise NotOurs(f"{lock} is there: git is at work, or was killed at it. Nothing was changed.") from None


def release_lock(lock: Path, token: bytes) -> None:
    """Let it go again, if it is ours; also what was left of one that was just being made."""
    for path in (lock, *lock.parent.glob(f"{temporary_start(lock)}*.tmp")):
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == token:
                os.unlink(path)
                sync_folder(lock.parent)
