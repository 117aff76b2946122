"""The stages of a handoff as a table: what may happen in each, what is done for it, and where that leads.

The machine (`hhd_protocol.handoff.machine`) looks every step up here and knows no other; the diagram in
`protocol/spec/handoff.md` is drawn from it; the tests walk it. What is not in the table changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType


class Side(enum.Enum):
    """Which of the two devices of a handoff this is."""

    SOURCE = "source"
    TARGET = "target"


class Stage(enum.Enum):
    """How far a handoff came, as this device's journal says. `NONE`: it has no record of it."""

    NONE = "none"
    OFFERED = "offered"
    ADMITTED = "admitted"
    STAGED = "staged"
    READY = "ready"
    RELEASED = "released"
    """The point of no return: the source has signed, and never acts again under the token it had."""
    TAKEN = "taken"
    ACKNOWLEDGED = "acknowledged"
    CLEANED = "cleaned"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"
    """Closed by a record that beats the release, or, at a target that was rolled back, by the release it had taken."""


OVER = frozenset((Stage.CLEANED, Stage.ABORTED, Stage.SUPERSEDED))
"""Stages after which nothing is owed."""

PENDING = (Stage.OFFERED, Stage.ADMITTED, Stage.STAGED, Stage.READY)
"""Stages of the source in which either side may still abort."""

UNTAKEN = (Stage.ADMITTED, Stage.READY)
"""Stages of the target in which it may still abort."""


class Happening(enum.Enum):
    """What may happen. The first kind comes from this device, the second is a message of the other."""

    WISHED = "wished"
    """A person wants it."""
    FIT = "fit"
    """What was offered can be run here."""
    UNFIT = "unfit"
    ROUND = "round"
    """All that was durable here when the round began is durable at the target; the next round would be long."""
    NEAR = "near"
    """The same, and what is missing now is little: it is time to pause."""
    PAUSED = "paused"
    """The session is paused at the border of a step, its last checkpoint durable."""
    DELIVERED = "delivered"
    """That checkpoint, with all that it needs, is durable at the target."""
    LOADED = "loaded"
    """The head is complete here and its program was loaded and looked at; nothing of it runs."""
    SIGNED = "signed"
    """The release is signed, and becomes durable with the record of this stage. At a source that was rolled back it
    comes back from others."""
    CLEANED = "cleaned"
    """What was kept for the handoff is removed."""
    CANCELLED = "cancelled"
    """A person does not want it any more, or its time is over."""
    FAILED = "failed"
    """Something that it needs cannot be done here."""
    BEATEN = "beaten"
    """A record is known here that beats the release, or the token to be released."""
    DUE = "due"
    """The link is back, this device started, or nothing came for long: say again what may have been lost."""

    OFFER = "offer"
    ADMIT = "admit"
    REFUSE = "refuse"
    PREPARE = "prepare"
    LOADED_THERE = "loaded-there"
    RELEASE = "release"
    TOOK = "took"
    CLOSED = "closed"
    ALREADY = "already"
    ASK = "ask"
    ABORT = "abort"
    SUPERSEDED = "superseded"


MESSAGES = tuple(Happening)[list(Happening).index(Happening.OFFER) :]
"""Those that are messages."""


class Act(enum.Enum):
    """What is done for it, in the order of a row. The first is a write, the last kind are messages."""

    PERSIST = "persist"
    """Make the record of the new stage durable, in one transaction with what the happening brought."""

    CHECK = "check"
    """See whether what is offered can be run here; FIT or UNFIT comes of it."""
    STAGE = "stage"
    """Send what the target lacks, up to now or up to the paused head; ROUND, NEAR or DELIVERED comes of it."""
    PAUSE = "pause"
    """Let the session come to the border of a step and stay there; PAUSED comes of it."""
    SIGN = "sign"
    """Sign the release to the target, by the doors of `holding`; SIGNED comes of it, or FAILED."""
    RESUME = "resume"
    """End the pause: the session goes on here, if it may."""
    LOAD = "load"
    """Load and look at the head that is named; LOADED or FAILED comes of it."""
    OPEN = "open"
    """Open the gate: the session runs here from now on."""
    CLEAN = "clean"
    """Remove what was kept for it; CLEANED comes of it."""
    TELL = "tell"
    """Say to who watches how it ended."""

    OFFER = "offer"
    ADMIT = "admit"
    REFUSE = "refuse"
    PREPARE = "prepare"
    LOADED_THERE = "loaded-there"
    RELEASE = "release"
    TOOK = "took"
    CLOSED = "closed"
    ALREADY = "already"
    ASK = "ask"
    ABORT = "abort"
    SUPERSEDED = "superseded"

    @property
    def is_message(self) -> bool:
        """Whether it is one that is sent."""
        return self in _SENT


_SENT = frozenset(tuple(Act)[list(Act).index(Act.OFFER) :])


@dataclass(frozen=True, kw_only=True)
class Row:
    """At `side`, in one of `stages`, `what` happens: `does` is done in order, and the stage is `to` then."""

    side: Side
    stages: tuple[Stage, ...]
    what: Happening
    to: Stage | None
    """None: the stage stays."""
    does: tuple[Act, ...]


def _source(stages: Stage | Iterable[Stage], what: Happening, to: Stage | None, *does: Act) -> Row:
    return Row(side=Side.SOURCE, stages=_tuple(stages), what=what, to=to, does=does)


def _target(stages: Stage | Iterable[Stage], what: Happening, to: Stage | None, *does: Act) -> Row:
    return Row(side=Side.TARGET, stages=_tuple(stages), what=what, to=to, does=does)


def _tuple(stages: Stage | Iterable[Stage]) -> tuple[Stage, ...]:
    return (stages,) if isinstance(stages, Stage) else tuple(stages)


_S, _H, _A = Stage, Happening, Act
_PAUSING = (_S.STAGED, _S.READY)
_GIVEN = (_S.ACKNOWLEDGED, _S.CLEANED)

TABLE: tuple[Row, ...] = (
    # The source, on its way
    _source(_S.NONE, _H.WISHED, _S.OFFERED, _A.PERSIST, _A.OFFER),
    _source(_S.OFFERED, _H.ADMIT, _S.ADMITTED, _A.PERSIST, _A.STAGE),
    _source(_S.ADMITTED, _H.ROUND, None, _A.STAGE),
    _source(_S.ADMITTED, _H.NEAR, _S.STAGED, _A.PERSIST, _A.PAUSE),
    _source(_PAUSING, _H.PAUSED, None, _A.STAGE),
    _source(_PAUSING, _H.DELIVERED, None, _A.PREPARE),
    _source(_PAUSING, _H.LOADED_THERE, _S.READY, _A.PERSIST, _A.SIGN),
    _source(PENDING, _H.SIGNED, _S.RELEASED, _A.PERSIST, _A.RELEASE),
    _source(_S.RELEASED, _H.TOOK, _S.ACKNOWLEDGED, _A.PERSIST, _A.CLOSED, _A.CLEAN),
    _source(_S.ACKNOWLEDGED, _H.CLEANED, _S.CLEANED, _A.PERSIST, _A.TELL),
    # The source, given up: only before the release
    _source(_S.OFFERED, _H.REFUSE, _S.ABORTED, _A.PERSIST, _A.TELL),
    _source(PENDING, _H.CANCELLED, _S.ABORTED, _A.PERSIST, _A.ABORT, _A.RESUME, _A.TELL),
    _source(PENDING, _H.FAILED, _S.ABORTED, _A.PERSIST, _A.ABORT, _A.RESUME, _A.TELL),
    _source(PENDING, _H.ABORT, _S.ABORTED, _A.PERSIST, _A.RESUME, _A.TELL),
    # Another record beats it
    _source(PENDING, _H.BEATEN, _S.SUPERSEDED, _A.PERSIST, _A.SUPERSEDED, _A.RESUME, _A.TELL),
    _source(_S.RELEASED, _H.BEATEN, _S.SUPERSEDED, _A.PERSIST, _A.SUPERSEDED, _A.TELL),
    _source(PENDING, _H.SUPERSEDED, _S.SUPERSEDED, _A.PERSIST, _A.RESUME, _A.TELL),
    _source(_S.RELEASED, _H.SUPERSEDED, _S.SUPERSEDED, _A.PERSIST, _A.TELL),
    # The source was rolled back: it had released, and the target tells it so
    _source((_S.NONE, *PENDING, _S.ABORTED), _H.TOOK, _S.ACKNOWLEDGED, _A.PERSIST, _A.CLOSED, _A.CLEAN),
    # The source, once more
    _source(_S.OFFERED, _H.DUE, None, _A.OFFER),
    _source(_S.ADMITTED, _H.DUE, None, _A.STAGE),
    _source(_PAUSING, _H.DUE, None, _A.PAUSE),
    _source(_S.RELEASED, _H.DUE, None, _A.RELEASE),
    _source(_S.ACKNOWLEDGED, _H.DUE, None, _A.CLEAN),
    _source(_S.OFFERED, _H.ASK, None, _A.OFFER),
    _source(_S.RELEASED, _H.ASK, None, _A.RELEASE),
    _source(_GIVEN, _H.ASK, None, _A.ALREADY),
    _source((_S.NONE, _S.ABORTED), _H.ASK, None, _A.ABORT),
    _source((_S.NONE, _S.ABORTED), _H.ADMIT, None, _A.ABORT),
    _source((_S.NONE, _S.ABORTED), _H.LOADED_THERE, None, _A.ABORT),
    _source(_S.RELEASED, _H.LOADED_THERE, None, _A.RELEASE),
    _source(_S.SUPERSEDED, _H.ASK, None, _A.SUPERSEDED),
    _source(_S.SUPERSEDED, _H.LOADED_THERE, None, _A.SUPERSEDED),
    _source((*_GIVEN, _S.SUPERSEDED), _H.TOOK, None, _A.CLOSED),
    # The target, on its way
    _target(_S.NONE, _H.OFFER, None, _A.CHECK),
    _target(_S.NONE, _H.FIT, _S.ADMITTED, _A.PERSIST, _A.ADMIT),
    _target(_S.NONE, _H.UNFIT, None, _A.REFUSE),
    _target(UNTAKEN, _H.PREPARE, None, _A.LOAD),
    _target(UNTAKEN, _H.LOADED, _S.READY, _A.PERSIST, _A.LOADED_THERE),
    _target((_S.NONE, *UNTAKEN, _S.ABORTED), _H.RELEASE, _S.TAKEN, _A.PERSIST, _A.OPEN, _A.TOOK),
    _target(_S.TAKEN, _H.CLOSED, _S.ACKNOWLEDGED, _A.PERSIST, _A.CLEAN),
    _target(_S.ACKNOWLEDGED, _H.CLEANED, _S.CLEANED, _A.PERSIST, _A.TELL),
    # The target, given up: not binding, for the source may have released already; then it is taken all the same
    _target(UNTAKEN, _H.FAILED, _S.ABORTED, _A.PERSIST, _A.ABORT, _A.CLEAN, _A.TELL),
    _target(UNTAKEN, _H.CANCELLED, _S.ABORTED, _A.PERSIST, _A.ABORT, _A.CLEAN, _A.TELL),
    _target(UNTAKEN, _H.ABORT, _S.ABORTED, _A.PERSIST, _A.CLEAN, _A.TELL),
    # Another record beats it, or this device had taken it before its store was rolled back
    _target(UNTAKEN, _H.BEATEN, _S.SUPERSEDED, _A.PERSIST, _A.SUPERSEDED, _A.CLEAN, _A.TELL),
    _target(_S.TAKEN, _H.BEATEN, _S.SUPERSEDED, _A.PERSIST, _A.SUPERSEDED, _A.CLEAN, _A.TELL),
    _target(UNTAKEN, _H.SUPERSEDED, _S.SUPERSEDED, _A.PERSIST, _A.CLEAN, _A.TELL),
    _target((_S.NONE, *UNTAKEN, _S.ABORTED), _H.ALREADY, _S.SUPERSEDED, _A.PERSIST, _A.CLEAN, _A.TELL),
    # The target, once more
    _target(UNTAKEN, _H.OFFER, None, _A.ADMIT),
    _target(UNTAKEN, _H.DUE, None, _A.ASK),
    _target(_S.TAKEN, _H.DUE, None, _A.TOOK),
    _target(_S.ACKNOWLEDGED, _H.DUE, None, _A.CLEAN),
    _target((_S.TAKEN, *_GIVEN), _H.OFFER, None, _A.TOOK),
    _target((_S.TAKEN, *_GIVEN), _H.PREPARE, None, _A.TOOK),
    _target((_S.TAKEN, *_GIVEN), _H.RELEASE, None, _A.TOOK),
    _target((_S.NONE, _S.ABORTED), _H.PREPARE, None, _A.ABORT),
    _target(_S.ABORTED, _H.OFFER, None, _A.ABORT),
    _target(_S.SUPERSEDED, _H.OFFER, None, _A.SUPERSEDED),
    _target(_S.SUPERSEDED, _H.PREPARE, None, _A.SUPERSEDED),
    _target(_S.SUPERSEDED, _H.RELEASE, None, _A.SUPERSEDED),
)


def _by_place(table: Iterable[Row]) -> Mapping[tuple[Side, Stage, Happening], Row]:
    found: dict[tuple[Side, Stage, Happening], Row] = {}
    for row in table:
        for stage in row.stages:
            assert (row.side, stage, row.what) not in found, f"two rows for {row.side}, {stage}, {row.what}"
            found[row.side, stage, row.what] = row
    return MappingProxyType(found)


_PLACES = _by_place(TABLE)


def row_for(side: Side, stage: Stage, what: Happening) -> Row | None:
    """The row of the table for `what` at `side` in `stage`; None: nothing is done."""
    return _PLACES.get((side, stage, what))


def follows(side: Side, before: Stage, after: Stage) -> bool:
    """Whether a journal in which `after` follows upon `before` is one that the table could have written."""
    return any(
        (after if row.to is None else row.to) is after and Act.PERSIST in row.does and before in row.stages
        for row in TABLE
        if row.side is side
    )


def diagram() -> Iterator[str]:
    """Yield the lines of the diagrams in `protocol/spec/handoff.md`: a Mermaid state diagram for each side."""
    for side in Side:
        yield from (f"### {side.value.capitalize()}", "", "```mermaid", "stateDiagram-v2")
        for row in TABLE:
            if row.side is side and row.to is not None:
                for stage in row.stages:
                    yield f"  {_node(stage)} --> {_node(row.to)}: {row.what.value} / {_does(row)}"
        yield from ("```", "", "Without a change of stage:", "", "| in | happens | does |", "|---|---|---|")
        for row in TABLE:
            if row.side is side and row.to is None:
                yield f"| {', '.join(stage.value for stage in row.stages)} | {row.what.value} | {_does(row)} |"
        yield ""


def _node(stage: Stage) -> str:
    return "[*]" if stage is Stage.NONE else stage.value


def _does(row: Row) -> str:
    return ", ".join(f"send {act.value}" if act.is_message else act.value for act in row.does)
