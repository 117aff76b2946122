"""How far other devices are with each session, as they said themselves: rows that lists read without opening anything.

A projection, like the catalogue: what it says comes from acknowledgements and is found out again by the next comparison
with a device, so damage to it costs nothing else. Devices are named by their places in one table, which only grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from hhd.store.catalogue import Catalogue
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import Rows, decoded
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId

FRESHNESS, DEVICES = "freshness", "freshness-devices"
"""Tables of rows: by session how far others are; which other devices are to have sessions, each at its place."""

BLOCK_VALUES = 64
"""A value has some 70 bytes a device: with two others, ten thousand sessions are read in some 230 rows."""
SEVERAL = 0xFFFF
"""Values that are decoded at once."""


class Reached(NamedTuple):
    """How far a device is with a session.

    `had`: of the checkpoints here, in the order in which they came, the count up to the newest that it has, content
    and all; `head` is that one, None if it has none. `level`: the begin of the digest of the session as it was here
    when the device had all of it, empty if it was not so. `kept_back`: its person does not want it there, or was not
    asked yet. `at_ms`: when it last said something new, by the clock of this device.
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

    def encoded(self) -> bytes:
        """Return the value for the rows."""
        others: dict[Value, Value] = {
            place: [one.had, one.at_ms, one.head, one.level, one.kept_back] for place, one in self.reached.items()
        }
        return encode([1, self.lacking, others])


NOTHING = Fresh(0, {})


class Freshness:
    """The freshness of the sessions of one store."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._sessions = Catalogue(rows, FRESHNESS, block_values=BLOCK_VALUES)

    # Devices

    def places(self) -> dict[DeviceId, int]:
        """Return the places of the other devices that are to have sessions now."""
        return {device: place for place, (device, now) in enumerate(self._devices()) if now}

    def note_devices(self, devices: Iterable[DeviceId]) -> None:
        """Say which other devices there are now; who had a place keeps it."""
        before = self._devices()
        now = set(devices)
        after = [(device, device in now) for device, _ in before]
        after += [(device, True) for device in sorted(now - {device for device, _ in before})]
        if after != before:
            self._rows.put(DEVICES, b"", b"", encode([1, [[device, has] for device, has in after]]))

    def _devices(self) -> list[tuple[DeviceId, bool]]:
        try:
            raw = self._rows.get(DEVICES, b"", b"")
            match decoded(raw, "table of devices") if raw is not None else None:
                case [1, list(entries)]:
                    pairs = cast(list[tuple[bytes, bool]], entries)
                    return [(DeviceId(device), now) for device, now in pairs]
        except DamagedStoreError:
            pass
        return []

    # Sessions

    def of(self, session: SessionId) -> Fresh:
        """Return how far others are with a session; nothing where nothing is known, or it is damaged."""
        try:
            raw = self._sessions.get(session)
            return NOTHING if raw is None else _read(decode_own(raw))
        except (DamagedStoreError, FormatError):
            return NOTHING

    def all(self) -> dict[SessionId, Fresh]:
        """Return the same of every session of which something is known."""
        entries = self._sessions.sound_entries()
        ids, values = list(entries), list(entries.values())
        found: dict[SessionId, Fresh] = {}
        for begin in range(0, len(ids), SEVERAL):
            part = values[begin : begin + SEVERAL]
            try:
                fields = decode_own(b"\x99" + len(part).to_bytes(2, "big") + b"".join(part))
                if type(fields) is not list or len(fields) != len(part):
                    raise FormatError("what is known of sessions is not in the form it was written in")
                found.update(zip(ids[begin : begin + SEVERAL], map(_read, fields), strict=True))
            except FormatError:  # One of them, which its own read finds.
                found.update((one, self.of(one)) for one in ids[begin : begin + SEVERAL])
        return found

    def put(self, session: SessionId, fresh: Fresh) -> None:
        """Set what is known of a session, in the caller's transaction if there is one."""
        self._sessions.put(session, fresh.encoded())

    def forget(self, session: SessionId) -> None:
        """The session is removed; within a transaction."""
        self._sessions.remove(session)


def _read(fields: Value) -> Fresh:
    match fields:
        case [1, int(lacking), dict(others)]:
            return Fresh(lacking, {place: _reached(one) for place, one in others.items() if type(place) is int})
    raise FormatError("how far others are with a session is not in the form it was written in")


def _reached(fields: Value) -> Reached:
    match fields:
        case [int(had), int(at_ms), bytes() | None as head, bytes(level), bool(kept_back)]:
            return Reached(had, at_ms, None if head is None else CheckpointId(StatementId(head)), level, kept_back)
    raise FormatError("how far a device is with a session is not in the form it was written in")
