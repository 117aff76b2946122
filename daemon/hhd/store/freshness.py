"""How far other devices are with each session, as they said themselves: rows that lists read without opening anything.

A projection, like the catalogue: what it says comes from acknowledgements and is found out again by the next comparison
with a device, so damage to it costs nothing else. Devices are named by their places in one table, which only grows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from hhd.store.catalogue import HALF_BYTES, Catalogue
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import Rows, decoded
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId

FRESHNESS, DEVICES = "freshness", "freshness-devices"
"""Tables of rows: by session how far others are; which other devices are to have sessions, each at its place."""

BLOCK_VALUES = 64
"""A value has some 70 bytes a device: with two others, ten thousand sessions are read in some 230 rows."""
SEVERAL = 0xFFFF
"""Values that are decoded at once."""
APART = -1
"""In the place of what all devices had of a session: some of it is not here, or is kept back from one of them."""


class Reached(NamedTuple):
    """How far a device is with a session.

    `had`: of the checkpoints here, in the order in which they came, how many it has from the first on without a gap,
    content and all; `head` is the last of those, None if it has none. `level`: the begin of the digest of the session
    as it was here when the device had all of it, empty if it was not so. `kept_back`: its person does not want it
    there, or was not asked yet. `at_ms`: when it last said something new, by the clock of this device.
    """

    had: int = 0
    at_ms: int = 0
    head: CheckpointId | None = None
    level: bytes = b""
    kept_back: bool = False


class Fresh(NamedTuple):
    """One session. `lacking`: checkpoints of which this device has no content; the others, by their places."""

    lacking: int
    reached: Mapping[int, Reached]

    def had_by_all(self, places: Iterable[int]) -> int:
        """Return how many of the checkpoints here all devices in these places have, `APART` where that is not all."""
        reached = [self.reached.get(place, _NONE) for place in places]
        if self.lacking or any(one.kept_back for one in reached):
            return APART
        return min((one.had for one in reached), default=APART)


_NONE = Reached()
_KINDS = {(int, int, head, bytes, bool) for head in (bytes, type(None))}
_made = functools.partial(tuple.__new__, Reached)
"""A `Reached` of a list of its fields: ten thousand are made for a list."""


NOTHING = Fresh(0, {})


class Freshness:
    """The freshness of the sessions of one store."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._sessions = Catalogue(rows, FRESHNESS, block_values=BLOCK_VALUES)

    # Devices

    def places(self) -> dict[DeviceId, int]:
        """Return the places of the other devices that are to have sessions now."""
        return self._now()[1]

    def _now(self) -> tuple[int, dict[DeviceId, int]]:
        """Which set of devices this is, counted, and their places."""
        count, devices = self._devices()
        return count, {device: place for place, (device, now, _) in enumerate(devices) if now}

    def names(self) -> dict[bytes, str]:
        """Return the names that the other devices have of their own, by the first halves of their ids."""
        return {device[:HALF_BYTES]: name for device, now, name in self._devices()[1] if now and name}

    def note_devices(self, devices: Mapping[DeviceId, str]) -> None:
        """Say which other devices there are now, with their own names; who had a place keeps it."""
        count, before = self._devices()
        after = [(device, device in devices, devices.get(device, name)) for device, _, name in before]
        known = {device for device, _, _ in before}
        after += [(device, True, devices[device]) for device in sorted(devices.keys() - known)]
        if after != before:
            self._rows.put(DEVICES, b"", b"", encode([1, count + 1, [list(one) for one in after]]))

    def _devices(self) -> tuple[int, list[tuple[DeviceId, bool, str]]]:
        try:
            raw = self._rows.get(DEVICES, b"", b"")
            match decoded(raw, "table of devices") if raw is not None else None:
                case [1, int(count), list(entries)]:
                    rows = cast(list[list[Value]], entries)
                    return count, [_device(row) for row in rows]
        except (DamagedStoreError, FormatError):
            pass
        return 0, []

    # Sessions

    def of(self, session: SessionId) -> Fresh:
        """Return how far others are with a session; nothing where nothing is known, or it is damaged."""
        try:
            raw = self._sessions.get(session)
            match None if raw is None else decode_own(raw):
                case [1, int(), int(), bytes(whole)]:
                    return _fresh(decode_own(whole))
        except (DamagedStoreError, FormatError):
            pass
        return NOTHING

    def apart(self, counts: Mapping[SessionId, int]) -> dict[SessionId, Fresh]:
        """Return those of which some device has not all that is here, or is not to have it; the others are level.

        `counts`: how many checkpoints of each session are here. What is damaged counts as not known.
        """
        return self._all(counts, self._now()[0])

    def all(self, counts: Mapping[SessionId, int]) -> dict[SessionId, Fresh]:
        """Return the same of every one of these sessions."""
        return self._all(counts, None)

    def _all(self, counts: Mapping[SessionId, int], now: int | None) -> dict[SessionId, Fresh]:
        """Return how far others are with sessions, without those that are level with the set of devices `now`."""
        entries = self._sessions.sound_entries()
        level: set[SessionId] = set()
        found: dict[SessionId, Fresh] = {}
        ids = list(entries)
        for begin in range(0, len(ids), SEVERAL):
            part = ids[begin : begin + SEVERAL]
            rows = _rows([entries[id] for id in part])
            if rows is None:  # One of them is not as it should be, which its own read finds.
                continue
            apart: dict[SessionId, bytes] = {}
            for id, (_, of, had, whole) in zip(part, rows, strict=True):
                if of == now and had >= counts.get(id, 0):
                    level.add(id)
                else:
                    apart[id] = whole
            with contextlib.suppress(FormatError):
                found.update(zip(apart, map(_fresh, _together(list(apart.values()))), strict=True))
        return {id: found[id] if id in found else self.of(id) for id in counts if id not in level}

    def put(self, session: SessionId, fresh: Fresh) -> None:
        """Set what is known of a session, in the caller's transaction if there is one."""
        count, places = self._now()
        self._sessions.put(session, self.encoded(fresh, count, places))

    def kept_back(self, session: SessionId, device: DeviceId, kept_back: bool) -> None:
        """A person said whether a session is kept back from a device, which may be away: lists say so from now on.

        In the caller's transaction if there is one.
        """
        place = self.places().get(device)
        fresh = self.of(session)
        if place is None or fresh.reached.get(place, _NONE).kept_back == kept_back:
            return
        now = fresh.reached.get(place, _NONE)._replace(kept_back=kept_back, level=b"")
        self.put(session, fresh._replace(reached={**fresh.reached, place: now}))

    @staticmethod
    def encoded(fresh: Fresh, count: int, places: Mapping[DeviceId, int]) -> bytes:
        """Return the value for the rows: what all devices of a counted set have, which is read fast; then all of it."""
        others: dict[Value, Value] = {
            place: [one.had, one.at_ms, one.head, one.level, one.kept_back] for place, one in fresh.reached.items()
        }
        return encode([1, count, fresh.had_by_all(places.values()), encode([fresh.lacking, others])])

    def forget(self, session: SessionId) -> None:
        """The session is removed; within a transaction."""
        self._sessions.remove(session)


def _device(row: Value) -> tuple[DeviceId, bool, str]:
    match row:
        case [bytes(device), bool(now)]:  # As it was before names were kept.
            return DeviceId(device), now, ""
        case [bytes(device), bool(now), str(name)]:
            return DeviceId(device), now, name
    raise FormatError("a row of the table of devices is not in the form it was written in")


def _rows(values: list[bytes]) -> list[tuple[int, int, int, bytes]] | None:
    """Values of rows decoded at once; None where one is not in its form."""
    try:
        fields = _together(values)
    except FormatError:
        return None
    if set(map(type, fields)) - {list}:
        return None
    rows = cast(list[tuple[int, int, int, bytes]], fields)
    if set(map(len, rows)) - {4}:
        return None
    kinds = [set(map(type, column)) for column in zip(*rows, strict=True)]
    return rows if kinds in ([{int}, {int}, {int}, {bytes}], []) else None


def _together(values: list[bytes]) -> list[Value]:
    """At most `SEVERAL` values decoded at once; raises FormatError."""
    fields = decode_own(b"\x99" + len(values).to_bytes(2, "big") + b"".join(values))
    if type(fields) is not list or len(fields) != len(values):
        raise FormatError("what is known of sessions is not in the form it was written in")
    return fields


def _fresh(fields: Value) -> Fresh:
    match fields:
        case [int(lacking), dict(others)]:
            return Fresh(lacking, {place: _reached(one) for place, one in others.items() if type(place) is int})
    raise FormatError("how far others are with a session is not in the form it was written in")


def _reached(fields: Value) -> Reached:
    if type(fields) is list and tuple(map(type, fields)) in _KINDS:
        return _made(fields)
    raise FormatError("how far a device is with a session is not in the form it was written in")
