"""How things stand around this device, as the daemon knows it, for every process that advances a session.

The daemon writes it whenever it changes: who is linked, who has answered since this device woke. It is a file, because
a worker reads it at each step and nothing of it has to survive; it counts only while a daemon runs. Without a daemon a
command acts for the person who typed it: they are there.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hhd.base import locks
from hhd.base.paths import data_folder, private_folder
from hhd.control.address import LOCK_FILE
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.holding import Around, Clocks
from hhd_protocol.ids import DeviceId, SessionId, StatementId

FILE = "around"
_BYTES_MAX = 1024 * 1024


def now_ms() -> int:
    """Milliseconds of the clock that counts sleep."""
    clock = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
    return time.clock_gettime_ns(clock) // 1_000_000


def clocks() -> Clocks:
    """Return what the clock that counts sleep says, and what one says that does not."""
    return Clocks(boot_ms=now_ms(), awake_ms=time.monotonic_ns() // 1_000_000)


_STARTED_MS = now_ms()


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the daemon says: when this device woke, or the daemon started; full members that are linked, and those that
    answered since; `alone`: sessions that go on by themselves, since nobody was at them here after that. None: it is
    not known yet which do, so each of them may, but for those in `attended`.

    `linked_ms`: when the first of those links came up after there was none. For who goes on alone that is a wake, too:
    until then nobody could be asked."""

    woke_ms: int
    linked_ms: int = 0
    connected: frozenset[DeviceId] = frozenset()
    answered: frozenset[DeviceId] = frozenset()
    alone: frozenset[SessionId] | None = frozenset()
    attended: frozenset[SessionId] = frozenset()

    def is_attended(self, session: SessionId) -> bool:
        """Whether a session may go on as one that a person is at."""
        return session in self.attended if self.alone is None else session not in self.alone


def write(told: Told, folder: Path | None = None) -> None:
    """Say how things stand; what cannot be written is as if nothing was said."""
    alone = None if told.alone is None else _joined(told.alone)
    sets = map(_joined, (told.connected, told.answered, told.attended))
    fields: list[Value] = [3, told.woke_ms, told.linked_ms, alone, *sets]
    where = private_folder(folder or data_folder())
    new = where / f"{FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(encode(fields))
        os.replace(new, where / FILE)


def remove(folder: Path | None = None) -> None:
    """No daemon says any more how things stand."""
    with contextlib.suppress(OSError):
        ((folder or data_folder()) / FILE).unlink()


def read(folder: Path | None = None) -> Told | None:
    """Return what the daemon that runs says; None where none runs, or it said nothing."""
    where = folder or data_folder()
    try:
        with open(where / FILE, "rb") as source:
            raw = source.read(_BYTES_MAX)
        if not locks.held(where / LOCK_FILE):
            return None
        match decode_own(raw):
            case [
                3,
                int(woke),
                int(linked),
                bytes() | None as alone,
                bytes(connected),
                bytes(answered),
                bytes(attended),
            ] if max(woke, linked) <= now_ms():
                return Told(
                    woke_ms=woke,
                    linked_ms=linked,
                    connected=frozenset(map(DeviceId, _ids(connected))),
                    answered=frozenset(map(DeviceId, _ids(answered))),
                    alone=None if alone is None else frozenset(SessionId(StatementId(one)) for one in _ids(alone)),
                    attended=frozenset(SessionId(StatementId(one)) for one in _ids(attended)),
                )
    except (OSError, FormatError):
        pass
    return None


def around(session: SessionId) -> Around:
    """Return how things stand for `session` in this process."""
    told = read()
    if told is None:
        return Around(woke_ms=_STARTED_MS, attached=True)
    attached = told.is_attended(session)
    return Around(
        woke_ms=told.woke_ms if attached else max(told.woke_ms, told.linked_ms),
        connected=told.connected,
        answered=told.answered,
        attached=attached,
    )


def _joined(ids: Iterable[bytes]) -> bytes:
    return b"".join(sorted(ids))


def _ids(raw: bytes) -> list[bytes]:
    return [raw[at : at + 32] for at in range(0, len(raw), 32)]
