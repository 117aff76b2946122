"""Installs the real clients at their pinned versions, once for each lock file, below the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def installed() -> Path:
    """The folder that holds `node_modules`; installs it if it is not there. `HHD_TEST_CLIENTS` names another place."""
    lock = (HERE / "package-lock.json").read_bytes()
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hhd-test-clients"
    folder = Path(os.environ.get("HHD_TEST_CLIENTS") or base / hashlib.sha256(lock).hexdigest()[:16])
    done = folder / ".installed"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder / name)
        words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(words, cwd=folder, check=True, timeout=900)
        done.touch()
    return folder
