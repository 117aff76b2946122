"""Which content this device lacks, and which peer it was asked of: each piece of one peer at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.limits import SYNC_STILL_MS_MAX, SYNC_WANTS_MAX

NO_SESSION = SessionId(StatementId(bytes(32)))
"""Named where something is asked of a device that only stores, or by it."""
Named = tuple[bytes, bool]
"""A name, and whether it is a module's."""


@dataclass(kw_only=True)
class _Want:
    session: SessionId
    module: bool
    source: DeviceId | None
    asked: DeviceId | None = None
    since_ms: int = 0
    tried: set[DeviceId] = field(default_factory=set)


class Wants:
    """What is wanted, in order; nothing is asked of two peers at once."""

    def __init__(self) -> None:
        self._wants: dict[bytes, _Want] = {}
        self._asked: dict[DeviceId, dict[bytes, None]] = {}
        self._open: dict[bytes, None] = {}
        """Those that nobody was asked for, in order."""

    def __len__(self) -> int:
        return len(self._wants)

    def __contains__(self, name: object) -> bool:
        return name in self._wants

    def asked(self, name: bytes) -> DeviceId | None:
        """Who was asked for it, None if nobody was, or it is not wanted."""
        found = self._wants.get(name)
        return None if found is None else found.asked

    def is_asked(self, name: bytes, peer: DeviceId, *, module: bool) -> bool:
        """Whether that peer was asked for it, as what it is wanted as now."""
        found = self._wants.get(name)
        return found is not None and found.asked == peer and found.module == module

    def session(self, name: bytes) -> SessionId | None:
        """For which session it is wanted; None if it is not."""
        found = self._wants.get(name)
        return None if found is None else found.session

    def add(self, session: SessionId, names: Iterable[Named], source: DeviceId | None) -> None:
        """Want these; `source`: who told of them, and has them first of all. What is wanted already stays as it is."""
        for name, module in names:
            if name in self._wants and self._wants[name].module != module:
                self.drop_one(name)  # It turned out to be something else than it was asked for as.
            if name not in self._wants:
                self._wants[name] = _Want(session=session, module=module, source=source)
                self._open[name] = None
            elif source is not None and self._wants[name].asked is None:
                self._wants[name].tried.discard(source)  # It tells of it anew: it may have it by now.

    def arrived(self, name: bytes, now_ms: int) -> None:
        """It is here."""
        found = self._wants.pop(name, None)
        self._open.pop(name, None)
        if found is not None and found.asked is not None:
            asked = self._asked[found.asked]
            asked.pop(name, None)
            for other in asked:  # The peer is at work: who waits behind waits from now.
                self._wants[other].since_ms = now_ms
                break

    def moved(self, name: bytes, now_ms: int) -> None:
        """A part of it came."""
        if (found := self._wants.get(name)) is not None:
            found.since_ms = now_ms

    def refused(self, name: bytes) -> None:
        """Who was asked for it does not give it: ask another one."""
        found = self._wants[name]
        if found.asked is not None:
            self._asked[found.asked].pop(name, None)
            found.tried.add(found.asked)
            found.asked = None
            self._open[name] = None

    def again(self, name: bytes) -> None:
        """It did not come as it should: ask anybody for it, the same one too."""
        if (found := self._wants.get(name)) is not None and found.asked is not None:
            self._asked[found.asked].pop(name, None)
            found.asked = None
            self._open[name] = None

    def waits_for(self, peer: DeviceId) -> int:
        """How much a peer was asked for that has not come."""
        return len(self._asked.get(peer, ()))

    def lost(self, peer: DeviceId) -> None:
        """The link to a peer is gone."""
        for name in self._asked.pop(peer, {}):
            self._wants[name].asked = None
            self._open[name] = None

    def met(self, peer: DeviceId) -> None:
        """A peer is there, and may have what it had not before."""
        for name in self._open:
            self._wants[name].tried.discard(peer)

    def drop(self, session: SessionId) -> None:
        """Nothing of a session is wanted any more."""
        for name in [name for name, one in self._wants.items() if one.session == session]:
            self.drop_one(name)

    def drop_one(self, name: bytes) -> None:
        """It is not wanted any more."""
        found = self._wants.pop(name, None)
        self._open.pop(name, None)
        if found is not None and found.asked is not None:
            self._asked[found.asked].pop(name, None)

    def ask(
        self,
        peers: Mapping[DeviceId, Collection[SessionId]],
        held: Collection[SessionId],
        now_ms: int,
        sealed: Collection[DeviceId] = (),
    ) -> list[tuple[DeviceId, SessionId, list[Named]]]:
        """Choose whom to ask for what; `peers` with the sessions left out there, `held`: not wanted for now.

        What is of no session is asked of those in `sealed` alone: it is what goes between them and this device.
        """
        if not self._open or not peers:
            return []
        chosen: dict[tuple[DeviceId, SessionId], list[Named]] = {}
        room = {peer: SYNC_WANTS_MAX - len(self._asked.get(peer, ())) for peer in peers}
        for name in list(self._open):
            want = self._wants[name]
            if want.session in held:
                continue
            among = sealed if want.session == NO_SESSION else peers
            able = [p for p in among if room[p] > 0 and p not in want.tried and want.session not in peers[p]]
            if not able:
                if not any(room.values()):
                    break
                continue
            peer = want.source if want.source in able else max(able, key=lambda p: (room[p], p))
            assert peer is not None
            want.asked, want.since_ms = peer, now_ms
            del self._open[name]
            self._asked.setdefault(peer, {})[name] = None
            room[peer] -= 1
            chosen.setdefault((peer, want.session), []).append((name, want.module))
        return [(peer, session, names) for (peer, session), names in chosen.items()]

    def still(self, now_ms: int) -> list[bytes]:
        """Return what the first of each peer's line waits for too long: it, and all that was asked with it."""
        late = []
        for asked in self._asked.values():
            first = next(iter(asked), None)
            if first is not None and now_ms - self._wants[first].since_ms >= SYNC_STILL_MS_MAX:
                late += list(asked)
        return late

    def deadline(self) -> int | None:
        """When something will have waited too long, in ms; None: never."""
        firsts = (next(iter(asked), None) for asked in self._asked.values())
        times = [self._wants[first].since_ms for first in firsts if first is not None]
        return min(times) + SYNC_STILL_MS_MAX if times else None
