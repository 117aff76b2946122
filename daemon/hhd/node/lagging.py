"""What each other device lacks of what is here, in sessions, checkpoints and bytes, as it last said what it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hhd.node import listing
from hhd.node.answers.syncing import Flow, Limited
from hhd.node.sync.talk import Counted
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.store import Store
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.sync.peer import Peer

CHECKPOINTS_SIZED_MAX = 2000
"""Of all devices together: the sizes of so many are looked up, in some tens of milliseconds."""


@dataclass(kw_only=True)
class Lag:
    """What one device lacks: `bytes` are of the sealed objects that its checkpoints brought, the most that goes over.

    `at_least`: there are more bytes than were added up.
    """

    sessions: int = 0
    checkpoints: int = 0
    bytes: int = 0
    at_least: bool = False


def lags(store: Store) -> dict[DeviceId, Lag]:
    """Return what each other device lacks that is to have sessions; what is kept back from it does not count."""
    found = {device: Lag() for device in store.freshness.places()}
    if not found:
        return found
    left = CHECKPOINTS_SIZED_MAX
    with store.snapshot():
        counts = _counts(store)
        places = store.freshness.places()
        for session, fresh in store.freshness.apart(counts).items():
            count, sizes = counts[session], _Sizes(store, session)
            for device, place in places.items():
                reached = fresh.reached.get(place)
                had = 0 if reached is None else reached.had
                if had >= count or (reached is not None and reached.kept_back):
                    continue
                lag = found[device]
                lag.sessions += 1
                lag.checkpoints += count - had
                sized = min(count - had, left)
                left -= sized
                lag.at_least = lag.at_least or sized < count - had
                lag.bytes += sizes.of_last(sized)
    return found


def _counts(store: Store) -> dict[SessionId, int]:
    try:
        return {one.id: one.checkpoints for one in listing.decoded_all(store.catalogue.sound_entries().values())}
    except (DamagedStoreError, FormatError):  # The next list makes it anew.
        return {session: store.checkpoints_count(session) for session in store.sessions()}


class _Sizes:
    """The sizes of the checkpoints of one session, read once for all devices."""

    def __init__(self, store: Store, session: SessionId) -> None:
        self._store, self._session = store, session
        self._known: dict[int, int] = {}

    def of_last(self, sized: int) -> int:
        """Return the bytes that the newest `sized` checkpoints brought."""
        if not sized:
            return 0
        ids = self._store.checkpoint_ids(self._session)
        total = 0
        for at in range(len(ids) - 1, max(len(ids) - 1 - sized, -1), -1):
            if at not in self._known:
                try:
                    brought = self._store.checkpoint(ids[at]).objects
                    self._known[at] = sum(self._store.objects.size(name) for name in brought)
                except (DamagedStoreError, MissingError):
                    self._known[at] = 0
            total += self._known[at]
        return total


def flow(
    device: DeviceId,
    name: str,
    lag: Lag,
    *,
    linked: Peer | None = None,
    behind: int,
    waiting: int,
    counted: Counted | None,
) -> Flow:
    """Return how it stands with a device; `linked`: what it says over its link, `counted`: what went over its links."""
    holding = {} if linked is None else linked.holding
    return Flow(
        device=device_text(device),
        name=name,
        linked=linked is not None,
        sent=None if counted is None else counted.sent,
        received=None if counted is None else counted.received,
        behind=behind,
        checkpoints=lag.checkpoints,
        bytes=lag.bytes,
        at_least=lag.at_least,
        waiting=waiting,
        holding=holding.get(None, ""),
        limits=tuple(Limited(session=one.hex(), why=why) for one, why in sorted(holding.items(), key=str) if one),
    )


def without_daemon(store: Store, named: Callable[[DeviceId], str]) -> tuple[Flow, ...]:
    """Return the same where nothing is linked, since no daemon runs."""
    return tuple(
        flow(device, named(device), lag, behind=lag.sessions, waiting=0, counted=None)
        for device, lag in lags(store).items()
    )
