"""Sessions of other devices at terminals here, and those of this one at terminals there: a part of the daemon.

A terminal asks its own daemon, as ever. Where the session runs is found by its records; what a person says goes there,
and what happens there comes here (`spec/relay.md`). A terminal stays when its session moves, and is told where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from hhd.base import log
from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.node.answers.decided import Asked, Decided, Uncertain
from hhd.node.answers.driven import Begun, Counted, Heard, Rested
from hhd.node.lanes import Lanes
from hhd.node.relay import asking as relay_asking
from hhd.node.relay import deciding as relay_deciding
from hhd.node.relay import listing as relay_listing
from hhd.node.relay import viewing as relay_viewing
from hhd.node.relay.asking import Asking
from hhd.node.relay.homes import Homes
from hhd.node.relay.listing import Lister, Told
from hhd.node.relay.ports import Home, Peering
from hhd.node.relay.serving import Serving
from hhd.node.relay.viewing import View
from hhd.node.run_verbs import RunVerbs
from hhd.node.service import Verb
from hhd.node.store_access import StoreAccess
from hhd.node.workers import Workers
from hhd.transports.link import Link, LinkError
from hhd_protocol import live, relay
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.limits import (
    LIVE_BY_BYTES_MAX,
    LIVE_LINE_BYTES_MAX,
    RELAY_SENTENCE_BYTES_MAX,
    RELAY_TEXT_BYTES_MAX,
    RELAY_WATCHES_MAX,
)

MOVES_SECONDS = 10.0
"""For a session that is on its way to be where it goes, before who asked something of it is told to ask again."""
AGAIN_SECONDS = 0.2


class Relays:
    """All its methods are for the loop's thread. `me`: this device."""

    def __init__(self, *, me: DeviceId, peers: Peering, workers: Workers) -> None:
        self.peers, self._workers = peers, workers
        self._verbs = RunVerbs(workers)
        self._lanes = Lanes()  # Of its own: what peers ask for holds up nothing that is asked for here.
        self._homes = Homes(StoreAccess(opened=workers.store.opened, lanes=self._lanes), me)
        self._asking = Asking()
        self._serving = Serving(homes=self._homes, sessions=self._verbs, here=self.here, begin=self._begin)
        self._views: dict[SessionId, set[View]] = {}
        self._found: dict[SessionId, Home] = {}
        """Of a device that keeps no sessions: where those are that it asked for by name."""
        self._withheld: set[SessionId] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self.moving: Callable[[SessionId], str | None] = lambda _: None
        """The name of the device that a session is being handed to, "" for this one; None where it stays. Set by who
        hands sessions on."""
        self.keeps: Callable[[], bool] = lambda: True
        """Whether this device keeps sessions: one that does not asks the others what a name means."""
        self.controls: Callable[[], bool] = lambda: False
        """Whether it is one that may be at them all the same."""
        self.lister: Lister | None = None
        """What asks the others for their lists."""
        peers.serve(relay_asking.CHANNEL, self._serving.live)
        peers.serve(relay_viewing.CHANNEL, self._serving.watch)
        peers.serve(relay_deciding.CHANNEL, self._serving.settle)
        peers.serve(relay_listing.CHANNEL, self._serving.list)
        peers.on_linked(self._attend)
        workers.elsewhere = self

    # As a part

    def verbs(self) -> Mapping[str, Verb]:
        """None of its own: the verbs on running sessions ask for it."""
        return {}

    async def run(self) -> None:
        """Carry what others asked, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.get_running_loop().create_future()
        finally:
            self._lanes.close()

    async def stop(self) -> None:
        """What is under way comes to rest with the sessions."""

    def _begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        guarded = self._guarded(doing)
        try:
            if self._tasks is not None:
                return self._tasks.create_task(guarded)
        except RuntimeError:  # The daemon ends.
            pass
        guarded.close()
        doing.close()
        return None

    @staticmethod
    async def _guarded(doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except (UserError, OSError, LinkError, FormatError) as error:
            log.fault("relay", error)

    async def _attend(self, link: Link) -> None:
        for views in self._views.values():
            for view in views:
                view.changed.set()
        await self._asking.attend(link)

    # What other parts say

    def look(self, session: SessionId) -> None:
        """A session may run elsewhere than before."""
        going = self._workers.at_hand(session)
        if session in self._views or (going is not None and len(going.audience)):
            self._begin(self._look(session))

    def look_again(self) -> None:
        """Something may have changed of any session, or of who may be at one."""
        for session in list(self._views):
            self.look(session)
        self._begin(self._serving.recheck())

    async def _look(self, session: SessionId) -> None:
        stays = self.moving(session) is None  # Asked first: one that left meanwhile is not here any more.
        try:
            home = await self._homes.of(session)
        except RefusedError:  # Who is attached is told by who removed it.
            return
        going = self._workers.at_hand(session)
        if going is not None and going.worker is None:
            if not home.here:
                going.settle("", "")
                going.audience.end()
            elif session in self._withheld and stays:
                self._withheld.discard(session)
                if going.state is not None:
                    going.audience.tell(going.state)
        for view in list(self._views.get(session, ())):
            if view.home is None or view.home.device != home.device:
                await view.moved()

    # For views

    async def home(self, session: SessionId) -> Home:
        """As `Views.home`."""
        if not self.keeps():
            return await self._search(
                session.hex(), RefusedError(f"There is no session {session.hex()[:12]} any more.")
            )
        going = self._workers.at_hand(session)
        if going is not None and going.worker is not None and not going.turn.locked():
            return Home(session=session, device=self._homes.me, name="", here=True)
        return await self._homes.of(session)

    async def out_of_reach(self, home: Home) -> RefusedError:
        """As `Views.out_of_reach`."""
        return await self._homes.out_of_reach(home)

    def insist_on_room(self, view: View) -> None:
        """As `Views.insist_on_room`."""
        assert view.home is not None
        others = [one for views in self._views.values() for one in views if one is not view and one.home is not None]
        if sum(one.home is not None and one.home.device == view.home.device for one in others) >= RELAY_WATCHES_MAX:
            raise RefusedError(f"{RELAY_WATCHES_MAX} terminals here watch sessions of {view.home.name} already.")

    async def here(self, session: SessionId, position: int | None, by: str) -> AsyncGenerator[live.Event, None]:
        """What happens in a session that runs here, until it does not; that it is handed on is told as a notice."""
        found = await self._verbs.found(session.hex())
        told = {""}
        async with aclosing(self._verbs.events(found, position, by)) as events:
            async for event in events:
                if isinstance(event, live.State) and event.name not in ("running", "finished"):
                    to = self.moving(session)
                    if to is not None:
                        self._withheld.add(session)
                        if to not in told:
                            told.add(to)
                            yield live.Notice(text=f"It is being handed to {to}.")
                        continue
                    if await self._is_away(session):
                        return
                elif _unanswered(event) and (self.moving(session) is not None or await self._is_away(session)):
                    yield relay_viewing.ON_ITS_WAY
                yield event

    async def _is_away(self, session: SessionId) -> bool:
        try:
            return not (await self._homes.of(session)).here
        except RefusedError:  # It was removed, which is told as it is.
            return False

    # For the verbs on running sessions

    async def away(self, name: str) -> Home | None:
        """As `Elsewhere.away`."""
        await self._workers.noted.wait()
        try:
            if len(name) == 64:
                home = await self.home(SessionId(StatementId(bytes.fromhex(name))))
            else:
                home = await self._homes.meant(name)
        except ValueError:
            home = await self._homes.meant(name)
        except (RefusedError, UsageError) as error:
            if self.keeps():
                return None
            return await self._search(name, error)
        return None if home.here else home

    async def _search(self, name: str, error: UserError) -> Home:
        """Ask every device that is linked for a session; raises `error` where none has it."""
        if len(name.encode("utf-8", "replace")) > RELAY_SENTENCE_BYTES_MAX:  # No session is called so.
            raise error
        for device in sorted(self.peers.connected()):
            home = Home(session=SessionId(StatementId(b"")), device=device, name="", here=False)
            with contextlib.suppress(UserError):
                said = await self._asking.ask(home, relay.Find(id=os.urandom(16), name=name))
                if isinstance(said, relay.Found):
                    session = SessionId(StatementId(said.session))
                    return Home(session=session, device=device, name=await self._homes.called(device), here=False)
        raise error

    async def attach(self, name: str, position: int | None, by: str) -> AsyncGenerator[live.Event, None]:
        """As `Elsewhere.attach`."""
        home = await self.away(name)
        session = (await self._verbs.found(name)).id if home is None else home.session
        if home is None:
            self._workers.attended(self._workers.person_at(session))
        view = View(
            self, session, position, by.encode("utf-8", "replace")[:LIVE_BY_BYTES_MAX].decode("utf-8", "ignore")
        )
        self._views.setdefault(session, set()).add(view)
        try:
            async with aclosing(view.events()) as events:
                async for event in events:
                    yield event
        finally:
            views = self._views[session]
            views.discard(view)
            if not views:
                del self._views[session]

    async def say(self, away: Home, text: str, by: str) -> Heard:
        """As `Elsewhere.say`."""
        if len(text.encode("utf-8", "replace")) > RELAY_TEXT_BYTES_MAX:
            raise UsageError(f"Words to another device are at most {RELAY_TEXT_BYTES_MAX // 1024} KiB of text.")
        said = await self._asked(away, relay.Say(id=os.urandom(16), session=away.session, text=text, by=_by(by)))
        if said is None:
            return await self._verbs.say(away.session.hex(), text, by)
        assert isinstance(said, relay.Heard)
        return Heard(session=away.session.hex(), how=said.how)

    async def answer(self, away: Home, id: str, *, shown: bytes, choice: str, message: str, by: str) -> Counted:
        """As `Elsewhere.answer`."""
        if len(message.encode("utf-8", "replace")) > RELAY_TEXT_BYTES_MAX or len(shown) != 32:
            raise UsageError("Such an answer cannot be given to another device.")
        ask = relay.Answer(
            id=os.urandom(16),
            session=away.session,
            question=id,
            shown=shown,
            choice=choice,
            message=message,
            by=_by(by),
        )
        said = await self._asked(away, ask)
        if said is None:
            return Counted(session=away.session.hex(), counted=False, by="")
        assert isinstance(said, relay.Counted)
        return Counted(session=away.session.hex(), counted=said.counted, by=said.by)

    async def pause(self, away: Home) -> Rested:
        """As `Elsewhere.pause`."""
        said = await self._asked(away, relay.Pause(id=os.urandom(16), session=away.session))
        if said is None:
            return await self._verbs.pause(away.session.hex())
        assert isinstance(said, relay.Rested)
        return Rested(session=away.session.hex(), state=said.state, sentence=said.sentence)

    async def resume(self, away: Home) -> Begun:
        """As `Elsewhere.resume`."""
        said = await self._asked(away, relay.Resume(id=os.urandom(16), session=away.session))
        if said is None:
            return await self._verbs.go_on(away.session.hex())
        assert isinstance(said, relay.Resumed)
        return Begun(session=away.session.hex(), fresh=said.fresh, at=away.name)

    async def told(self) -> Told | None:
        """As `Elsewhere.told`."""
        return None if self.lister is None or not self.controls() else await self.lister.told()

    async def decide_of(self, away: Home, verb: str, given: Mapping[str, Any]) -> Asked | Decided | Uncertain:
        """As `Elsewhere.decide_of`."""
        return await relay_deciding.decided(self, away, verb, given)

    async def keys(self, session: str, line: str, by: str) -> bool:
        """As `Elsewhere.keys`."""
        with contextlib.suppress(ValueError):
            whole = SessionId(StatementId(bytes.fromhex(session)))
            home = next((one.home for one in self._views.get(whole, ()) if one.home is not None), None)
            if home is not None and not home.here:
                shown = line.encode("utf-8", "replace")[:LIVE_LINE_BYTES_MAX].decode("utf-8", "ignore")
                await self._asking.tell(home.device, relay.Keys(session=whole, line=shown, by=_by(by)))
                return True
        return False

    async def _asked(self, home: Home, ask: relay.Ask) -> relay.Reply | None:
        """Ask where a session runs, and where it goes meanwhile; None: it runs here now. Raises what is said there."""
        until = asyncio.get_running_loop().time() + MOVES_SECONDS
        while True:
            if not self._asking.linked(home.device) and await self.peers.coming(home.device) is None:
                raise await self.out_of_reach(home)
            said = await self._asking.ask(home, ask)
            if not isinstance(said, relay.Refused):
                return said
            if said.why != "elsewhere" or asyncio.get_running_loop().time() > until:
                raise relay_asking.error(said)
            await asyncio.sleep(AGAIN_SECONDS)
            home = await self.home(home.session)
            if home.here:
                return None


def _unanswered(event: live.Event) -> bool:
    """Whether a question is over that nobody answered."""
    return isinstance(event, live.Settled) and not event.by and not event.word


def _by(by: str) -> str:
    return by.encode("utf-8", "replace")[:LIVE_BY_BYTES_MAX].decode("utf-8", "ignore")
