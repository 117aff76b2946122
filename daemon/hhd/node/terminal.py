"""What a terminal gives along with a session that a daemon is to run: the daemon's own is another one, or none.

Tools run with the environment of the terminal that made the session, as far as this device lets variables through. A
model's key that stands in it goes along as well, over a socket that only this user reaches, and is kept in memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hhd.base.config import load
from hhd.effects import environment as rule
from hhd.effects.model import SCRIPTED

SERVICE = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Where a model is and what opens it (`hhd.base.config`); a command never gets them."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of `environ`, what a session's tools may have, and what its model needs. Raises RefusedError for a config."""
    listed = rule.ALLOWED | set(rule.named(load().policy)) | set(SERVICE)
    return {name: value for name, value in environ.items() if value and (name in listed or name.startswith("LC_"))}


def model(name: str | None, folder: Path) -> str | None:
    """The model called `name`, as a daemon that is elsewhere finds it; a relative script is meant in `folder`."""
    if name is None or not name.startswith(SCRIPTED):
        return name
    script = name.removeprefix(SCRIPTED)
    file = folder.absolute() / Path(script).expanduser()
    comes_with_hhd = not os.path.lexists(file) and "." not in script and os.sep not in script
    return name if comes_with_hhd else f"{SCRIPTED}{file}"
