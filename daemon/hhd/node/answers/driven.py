"""What the verbs that drive a session answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A session that runs now: `fresh` unless it ran already, and what else was asked for was not heeded.

    `at`: what the device is called here at which it runs, None where that is this one.
    """

    session: str
    fresh: bool
    at: str | None = None


@dataclass(frozen=True, kw_only=True)
class Heard:
    """Words that reached a session: as the `answer` that it waited for, as `steering` that its next step hears, or as
    `prompt` of a session that was started for them."""

    session: str
    how: str


@dataclass(frozen=True, kw_only=True)
class Counted:
    """An answer: whether it counted; `by`: whose did, empty where nothing is asked any more."""

    session: str
    counted: bool
    by: str


@dataclass(frozen=True, kw_only=True)
class Rested:
    """A session that does not run any more, durable as it is: `state` and `sentence` as `live.State` has them."""

    session: str
    state: str
    sentence: str
