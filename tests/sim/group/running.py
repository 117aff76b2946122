"""The worlds of groups, and what has to happen in some of them."""

from __future__ import annotations

from tests.sim.group.world import World

REQUIRED = (
    "added",
    "added again",
    "agreed",
    "allowed",
    "begun anew",
    "counts anew",
    "cut-offs unite",
    "damaged records refused",
    "fallen",
    "flood",
    "former members",
    "in another group",
    "learnt that it is out",
    "message lost",
    "mutual revocation",
    "nobody is left",
    "partition",
    "records twice",
    "revocation",
    "ring",
    "sealed",
    "some records only",
    "the join was lost",
    "the thief: add",
    "the thief: found",
    "the thief: puppet",
    "the thief: revoke",
    "two groups",
    "who is out may nothing",
)
RARE = frozenset({"cut-offs unite", "flood", "ring"})


def make(seed: int) -> World:
    return World(seed)
