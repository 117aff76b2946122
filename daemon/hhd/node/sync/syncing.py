"""The part of the daemon that syncs: the engine in a thread of its own, its messages over the links to other devices.

    await syncing.wait_synced(session, device)     all that is here now is durable there
    syncing.acknowledged(session)                  who has which checkpoint of it, content and all

Each side opens two channels of a link and sends on those; it hears on the ones that the peer opened. What is said on
"sync" goes first; content goes on "pages", a part at a time, as fast as the link takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hhd.base.errors import UserError
from hhd.identity.key import Identity
from hhd.node import around, should_run
from hhd.node.lanes import Lane
from hhd.node.service import Verb
from hhd.node.sync.answered import Answered
from hhd.node.sync.engine import NOTED_IN_TURN, Engine
from hhd.node.sync.out import Out
from hhd.node.sync.pacing import Pacing
from hhd.node.sync.ports import Members, Peering, Running
from hhd.node.sync.verbs import SyncingVerbs
from hhd.node.sync.ways import Way
from hhd.node.sync.wishes import Wishes
from hhd.store.errors import BusyError, DamagedStoreError
from hhd.store.store import Store
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId
from hhd_protocol.sync.links import Links, Stamp

log = logging.getLogger("hhd.sync")

SYNC, PAGES = "sync", "pages"
REST_SECONDS = 4.0
"""Without work for so long, the store is let go of."""
FOLD_SECONDS = 0.3
"""Without work for so long, a log that became long while content came is folded."""
LOOK_SECONDS = 2.0
"""How often it is looked whether another process wrote to the store; a step of a session here is told at once, and what
a person has the daemon do is looked for at once."""
LOOK_SHARE = 20
"""Of its own time, a look takes at most the twentieth part."""
LINK_AGAIN_SECONDS = 1.0
"""After the store could not be read when a link began, it is tried again."""
NOTE_SECONDS = 2.0
"""How often what was learnt of other devices is written down for lists: a crash takes no more than that of it."""
TOGETHER_MAX, TOGETHER_BYTES = 64, 512 * 1024
"""Messages of one peer that came and are taken together, at most; beyond a first one that may have a megabyte."""
AHEAD_BYTES = 8 * 1024 * 1024
"""Content of one peer that waits while what came before it is made durable: the link would stand still meanwhile."""
PARTS_BYTES = 1024 * 1024
"""Of content is read at a time: what goes to another thread and back for each part would take longer than the part."""
COALESCE_SECONDS = 30.0
"""How long content waits on battery or a metered network: then it goes together."""


class Syncing:
    """See above. `frugal`: asked whether content is to be coalesced now, and why."""

    def __init__(
        self,
        *,
        me: Identity,
        peers: Peering,
        roll: Members,
        workers: Running,
        opened: Callable[[], Store],
        random: Callable[[int], bytes],
        frugal: Callable[[], str] = lambda: "",
        session_bytes_max: int | None = None,
    ) -> None:
        self._peers, self._members, self._workers, self._me = peers, roll, workers, me
        self._frugal = frugal
        self._lane = Lane("sync")
        self._wishes = Wishes(me.id, tells=True)
        self._engine = Engine(
            opened,
            me,
            now_ms=around.now_ms,
            incarnation=Incarnation(random(16)),
            screen=self._wishes,
            session_bytes_max=session_bytes_max,
        )
        self._links: Links[Way] = Links()
        self.answered = Answered()
        self._clocks = around.clocks()
        self._pacing = Pacing()
        self._stir = asyncio.Event()
        self._ready = asyncio.Event()
        self._attended = asyncio.Event()
        """Set when a link is attended to, and another one in its place."""
        self._awaited: set[_Awaited] = set()
        self.paused = ""
        """Why no content is taken, where its person said so."""
        self._seen_ms: dict[DeviceId, int] = {}
        self._worked = time.monotonic()
        self._looked, self._look_cost, self._looks_soon = time.monotonic(), 0.0, False
        self._noted = time.monotonic()
        self._ticks_from = 0.0
        """What became due and could not be done is not tried before that."""
        self._reads_ahead: weakref.WeakSet[Link] = weakref.WeakSet()
        self._waited_for: Counter[DeviceId] = Counter()
        """Devices that somebody waits for to have all of a session."""
        self.trouble = ""
        self.wished: list[Callable[[], None]] = []
        """Called when a wish was written into the shared document."""
        self.heard_from: list[Callable[[], None]] = []
        """Called when the full members that are linked have answered what they know, since this one or one of them
        woke, and the others had their time to be linked."""
        self.fenced: list[Callable[[SessionId], None]] = []
        """Called with each session that this device may not advance any more, by what a peer said."""
        self.asked = SyncingVerbs(self, me=me, engine=self._engine, lane=self._lane, wishes=self._wishes, frugal=frugal)
        """What a person may ask of it."""
        peers.serve(SYNC, self._hear)
        peers.serve(PAGES, partial(self._hear, ahead=AHEAD_BYTES))
        peers.on_linked(self._attend)
        roll.on_change(self._regroup)
        workers.on_step.append(self._step)
        workers.on_intent.append(self._intent)
        workers.on_person.append(self._person)

    # As a part

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.app.syncing` asks them."""
        return self.asked.table()

    async def run(self) -> None:
        """Look at the store, then carry on."""
        await self._find_alone()
        self._say_around()
        try:
            await self._open()
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._until()):
                        await self._stir.wait()
                self._stir.clear()
                await self._turn()
        finally:
            around.remove()
            await asyncio.shield(self._rest())
            self._lane.close()

    async def _find_alone(self) -> None:
        """What runs when a daemon starts goes on by itself: nobody asked for it now."""
        try:
            noted = await self._lane.do(lambda: should_run.noted(self._engine.store))
        except DamagedStoreError:  # Then nothing goes on by itself.
            noted = []
        except UserError:  # It is asked again; until then each session counts as one of them.
            return
        self.answered.began(one.session for one in noted)

    async def _rest(self) -> None:
        try:
            await self._lane.do(self._engine.rest)
        except UserError as error:  # What was to be kept for a quicker start is made again.
            log.warning("what sync knows was not kept: %s", error)

    async def stop(self) -> None:
        """What was noticed goes out; what is under way is asked for again when the daemon is back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                self._pacing.hurry()
                await self._turn()

    async def _open(self) -> None:
        while True:
            try:
                self._carry(*await self._lane.do(lambda: self._stamped(self._engine.open)))
                gc.freeze()  # What is known of thousands of sessions stays: looking through it takes 50 ms at a time.
                self._ready.set()
                self.trouble = ""
                return
            except UserError as error:
                self.trouble = f"Nothing is synced: {error}"
                log.warning("nothing is synced: %s", error)
                await asyncio.sleep(LOOK_SECONDS if isinstance(error, BusyError) else 30.0)

    def _until(self) -> float:
        """How long to wait for something to happen, in seconds."""
        waits = [LOOK_SECONDS, *self._pacing.waits()]
        if self._looks_soon:
            waits.append(self._looked + self._look_cost - time.monotonic())
        if (answered := self.answered.due_ms()) is not None:
            waits.append((answered - around.now_ms()) / 1000)
        if (due := self._engine.deadline_ms()) is not None:
            waits.append(max((due - around.now_ms()) / 1000, self._ticks_from - time.monotonic()))
        return max(0.02, min(waits))

    async def _turn(self) -> None:
        """What has become due."""
        if not self.answered.is_known:
            await self._find_alone()
            self._say_around()
        now = around.clocks()
        if now.slept_since(self._clocks):
            self.answered.woke(self._workers.running())
            self._say_around()
            wake = self._links.woke()
            await self.act(lambda: self._woken(wake))
        self._clocks = now
        if self.answered.is_due():
            for hear in self.heard_from:
                hear()
        self._coalesce()
        await self._tell_noticed()
        due = self._engine.deadline_ms()
        is_due = due is not None and around.now_ms() >= due and time.monotonic() >= self._ticks_from
        if is_due and not await self.act(self._engine.ticked):
            self._ticks_from = time.monotonic() + LOOK_SECONDS
        apart = self._look_cost if self._looks_soon else max(LOOK_SECONDS, LOOK_SHARE * self._look_cost)
        if time.monotonic() - self._looked > apart:
            await self._look()
        if time.monotonic() - self._noted > NOTE_SECONDS and self._engine.freshness.waits:
            await self._note()
        if self._engine.folds_due and time.monotonic() - self._worked > FOLD_SECONDS:
            with contextlib.suppress(UserError):  # Whoever commits next folds it.
                await self._lane.do(self._engine.fold)
        if time.monotonic() - self._worked > REST_SECONDS:
            await self._rest()

    async def _tell_noticed(self) -> None:
        """Tell of the sessions that changed, but for those that were told of a moment ago."""
        for session in self._pacing.due():
            self._pacing.told(session)
            await self.act(lambda session=session: self._engine.noticed(session))  # type: ignore[misc]

    def _woken(self, wake: int) -> Out:
        out = self._engine.woke()
        self._links.wakes(wake)
        return out

    async def _look(self) -> None:
        """Whether another process wrote to the store."""
        self._looked = begin = time.monotonic()
        self._looks_soon = False
        if self._engine.at_work:
            await self.act(self._engine.let_go)
        if await self._lane.do(self._wishes.is_current) and not self.paused:
            return
        worked = self._worked
        try:
            every = await self._lane.do(self._engine.to_look_at)
        except UserError as error:
            self._note_trouble(str(error))
            return
        for some in every:
            await self.act(lambda some=some: self._engine.looked(some))  # type: ignore[misc]
            await self._tell_noticed()  # However many sessions there are: an effect may have begun.
        await self.act(self._engine.rescreened)
        await self.act(self._engine.piled)
        self._worked = worked  # Looking is no work: the store may rest.
        self._look_cost = time.monotonic() - begin

    async def _note(self) -> None:
        """Write down for lists what was learnt of other devices."""
        self._noted = time.monotonic()
        with contextlib.suppress(UserError):  # Nothing rests on it, and it is tried again.
            for _ in range(NOTED_IN_TURN):
                await self._lane.do(lambda: self._engine.note_freshness(times=1))
                if not self._engine.freshness.waits:
                    break

    # What happens elsewhere

    def look_soon(self) -> None:
        """Something was done here for a person, and may have written to the store: a takeover is not kept waiting."""
        self._looks_soon = True
        self._stir.set()

    def stepped(self, session: SessionId, *, intent: bool) -> None:
        """A process of its own made a step of a session, and says so."""
        if session not in self._engine.machine.digests:
            self.look_soon()  # It was begun just now, or is none.
        elif intent:
            self._intent(session)
        else:
            self._step(session)

    def _step(self, session: SessionId) -> None:
        self._pacing.stepped(session)
        self._stir.set()

    def _intent(self, session: SessionId) -> None:
        self._pacing.intends(session)
        self._stir.set()

    def _person(self, session: SessionId) -> None:
        """A person is at a session here."""
        if self.answered.person(session):
            self._say_around()

    def _regroup(self) -> None:
        if self._ready.is_set():
            self._say_around()  # Who was linked to store may be a full member now.
            asyncio.get_running_loop().create_task(self._regrouped())

    async def _regrouped(self) -> None:
        await self.act(self._engine.regrouped)

    # Links

    async def _attend(self, link: Link) -> None:
        """Live with a link: say what there is to say, and send what was asked for."""
        await self._ready.wait()
        peer = link.peer
        full = [self._members.is_full(one) for one in (self._me.id, peer)]
        stores = [self._members.only_stores(one) for one in (self._me.id, peer)]
        sealed = any(stores) and any(full)
        if not sealed and not all(full):
            return
        way = Way(link=link)
        self._links.begin(peer, way)
        self._attended.set()
        self._attended = asyncio.Event()
        try:
            self._say_around()
            while self._links.current(peer) is way and not await self.act(lambda: self._begun(way, sealed=sealed)):
                await asyncio.sleep(LINK_AGAIN_SECONDS)
            sync = await link.open(SYNC, urgent=True)
            pages = await link.open(PAGES)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(way.say(sync))
                tasks.create_task(way.send_content(pages, lambda: self._next_parts(way)))
        except* LinkError:
            pass
        finally:
            if self._links.end(peer, way):
                self.answered.by.discard(peer)
                self._say_around()
                await asyncio.shield(self.act(lambda: self._ended(way)))

    def _begun(self, way: Way, *, sealed: bool) -> Out:
        out = self._engine.linked(way.link.peer, sealed=sealed)
        self._links.told(way.link.peer, way)
        return out

    def _ended(self, way: Way) -> Out:
        return self._engine.lost(way.link.peer) if self._links.ended(way.link.peer, way) else Out()

    async def _next_parts(self, way: Way) -> list[bytes]:
        """Parts of what the peer asked for, as many as are read together; none where there is nothing to send."""
        peer = way.link.peer

        def read() -> list[bytes]:
            found: list[bytes] = []
            while sum(map(len, found)) < PARTS_BYTES and self._links.hears(peer, way):
                try:
                    raw = self._engine.next_part(peer)
                except UserError:
                    if not found:
                        raise
                    break  # What was read goes, since it is not read again; it is raised the next time.
                if raw is None:
                    break
                found.append(raw)
            return found

        try:
            parts = await self._lane.do(read)
        except UserError as error:  # It is tried again; the peer may ask another one meanwhile.
            log.warning("content could not be read: %s", error)
            way.let_go(at_once=False)
            return []
        if parts:
            self._worked = time.monotonic()
        return parts

    async def _hear(self, channel: Channel, link: Link, *, ahead: int = 0) -> None:
        """Take what a peer says on one of its channels; so much of it may wait here beyond a window."""
        await self._ready.wait()
        if ahead and link not in self._reads_ahead:  # One channel of a link, however many its peer opens.
            self._reads_ahead.add(link)
            channel.read_ahead(ahead)
        while (raw := await channel.receive()) is not None:
            way = await self._way_of(link)
            way.heard = time.monotonic()
            raws = [raw, *_here_already(channel, TOGETHER_MAX - 1, TOGETHER_BYTES - len(raw))]
            await self.act(lambda raws=raws, way=way: self._heard(way, raws))  # type: ignore[misc]

    async def _way_of(self, link: Link) -> Way:
        """Return the way of a link: its first word may be here before this side attends to it."""
        while (way := self._links.current(link.peer)) is None or way.link is not link:
            if not (self._members.is_full(link.peer) or self._members.only_stores(link.peer)):
                raise FormatError("a device that may not have anything of sessions says something of them")
            await self._attended.wait()  # Where it never comes, another link has taken its place, and it ends.
        return way

    def _heard(self, way: Way, raws: Sequence[bytes]) -> Out:
        """Take messages; what came over a link that another one has replaced is no answer to what is asked now."""
        return self._engine.heard(way.link.peer, *raws) if self._links.hears(way.link.peer, way) else Out()

    # The engine

    async def act(self, act: Callable[[], Out]) -> bool:
        """Have the engine do something, and do what comes of it, also where who asked for it is cancelled meanwhile.

        What the store cannot do now costs this and nothing else: what was to be told is found when it is looked at
        again, and what came is asked for in the next round. Returns False then.
        """
        self._worked = time.monotonic()
        acting = self._lane.begin(lambda: self._stamped(act))
        try:
            await asyncio.shield(acting)
        except asyncio.CancelledError:
            acting.add_done_callback(self._acted)
            raise
        except UserError:
            pass  # As below.
        return self._acted(acting)

    def _stamped(self, act: Callable[[], Out]) -> _Turn:
        out = act()
        news = out.acknowledged | out.changed
        waiting = [one for one in list(self._awaited) if one.is_told and one.session in news]
        level = [one.level for one in waiting if self._engine.fresh(one.session, one.device)]
        return out, self._links.stamp(), level

    def _acted(self, acting: asyncio.Future[_Turn]) -> bool:
        if acting.cancelled():
            return False  # The daemon ends.
        error = acting.exception()
        if isinstance(error, UserError):
            self._note_trouble(str(error))
            return False
        if error is not None:
            raise error
        if self._wishes.told:
            self._wishes.told = False
            for hear in self.wished:
                hear()
        out, stamp, level = acting.result()
        self._note_trouble(out.trouble)
        self._carry(out, stamp, level)
        return True

    def _note_trouble(self, why: str) -> None:
        self.trouble = f"Something was not synced, and is tried again: {why}" if why else ""
        if why:
            log.warning("something was not synced: %s", why)

    def _carry(self, out: Out, stamp: Stamp[Way], level: Sequence[asyncio.Event] = ()) -> None:
        """Do what comes of a turn of the engine: on the links that it knew then, and as of the wake that it knew."""
        for peer, raw in out.messages:
            if (way := self._links.over(peer, stamp)) is not None:
                way.messages.append(raw)
                way.stir.set()
        for peer in out.content:
            way = self._links.over(peer, stamp)
            if way is not None:
                way.let_go(at_once=peer in self._waited_for or not self._coalescing())
        for peer, why in out.cuts:
            log.warning("the link to device %s is cut: %s", device_text(peer), why)
            if (way := self._links.over(peer, stamp)) is not None:
                way.link.cut(why)
        answered = {one for one in out.answered if self._members.is_full(one)}  # Who only stores knows nothing.
        if answered and self._links.is_awake(stamp):
            self.answered.hears(answered)
            self._say_around()
            self._stir.set()  # Told in a turn, which first looks whether the device slept.
        for session in out.fenced:
            self._workers.looked_again(session)
            for hear in self.fenced:
                hear(session)
        for event in level:
            event.set()

    def _coalescing(self) -> bool:
        return bool(self._frugal())

    def _coalesce(self) -> None:
        """Let content go, once in a while, or at once where nothing is to be spared."""
        frugal = self._coalescing()
        self._engine.coalesce(frugal)
        for way in self._links.all().values():
            if not frugal or time.monotonic() - way.since > COALESCE_SECONDS:
                way.since = time.monotonic()
                way.let_go_what_waits()

    def _say_around(self) -> None:
        self.answered.say(filter(self._members.is_full, self._links.all()))

    # Questions of other parts

    async def fresh(self, session: SessionId, device: DeviceId) -> bool:
        """Whether everything that is here of a session is durable at `device`, as it said."""
        await self._ready.wait()
        if session in self._pacing:
            self._pacing.asked(session)
            await self.act(lambda: self._engine.noticed(session))
        return await self._lane.do(lambda: self._engine.fresh(session, device))

    async def wait_synced(self, session: SessionId, device: DeviceId, deadline: float | None = None) -> None:
        """Return once all that is durable here of a session now is durable at `device`.

        `deadline`: of the loop's clock; raises TimeoutError after it.
        """
        fresh, waits = False, _Awaited(session=session, device=device)
        self._awaited.add(waits)
        self._waited_for[device] += 1  # Who moves a session does not wait for content to go together.

        def tell() -> Out:
            nonlocal fresh
            out = self._engine.noticed(session)
            fresh, waits.is_told = self._engine.fresh(session, device), True
            return out

        try:
            async with asyncio.timeout_at(deadline):
                await self._ready.wait()
                if (way := self._links.current(device)) is not None:
                    way.let_go_what_waits()
                self._pacing.asked(session)
                await self.act(tell)
                while not fresh:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1.0):
                            await waits.level.wait()
                    fresh = waits.level.is_set() or await self.fresh(session, device)
        finally:
            self._awaited.discard(waits)
            self._waited_for[device] -= 1
            self._waited_for += Counter()  # Without those that nobody waits for.

    def linked(self) -> frozenset[DeviceId]:
        """Return the devices that there is a link to for syncing."""
        return frozenset(self._links.all())

    async def acknowledged(self, session: SessionId) -> dict[DeviceId, CheckpointId]:
        """Return by device the newest checkpoint of a session that it has, content and all, as far as it said."""
        await self._ready.wait()
        return await self._lane.do(lambda: self._engine.acknowledged(session))


@dataclass(eq=False, kw_only=True)
class _Awaited:
    """Somebody waits for a device to have all of a session: what was level before others were told is another state."""

    session: SessionId
    device: DeviceId
    is_told: bool = False
    level: asyncio.Event = field(default_factory=asyncio.Event)


_Turn = tuple[Out, Stamp[Way], list[asyncio.Event]]
"""What comes of a turn of the engine: with the links that it knew then, and what is set of what somebody waits for."""


def _here_already(channel: Channel, most: int, bytes_most: int) -> Iterator[bytes]:
    """Yield messages that a peer sent and that wait to be taken."""
    while most > 0 and bytes_most > 0 and (raw := channel.receive_more()) is not None:
        most, bytes_most = most - 1, bytes_most - len(raw)
        yield raw
