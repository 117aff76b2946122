"""What of each session is here, as others are told it: ends of chains, digests, what lacks its content.

Most sessions are known by a digest alone, kept as a copy in the store beside what it was made from. Those that somebody
works on are held with all their statements' places, so that a step costs what it adds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hhd.store.arrived import Level, Mark
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.ids import CheckpointId, SessionId, StatementId
from hhd_protocol.sync import Chains, session_digest

SEEN_KEPT = 256
"""Sessions held with all their statements: 150 bytes each, and a long one has 20,000."""
BARE_KEPT = 64
"""Checkpoints without content are held of a session beside those, where it has no more of them: 80 bytes each."""


@dataclass(kw_only=True)
class Seen:
    """One session with all its statements; `bare`: checkpoints whose content is not here, in the order they came."""

    chains: Chains
    bare: dict[CheckpointId, None]
    came: tuple[int, int] = (0, 0)
    """How many checkpoints and how many other statements were listed when they were last looked through."""
    heads_lacking: tuple[CheckpointId, ...] = ()
    after: dict[StatementId, StatementId | None] = field(default_factory=dict)


class Index:
    """The index over one store."""

    def __init__(self) -> None:
        self._seen: OrderedDict[SessionId, Seen] = OrderedDict()
        self.revisions: dict[SessionId, bytes] = {}
        self._listed: frozenset[SessionId] = frozenset()
        """Sessions that were here when all were last asked for."""
        self._marks: dict[SessionId, tuple[bytes, Mark]] = {}
        """Of each revision, by what it is seen that nobody has written to its session since."""
        self._dirty: dict[SessionId, Level] = {}
        self.digests: dict[SessionId, bytes] = {}
        self._bare: dict[SessionId, tuple[CheckpointId, ...] | None] = {}
        """Sessions of which some content is not here, with the checkpoints that lack it where that was asked for."""

    @property
    def bare(self) -> frozenset[SessionId]:
        """Sessions of which some content is not here."""
        return frozenset(self._bare)

    def open(self, store: Store) -> list[SessionId]:
        """Read or make the digests of all sessions; return those of which some content is not here."""
        bare: list[SessionId] = []
        with store.snapshot():
            for session in dict.fromkeys((*store.sessions(), *store.statements.removed())):
                try:
                    revision = store.arrived.revision(session)
                    level = store.arrived.level(session, revision)
                    self.revisions[session] = revision
                    level = level or self._described(store, session)
                    self.digests[session] = level.digest
                    if level.bare:
                        bare.append(session)
                        self._bare[session] = None
                except DamagedStoreError:  # `hhd check` names it; the others go on.
                    continue
        return bare

    def all(self, store: Store) -> list[SessionId]:
        """Return the sessions that are here, or were when they were last looked at."""
        listed = [*store.sessions(), *store.statements.removed()]
        self._listed = frozenset(listed)
        return list(dict.fromkeys((*self.digests, *listed)))

    def changed(self, store: Store, among: Iterable[SessionId]) -> list[SessionId]:
        """Return the sessions that are otherwise than when they were last looked at, or gone; `among`: of `all`."""
        among, found = list(among), []
        with store.snapshot():  # One reading, instead of a lock of the file for each row of each session.
            as_marked = self._as_marked(store, among)
            rest = [session for session in among if session not in as_marked]
            for session in rest:
                try:
                    if session not in self._listed or self.revisions.get(session) != store.arrived.revision(session):
                        found.append(session)
                    else:
                        self._marks[session] = self.revisions[session], store.arrived.mark(session)
                except DamagedStoreError:
                    continue
        return found

    def _as_marked(self, store: Store, among: Iterable[SessionId]) -> set[SessionId]:
        """Return those of which nothing was written since they were what they were last told as."""
        marked = {one: self._marks[one] for one in among if one in self._marks}
        now = {one: mark for one, (revision, mark) in marked.items() if self.revisions.get(one) == revision}
        try:
            return store.arrived.as_marked(now)
        except DamagedStoreError:  # It is found which of them it is.
            return set()

    def seen(self, store: Store, session: SessionId) -> Seen:
        """Return a session with all its statements, read if it has to be; empty where there is none."""
        if (found := self._seen.get(session)) is not None:
            self._seen.move_to_end(session)
            return found
        found = self._seen[session] = _read(store, session)
        while len(self._seen) > SEEN_KEPT:
            self._seen.popitem(last=False)
        return found

    def without_content(self, store: Store, session: SessionId) -> Iterable[CheckpointId]:
        """Return the checkpoints whose content is not here; who asks for many sessions puts none out of memory."""
        if (known := self._seen.get(session)) is not None:
            return known.bare
        found = self._bare.get(session)
        if found is None:
            found = tuple(_read(store, session).bare)
            if session in self._bare and len(found) <= BARE_KEPT:
                self._bare[session] = found
        return found

    def holds(self, session: SessionId) -> bool:
        """Whether a session is in memory with all its statements."""
        return session in self._seen

    def news(self, store: Store, session: SessionId) -> Mapping[StatementId, StatementId | None]:
        """Look at a session again and return the statements that were not there when it was last told of."""
        known = self._seen.get(session)
        if known is not None and not _is_here(store, session):  # What was there is gone: tombstones are left, at most.
            self.reread(session)
            return {id: after for id, after in self.seen(store, session).after.items() if id not in known.chains}
        if known is None:  # How it was then is not in memory: others find what is new by comparing.
            self.seen(store, session)
            return {}
        fresh: dict[StatementId, StatementId | None] = {}
        checkpoints, statements = known.came  # Both lists only grow: a session that goes is read anew.
        whole = store.checkpoint_ids_from(session, checkpoints)
        others = store.statements.listed(session, statements)
        found = True
        for id in (*whole, *others, *store.statements.tombstone_ids(session)):
            if id in known.chains:
                continue
            signed = store.statements.get(session, id)
            if signed is not None:
                fresh[id] = signed.body.after
            found = found and signed is not None
        if found:
            known.came = checkpoints + len(whole), statements + len(others)
        with_content = set(store.checkpoint_ids(session)) if known.bare else set()
        for id in [one for one in known.bare if one in with_content]:
            del known.bare[id]
        self.add(session, fresh)
        return fresh

    def add(self, session: SessionId, fresh: Mapping[StatementId, StatementId | None]) -> None:
        """Note statements that are here now."""
        if (known := self._seen.get(session)) is not None:
            for id, after in fresh.items():
                if known.chains.add(id, after):
                    known.after[id] = after

    def lacking(self, session: SessionId) -> int | None:
        """Return of how many checkpoints the content is not here; None while the session is not in memory."""
        known = self._seen.get(session)
        return None if known is None else len(known.bare)

    def is_behind(self, store: Store, session: SessionId) -> bool:
        """Whether somebody added to a session since it was last told of."""
        return self.revisions.get(session) != store.arrived.revision(session)

    def settle(
        self, store: Store, session: SessionId, lacking: tuple[CheckpointId, ...], revision: bytes
    ) -> bytes | None:
        """Return what a session comes to now; None where nothing of it is here.

        `revision`: of the moment at which it was looked at: what came after that is looked at again.
        """
        known = self.seen(store, session)
        if not known.after:
            self.drop(session)
            return None
        known.heads_lacking = lacking
        digest = session_digest(known.chains.frontier(marked=False), lacking)
        self.digests[session] = digest
        self.revisions[session] = revision
        self._bare.pop(session, None)
        if known.bare:
            self._bare[session] = None
        self._dirty[session] = Level(digest=digest, lacking=lacking, bare=bool(known.bare))
        return digest

    def opened_anew(self) -> None:
        """The store was closed meanwhile, and may have been repaired: lists are looked through from their beginning."""
        for known in self._seen.values():
            known.came = 0, 0

    def drop(self, session: SessionId) -> None:
        """A session is gone, or is to be read anew."""
        self._seen.pop(session, None)
        self._dirty.pop(session, None)
        self.digests.pop(session, None)
        self.revisions.pop(session, None)
        self._marks.pop(session, None)
        self._bare.pop(session, None)

    def reread(self, session: SessionId) -> None:
        """What is held of a session is not what is here: read it when it is asked for."""
        self._seen.pop(session, None)
        if session in self._bare:
            self._bare[session] = None

    def look_again(self, session: SessionId) -> None:
        """What was found of a session was told to nobody: it counts as changed until it is looked at again."""
        self.reread(session)
        self._dirty.pop(session, None)
        if session in self.revisions:
            self.revisions[session] = b""

    def keep(self, store: Store) -> None:
        """Write down what changed, for the next start."""
        if not self._dirty:
            return
        with store.transaction():
            for session, level in self._dirty.items():
                store.arrived.keep_level(session, self.revisions[session], level)
        self._dirty.clear()

    def _described(self, store: Store, session: SessionId) -> Level:
        """What a session comes to, out of its statements; heads without content count as lacking."""
        known = self.seen(store, session)
        lacking: tuple[CheckpointId, ...] = ()
        if known.bare:
            bodies = {one.id: one.body for one in store.statements.all(session)}
            parents = {p for body in bodies.values() if isinstance(body, CheckpointBody) for p in body.parents}
            lacking = tuple(sorted(id for id in known.bare if id not in parents))
        known.heads_lacking = lacking
        digest = session_digest(known.chains.frontier(marked=False), lacking)
        level = self._dirty[session] = Level(digest=digest, lacking=lacking, bare=bool(known.bare))
        return level


def _is_here(store: Store, session: SessionId) -> bool:
    try:
        store.session(session)
    except MissingError:
        return False
    return True


def _read(store: Store, session: SessionId) -> Seen:
    """All statements of a session; none where it is not here."""
    after: dict[StatementId, StatementId | None] = {}
    bare: dict[CheckpointId, None] = {}
    try:
        with_content = set(store.checkpoint_ids(session))
        for one in store.statements.all(session):
            after[one.id] = one.body.after
            if isinstance(one.body, CheckpointBody) and one.id not in with_content:
                bare[CheckpointId(one.id)] = None
    except MissingError:
        pass
    return Seen(chains=Chains(after), bare=bare, after=after)
