"""Which sessions a device is not to have: its person does not want them there, or was not asked yet.

Wishes are the shared document's (`registry.md`, `f`). A finding of the secrets scan holds a session's first way to each
device until a person chose: to follow it there is the word for sending, not to follow it that for keeping it back.
That there is one, and which devices had the session then, is said in the shared document (`registry.md`, `k`): a device
that got the session holds it as the one does at which the finding arose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.errors import RefusedError
from hhd.node import findings
from hhd.node.refused import short
from hhd.store.catalogue import HALF_BYTES
from hhd.store.errors import BusyError, DamagedStoreError, FullStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.ids import DeviceId, SessionId

if TYPE_CHECKING:
    from hhd.registry.registry import Registry

TABLE = "followed"
"""A row by device: what a person said here of the way of sessions to it."""


@dataclass(kw_only=True)
class _Judged:
    """What was found for one device: `mark` and `words` are what it follows from beside the sessions themselves.

    `out`: the sessions that are left out. `held`: those of them that wait for a person's word.
    """

    mark: bytes | None
    words: Mapping[bytes, bool]
    revisions: dict[SessionId, bytes | None] = field(default_factory=dict)
    out: set[SessionId] = field(default_factory=set)
    held: set[SessionId] = field(default_factory=set)


class Wishes:
    """What is left out for each device; used by the thread of sync.

    What was found is kept for as long as nothing that it follows from is otherwise, so that a link over thousands of
    sessions costs a look at those that changed. `tells`: what is found here is said in the shared document.
    """

    def __init__(self, me: DeviceId, *, tells: bool = False) -> None:
        self._me, self._tells = me, tells
        self.told = False
        """Something was said in the shared document, and other devices are to hear of it."""
        self._untold: set[SessionId] = set()
        self._judged: dict[DeviceId, _Judged] = {}
        self._found: dict[SessionId, tuple[bytes, bool]] = {}
        self._said: tuple[Store, bytes, Registry] | None = None
        self._suspects: Mapping[bytes, frozenset[bytes]] = {}
        """What the shared document says of findings, as it was read for `_said`."""
        self._files: tuple[float, ...] = ()
        self._folder: Path | None = None

    def left_out(self, store: Store, device: DeviceId, revisions: Mapping[SessionId, bytes]) -> frozenset[SessionId]:
        """Return the sessions that are not to go to `device`; `revisions`: of all, by which what was found is kept."""
        self._folder = store.folder
        judged = self._of(store, device)
        for session in judged.revisions.keys() - revisions.keys():
            del judged.revisions[session]
            judged.out.discard(session)
            judged.held.discard(session)
        document = self._document(store, judged.mark)
        for session, revision in revisions.items():
            if judged.revisions.get(session) != revision or session in judged.held:
                self._judge(store, judged, document, device, session, revision)
        self._tell(store)
        return frozenset(judged.out)

    def leaves_out(self, store: Store, device: DeviceId, session: SessionId) -> bool:
        """Whether a session is not to go to `device`."""
        judged = self._of(store, device)
        self._judge(store, judged, self._document(store, judged.mark), device, session, None)
        self._tell(store)
        return session in judged.out

    def _of(self, store: Store, device: DeviceId) -> _Judged:
        """What was found for a device, from the wishes that there are now."""
        mark, words = store.shared.mark(), _words(store, device)
        kept = self._judged.get(device)
        if kept is None or kept.mark != mark or kept.words != words:
            kept = self._judged[device] = _Judged(mark=mark, words=words)
        return kept

    def _judge(
        self,
        store: Store,
        judged: _Judged,
        document: Registry | None,
        device: DeviceId,
        session: SessionId,
        revision: bytes | None,
    ) -> None:
        """Find out of one session, at `revision` (None: as it is now, whichever that is)."""
        said = None if document is None else document.follows(session, device)
        word = judged.words.get(session)
        unwanted = said is False or (said is None and word is None and judged.words.get(b"*") is False)
        wanted = not unwanted and bool(said or word)
        had = None if document is None else self._suspects.get(session[:HALF_BYTES])
        found = self._suspicious(store, session, revision)
        if found and had is None and device != self._me:
            self._untold.add(session)
        held = (
            not (unwanted or wanted)
            and (found or had is not None)
            and device[:HALF_BYTES] not in (had or ())
            and device not in store.arrived.knowing(session)
        )
        judged.revisions[session] = revision
        for sessions, belongs in ((judged.out, unwanted or held), (judged.held, held)):
            sessions.add(session) if belongs else sessions.discard(session)

    def _tell(self, store: Store) -> None:
        """Say in the shared document of which sessions something was found."""
        untold, self._untold = self._untold, set()
        if not self._tells or not untold:
            return
        from hhd.node import registry

        try:
            with store.transaction():
                document = registry.opened(store)
                for session in sorted(untold):
                    document.suspect(session, {self._me, *store.arrived.knowing(session)})
        except (
            BusyError,
            FullStoreError,
        ):  # It is held here all the same, and said the next time that one is looked at.
            self._untold = untold
            return
        self.told = True

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
        for device, judged in self._judged.items():
            if device != self._me:  # Of what is here it was only looked before anybody was linked.
                for session in sorted(judged.held):
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
                store.freshness.kept_back(one, device, not follow)
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

    def _document(self, store: Store, mark: bytes | None) -> Registry | None:
        """The shared document, None if there is none; it is read once for each state (`mark`) that it has.

        From a store that was opened anew it is read anew: what reads it asks the store that it was opened in.
        """
        if mark is None:
            return None
        if self._said is None or self._said[0] is not store or self._said[1] != mark:
            from hhd.node import registry

            self._said = store, mark, registry.opened(store)
            self._suspects = self._said[2].suspects()
        return self._said[2]


def insist_wanted(store: Store, me: DeviceId, session: SessionId, device: DeviceId, name: str) -> None:
    """Raise RefusedError where a session is not to go to `device`, which is called `name`: it would be waited for.

    What lists keep says whether that may be so; only then are the wishes of all devices read.
    """
    place, words = store.freshness.places().get(device), _words(store, device)
    reached = None if place is None else store.freshness.of(session).reached.get(place)
    may_be = (
        (reached is not None and reached.kept_back)
        or words.get(session, words.get(b"*")) is False
        or device not in store.arrived.knowing(session)  # Findings may be elsewhere, and the shared document knows.
    )
    wishes = Wishes(me)
    if not may_be or not wishes.leaves_out(store, device, session):
        return
    why = "is not to go to"
    if any(one == (session, device) for one in wishes.held()):
        why = "has something in it that looks like a credential, and was not said to go to"
    raise RefusedError(
        f"Session {short(session)} {why} {name}; nothing was changed. To let it go there: hhd follow {short(session)} "
        f"{name}"
    )


def _words(store: Store, device: DeviceId) -> dict[bytes, bool]:
    """What was said of each session's way to a device; under `*` of those that nothing was said of."""
    raw = store.rows.get(TABLE, b"", device)
    match decoded(raw, "row of wishes") if raw is not None else None:
        case [1, dict(words)]:
            return {one: word for one, word in words.items() if isinstance(one, bytes) and isinstance(word, bool)}
    return {}
