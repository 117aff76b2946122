"""What sync learns of how far other devices are with each session, written down for lists now and then.

Nothing waits for it and nothing rests on it: what a crash takes is said again when the devices compare. A session is
looked at after something happened to it, some hundreds at a time.

A comparison names of what a device lacks only the heads. So where it lacked one, or takes no content, only what it
acknowledged counts, whatever its digests say, until devices compare that take content and have nothing otherwise.
A device that says of which checkpoints it has no content is believed, and nothing is said of it before it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hhd.node.sync.index import Index
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.freshness import Fresh, Reached
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId
from hhd_protocol.limits import SYNC_IDS_MAX
from hhd_protocol.sync import Sync
from hhd_protocol.sync.events import Acknowledged
from hhd_protocol.sync.messages import Answered, Ask, Bare, Buckets, Hello, Message
from hhd_protocol.sync.peer import Peer

SEVERAL = 8
"""Sessions that are written down at once: their store is not held longer than a step may wait."""
DIGEST_BYTES = 8
"""Of a digest are kept: whether a session is still as it was, on one's own devices, and nothing rests on it."""
KEPT_BACK = b"-"


class Freshness:
    """What was learnt and is not written down."""

    def __init__(self, machine: Sync, index: Index) -> None:
        self._machine, self._index = machine, index
        self._touched: dict[SessionId, None] = {}
        self._level: dict[DeviceId, dict[SessionId, bytes]] = {}
        """By device, the digests of sessions of which it had all; for those that it is not to have, `KEPT_BACK`."""
        self._piled: Mapping[SessionId, bytes] = {}
        """The digests of sessions when it was last looked what a device is to have that only stores."""
        self._whole: dict[DeviceId, dict[SessionId, set[CheckpointId]]] = {}
        """Acknowledged with their content, beyond those that are written down."""
        self._doubted: dict[DeviceId, set[SessionId]] = {}
        """Sessions of which a device may lack content that no comparison names."""
        self._unsaid: dict[DeviceId, Mapping[SessionId, bytes]] = {}
        """Digests of sessions of devices that have them, and did not say yet of which checkpoints not the content."""

    def touched(self, sessions: Iterable[SessionId]) -> None:
        """Something happened to these sessions."""
        self._touched.update(dict.fromkeys(sessions))

    def piled(self) -> None:
        """It is looked now what a device is to have that only stores."""
        self._piled = dict(self._machine.digests)

    def acknowledged(self, said: Acknowledged) -> None:
        """A device has something of a session, or (None) all that it is to have."""
        if said.session is not None:
            self._touched[said.session] = None
            one = self._machine.peers.get(said.peer)
            knows = one is not None and one.says and one.is_known and one.takes(said.session)
            if one is not None and knows and said.session not in one.lacks:
                self._doubted.get(said.peer, set()).discard(said.session)
            if said.whole and said.session in self._machine.digests:
                known = self._whole.setdefault(said.peer, {}).setdefault(said.session, set())
                if len(known) < SYNC_IDS_MAX:  # What is dropped is found level by a comparison.
                    known.update(said.whole)
            return
        peer = self._machine.peers[said.peer]
        digests = self._piled if peer.sealed else self._machine.digests
        if not peer.is_known:
            self._unsaid[said.peer] = dict(digests)
        else:
            self._is_level(peer, digests)

    def _is_level(self, peer: Peer, digests: Mapping[SessionId, bytes]) -> None:
        """A device had all of these sessions that it is to have, but for content that it may lack."""
        doubted = self._doubted.get(peer.id, set())
        for session in [one for one in doubted if peer.takes(one) and one not in peer.lacks]:
            doubted.discard(session)
            self._touched[session] = None
        level = self._level.setdefault(peer.id, {})
        left_out = peer.left_out
        for session, digest in digests.items():
            now = KEPT_BACK if session in left_out else digest
            if level.get(session) != now:
                level[session] = now
                self._touched[session] = None

    def heard(self, peer: DeviceId, message: Message) -> None:
        """A device said something: where it lacks the content of a head, it may lack that of what stands before it."""
        match message:
            case Ask(session=session, lacking=lacking) | Bare(session=session, checkpoints=lacking):
                if lacking and session in self._machine.digests:
                    self._doubted.setdefault(peer, set()).add(session)
                    self._touched[session] = None
            case Hello():
                self._unsaid.pop(peer, None)
            case Answered() | Buckets():
                if (digests := self._unsaid.pop(peer, None)) is not None:  # What it lacks, it said before that.
                    self._is_level(self._machine.peers[peer], digests)
            case _:
                pass

    def lost(self, peer: DeviceId) -> None:
        """The link to a device is gone."""
        self._unsaid.pop(peer, None)

    @property
    def waits(self) -> bool:
        """Whether there is something to write down."""
        return bool(self._touched)

    def keep(self, store: Store) -> None:
        """Write down what some sessions come to."""
        sessions = [session for session, _ in zip(self._touched, range(SEVERAL), strict=False)]
        if not sessions:
            return
        places = store.freshness.places()
        with store.snapshot():
            found = {session: self._looked(store, session, places) for session in sessions}
        now = {session: fresh for session, fresh in found.items() if fresh is not None}
        if now:
            with store.transaction():
                for session, fresh in now.items():
                    store.freshness.put(session, fresh)
        for session in sessions:
            del self._touched[session]

    def _looked(self, store: Store, session: SessionId, places: dict[DeviceId, int]) -> Fresh | None:
        """What a session comes to now; None where that is what is written down, or it is gone."""
        before = store.freshness.of(session)
        try:
            whole = not self._index.is_behind(store, session)
            reached = {
                place: one
                for device, place in places.items()
                if (one := self._reached(store, session, device, whole, before.reached.get(place))) is not None
            }
        except (DamagedStoreError, MissingError):
            return None
        lacking = self._index.lacking(session)
        after = Fresh(before.lacking if lacking is None else lacking, reached)
        return None if after == before or session not in self._machine.digests else after

    def _reached(
        self, store: Store, session: SessionId, device: DeviceId, whole: bool, before: Reached | None
    ) -> Reached | None:
        """How far a device is; `whole`: the session is as it was when devices were last told of it."""
        digest = self._machine.digests.get(session, b"")
        said = self._level.get(device, {}).get(session)
        peer = self._machine.peers.get(device)
        if peer is not None and not peer.is_known:
            return before  # Nor how it is now, nor which content it lacks.
        if peer is not None and peer.level and not peer.sealed:  # It has said how it is now.
            said = digest if self._machine.is_level(device, session) else None
        if said == KEPT_BACK or (peer is not None and session in peer.left_out):
            return before._replace(kept_back=True, level=b"") if before is not None else Reached(kept_back=True)
        level, short = bool(whole and digest and said == digest), digest[:DIGEST_BYTES]
        sealed = peer is not None and peer.sealed
        if level and before is not None and before.level == short and not before.kept_back:
            return before
        if not level and (peer is None or sealed or not peer.level or session in peer.apart):
            return before  # It said nothing that is new.
        ids = store.checkpoint_ids(session)
        if level and peer is not None and peer.says:  # All but what it named.
            had = _before_gap(store, ids, peer.lacks.get(session, set()))
        else:
            had = self._had(session, device, ids, 0 if before is None else before.had)
        if level and (sealed or had == len(ids) or session not in self._doubted.get(device, ())):
            self._whole.get(device, {}).pop(session, None)
            self._doubted.get(device, set()).discard(session)
            return Reached(len(ids), store.now_ms(), ids[-1] if ids else None, short)
        head = ids[had - 1] if had else None
        if before is not None and (before.had, before.head, before.kept_back) == (had, head, False):
            return before._replace(level=b"")
        return Reached(had, store.now_ms(), head)

    def _had(self, session: SessionId, device: DeviceId, ids: list[CheckpointId], before: int) -> int:
        """How many of the checkpoints `ids`, from the first on, a device is known to have; `before`: as kept."""
        peer, acknowledged = self._machine.peers.get(device), self._whole.get(device, {})
        lacks: set[bytes] = set()
        if peer is not None:
            lacks.update(peer.sent.get(session, ()), peer.bare.get(session, ()), peer.lacks.get(session, ()))
            if not (peer.sealed or peer.takes(session)):
                self._doubted.setdefault(device, set()).add(session)
        had = min(before, len(ids))
        if not lacks.isdisjoint(ids[:had]):
            had = next(at for at, one in enumerate(ids) if one in lacks)
        known = acknowledged.get(session, set()) - lacks
        while had < len(ids) and ids[had] in known:
            had += 1
        if known := known.intersection(ids[had:]):
            acknowledged[session] = known
        else:
            acknowledged.pop(session, None)
        return had


def _before_gap(store: Store, ids: list[CheckpointId], lacks: set[CheckpointId]) -> int:
    """How many of `ids` come before the first of `lacks`, but for those whose content was given up here, too."""
    for at, one in enumerate(ids) if lacks else ():
        if one in lacks and not store.checkpoint(one).thinned:
            return at
    return len(ids)
