"""Begins a session of the agent: its capsule, where the person said or in a folder of hhd's own."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder, private_folder
from hhd.node import capsules


def start(prompt: str, out: Path | None, *, folder: Path, once: bool) -> Path:
    """Make a capsule of the agent with `prompt`, not begun yet, and return where it is; `folder` is noted as a hint.

    Raises RefusedError, with nothing written, where there is something of that name already.
    """
    path = out or _named(prompt)
    if os.path.lexists(path):
        raise RefusedError(f"{path} exists and was left as it is; choose another name, or go on with it.")
    args = {"prompt": prompt, **({"once": "true"} if once else {})}
    capsules.new("agent", path, args=args, embed=True, force=False, path_hint=str(folder.resolve()))
    return path


def _named(prompt: str) -> Path:
    """A place in hhd's own folder, named by day and prompt."""
    folder = private_folder(private_folder(data_folder()) / "runs")
    words = "-".join(re.findall(r"[a-z0-9]+", prompt.lower())[:5])[:40] or "session"
    return folder / f"{datetime.date.today().isoformat()}-{words}-{os.urandom(2).hex()}.hhd"
