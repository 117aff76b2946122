"""Begins a session of the agent in a capsule, where the person said."""

from __future__ import annotations

import os
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.effects.confine import Workspace
from hhd.node import capsules


def start(prompt: str, out: Path, *, folder: Path, once: bool) -> None:
    """Make a capsule of the agent with `prompt`, not begun yet, at `out`; `folder` is noted as a hint.

    Raises RefusedError, with nothing written, where there is something of that name already, or `folder` cannot be
    worked in.
    """
    if os.path.lexists(out):
        raise RefusedError(f"{out} exists and was left as it is; choose another name, or go on with it.")
    with Workspace(folder):  # What cannot be worked in is refused before anything is made.
        pass
    hint = str(folder.resolve())
    capsules.new("agent", out, args=arguments(prompt, once=once), embed=True, force=False, path_hint=hint)


def arguments(prompt: str, *, once: bool) -> dict[str, str]:
    """The agent's arguments."""
    return {"prompt": prompt, **({"once": "true"} if once else {})}
