"""The order in which statements of a session go over: what others need in order to judge it goes before a statement."""

from __future__ import annotations

from collections.abc import Iterable

from hhd_protocol.bodies import CheckpointBody, CreateBody, IntentBody, ReleaseBody, TakeoverBody, TombstoneBody
from hhd_protocol.lineage import Signed


def in_order(statements: Iterable[Signed]) -> list[Signed]:
    """Return them records first, by number, then tombstones, checkpoints, intents, and the rest, each as given."""
    return sorted(statements, key=_rank)


def _rank(one: Signed) -> tuple[int, int]:
    match one.body:
        case CreateBody():
            return 0, 1
        case ReleaseBody(number=number) | TakeoverBody(number=number):
            return 0, number
        case TombstoneBody():
            return 1, 0
        case CheckpointBody():
            return 2, 0
        case IntentBody():
            return 3, 0
        case _:
            return 4, 0
