"""Changes that are hard to see, and a clock by which all was written long ago."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hhd.workspace import appearance


def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no file is taken for one that was just written, so that no test has to wait."""
    monkeypatch.setattr(appearance, "TICK_NS", -(10**12))
    monkeypatch.setattr(appearance, "RACY_NS", -(10**12))


def unseen(file: Path, content: bytes) -> None:
    """Write as many bytes as are there, and put the time of the content back: only that of the status tells."""
    before = file.stat()
    assert len(content) == before.st_size
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # The next tick of the clock of its file system.
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
