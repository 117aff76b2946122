"""What one who is attached to a session is told, event by event (`spec/live.md`).

Only `Emitted` is durable: bytes of the transcript, each with its place, so that who was away asks for what follows the
last byte it has. Everything else is of its moment, and is not told again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from hhd_protocol import mapping
from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError


@dataclass(frozen=True, kw_only=True)
class Attached:
    """The first event: which session it is, and that its transcript ends at `position` now.

    What was asked for of the transcript before that follows at once. `by`: how the others hear this terminal named.
    """

    session: str
    title: str
    program: str
    folder: str
    position: int
    by: str


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """Transcript, durable: `piece` begins at byte `position` of it."""

    position: int
    piece: bytes


@dataclass(frozen=True, kw_only=True)
class Words:
    """The model's words as they come; what becomes of them is in the transcript later. Of unknown origin."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something of hhd's own about the work."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something needs a person's yes: `pages` are its whole text, safe to print as they are.

    `id` names it in an answer. `shown`: SHA-256 of the pages as UTF-8, one after another, which a yes brings along to
    count. `always`: what the answer "always" would cover, empty where there is none.
    """

    id: str
    pages: tuple[str, ...]
    shown: bytes
    always: str


@dataclass(frozen=True, kw_only=True)
class Listening:
    """The session waits for a person's words; `prompt` and `why` are the session's (`agent-effects.md`, input)."""

    id: str
    prompt: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What `id` names needs no answer any more: `by` gave one, or it is empty, and the session stopped asking.

    `word`: yes, always, no, words, or empty.
    """

    id: str
    by: str
    word: str


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a person said to the session at `by`; it is in the transcript once the session hears it."""

    by: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What is typed at `by` and not said yet: the whole line as it stands, made safe to print."""

    by: str
    line: str


@dataclass(frozen=True, kw_only=True)
class State:
    """How the session is now: `name` is running, paused, waiting, finished or ended.

    `ended`: its process ended without a word, and `sentence` says what is known. `ways`: how to go on besides going on.
    `effect`: what it waits with, or empty. `status`: the exit status of a command that stops watching here.
    """

    name: str
    sentence: str
    ways: tuple[str, ...]
    effect: str
    status: int


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the whole session has used so far."""

    calls: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Missed:
    """Events that are not durable were left out, since this terminal took nothing for too long."""

    events: int


Event = Attached | Emitted | Words | Notice | Question | Listening | Settled | Said | Keys | State | Spent | Missed

KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Attached, Emitted, Words, Notice, Question, Listening, Settled, Said, Keys, State, Spent, Missed,
    )
}  # fmt: skip
"""By their names on the wire."""

STATES = ("running", "paused", "waiting", "finished", "ended")


def encoded(event: Event) -> Value:
    """Return an event as a value: a map of its kind to its fields."""
    return {type(event).__name__.lower(): mapping.to_value(event)}


def decoded(value: Value) -> Event:
    """Return the event that `value` stands for; raises FormatError if it stands for none."""
    if type(value) is not dict or len(value) != 1:
        raise FormatError("an event of a session is no map of one kind")
    ((name, fields),) = value.items()
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FormatError("an event of a session is of a kind that is not known")
    event: Event = mapping.from_value(kind, fields)
    if isinstance(event, State) and event.name not in STATES:
        raise FormatError("the state of a session is none that is known")
    if isinstance(event, Question) and len(event.shown) != 32:
        raise FormatError("the digest of a question has another length")
    if min(_counts(event), default=0) < 0:
        raise FormatError("a count of an event is below zero")
    return event


def _counts(event: Event) -> list[int]:
    fields = (getattr(event, field.name) for field in dataclasses.fields(event))
    return [one for one in fields if type(one) is int]
