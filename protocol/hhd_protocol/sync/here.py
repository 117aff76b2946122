"""What this device has, as far as the machine has to know: what each session comes to, and the chains of some."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from hhd_protocol.ids import CheckpointId, SessionId, StatementId
from hhd_protocol.sync import compare
from hhd_protocol.sync.chains import Chains
from hhd_protocol.sync.events import Changed, Load, Loaded, Output
from hhd_protocol.sync.messages import DIGEST_BYTES
from hhd_protocol.sync.peer import Peer

ROOTS_MAX = 16
"""Roots kept: one for each set of sessions that peers are to have, and of those there are a few."""
OPEN_SESSIONS_MAX = 64
"""Sessions whose statements are held in memory: those that somebody works on, and those that are being compared."""


class Here:
    """The digests of all sessions here; chains of those that are *open*, and what waits for one to be."""

    def __init__(self) -> None:
        self.digests: dict[SessionId, bytes] = {}
        self._pile: dict[SessionId, bytes] = {}
        """Of sealed bytes, each in the place of a session."""
        self._open: OrderedDict[SessionId, tuple[Chains, tuple[CheckpointId, ...]]] = OrderedDict()
        self._loading: set[SessionId] = set()
        self._roots: dict[tuple[bool, frozenset[SessionId]], bytes] = {}
        """Over what a peer is to have, by whether it is sealed and what is left out for it; until something changes."""

    def begin(self, digests: Mapping[SessionId, bytes]) -> None:
        """Take note of all sessions that are here."""
        self.digests = dict(digests)
        self._roots.clear()

    def pile(self, names: Mapping[bytes, int]) -> bool:
        """Take note of the sealed bytes that are here, or would be, by what they are; say whether they are others."""
        before = self._pile
        self._pile = {SessionId(StatementId(name)): bytes([what]) * DIGEST_BYTES for name, what in names.items()}
        self._roots.clear()
        return before != self._pile

    def digests_for(self, one: Peer) -> Mapping[SessionId, bytes]:
        """The digests of what a peer is to have."""
        if one.sealed:
            return self._pile
        if not one.left_out:
            return self.digests
        return {session: digest for session, digest in self.digests.items() if session not in one.left_out}

    def root_for(self, one: Peer) -> bytes:
        """The digest over what a peer is to have."""
        key = one.sealed, one.left_out
        found = self._roots.get(key)
        if found is None:
            if len(self._roots) >= ROOTS_MAX:
                self._roots.clear()
            found = self._roots[key] = compare.root(self.digests_for(one))
        return found

    def changed(self, event: Changed) -> None:
        """A session grew, or went."""
        session = event.session
        if self.digests.get(session) != event.digest:
            self._roots.clear()
            if event.source is None and not event.fresh:
                self._open.pop(session, None)  # What is new is not known: it is loaded anew for who asks.
        if event.digest is None:
            self.digests.pop(session, None)
            self._open.pop(session, None)
            return
        self.digests[session] = event.digest
        if event.removed:
            self._open.pop(session, None)
        if (opened := self._open.get(session)) is not None:
            for id, after in event.fresh.items():
                opened[0].add(id, after)
            self._open[session] = opened[0], event.lacking

    def loaded(self, event: Loaded) -> None:
        """A session is open from now on; those that nobody used for longest are not any more."""
        self._loading.discard(event.session)
        self._open[event.session] = Chains(event.after), event.lacking
        self._open.move_to_end(event.session)
        while len(self._open) > OPEN_SESSIONS_MAX:
            self._open.popitem(last=False)

    def opened(self, session: SessionId) -> tuple[Chains, tuple[CheckpointId, ...]]:
        """The statements of a session, and its heads without content; none of one that is not here."""
        found = self._open.get(session)
        if found is None:
            return Chains(), ()
        self._open.move_to_end(session)
        return found

    def go_on(self, one: Peer) -> list[Output]:
        """Do what waits for a peer, in order, as far as the sessions that it needs are open; ask for the next one."""
        outputs: list[Output] = []
        while one.waiting:
            session, act = one.waiting[0]
            if session is not None and session not in self._open and session in self.digests:
                if session not in self._loading:
                    self._loading.add(session)
                    outputs.append(Load(session=session))
                break
            del one.waiting[0]
            outputs += act()
        return outputs
