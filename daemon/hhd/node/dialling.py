"""Whom to dial, where, and when: inputs change what is known, and one function says what to do now.

Every member without a link is dialled at each place where it may be: where it was heard of, where it was linked last,
and, for members that were nowhere else, at the addresses that a person fixed. Places of one device are tried shortly
after one another, each waits longer after each failure, by chance a little more or less, and all waits are forgotten
when the network changed or the device woke. Nobody else is ever dialled.

Nothing here waits, reads a clock or rolls dice.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hhd_protocol.ids import DeviceId

STAGGER_SECONDS = 0.15
"""Between the beginnings of two dials to one device: the first mostly succeeds, the second is not late."""
COURTESY_SECONDS = 0.1
"""The device of the greater id waits as long before it dials one it heard of, which mostly dials it meanwhile.

A handshake takes less on any network at home; that both dial now and then costs one link that is given up."""
DIALS_MAX = 4
"""Under way to one device."""
NAMES_MAX = 4
"""Of one place: a device that changed its name within seconds may be heard under the last one once more."""
FAREWELL_TRIES = 3
"""In vain, of a place that nobody announces any more: anybody on the network can say farewell for another device, and
what that takes away, a dial brings back. What was a true farewell costs as many packets."""
HEARD_MAX = 8
"""Places of one device that were heard of, the last ones. What a person fixed, or once worked, they never push out."""
LINKED_MAX = 4
"""Places where one device was linked, the last ones."""
FIXED_MAX = 64
"""Addresses that a person fixed."""
FIRST_WAIT_SECONDS = 0.5
WAIT_SECONDS_MAX = 60.0
"""A device that comes back without a word on the network is dialled within a minute, at the cost of one packet."""
WRONG_WAIT_SECONDS = 60.0
WRONG_WAIT_SECONDS_MAX = 900.0
"""Where somebody else answers, or this device is not let in: not a matter of time, mostly."""
REFUSED_TRIES = 4
"""Of a device that was not linked yet, each soon after the other: two that were paired just now learn of that one after
the other, and who dials first is still a stranger there."""
STABLE_SECONDS = 10.0
"""A link that ends sooner was in vain, like a dial that failed: else two would link and part as fast as they can."""


class Place(NamedTuple):
    """Where a device may listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Dial(NamedTuple):
    """Please dial `place`, where `device` may be; None: to learn which device is there."""

    device: DeviceId | None
    place: Place


class Outcome(enum.Enum):
    """Why a dial came to nothing."""

    SILENT = "silent"
    """Nobody answered, or the network failed."""
    WRONG = "wrong"
    """Somebody else is there, or one who cannot be talked to."""
    REFUSED = "refused"
    """This device is a stranger there."""


class Source(enum.IntEnum):
    """How a place came to be known, the best first."""

    HEARD = 0
    LINKED = 1
    FIXED = 2


@dataclass(kw_only=True)
class _Try:
    """What became of dialling one device at one place."""

    source: Source
    names: tuple[bytes, ...] = ()
    """Under which it was announced and that have not gone, the last ones."""
    parted: tuple[bytes, ...] = ()
    """Under which it was, and which have gone, the last ones."""
    at: float
    failures: int = 0
    in_vain: int = 0
    """Of the failures those since it is announced under no name."""

    @property
    def is_parted(self) -> bool:
        """Whether only announcements spoke for it, and none does any more."""
        return self.source is Source.HEARD and not self.names


@dataclass(kw_only=True)
class _Member:
    """What is known of one device of the group."""

    tries: dict[Place, _Try]
    linked_at: float | None = None
    was_linked: bool = False
    flaps: int = 0
    dialled_at: float = float("-inf")


class Dialling:
    """The state of one device's dialling. `chance` gives a number from 0 to 1 each time."""

    def __init__(self, me: DeviceId, chance: Callable[[], float]) -> None:
        self._me, self._chance = me, chance
        self._members: dict[DeviceId, _Member] = {}
        self._unowned: dict[Place, _Try] = {}
        self._begun: set[Dial] = set()

    # Inputs

    def members(self, devices: Collection[DeviceId]) -> None:
        """These are the members now, this device or not; others are forgotten."""
        for device in self._members.keys() - set(devices):
            del self._members[device]
        for device in set(devices) - self._members.keys() - {self._me}:
            self._members[device] = _Member(tries={})

    def heard(self, device: DeviceId, nonce: bytes, places: Iterable[Place], now: float) -> None:
        """A member announced these places under the name `nonce`, new whenever it has something else to say."""
        member = self._members.get(device)
        if member is None:
            return
        wait = COURTESY_SECONDS if self._me > device else 0.0
        said = list(dict.fromkeys(places))[:HEARD_MAX]
        for place, one in member.tries.items():
            if place not in said:
                self._unnamed(one, nonce)
        for place in said:
            known = member.tries.pop(place, None)
            if known is None or nonce not in (*known.names, *known.parted):
                source, names = (Source.HEARD, ()) if known is None else (known.source, known.names)
                known = _Try(source=source, names=(*names, nonce)[-NAMES_MAX:], at=now + wait)
            elif nonce in known.parted:  # A late answer, or a forged farewell: no reason to dial sooner.
                known.parted = tuple(name for name in known.parted if name != nonce)
                known.names, known.in_vain = (*known.names, nonce)[-NAMES_MAX:], 0
            member.tries[place] = known  # What was heard last stands last.
        self._trim(member)

    def gone(self, nonce: bytes) -> None:
        """Who announced itself as `nonce` said that it is not there any more."""
        for member in self._members.values():
            for one in member.tries.values():
                self._unnamed(one, nonce)

    @staticmethod
    def _unnamed(one: _Try, nonce: bytes) -> None:
        """It is not announced under this name any more; if that was all that spoke for it, it is tried a little yet."""
        if nonce in one.names:
            one.names = tuple(name for name in one.names if name != nonce)
            one.parted = (*one.parted, nonce)[-NAMES_MAX:]
            one.in_vain = 0

    def known(self, device: DeviceId, places: Iterable[Place], now: float) -> None:
        """A member was linked at these places once."""
        self._add(device, places, Source.LINKED, now)

    def fixed(self, places: Collection[tuple[Place, DeviceId | None]], now: float) -> None:
        """These are the addresses that a person fixed, all of them, each with the device that was last found there."""
        wanted = dict(list(places)[:FIXED_MAX])
        for place in self._unowned.keys() - wanted.keys():
            del self._unowned[place]
        for device, member in self._members.items():
            for place, one in list(member.tries.items()):
                if one.source is Source.FIXED and wanted.get(place) != device:
                    del member.tries[place]
        for place, owner in wanted.items():
            if owner in self._members:
                self._unowned.pop(place, None)
                self._add(owner, [place], Source.FIXED, now)
            else:
                self._unowned.setdefault(place, _Try(source=Source.FIXED, at=now))

    def linked(self, device: DeviceId, now: float) -> None:
        """There is a link to this member, or another one."""
        if member := self._members.get(device):
            member.linked_at, member.was_linked = now, True

    def lost(self, device: DeviceId, now: float) -> None:
        """There is none any more: it is dialled at once, unless there hardly was one."""
        member = self._members.get(device)
        if member is None or member.linked_at is None:
            return
        member.flaps = member.flaps + 1 if now < member.linked_at + STABLE_SECONDS else 0
        member.linked_at = None
        self._forget_waits(member.tries.values(), now)
        if member.flaps > 1:  # A first one may be chance.
            wait = self._wait(member.flaps, FIRST_WAIT_SECONDS, WAIT_SECONDS_MAX)
            for one in member.tries.values():
                one.at = now + wait

    def ended(self, dial: Dial, outcome: Outcome | None, now: float) -> None:
        """A dial ended; None: with a link, or with the news who is there."""
        self._begun.discard(dial)
        tries = self._unowned if dial.device is None else self._tries(dial.device)
        one = tries.get(dial.place)
        if one is None:
            return  # It was forgotten meanwhile.
        if outcome is None:
            one.failures, one.in_vain, one.at = 0, 0, now
            return
        one.failures += 1
        if one.is_parted:
            one.in_vain += 1
            if one.in_vain >= FAREWELL_TRIES:
                del tries[dial.place]
                return
        member = None if dial.device is None else self._members.get(dial.device)
        early = REFUSED_TRIES if outcome is Outcome.REFUSED and member is not None and not member.was_linked else 0
        if outcome in (Outcome.WRONG, Outcome.REFUSED) and one.failures > early:
            one.at = now + self._wait(one.failures - early, WRONG_WAIT_SECONDS, WRONG_WAIT_SECONDS_MAX)
        else:
            one.at = now + self._wait(one.failures, FIRST_WAIT_SECONDS, WAIT_SECONDS_MAX)

    def stirred(self, now: float) -> None:
        """The network changed, or the device woke: what was in vain before may not be any more."""
        for member in self._members.values():
            member.flaps = 0
            self._forget_waits(member.tries.values(), now)
        self._forget_waits(self._unowned.values(), now)

    # What to do

    def next(self, now: float) -> list[Dial]:
        """Return what to dial now, taken as begun."""
        found = []
        for device, member in self._members.items():
            if member.linked_at is not None or now < member.dialled_at + STAGGER_SECONDS:
                continue
            due = [(one.source, one.is_parted, one.at, place) for place, one in self._waiting(device) if one.at <= now]
            if due:
                member.dialled_at = now
                found.append(Dial(device, min(due)[3]))
        if self._anybody_missing():
            found += [Dial(None, place) for place, one in self._waiting(None) if one.at <= now]
        self._begun.update(found)
        return found

    def deadline(self) -> float | None:
        """Return when `next` has something to say at the earliest; None: only after another input."""
        times = []
        for device, member in self._members.items():
            if member.linked_at is None and (waiting := [one.at for _, one in self._waiting(device)]):
                times.append(max(min(waiting), member.dialled_at + STAGGER_SECONDS))
        if self._anybody_missing():
            times += [one.at for _, one in self._waiting(None)]
        return min(times, default=None)

    def places(self, device: DeviceId) -> list[Place]:
        """Return where a member may be, as far as is known."""
        return list(self._tries(device))

    def _add(self, device: DeviceId, places: Iterable[Place], source: Source, now: float) -> None:
        if member := self._members.get(device):
            for place in places:
                one = member.tries.setdefault(place, _Try(source=source, at=now))
                one.source = max(one.source, source)
            self._trim(member)

    def _tries(self, device: DeviceId) -> dict[Place, _Try]:
        member = self._members.get(device)
        return {} if member is None else member.tries

    def _waiting(self, device: DeviceId | None) -> list[tuple[Place, _Try]]:
        """What is not under way, if another dial may be."""
        tries = self._unowned if device is None else self._tries(device)
        waiting = [(place, one) for place, one in tries.items() if Dial(device, place) not in self._begun]
        begun = sum(dial.device == device for dial in self._begun)
        return waiting if device is None or begun < DIALS_MAX else []

    def _trim(self, member: _Member) -> None:
        for source, most in ((Source.HEARD, HEARD_MAX), (Source.LINKED, LINKED_MAX)):
            several = [place for place, one in member.tries.items() if one.source is source]
            for place in several[: max(0, len(several) - most)]:
                del member.tries[place]

    def _wait(self, failures: int, first: float, most: float) -> float:
        whole = min(most, first * 2.0 ** min(failures - 1, 32))
        return whole * (0.5 + self._chance() / 2)

    def _anybody_missing(self) -> bool:
        return any(member.linked_at is None for member in self._members.values())

    @staticmethod
    def _forget_waits(tries: Iterable[_Try], now: float) -> None:
        for one in tries:
            one.failures, one.at = 0, min(one.at, now)
