"""Finds the other members of the group and keeps one link to each, as long as both are where they can reach each other.

    peers.serve("sync", handler)          who serves the channels of a name that a peer opens
    peers.on_linked(attend)               a coroutine for each link, begun once the group's records went both ways
    peers.on_lost(heard), .link(device), .connected()

Whom to dial, where and when, is decided in `dialling`, what becomes of a link in `links`; here is what waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Protocol

from hhd.base import log
from hhd.base.errors import RefusedError, UserError
from hhd.node import around
from hhd.node.address_book import AddressBook, typed
from hhd.node.answers.peers import Around, Fixed, Peer
from hhd.node.beacon import Beacon, Told
from hhd.node.dialling import Dial, Dialling, Outcome, Place
from hhd.node.lanes import Lane
from hhd.node.links import Attend, Handler, Links
from hhd.node.listening import Listening, Settings
from hhd.node.roll import Roll
from hhd.node.service import Verb
from hhd.transports.link import Link, LinkError, Transport, Why
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import DeviceId

WAKE_SECONDS = 0.5
"""For a sign of life of a link after this device slept: linked again within 1.5 s is what is promised."""
MOVED_SECONDS = 2.0
"""For one after the networks changed."""
RELOAD_SECONDS = 60.0
"""Until the group is read again where it could not be."""

AGO_MS_MAX = 10 * 365 * 86_400_000
"""A device that was linked longer ago than this was so by a clock that had been set wrongly."""

_OUTCOMES = {Why.STRANGER: Outcome.WRONG, Why.REFUSED: Outcome.REFUSED, Why.VERSION: Outcome.WRONG}


class Books(Protocol):
    """The address book in the store; each call blocks."""

    def read(self) -> AddressBook:
        """Return what is kept."""

    def write(self, book: AddressBook) -> None:
        """Keep it."""

    def names(self) -> Mapping[DeviceId, str]:
        """Return what the person calls devices, as far as they gave them names."""


class Peers:
    """See above; a part of the daemon.

    `transport` makes what links are made with, once there is somebody to link to. `now_ms`: the date, for showing;
    `chance` and `random` are the dice; `settings`: what a person set last.
    """

    def __init__(
        self,
        *,
        roll: Roll,
        books: Books,
        transport: Callable[[], Transport],
        random: Callable[[int], bytes],
        chance: Callable[[], float],
        now_ms: Callable[[], int],
        settings: Callable[[], Settings] = Settings,
    ) -> None:
        self.roll, self._books, self._make_transport = roll, books, transport
        self._now_ms = now_ms
        self._machine = Dialling(roll.me.id, chance)
        self.beacon = Beacon(roll, Told(self._heard, self._gone, self._moved), random=random)
        self._book = AddressBook()
        self._lane = Lane("addresses")
        self._links = Links(roll, self)
        self._troubles: dict[DeviceId | Place, str] = {}
        self._refusing: set[DeviceId] = set()
        """Devices that did not let this one in, and were not linked since."""
        self._seen: dict[DeviceId, int] = {}
        """When devices were linked last, by a clock that nobody sets and that counts sleep."""
        self._stir, self._wanted, self._looked = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._transport: Transport | None = None
        self._listening = Listening(
            settings=settings,
            transport=lambda: self.transport,
            accept=self._came_in,
            announces=self.beacon,
            ending=self._cut_all,
        )
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = self._pairing = False
        self._trouble = ""
        self.pairing_open: Callable[[], bool] = lambda: False
        """Whether a stranger may come in now; set by who pairs."""
        roll.on_change(self._group_changed)

    # For other parts

    def connected(self) -> frozenset[DeviceId]:
        """The members with a link in use now."""
        return self._links.connected()

    def link(self, device: DeviceId) -> Link | None:
        """The link to a member, None if none is in use."""
        return self._links.link(device)

    async def coming(self, device: DeviceId) -> Link | None:
        """As `Links.coming`."""
        return await self._links.coming(device)

    async def called(self) -> dict[DeviceId, str]:
        """What the other members are called, as their person has it or as they said themselves."""
        names = await self._lane.do(self._books.names)
        return {device: names.get(device, "") or member.name for device, member in self.roll.others.items()}

    def serve(self, name: str, handler: Handler) -> None:
        """As `Links.serve`."""
        self._links.serve(name, handler)

    def on_linked(self, attend: Attend) -> None:
        """As `Links.on_linked`."""
        self._links.on_linked(attend)

    def on_lost(self, heard: Callable[[DeviceId], None]) -> None:
        """As `Links.on_lost`."""
        self._links.on_lost(heard)

    def says(self) -> tuple[str, ...]:
        """Sentences for `hhd status`."""
        return tuple(trouble for trouble in (self._trouble, self._listening.trouble) if trouble)

    def settings_changed(self) -> None:
        """A person set where to listen, or whether to announce, and may have set something else than before."""
        self._listening.settings_changed()

    # For pairing

    def pairing_wanted(self, wanted: bool) -> None:
        """Somebody pairs here, on either side: there is a network to be on, even for a device that is alone."""
        self._pairing = wanted
        if not wanted and self._transport is not None:
            self._transport.recheck()  # Strangers have no business here any more.
        self._stirred()

    async def listening(self) -> int:
        """As `Listening.port`; raises RefusedError while the group cannot be read."""
        await self._insist_on_group()
        return await self._listening.port()

    def met(self, device: DeviceId, place: Place) -> None:
        """A device that was paired just now listens there."""
        self._note_soon(self._book.meeting(device, place, self._now_ms()))
        self._stir.set()

    async def dial_stranger(self, place: Place) -> Link:
        """Return a link for pairing alone, to whoever is at `place`; raises LinkError. Who asked for it closes it."""
        return await self.transport.dial(place.host, place.port, None)

    @property
    def transport(self) -> Transport:
        """What links are made with."""
        if self._transport is None:
            self._transport = self._make_transport()
        return self._transport

    # As a part of the daemon

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.service.Part`."""
        return {
            "peers": Verb(self._peers, changes=False),
            "peer_add": Verb(self._peer_add, changes=True),
            "peer_remove": Verb(self._peer_remove, changes=True),
        }

    async def run(self) -> None:
        """Live: idle, without a socket or anything imported for it, until there is somebody to link to."""
        try:
            await self._load()
            while True:
                await self._until(wanted=True)
                async with asyncio.TaskGroup() as tasks:
                    living = tasks.create_task(self._live())
                    await self._until(wanted=False)
                    living.cancel()
        finally:
            self.roll.close()
            self._lane.close()

    async def _load(self) -> None:
        while True:
            try:
                self._book = await self._lane.do(self._books.read)
                await self.roll.refresh()
                self._trouble = ""
                self._looked.set()
                return
            except UserError as error:
                log.fault("group_unread", error)
                self._trouble = f"The group cannot be read, so nobody is linked. {error}"
                self._looked.set()
                await asyncio.sleep(RELOAD_SECONDS)

    async def _insist_on_group(self) -> None:
        """Wait for what is kept, which a daemon that just began has not read yet; raises RefusedError if it cannot."""
        await self._looked.wait()
        if self._trouble:
            raise RefusedError(self._trouble)

    async def _until(self, *, wanted: bool) -> None:
        while self._is_wanted() is not wanted:
            await self._wanted.wait()
            self._wanted.clear()

    def _is_wanted(self) -> bool:
        return not self._stopping and (bool(self.roll.others) or self._pairing)

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                # Who was met before is dialled first: to announce takes imports that the answer need not wait for.
                for one in (self._dial_all(), self._listening.run(), self._watch_sleep()):
                    tasks.create_task(one)
                await asyncio.get_running_loop().create_future()  # Until this is cancelled.
            finally:
                self._tasks = None

    async def stop(self) -> None:
        """Part in order: each link is closed with a word, so that nobody waits for this device."""
        self._stopping = True
        self._machine.members(())
        await asyncio.gather(*(link.close("the daemon ends") for link in self._links.held()))
        self._wanted.set()

    # What is heard

    def _stirred(self) -> None:
        self._stir.set()
        self._wanted.set()

    def _group_changed(self) -> None:
        others = self.roll.others
        self._machine.members(others)
        self._use_book()
        self._links.recheck()
        self.beacon.group_changed()
        self._stirred()

    def _use_book(self) -> None:
        now = self._now()
        for device, met in self._book.met.items():
            self._machine.known(device, met.places, now)
        self._machine.fixed(list(self._book.fixed.items()), now)

    def _heard(self, device: DeviceId, nonce: bytes, places: list[Place]) -> None:
        self._machine.heard(device, nonce, places, self._now())
        self._stir.set()

    def _gone(self, nonce: bytes) -> None:
        self._machine.gone(nonce)

    def _moved(self) -> None:
        """This device is on other networks."""
        self._machine.stirred(self._now())
        self._doubt(MOVED_SECONDS)
        self._stir.set()

    def _woke(self, seconds: float) -> None:
        log.note("woke", seconds=round(seconds, 1))
        self.beacon.look_again()
        self._machine.stirred(self._now())
        self._doubt(WAKE_SECONDS)
        self._stir.set()

    def _doubt(self, seconds: float) -> None:
        """Every link gives a sign of life within `seconds`, or ends."""
        if self._tasks is not None:
            for link in self._links.held():
                self._tasks.create_task(self._ask(link, seconds))

    @staticmethod
    async def _ask(link: Link, seconds: float) -> None:
        await link.answers(seconds)

    # What waits

    def _cut_all(self) -> None:
        for link in self._links.held():
            link.cut("nothing is left to be linked for")

    async def _watch_sleep(self) -> None:
        from hhd.discovery import waking

        await waking.watch(self._woke, waking.Clocks())

    async def _dial_all(self) -> None:
        assert self._tasks is not None
        self._machine.members(self.roll.others)
        self._use_book()
        while True:
            self._stir.clear()
            now = self._now()
            for dial in self._machine.next(now):
                self._tasks.create_task(self._dial(dial))
            deadline = self._machine.deadline()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._stir.wait()

    async def _dial(self, dial: Dial) -> None:
        outcome: Outcome | None = Outcome.SILENT
        try:
            link = await self.transport.dial(dial.place.host, dial.place.port, dial.device)
            outcome = None if link.trusted else Outcome.WRONG
        except LinkError as error:
            outcome = _OUTCOMES.get(error.why, Outcome.SILENT)
            self._troubles[dial.device or dial.place] = str(error)
            if dial.device is not None and error.why is Why.REFUSED:
                self._refusing.add(dial.device)  # Said under its key: the handshake proved that before.
            return
        finally:
            self._machine.ended(dial, outcome, self._now())
            self._stir.set()
        self._troubles.pop(dial.place, None)
        if not link.trusted:
            self._troubles[dial.place] = "A device that is none of yours is there."
            await link.close("this is not the device that was looked for")
            return
        self._troubles.pop(link.peer, None)
        self._note_soon(self._book.meeting(link.peer, dial.place, self._now_ms()))
        if dial.device is None and any(link.peer == held.peer for held in self._links.held()):
            await link.close("there is another link")
        else:
            await self._links.keep(link)

    async def _came_in(self, link: Link) -> None:
        if not self._stopping:
            await (self._links.keep(link) if link.trusted else self._links.let_pair(link))

    # What becomes of links

    def linked(self, device: DeviceId) -> None:
        """As `Told.linked`."""
        self._machine.linked(device, self._now())

    def settled(self, device: DeviceId) -> None:
        """As `Told.settled`."""
        self._troubles.pop(device, None)
        self._refusing.discard(device)
        self._note_soon(self._book.meeting(device, None, self._now_ms()))

    def lost(self, device: DeviceId, *, used: bool) -> None:
        """As `Told.lost`."""
        self._machine.lost(device, self._now())
        self._stir.set()
        if used:
            self._seen[device] = around.now_ms()
            self._note_soon(self._book.meeting(device, None, self._now_ms()))

    # The address book

    def _note(self, book: AddressBook) -> bool:
        """Use `book` from now on; say whether it is another one."""
        book = book.of_members(self.roll.others)
        changed, self._book = book != self._book, book
        if changed:
            self._use_book()
        return changed

    def _note_soon(self, book: AddressBook) -> None:
        if self._note(book) and self._tasks is not None:
            self._tasks.create_task(self._save())

    async def _save(self) -> None:
        book = self._book
        try:
            await self._lane.do(lambda: self._books.write(book))
        except UserError as error:  # A full disk: it is a hint, and is written the next time.
            log.fault("addresses_unkept", error)

    async def _peer_add(self, address: str) -> Around:
        place = typed(address)
        await self._fix(lambda book: book.fixing(place))
        self._stir.set()
        return await self._peers()

    async def _peer_remove(self, address: str) -> Around:
        place = typed(address)
        await self._fix(lambda book: book.unfixing(place))
        return await self._peers()

    async def _fix(self, change: Callable[[AddressBook], AddressBook]) -> None:
        """Change what a person fixed; what cannot be kept is not used either, and raises."""
        await self._insist_on_group()
        written = change(self._book).of_members(self.roll.others)
        await self._lane.do(lambda: self._books.write(written))
        self._note(change(self._book))
        if self._book != written:  # Somebody was met meanwhile.
            await self._save()

    async def _peers(self) -> Around:
        await self._insist_on_group()
        names = await self._lane.do(self._books.names)
        return Around(
            peers=tuple(self._shown(device, names.get(device, "")) for device in self.roll.others),
            fixed=tuple(
                Fixed(
                    address=str(place),
                    device="" if owner is None else device_text(owner),
                    name="" if owner is None else names.get(owner, ""),
                    trouble=self._troubles.get(place, "") if owner is None else "",
                )
                for place, owner in self._book.fixed.items()
            ),
            listening=tuple(str(Place(*one)) for one in self._listening.addresses),
            trouble=self.beacon.trouble,
        )

    def _shown(self, device: DeviceId, name: str) -> Peer:
        member, link = self.roll.others[device], self.link(device)
        met = self._book.met.get(device)
        return Peer(
            id=device_text(device),
            name=name or member.name,
            role=member.role.value,
            linked=link is not None,
            address="" if link is None else link.remote,
            seen_ms=self._now_ms() if link is not None else 0 if met is None else met.seen_ms,
            ago_ms=0 if link is not None else self._ago_ms(device, 0 if met is None else met.seen_ms),
            trouble="" if link is not None else self._troubles.get(device, ""),
            refuses=link is None and device in self._refusing,
        )

    def _ago_ms(self, device: DeviceId, seen_ms: int) -> int | None:
        """How long ago a device was linked; by the date only where it was before this daemon began."""
        if device in self._seen:
            return around.now_ms() - self._seen[device]
        ago = self._now_ms() - seen_ms
        return ago if seen_ms and 0 <= ago < AGO_MS_MAX else None

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
