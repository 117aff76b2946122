"""What a step says of the effect it is about, in the words of lineage, and whether it begins that effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hhd_protocol.journal import Journal, State
from hhd_protocol.statements import EffectKind, Progress


@dataclass(frozen=True, kw_only=True)
class Said:
    """`effects`: what changed, by position. `starts`: the effect is about to be run once this is durable."""

    effects: Mapping[int, Progress] = field(default_factory=dict)
    starts: bool = False


def said(before: Journal, after: Journal, *, kind: EffectKind, begun_here: bool) -> Said:
    """Compare the journal before a step and after it.

    `kind` is the effect's; `begun_here`: this process began it, so an answer is its own and no person's word.
    """
    new, old = after.live, before.live
    if new is None or new == old:
        return Said()
    position = new.index
    if old is None or old.index != new.index:
        answered = new.state is State.ANSWERED
        return Said(
            effects={position: Progress.ANSWERED if answered else Progress.ASKED}, starts=new.state is State.STARTED
        )
    doubted = old.state in (State.STARTED, State.UNCERTAIN)
    match new.state:
        case State.ANSWERED if old.state is not State.ANSWERED:
            settled = doubted and not begun_here and kind is EffectKind.TOOL
            return Said(effects={position: Progress.SETTLED if settled else Progress.ANSWERED})
        case State.STARTED:
            anew = {position: Progress.RERUN} if doubted and kind is EffectKind.TOOL else {}
            return Said(effects=anew, starts=True)
        case State.UNCERTAIN if old.state is not State.UNCERTAIN:
            return Said(effects={position: Progress.STARTED})
        case State.ASKED if old.state is not State.ASKED:
            return Said(effects={position: Progress.ASKED})
    return Said()


def not_started(before: Journal, after: Journal) -> Journal:
    """`after` without the start that it says: what holds where the effect may not be begun."""
    new, old = after.live, before.live
    assert new is not None and new.state is State.STARTED
    if old is not None and old.index == new.index:
        return replace(after, live=old)
    return replace(after, live=replace(new, state=State.ASKED, starts=new.starts - 1, approval=None))
