"""The heads of a session compared: where each parts from the line, and what was done there past that place.

All of it is computed from the checkpoints' statements whenever it is asked for. Where two lines part is the last
checkpoint that both stand on; after a person joined lines there may be several, and then it is the one with the longest
history, by id where they are equal, so that every device names the same.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.fencing import View
from hhd_protocol.ids import CheckpointId, DeviceId, StatementId
from hhd_protocol.statements import Progress


class Kept(enum.Enum):
    """Why a tip is shown."""

    HEAD = "head"
    HELD = "held"
    """Something that it stands on is not here yet."""
    SEALED = "sealed"
    """From a revoked device, after its cut-off."""


@dataclass(frozen=True, kw_only=True)
class Tip:
    """The end of one line of work.

    `main`: the tip of the owner's line. `fork`: the last checkpoint that it shares with the line that it is compared
    with, None if there is none here; the others are of what came after it. `past`: ids, the tip first. `turns`: how
    many ended there; the first checkpoint of a session is a border of turns, and ends none. `answered`, `open`:
    positions in the journal of effects that were answered or settled there, or asked and not answered. `devices`: who
    made it, the maker of the tip first. `first_ms`, `last_ms`: wall clocks of its begin and end, for showing only.
    """

    id: CheckpointId
    kept: Kept
    main: bool
    by: DeviceId
    token: StatementId
    fork: CheckpointId | None
    past: tuple[CheckpointId, ...]
    turns: int
    answered: tuple[int, ...]
    open: tuple[int, ...]
    devices: tuple[DeviceId, ...]
    first_ms: int
    last_ms: int


class Lines:
    """The lines of work of one session, out of its checkpoints' statements."""

    def __init__(self, checkpoints: Mapping[CheckpointId, CheckpointBody]) -> None:
        self._bodies = checkpoints

    def tips(self, view: View) -> tuple[Tip, ...]:
        """Return every head, the main one first, then what is kept and is no head, so that nothing goes unseen.

        Each is compared with the main line; the main one itself (or the first, where the owner's line is split) with
        whichever of the others parts from it last.
        """
        heads = sorted((CheckpointId(id) for id in view.heads), key=lambda id: (id != view.main, id))
        if not heads:
            return tuple(self._tip(id, kept, None, view) for id, kept in self._aside(view))
        line = heads[0]
        forks = [self.fork(line, other) for other in heads[1:]]
        ranks = self._depths(fork for fork in forks if fork is not None)
        last = max(ranks, key=lambda id: (ranks[id], id), default=None)
        found = [self._tip(line, Kept.HEAD, last, view)]
        found += [self._tip(id, Kept.HEAD, fork, view) for id, fork in zip(heads[1:], forks, strict=True)]
        found += [self._tip(id, kept, self.fork(line, id), view) for id, kept in self._aside(view)]
        return tuple(found)

    def fork(self, one: CheckpointId, other: CheckpointId) -> CheckpointId | None:
        """Return the last checkpoint that both stand on (or are); None if they have none in common here."""
        shared = set(self.ancestry(one)).intersection(self.ancestry(other))
        inner = {parent for id in shared for parent in self._bodies[id].parents}
        last = shared - inner
        if len(last) < 2:
            return next(iter(last), None)
        depths = self._depths(last)
        return max(last, key=lambda id: (depths[id], id))

    def past(self, tip: CheckpointId, fork: CheckpointId | None) -> list[CheckpointId]:
        """Return what `tip` stands on and `fork` does not, `tip` first, each before its parents."""
        before = set() if fork is None else set(self.ancestry(fork))
        return [id for id in self.ancestry(tip) if id not in before]

    def ancestry(self, tip: CheckpointId) -> Iterator[CheckpointId]:
        """Yield `tip` and what it stands on, as far as that is here, each once and before its parents."""
        order: list[CheckpointId] = []
        seen: set[CheckpointId] = set()
        stack = [(tip, False)]
        while stack:
            id, done = stack.pop()
            if done:
                order.append(id)
            elif id in self._bodies and id not in seen:
                seen.add(id)
                stack.append((id, True))
                stack.extend((parent, False) for parent in self._bodies[id].parents)
        yield from reversed(order)

    def _aside(self, view: View) -> list[tuple[CheckpointId, Kept]]:
        parents = {parent for body in self._bodies.values() for parent in body.parents}
        ends = sorted(id for id in self._bodies if id not in parents and id not in view.heads)
        return [(id, Kept.HELD if id in view.held else Kept.SEALED) for id in ends if id in view.held | view.sealed]

    def _tip(self, id: CheckpointId, kept: Kept, fork: CheckpointId | None, view: View) -> Tip:
        past = self.past(id, fork)
        bodies = [self._bodies[one] for one in reversed(past)]
        said: dict[int, Progress] = {}
        for body in bodies:
            said |= body.effects
        over = {at for at, progress in said.items() if progress in (Progress.ANSWERED, Progress.SETTLED)}
        made = self._bodies[id]
        times = [body.at_ms for body in bodies] or [made.at_ms]
        return Tip(
            id=id,
            kept=kept,
            main=id == view.main,
            by=made.by,
            token=made.token,
            fork=fork,
            past=tuple(past),
            turns=sum(body.turn for body in bodies if body.parents),
            answered=tuple(sorted(over)),
            open=tuple(sorted(said.keys() - over)),
            devices=tuple(dict.fromkeys([made.by, *(body.by for body in reversed(bodies))])),
            first_ms=times[0],
            last_ms=times[-1],
        )

    def _depths(self, ids: Iterable[CheckpointId]) -> dict[CheckpointId, int]:
        """Return how many checkpoints each of `ids` stands on."""
        return {id: sum(1 for _ in self.ancestry(id)) for id in ids}
