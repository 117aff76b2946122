"""What other members see of sessions that run here, and ask of them: the channels `watch` and `live` of each link.

Nothing that a peer sends is believed: who may is looked up at each thing, what it may have under way is bounded, and
what it is slow to take is its own loss.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol

from hhd.base.errors import Exit, RefusedError, UserError
from hhd.node.answers import driven
from hhd.node.answers.decided import Decided, Uncertain
from hhd.node.live import named
from hhd.node.relay.homes import Homes, Standing
from hhd.node.relay.pace import Pace
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import live, relay
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.limits import (
    RELAY_ASKS_MAX,
    RELAY_ASKS_PER_SECOND,
    RELAY_REMEMBERED_MAX,
    RELAY_SENTENCE_BYTES_MAX,
    RELAY_TEXT_BYTES_MAX,
    RELAY_WATCHES_MAX,
)

LIST_ASKS = 10
"""Of other things that could be asked in the time that a list is made."""
NAME_CHARS = 24
"""Of a device's name before that of its terminal."""

_SENTENCES = {
    "unknown": "There is no such session there for this device.",
    "elsewhere": "It runs at another device.",
    "right": "This device may not approve there.",
    "full": f"{RELAY_WATCHES_MAX} terminals of this device watch sessions there already.",
}


class Sessions(Protocol):
    """Sessions that run here (`hhd.node.run_verbs`)."""

    async def say_here(self, session: SessionId, text: str, by: str) -> driven.Heard:
        """Say words to one."""

    async def answer_here(
        self, session: SessionId, id: str, shown: bytes, choice: str, message: str, by: str
    ) -> driven.Counted:
        """Answer what it asks."""

    async def pause_here(self, session: SessionId) -> driven.Rested:
        """Pause it."""

    async def go_on_here(self, session: SessionId) -> driven.Begun:
        """Let it go on."""

    def at_work_here(self) -> frozenset[SessionId]:
        """Those that run now."""

    async def doubt_here(self, session: SessionId, effect: int | None) -> Uncertain:
        """The effect of it that may have run."""

    async def settle_here(self, session: SessionId, effect: int, shown: bytes, word: str, output: str) -> Decided:
        """Note a word on that."""

    async def keys_here(self, session: SessionId, line: str, by: str) -> None:
        """Show what is typed."""


class _Watched:
    """One terminal of a peer at a session."""

    def __init__(self, peer: DeviceId, session: SessionId) -> None:
        self.peer, self.session = peer, session
        self.standing: Standing | None = None
        """How its device stood to it when that was looked up last."""
        self.cut = asyncio.Event()


class Serving:
    """`here` tells what happens in a session; `begin` begins a task of the daemon's, None where that ends."""

    def __init__(
        self,
        *,
        homes: Homes,
        sessions: Sessions,
        here: Callable[[SessionId, int | None, str], AsyncGenerator[live.Event, None]],
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None] | None],
    ) -> None:
        self._homes, self._sessions, self._here, self._begin = homes, sessions, here, begin
        self._watched: set[_Watched] = set()
        self._watching: Counter[DeviceId] = Counter()
        self._paces: dict[DeviceId, Pace] = {}
        self._answers: dict[DeviceId, OrderedDict[bytes, asyncio.Future[relay.Reply]]] = {}

    async def recheck(self) -> None:
        """A person may have taken something back: who may not watch any more is cut off."""
        for one in list(self._watched):
            if (await self._homes.standing(one.peer, one.session, owner=False)).why:
                one.cut.set()

    # Watching

    async def watch(self, channel: Channel, link: Link) -> None:
        """Serve a channel `watch` until its viewer leaves, or nothing more is told; raises FormatError, LinkError."""
        raw = await channel.receive()
        if raw is None:
            return
        asked = relay.decode_message(raw)
        if not isinstance(asked, relay.Watch):
            raise FormatError("a terminal that watches says something else first")
        if self._watching[link.peer] >= RELAY_WATCHES_MAX:
            await self._end(channel, "full")
            return
        one = _Watched(link.peer, SessionId(StatementId(asked.session)))
        self._watching[link.peer] += 1
        self._watched.add(one)
        pump = asyncio.ensure_future(self._pump(channel, one, asked))
        leaving = asyncio.ensure_future(channel.receive())
        cut = asyncio.ensure_future(one.cut.wait())
        try:
            await asyncio.wait((pump, leaving, cut), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done() and leaving.exception() is None and leaving.result() is not None:
                raise FormatError("a terminal that watches says a second thing")
            if pump.done():
                await self._end(channel, *pump.result())
            elif cut.done():
                pump.cancel()
                await asyncio.wait([pump])
                await self._end(channel, "unknown")
        finally:
            self._watched.discard(one)
            self._watching[link.peer] -= 1
            self._watching += Counter()  # Those that are none are forgotten.
            for task in (pump, leaving, cut):
                task.cancel()
            await asyncio.gather(pump, leaving, cut, return_exceptions=True)

    async def _pump(self, channel: Channel, one: _Watched, asked: relay.Watch) -> tuple[str, UserError | None]:
        """Tell what happens, and return why nothing more is told."""
        await self._pace(one.peer).turn()
        standing = await self._homes.standing(one.peer, one.session)
        if standing.why:
            return standing.why, None
        one.standing = standing
        try:
            async with aclosing(self._here(one.session, asked.position, _by(standing, asked.by))) as events:
                async for event in events:
                    if isinstance(event, live.Emitted):  # What it has now may be held back from that device.
                        standing = await self._homes.standing(one.peer, one.session, owner=False)
                        if standing.why:
                            return standing.why, None
                    await self._tell(channel, event)
        except UserError as error:
            return "refused", error
        return ((await self._homes.standing(one.peer, one.session)).why or "refused"), None

    @staticmethod
    async def _tell(channel: Channel, event: live.Event) -> None:
        try:
            raw = relay.encode_message(event)
        except TooLargeError:
            raw = relay.encode_message(live.Notice(text="Something is too long to be shown from here."))
        await channel.send(raw)

    @staticmethod
    async def _end(channel: Channel, why: str, error: UserError | None = None) -> None:
        text = _SENTENCES.get(why, "Nothing more is told of it.") if error is None else str(error)
        over = relay.Over(why=why, sentence=_bounded(text), exit=_exit(error))
        with contextlib.suppress(LinkError):
            await channel.send(relay.encode_message(over))

    # Lists

    async def list(self, channel: Channel, link: Link) -> None:
        """Serve a channel `list`: which sessions its opener may be at; raises FormatError, LinkError."""
        raw = await channel.receive()
        if raw is None:
            return
        ask = relay.decode_message(raw)
        if not isinstance(ask, relay.List):
            raise FormatError("something else is asked than for a list")
        for _ in range(LIST_ASKS):
            await self._pace(link.peer).turn()
        rows = await self._homes.rows(link.peer, self._sessions.at_work_here())
        said = _refused(ask, "unknown") if rows is None else replace(rows, id=ask.id)
        await channel.send(relay.encode_message(said))

    # What may have run

    async def settle(self, channel: Channel, link: Link) -> None:
        """Serve a channel `settle`: one thing that is asked, and the answer to it; raises FormatError, LinkError."""
        raw = await channel.receive()
        if raw is None:
            return
        ask = relay.decode_message(raw)
        if not isinstance(ask, relay.Doubt | relay.Settle):
            raise FormatError("something else is asked than what may have run")
        await self._pace(link.peer).turn()
        await channel.send(relay.encode_message(await self._done(link.peer, ask)))

    # Asking

    async def live(self, channel: Channel, link: Link) -> None:
        """Serve a channel `live` until it ends; raises FormatError, LinkError."""
        pace, slots = self._pace(link.peer), asyncio.Semaphore(RELAY_ASKS_MAX)
        while (raw := await channel.receive()) is not None:
            message = relay.decode_message(raw)
            await pace.turn()
            if isinstance(message, relay.Keys):
                await self._keys(link.peer, message)
            elif isinstance(message, relay.ASKS):
                await slots.acquire()
                task = self._begin(self._answered(channel, link.peer, message))
                if task is None:
                    slots.release()
                    return
                task.add_done_callback(lambda _: slots.release())
            else:
                raise FormatError("something is asked that cannot be asked")

    def _pace(self, peer: DeviceId) -> Pace:
        """How fast a peer is listened to, on all of its channels together."""
        return self._paces.setdefault(peer, Pace(RELAY_ASKS_PER_SECOND, 2 * RELAY_ASKS_PER_SECOND))

    async def _keys(self, peer: DeviceId, keys: relay.Keys) -> None:
        """A line that is typed is shown if its terminal watches; that it may was looked up for that."""
        session = SessionId(StatementId(keys.session))
        for one in self._watched:
            if (one.peer, one.session) == (peer, session) and one.standing is not None:
                await self._sessions.keys_here(session, keys.line, _by(one.standing, keys.by))
                return

    async def _answered(self, channel: Channel, peer: DeviceId, ask: relay.Ask) -> None:
        reply = await self._once(peer, ask)
        with contextlib.suppress(LinkError):  # It is asked again on the next link, and answered the same.
            await channel.send(relay.encode_message(reply))

    async def _once(self, peer: DeviceId, ask: relay.Ask) -> relay.Reply:
        """Do what is asked, unless it was done, or is being done: then what came of that."""
        answers = self._answers.setdefault(peer, OrderedDict())
        known = answers.get(ask.id)
        if known is not None:
            return await asyncio.shield(known)
        self._forget(answers)
        future = answers[ask.id] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._done(peer, ask)
            assert isinstance(reply, relay.REPLIES)
        except BaseException:
            answers.pop(ask.id, None)
            future.cancel()
            raise
        if isinstance(reply, relay.Refused) and reply.why != "refused":
            answers.pop(ask.id, None)  # Nothing was begun: asked again, it is looked at again.
        future.set_result(reply)
        return reply

    @staticmethod
    def _forget(answers: OrderedDict[bytes, asyncio.Future[relay.Reply]]) -> None:
        """Make room for one more answer; those that are being found are few (`RELAY_ASKS_MAX` on each of few links)."""
        for id in [id for id, one in answers.items() if one.done()][: max(0, len(answers) - RELAY_REMEMBERED_MAX + 1)]:
            del answers[id]

    async def _done(self, peer: DeviceId, ask: relay.Asked) -> relay.Answered:
        try:
            if isinstance(ask, relay.Find):
                found = await self._homes.find(peer, ask.name)
                return _refused(ask, "unknown") if found is None else relay.Found(id=ask.id, session=found)
            session = SessionId(StatementId(ask.session))
            standing = await self._homes.standing(peer, session)
            if standing.why:
                return _refused(ask, standing.why)
            if _needs_right(ask) and not standing.approves:
                raise RefusedError(
                    "This device may not approve there. To let it, say at the device where the session runs: "
                    f"hhd devices allow {standing.word} approve"
                )
            return await self._act(session, ask, standing)
        except UserError as error:
            return _refused(ask, "refused", error)
        except OSError as error:
            return _refused(ask, "refused", UserError(f"It could not be done there: {error.strerror or error}."))

    async def _act(self, session: SessionId, ask: relay.Asked, standing: Standing) -> relay.Answered:
        match ask:
            case relay.Say():
                heard = await self._sessions.say_here(session, ask.text, _by(standing, ask.by))
                return relay.Heard(id=ask.id, how=heard.how)
            case relay.Answer():
                counted = await self._sessions.answer_here(
                    session, ask.question, ask.shown, ask.choice, ask.message, _by(standing, ask.by)
                )
                return relay.Counted(id=ask.id, counted=counted.counted, by=counted.by)
            case relay.Pause():
                rested = await self._sessions.pause_here(session)
                return relay.Rested(id=ask.id, state=rested.state, sentence=_bounded(rested.sentence))
            case relay.Resume():
                return relay.Resumed(id=ask.id, fresh=(await self._sessions.go_on_here(session)).fresh)
            case relay.Doubt():
                doubt = await self._sessions.doubt_here(session, ask.effect)
                if len(doubt.text.encode("utf-8", "surrogatepass")) > RELAY_TEXT_BYTES_MAX:
                    raise RefusedError("What it waits with is too long to be shown on another device; see it there.")
                return relay.Doubted(id=ask.id, effect=doubt.effect, op=_bounded(doubt.op), text=doubt.text)
            case relay.Settle():
                done = await self._sessions.settle_here(session, ask.effect, ask.shown, ask.word, ask.output)
                return relay.Settled(id=ask.id, effect=done.effect, op=_bounded(done.op))
        raise AssertionError("a name is found, and nothing is done to it")


def _needs_right(ask: relay.Asked) -> bool:
    """Whether an ask has something run here, or says what did: that takes the right to approve."""
    return isinstance(ask, relay.Settle) or (isinstance(ask, relay.Answer) and ask.choice != "later")


def _by(standing: Standing, by: str) -> str:
    """How others here hear a terminal of that device named: by the device first, whatever it says itself."""
    name = standing.name[:NAME_CHARS]
    return named(by if by == name or by.startswith(f"{name} ") else f"{name} {by}".strip())


def _refused(ask: relay.Asked | relay.List, why: str, error: UserError | None = None) -> relay.Refused:
    text = _SENTENCES[why] if error is None else str(error)
    return relay.Refused(id=ask.id, why=why, sentence=_bounded(text), exit=_exit(error))


def _exit(error: UserError | None) -> int:
    return int(Exit.REFUSED if error is None else error.exit)


def _bounded(text: str) -> str:
    return text.encode("utf-8", "replace")[:RELAY_SENTENCE_BYTES_MAX].decode("utf-8", "ignore")
