"""The shared document over links: what to say to each peer about it, in messages that a channel takes.

One message of `hhd.registry.sync` may be long, so each goes in pieces: a byte that says whether another one follows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hhd.store.store import Store
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import REGISTRY_MESSAGE_BYTES_MAX, SYNC_MESSAGE_BYTES_MAX

if TYPE_CHECKING:  # Nothing of automerge is imported before there is somebody to speak to.
    from hhd.registry.registry import Registry
    from hhd.registry.sync import Peer

PIECE_BYTES = SYNC_MESSAGE_BYTES_MAX - 1
_LAST, _MORE = b"\0", b"\1"


class RegistryLink:
    """What is said about the shared document on each link. Its store calls block; `met` and `stir` are the loop's."""

    def __init__(self) -> None:
        self._peers: dict[DeviceId, Peer] = {}
        self._summaries: set[DeviceId] = set()
        self._begun: dict[DeviceId, bytearray] = {}
        self._stirs: dict[DeviceId, asyncio.Event] = {}
        self._mark: bytes | None = None

    def met(self, peer: DeviceId) -> asyncio.Event:
        """A link is up; what is returned is set whenever there may be something to say."""
        self.lost(peer)
        found = self._stirs[peer] = asyncio.Event()
        return found

    def lost(self, peer: DeviceId) -> None:
        """The link is gone, and what was known of the peer with it."""
        self._peers.pop(peer, None)
        self._summaries.discard(peer)
        self._begun.pop(peer, None)
        self._stirs.pop(peer, None)

    def stir(self) -> None:
        """The document may have changed."""
        for one in self._stirs.values():
            one.set()

    def changed(self, store: Store) -> bool:
        """Whether the document is another one than when this was asked last."""
        mark = store.shared.mark()
        before, self._mark = self._mark, mark
        return mark != before

    def to_say(self, store: Store, peer: DeviceId) -> list[bytes]:
        """Return the pieces to send to a peer now."""
        from hhd.registry import sync

        registry = self._registry(store)
        pieces: list[bytes] = []
        if peer not in self._summaries:
            self._summaries.add(peer)
            pieces += _cut(sync.summary(registry))
        known = self._peers.get(peer)
        if known is not None:
            while (raw := sync.message_for(registry, known)) is not None:
                pieces += _cut(raw)
        return pieces

    def heard(self, store: Store, peer: DeviceId, piece: bytes) -> bool:
        """Take one piece in; return whether the document changed. Raises FormatError, which costs the link."""
        from hhd.registry import sync

        begun = self._begun.setdefault(peer, bytearray())
        begun += piece[1:]
        if len(begun) > REGISTRY_MESSAGE_BYTES_MAX:
            raise TooLargeError("a message about the shared document is too large")
        if piece[:1] == _MORE:
            return False
        if piece[:1] != _LAST:
            raise FormatError("a piece of a message does not say whether another one follows")
        del self._begun[peer]
        known = self._peers.get(peer)
        if known is None:
            self._peers[peer] = sync.Peer.of(bytes(begun))
            return False
        changed = sync.receive(self._registry(store), known, bytes(begun))
        self._mark = store.shared.mark()
        return changed

    @staticmethod
    def _registry(store: Store) -> Registry:
        from hhd.node import registry

        return registry.opened(store)


def _cut(raw: bytes) -> list[bytes]:
    cuts = [raw[at : at + PIECE_BYTES] for at in range(0, len(raw), PIECE_BYTES)] or [b""]
    return [*(_MORE + one for one in cuts[:-1]), _LAST + cuts[-1]]
