"""What the verbs on sessions answer: plain values, of text, numbers, bytes and tuples of them.

Ids are in hex, devices as a person reads them. Texts are as they came, of unknown origin: whoever prints one makes it
visible first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd.base.files import Buffer
from hhd.node.folding import Said


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device: its id as a person reads it, its name ("" if it has none), and whether it is this one."""

    id: str
    name: str
    here: bool


@dataclass(frozen=True, kw_only=True)
class Head:
    """One end of a session's work.

    `main`: the tip of the owner's line. `standing`: "head", or why it is none though it is kept: "held" (something it
    stands on is not here) or "sealed" (from a revoked device). `fork`: the checkpoint where it parts from the main
    line, for the main head where another parts from it last; None where there is none. `turns`, `effects` that were
    answered, `waiting` ones that were not, and `files`: past that fork. `files` is None where the content is gone.
    """

    id: str
    device: Device
    at_ms: int
    token: int | None
    main: bool
    picked: bool
    standing: str
    fork: str | None
    turns: int
    effects: int
    waiting: int
    files: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of a session, the main one first.

    `removed`: it was removed on all devices, by one that did not know all that is here.
    """

    session: str
    title: str
    heads: tuple[Head, ...]
    removed: bool


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One statement of a session.

    `position`: where it stands in this device's log; asked for what follows it, the log goes on from there. `kind`:
    create, release, takeover, checkpoint, intent, receipt or tombstone. `number`: in the chain of its device. `token`:
    of the record it is under, or is. `effects`: position and progress of each that it speaks of. `standing`: counts,
    held, refused or sealed. `note`: for whom, why, or what was asked.
    """

    position: str
    id: str
    kind: str
    device: Device
    number: int
    at_ms: int
    token: int | None
    turn: bool
    effects: tuple[tuple[int, str], ...]
    standing: str
    thinned: bool
    head: bool
    note: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a difference: a head, and what was done past the place where the two part."""

    head: str
    device: Device
    at_ms: int
    token: int | None
    turns: int
    calls: int
    files: tuple[str, ...]
    lines: tuple[Said, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two heads from where they part: `fork` is the checkpoint (None: nothing in common), `turn` the number of model
    calls before it (None: not known)."""

    session: str
    title: str
    fork: str | None
    turn: int | None
    one: Side
    other: Side


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A session and where it stands; `head` is the one that is shown, None before the first checkpoint."""

    session: str
    title: str
    program: str
    state: str
    waiting: str
    owner: Device
    token: int | None
    head: str | None
    heads: int
    archived: bool
    at_ms: int
    turns: int
    folder: str


@dataclass(frozen=True, kw_only=True)
class Wished:
    """A wish of a person's that was noted: what was said before and now (None: nothing).

    `questions`: what two devices said of this session without knowing of each other, in sentences.
    """

    session: str
    before: str | None
    after: str | None
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What removing a session destroys, or destroyed.

    `heads`: ids of its heads. `bytes`: of content that it uses; what forks share stays. `everywhere`: on the other
    devices of this person too, when they hear of it.
    """

    session: str
    title: str
    heads: tuple[str, ...]
    checkpoints: int
    turns: int
    bytes: int
    everywhere: bool


@dataclass(frozen=True, kw_only=True)
class Forked:
    """A new session of the same family: from which session and checkpoint, if that is known here or said.

    `fresh`: False where it was there already. `by`: the device that sealed the capsule it was made of, None if none
    did.
    """

    session: str
    title: str
    state: str
    origin: str | None
    checkpoint: str | None
    fresh: bool = True
    by: Device | None = None


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A session as a capsule file in `parts`: at which checkpoint, and sealed to which device (None: to none)."""

    session: str
    title: str
    checkpoint: str
    to: Device | None
    sealed: bool
    parts: Iterable[Buffer]


@dataclass(frozen=True, kw_only=True)
class Uncertain:
    """The effect of a session that was begun and not heard of again; `text` is it whole, safe to print as it is."""

    session: str
    effect: int
    op: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question about the effect that a session waits with: its whole text in `pages`, safe to print as it is.

    `shown`: SHA-256, in hex, of the pages as UTF-8, one after another: what an answer has to bring along.
    """

    session: str
    effect: int
    op: str
    pages: tuple[str, ...]
    shown: str


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A person's word on an effect that was noted: ran, did-not-run, again, approved or denied."""

    session: str
    effect: int
    op: str
    word: str
