"""Which of the records that other members send this device keeps: those that mean something, within every bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256

from hhd_protocol.errors import TooLargeError
from hhd_protocol.group import (
    Add,
    GroupRecord,
    Revoke,
    decode,
    resolve,
)
from hhd_protocol.ids import GroupRecordId
from hhd_protocol.limits import (
    GROUP_BYTES_OF_ONE_MAX,
    GROUP_DEVICES_MAX,
    GROUP_RECORDS_MAX,
    GROUP_RECORDS_OF_ONE_MAX,
)


def decoded(records: Iterable[bytes], here: Mapping[GroupRecordId, GroupRecord]) -> list[GroupRecord]:
    """The records among `records` that are not here; raises FormatError if one is none, or there are too many."""
    fresh: dict[GroupRecordId, GroupRecord] = {}
    for count, raw in enumerate(records):
        if count >= GROUP_RECORDS_MAX:
            raise TooLargeError(f"more than {GROUP_RECORDS_MAX} records of a group came at once")
        id = GroupRecordId(sha256(raw).digest())
        if id not in here and id not in fresh:
            fresh[id] = decode(raw)
    return list(fresh.values())


def worth(
    here: Mapping[GroupRecordId, GroupRecord], fresh: list[GroupRecord], root: GroupRecordId
) -> list[GroupRecord]:
    """Those that mean something, and that pass no bound; what puts out is taken before what adds."""
    fresh = _within_bounds(here, fresh)
    group = resolve([*here.values(), *fresh], root=root)
    if len(group.given) > GROUP_DEVICES_MAX:
        fresh = [record for record in fresh if not isinstance(record.body, Add)]
        group = resolve([*here.values(), *fresh], root=root)
    return [record for record in fresh if record.id in group.good]


def _within_bounds(here: Mapping[GroupRecordId, GroupRecord], fresh: Iterable[GroupRecord]) -> list[GroupRecord]:
    """Those of `fresh` that leave each signer within its bounds; who forwards the rest did nothing wrong.

    Revocations have a share of their own: who signs without end cannot thereby keep its own ones from being known.
    """
    counts: Counter[tuple[bytes, bool]] = Counter()
    sizes: Counter[bytes] = Counter()
    for record in here.values():
        counts[record.body.public, isinstance(record.body, Revoke)] += 1
        sizes[record.body.public] += len(record.raw)
    kept: list[GroupRecord] = []
    for record in sorted(fresh, key=lambda record: (not isinstance(record.body, Revoke), record.id)):
        key, kind = record.body.public, isinstance(record.body, Revoke)
        small = sizes[key] + len(record.raw) <= GROUP_BYTES_OF_ONE_MAX
        if small and counts[key, kind] < GROUP_RECORDS_OF_ONE_MAX and len(here) + len(kept) < GROUP_RECORDS_MAX:
            counts[key, kind] += 1
            sizes[key] += len(record.raw)
            kept.append(record)
    return kept
