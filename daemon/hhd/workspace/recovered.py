"""What a start found of a change that a crash had interrupted, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What was found of a crash: `done` the change was carried to its end, else it had not begun.

    `left`: what someone had changed since and was left alone, in sentences; the rest of it lies in `stage`. `problem`:
    why it could not be ended now, a sentence; empty if it was. `folder`: None where the record does not say.
    """

    folder: Path | None
    done: bool
    stage: Path | None = None
    left: tuple[str, ...] = ()
    problem: str = ""
