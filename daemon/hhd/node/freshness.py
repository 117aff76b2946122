"""How far this person's devices are with each session of a list, as values that need no store to be read.

What other devices have is what they acknowledged themselves, as this device last heard: one that is not linked may have
more by now. Where there are no other devices, nothing of this is read or shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId

if TYPE_CHECKING:
    from hhd.node.listed import Listed
    from hhd.store.freshness import Fresh, Freshness


class Reach(NamedTuple):
    """How far another device is: `behind`: checkpoints here from the first on that it may lack; `head`: the one before.

    `head`: None where it said of none that it has it. `at_ms`: when it said that, by the clock of this device, 0 for
    never. `kept_back`: its person does not want the session there, or was not asked yet.
    """

    behind: int
    at_ms: int = 0
    head: CheckpointId | None = None
    kept_back: bool = False


class Spread(NamedTuple):
    """Where one session is. `lacking`: checkpoints of it that are known here, whose content only others have.

    `reached`: the other devices, in the order of the list's `others`.
    """

    lacking: int
    reached: tuple[Reach, ...]

    @property
    def level(self) -> bool:
        """Whether every device has all that is known, except those that are not to have it."""
        return not self.lacking and not any(one.behind and not one.kept_back for one in self.reached)


def read(
    store: Freshness, sessions: Iterable[Listed], *, exact: bool
) -> tuple[list[DeviceId], dict[SessionId, Spread]]:
    """Return the other devices, and where sessions are: with `exact` all of them, else those that are apart."""
    places = store.places()
    if not places:
        return [], {}
    counts = {one.id: one.checkpoints for one in sessions}
    known = store.all(counts) if exact else store.apart(counts)
    wanted = tuple(places.values())
    return list(places), {id: _spread(fresh, wanted, counts[id]) for id, fresh in known.items()}


def _spread(fresh: Fresh, places: tuple[int, ...], count: int) -> Spread:
    found = []
    for place in places:
        one = fresh.reached.get(place)
        found.append(
            Reach(count) if one is None else Reach(max(0, count - one.had), one.at_ms, one.head, one.kept_back)
        )
    return Spread(fresh.lacking, tuple(found))


def to_value(spread: Mapping[SessionId, Spread]) -> Value:
    """Return where sessions are as a value of a message (`spec/control.md`, Lists)."""
    found: dict[Value, Value] = {}
    for session, one in spread.items():
        reached: list[Value] = [[reach.behind, reach.at_ms, reach.head, reach.kept_back] for reach in one.reached]
        found[session] = [one.lacking, *reached]
    return found


def of_value(value: Value, others: int) -> dict[SessionId, Spread]:
    """Return what `to_value` gave, of so many other devices; raises FormatError."""
    if type(value) is not dict or set(map(type, value)) - {bytes}:
        raise FormatError("where sessions are is not said in the form of it")
    return {SessionId(StatementId(cast(bytes, one))): _of_value(fields, others) for one, fields in value.items()}


def _of_value(fields: Value, others: int) -> Spread:
    match fields:
        case [int(lacking), *reached] if len(reached) == others:
            return Spread(lacking, tuple(map(_reach, reached)))
    raise FormatError("where a session is, is not said in the form of it")


def _reach(fields: Value) -> Reach:
    match fields:
        case [int(behind), int(at_ms), bytes() | None as head, bool(kept_back)]:
            return Reach(behind, at_ms, None if head is None else CheckpointId(StatementId(head)), kept_back)
    raise FormatError("how far a device is with a session is not said in the form of it")
