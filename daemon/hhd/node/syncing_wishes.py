"""Which sessions a device is not to have: its person does not want them there, or was not asked yet.

Wishes are the shared document's (`registry.md`, `f`). A finding of the secrets scan holds a session's first way to each
device until a person chose: to follow it there is the word for sending, not to follow it that for keeping it back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.node import findings
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.ids import DeviceId, SessionId

if TYPE_CHECKING:
    from hhd.registry.registry import Registry

TABLE = "followed"
"""A row by device: what a person said here of the way of sessions to it."""


class Wishes:
    """What is left out for each device; used by the thread of sync."""

    def __init__(self, me: DeviceId) -> None:
        self._me = me
        self._held: dict[DeviceId, set[SessionId]] = {}
        self._found: dict[SessionId, tuple[bytes, bool]] = {}
        self._said: tuple[bytes | None, Registry | None] = (None, None)
        self._files: tuple[float, ...] = ()
        self._folder: Path | None = None

    def left_out(self, store: Store, device: DeviceId, revisions: Mapping[SessionId, bytes]) -> frozenset[SessionId]:
        """Return the sessions that are not to go to `device`; `revisions`: of all, by which what was found is kept."""
        self._folder = store.folder
        self._held[device] = set()
        words = _words(store, device)
        return frozenset(
            one for one, revision in revisions.items() if self._leaves_out(store, device, one, words, revision)
        )

    def leaves_out(self, store: Store, device: DeviceId, session: SessionId) -> bool:
        """Whether a session is not to go to `device`."""
        return self._leaves_out(store, device, session, _words(store, device), None)

    def _leaves_out(
        self, store: Store, device: DeviceId, session: SessionId, words: Mapping[bytes, bool], revision: bytes | None
    ) -> bool:
        held = self._held.setdefault(device, set())
        held.discard(session)
        said = self._wished(store, session, device)
        word = words.get(session)
        if said is False or (said is None and word is None and words.get(b"*") is False):
            return True
        if said or word:
            return False
        if not self._suspicious(store, session, revision) or device in store.arrived.knowing(session):
            return False
        held.add(session)
        return True

    def _suspicious(self, store: Store, session: SessionId, revision: bytes | None) -> bool:
        """Whether something in a session looks like a credential; found anew where it has changed."""
        kept = self._found.get(session)
        if kept is not None and revision is not None and kept[0] == revision:
            return kept[1]
        try:
            found = findings.count(store, session) > 0
        except DamagedStoreError:
            found = True
        if revision is not None:
            self._found[session] = revision, found
        return found

    def held(self) -> Iterator[tuple[SessionId, DeviceId]]:
        """The sessions that wait for a person's word, with the device that they do not go to."""
        for device, sessions in self._held.items():
            for session in sorted(sessions):
                yield session, device

    def follow(self, store: Store, session: SessionId | None, device: DeviceId, follow: bool) -> int:
        """Say whether `device` is to have a session (None: every one, those to come too); of how many it was said."""
        from hhd.node import registry

        sessions = store.sessions() if session is None else [session]
        with store.transaction():
            words = {**_words(store, device), **dict.fromkeys(map(bytes, sessions), follow)}
            if session is None:
                words[b"*"] = follow
            said: dict[Value, Value] = dict(words.items())
            store.rows.put(TABLE, b"", device, encode([1, said]))
            document = registry.opened(store)
            for one in sessions:
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


def _words(store: Store, device: DeviceId) -> dict[bytes, bool]:
    """What was said of each session's way to a device; under `*` of those that nothing was said of."""
    raw = store.rows.get(TABLE, b"", device)
    match decoded(raw, "row of wishes") if raw is not None else None:
        case [1, dict(words)]:
            return {one: word for one, word in words.items() if isinstance(one, bytes) and isinstance(word, bool)}
    return {}
