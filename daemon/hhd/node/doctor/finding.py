"""What one look found."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.StrEnum):
    """Fine; works, but a person should know; does not work."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found: a sentence, and unless all is well another one that says what to do."""

    state: State
    says: str
    fix: str = ""


def ok(says: str) -> Finding:
    """All is well."""
    return Finding(state=State.OK, says=says)


def warn(says: str, fix: str) -> Finding:
    """It works, but a person should know."""
    return Finding(state=State.WARN, says=says, fix=fix)


def broken(says: str, fix: str) -> Finding:
    """It does not work."""
    return Finding(state=State.BROKEN, says=says, fix=fix)
