"""Which sessions a device is not to have: its person does not want them there, or was not asked yet.

Wishes are the shared document's (`registry.md`, `f`). A finding of the secrets scan holds a session's first way to each
device until a person chose: to follow it there is the word for sending, not to follow it that for keeping it back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.node import findings
from hhd.store.errors import DamagedStoreError
from hhd.store.store import Store
from hhd_protocol.ids import DeviceId, SessionId

if TYPE_CHECKING:
    from hhd.registry.registry import Registry

_LET, _BACK = b"\1", b"\0"
TABLE = "followed"
"""Rows by device and session: what a person said here of a session's way to a device."""


class Wishes:
    """What is left out for each device; used by the thread of sync."""

    def __init__(self, me: DeviceId) -> None:
        self._me = me
        self._held: dict[DeviceId, set[SessionId]] = {}
        self._said: tuple[bytes | None, Registry | None] = (None, None)
        self._files: tuple[float, ...] = ()
        self._folder: Path | None = None

    def left_out(self, store: Store, device: DeviceId) -> frozenset[SessionId]:
        """Return the sessions that are not to go to `device`."""
        self._folder = store.folder
        self._held[device] = set()
        return frozenset(one for one in store.sessions() if self.leaves_out(store, device, one))

    def leaves_out(self, store: Store, device: DeviceId, session: SessionId) -> bool:
        """Whether a session is not to go to `device`."""
        held = self._held.setdefault(device, set())
        held.discard(session)
        said = self._wished(store, session, device)
        word = store.rows.get(TABLE, device, session)
        if said is False:
            return True
        if said is None and word is None and store.rows.get(TABLE, device, b"*") == _BACK:
            return True
        if said or word == _LET or device in store.arrived.knowing(session):
            return False
        try:
            suspicious = findings.count(store, session) > 0
        except DamagedStoreError:
            suspicious = True
        if suspicious:
            held.add(session)
        return suspicious

    def held(self) -> Iterator[tuple[SessionId, DeviceId]]:
        """The sessions that wait for a person's word, with the device that they do not go to."""
        for device, sessions in self._held.items():
            for session in sorted(sessions):
                yield session, device

    def follow(self, store: Store, session: SessionId | None, device: DeviceId, follow: bool) -> int:
        """Say whether `device` is to have a session (None: every one, those to come too); of how many it was said."""
        from hhd.node import registry

        sessions = store.sessions() if session is None else [session]
        word = _LET if follow else _BACK
        with store.transaction():
            if session is None:
                store.rows.put(TABLE, device, b"*", word)
            document = registry.opened(store)
            for one in sessions:
                store.rows.put(TABLE, device, one, word)
                document.wish(one, device, follow)
        return len(sessions)

    def is_current(self) -> bool:
        """Whether nobody wrote to the store since this was asked last."""
        if self._folder is None:
            return False
        found = []
        for name in ("store.db", "store.db-wal"):
            try:
                found.append(os.stat(self._folder / name).st_mtime)
            except OSError:
                found.append(0.0)
        before, self._files = self._files, tuple(found)
        return before == self._files

    def _wished(self, store: Store, session: SessionId, device: DeviceId) -> bool | None:
        """What the shared document says; it is read once for each state it has."""
        mark = store.shared.mark()
        if mark is None:
            return None
        if self._said[0] != mark:
            from hhd.node import registry

            self._said = mark, registry.opened(store)
        document = self._said[1]
        assert document is not None
        return document.follows(session, device)
