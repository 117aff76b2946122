"""Records of a group in causal order: what is named before what names it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from hhd_protocol.group.records import Add, Allow, Found, GroupRecord, Join, Revoke
from hhd_protocol.ids import GroupRecordId


class Causes:
    """Records, each after all that it names; one set has one order."""

    def __init__(self, records: Iterable[GroupRecord]) -> None:
        here = {record.id: record for record in records}
        self.order = _named_first(here)
        self.place = {record.id: place for place, record in enumerate(self.order)}

    def get(self, id: GroupRecordId) -> GroupRecord | None:
        """Return a record, None if it is not here."""
        place = self.place.get(id)
        return None if place is None else self.order[place]

    def ends(self) -> list[GroupRecordId]:
        """Return those that no other names, in causal order."""
        named = {id for record in self.order for id in named_by(record)}
        return [record.id for record in self.order if record.id not in named]


def named_by(record: GroupRecord) -> list[GroupRecordId]:
    """Return the ids of the records that a record names."""
    body = record.body
    named = list(body.seen)
    if body.under is not None:
        named.append(body.under)
    match body:
        case Revoke():
            named += body.memberships
        case Allow():
            named.append(body.membership)
        case Found() | Join() if body.former is not None:
            named.append(body.former)
        case Add() | Found() | Join():
            pass
    return named


def _named_first(here: dict[GroupRecordId, GroupRecord]) -> list[GroupRecord]:
    waiting: dict[GroupRecordId, int] = {}
    namers: dict[GroupRecordId, list[GroupRecordId]] = {}
    for id, record in here.items():
        names = {named for named in named_by(record) if named in here}
        waiting[id] = len(names)
        for named in names:
            namers.setdefault(named, []).append(id)
    ready = sorted(id for id, count in waiting.items() if count == 0)
    order = []
    while ready:  # By id where nothing else decides: one set has one order.
        id = heapq.heappop(ready)
        order.append(here[id])
        for namer in namers.get(id, ()):
            waiting[namer] -= 1
            if waiting[namer] == 0:
                heapq.heappush(ready, namer)
    assert len(order) == len(here), "ids are hashes: no record can name its own descendant"
    return order
