"""One terminal at a session, wherever that runs: told each byte once, over links that break, and when it moves.

It begins where the session runs by the records here. When what it hears there is over, it looks again: the session may
have been handed on, or come back, or the link broke. What it hears of that is one notice each.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from hhd.base import log
from hhd.base.errors import Exit, RefusedError
from hhd.node.relay import safe as relay_safe
from hhd.node.relay.asking import error
from hhd.node.relay.ports import Home, Peering
from hhd.transports.link import Channel, LinkError
from hhd_protocol import live, relay
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import SessionId

CHANNEL = "watch"
AGAIN_SECONDS = 0.2
"""Between two looks at a session that is on its way; who learns of a change earlier says so."""
FAR_SECONDS = 5.0
"""The same of one whose home is not linked."""
ON_ITS_WAY_SECONDS = 15.0
"""For a session to be where the records say, before one who was never told anything is refused."""

ON_ITS_WAY = live.State(name="running", sentence="", ways=(), effect="", status=0)
"""How a session is while it moves: told before a question that goes with it is taken away, so that nobody leaves."""


class Views(Protocol):
    """What a view needs of the part it belongs to (`hhd.node.relay.relays`)."""

    peers: Peering

    async def home(self, session: SessionId) -> Home:
        """Where a session runs now; raises RefusedError where there is none."""

    async def out_of_reach(self, home: Home) -> RefusedError:
        """What is said where there is no link to it."""

    def here(self, session: SessionId, position: int | None, by: str) -> AsyncGenerator[live.Event, None]:
        """What happens in a session that runs here, until it does not any more."""

    def insist_on_room(self, view: View) -> None:
        """Raise RefusedError where as many terminals watch sessions of one home as may."""


class View:
    """See above. `changed` is set by who learns of something: then it looks again where the session runs."""

    def __init__(self, views: Views, session: SessionId, position: int | None, by: str) -> None:
        self._views, self.session, self._by = views, session, by
        self._cursor = relay.Cursor(position)
        self.home: Home | None = None
        """Where it is watched now, None while that is nowhere."""
        self.changed = asyncio.Event()
        self._channel: Channel | None = None
        self._told_at: bytes | None = None
        self._attached = self._lost = self._over = self._moved = False
        self._asked = ""
        self._since = asyncio.get_running_loop().time()

    async def events(self) -> AsyncGenerator[live.Event, None]:
        """Yield what is told, until it is over; raises UserError where nothing ever was."""
        while not self._over:
            self.changed.clear()
            try:
                home = await self._views.home(self.session)
            except RefusedError:
                if not self._attached:
                    raise
                return  # It was removed, which was told.
            async with aclosing(self._at(home)) as events:
                async for event in events:
                    for told in self._told(event, home):
                        yield told
            if self._asked:
                if not self._over:
                    yield ON_ITS_WAY
                yield live.Settled(id=self._asked, by="", word="")
                self._asked = ""

    async def moved(self) -> None:
        """The session runs elsewhere now: what is watched is left."""
        self.changed.set()
        self.home, self._moved = None, True
        if self._channel is not None:
            await self._channel.close()

    def _told(self, event: live.Event, home: Home) -> list[live.Event]:
        """What a terminal hears of an event: it is attached once, and gets each byte once."""
        match event:
            case live.Attached():
                rewound = self._cursor.attached(event.position)
                told: list[live.Event] = [] if self._attached else [event]
                told += self._whereabouts(home)
                if rewound:
                    told.append(live.Notice(text="It went on from an earlier point; hhd show has it as it is now."))
                return told
            case live.Emitted():
                taken = self._cursor.take(event)
                return [] if taken is None else [taken]
            case live.Question() | live.Listening():
                self._asked = event.id
            case live.Settled(id=id) if id == self._asked:
                self._asked = ""
        return [event]

    def _whereabouts(self, home: Home) -> list[live.Event]:
        before, lost, first = self._told_at, self._lost, not self._attached
        self._told_at, self._lost, self._attached = home.device, False, True
        if before == home.device:
            return [live.Notice(text=f"{home.name} is connected again.")] if lost else []
        if home.here:
            return [] if first else [live.Notice(text="It runs here now.")]
        return [live.Notice(text=f"It runs on {home.name}{'' if first else ' now'}.")]

    # Where it runs

    async def _at(self, home: Home) -> AsyncGenerator[live.Event, None]:
        if not home.here:
            async with aclosing(self._there(home)) as events:
                async for event in events:
                    yield event
            return
        self.home = home
        async with aclosing(self._views.here(self.session, self._cursor.position, self._by)) as events:
            async for event in events:
                yield event
        self.home = None
        with contextlib.suppress(RefusedError):
            if not (await self._views.home(self.session)).here:
                return
        self._over = True

    async def _there(self, home: Home) -> AsyncGenerator[live.Event, None]:
        peers = self._views.peers
        link = peers.link(home.device) if self._attached else await peers.coming(home.device)
        if link is None:
            if not self._attached:
                raise await self._views.out_of_reach(home)
            if not self._lost:
                self._lost = True
                yield live.Notice(text=f"{home.name}, where it runs, is not connected; it is shown again once it is.")
            await self._wait(FAR_SECONDS)
            return
        self.home, self._moved = home, False
        self._views.insist_on_room(self)
        said: relay.Over | None = None
        heard = False
        try:
            self._channel = channel = await link.open(CHANNEL)
            watch = relay.Watch(session=self.session, position=self._cursor.position, by=self._by)
            await channel.send(relay.encode_message(watch))
            while said is None and (raw := await channel.receive()) is not None:
                message = relay.decode_message(raw)
                if isinstance(message, relay.Over):
                    said = message
                elif isinstance(message, live.Event) and isinstance(message, live.Attached) is not heard:
                    heard = True
                    yield self._checked(message)
                else:
                    raise FormatError("a session is told of in another order than it happens")
        except LinkError:
            pass
        except FormatError as fault:
            log.fault("peer_broke_rules", fault, device=device_text(home.device), address=link.remote)
            link.cut("the rules were broken")
        finally:
            self.home = None
            if self._channel is not None:
                await self._channel.close()
                self._channel = None
        for event in await self._left(home, said, heard, ended=link.error is None):
            yield event

    def _checked(self, event: live.Event) -> live.Event:
        """What a home says, as far as it can be; raises FormatError."""
        event = relay_safe.safe(event)
        if isinstance(event, live.Attached) and event.session != self.session.hex():
            raise FormatError("another session is told of than was asked for")
        if isinstance(event, live.Emitted) and event.position > (self._cursor.position or 0):
            raise FormatError("a part of the transcript is missing")
        return event

    async def _left(self, home: Home, said: relay.Over | None, heard: bool, *, ended: bool) -> list[live.Event]:
        """What is told once a home tells nothing more; raises UserError where it never told anything."""
        if said is not None and said.why not in ("elsewhere",):
            wrong = error(said)
            if not self._attached:
                raise wrong
            self._over = True
            return [live.State(name="ended", sentence=str(wrong), ways=(), effect="", status=int(Exit.REFUSED))]
        if self._moved:
            return []
        if not self._attached:
            waited = asyncio.get_running_loop().time() - self._since
            if said is None and ended and not heard:
                raise RefusedError(f"The hhd on {home.name} is older, and shows its sessions to no other device.")
            if waited > ON_ITS_WAY_SECONDS:
                raise RefusedError(
                    f"{home.name} does not have session {home.shown} yet, or any more; see it with: hhd transfers"
                )
        if said is None and not ended:
            self._lost = True
            if self._attached:
                await asyncio.sleep(0)  # The link is told to be gone.
                return [
                    live.Notice(
                        text=f"The connection to {home.name} broke; it goes on there, and here once it is back."
                    )
                ]
            return []
        await self._wait(AGAIN_SECONDS)
        return []

    async def _wait(self, seconds: float) -> None:
        """Wait until something changed, for `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.changed.wait()
