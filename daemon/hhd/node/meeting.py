"""Pairing as a part of the daemon: a code that is shown here, or typed here, the device that has it, and the person.

    pair_show(role)                 a stream: the code, then the question, then that it is done
    pair_with(code, host)           a stream: the question, then that it is done
    pair_answer(yes, words)         the person's answer to the question that showed these words

A stream that nobody listens to any more ends what it began: the code is closed, the question is answered with no.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator

from hhd.base import log
from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.node.address_book import typed
from hhd.node.answers.pairing import PairingStep
from hhd.node.dialling import STAGGER_SECONDS, Place
from hhd.node.pairing import Done, Pairing, Question, parsed
from hhd.node.peers import Peers
from hhd.node.service import Verb
from hhd.transports import sockets
from hhd.transports.link import PAIR, Channel, Link, LinkError, Why
from hhd_protocol.crypto import device_text
from hhd_protocol.statements import Role

FIND_SECONDS = 12.0
"""For a device that shows a code to be heard of: its first word may be lost, and is said again within seconds."""
LOOK_SECONDS = 0.5
"""Between looks at whether a code that is shown is still good."""
MORE_SECONDS = 1.0
"""For a second one that does, before the first is taken for the one that is meant."""


Steps = asyncio.Queue[PairingStep | UserError]
"""What the person is told next, or why it came to nothing."""


class Meeting:
    """See above. `pairing` is what is done over a channel, `peers` the links, `name` what this device calls itself."""

    def __init__(self, *, peers: Peers, pairing: Pairing, name: Callable[[], Awaitable[str]]) -> None:
        self._peers, self._pairing, self._name = peers, pairing, name
        self._steps: Steps | None = None
        self._talking = 0
        self._asked: asyncio.Future[bool] | None = None
        self._words: tuple[str, ...] = ()
        """What the question showed."""
        peers.serve(PAIR, self._came)
        peers.pairing_open = lambda: pairing.is_open

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.service.Part`."""
        return {
            "pair_show": Verb(self._show, changes=True),
            "pair_with": Verb(self._with, changes=True),
            "pair_answer": Verb(self._answer, changes=True),
        }

    async def run(self) -> None:
        """Nothing of its own."""

    async def stop(self) -> None:
        """What is under way ends with its stream."""

    def changed(self) -> None:
        """A code was opened, or is none any more: others may know of it."""
        self._peers.beacon.pairing_changed(self._pairing.is_open)

    # The person

    async def agrees(self, question: Question) -> bool:
        """As `hhd.node.pairing.Person`."""
        assert self._steps is not None
        self._asked, self._words = asyncio.get_running_loop().create_future(), question.words
        self._steps.put_nowait(
            PairingStep(
                kind="question",
                words=question.words,
                device=device_text(question.other),
                name=question.name,
                role=question.role.value,
                takes_in=question.introducing,
                others=question.others,
            )
        )
        try:
            return await self._asked
        finally:
            self._asked = None

    async def _answer(self, yes: bool, words: tuple[str, ...]) -> bool:
        """Answer the question that waits; False where none does any more, or another one than showed `words`."""
        if self._asked is None or self._asked.done() or words != self._words:
            return False
        self._asked.set_result(yes)
        return True

    # Showing

    async def _show(self, role: str = Role.FULL.value) -> AsyncIterator[PairingStep]:
        """Open a code, and tell of what comes of it."""
        wanted = _role(role)
        with self._one_at_a_time() as steps:
            port = await self._peers.listening()
            code = self._pairing.open(await self._name(), wanted)
            try:
                yield PairingStep(kind="code", code=code, seconds=self._pairing.left_ms // 1000, port=port)
                while True:
                    step = await self._next_shown(steps)
                    yield step
                    if step.kind == "done":
                        return
            finally:
                self._pairing.close()

    async def _next_shown(self, steps: Steps) -> PairingStep:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):  # Not as long as the code is good: the device may sleep.
                    step = await steps.get()
                if isinstance(step, UserError):
                    raise step
                return step
            if not steps.empty():
                continue  # It came in the very moment in which nobody waited any more.
            if not self._pairing.is_open and not self._talking:  # What was guessed has deadlines of its own.
                raise RefusedError(
                    "Nobody typed the code in time, so it is closed; nothing was changed. Run hhd pair for another one."
                )

    async def _came(self, channel: Channel, link: Link) -> None:
        """Somebody came to guess the code."""
        steps, was_open = self._steps, self._pairing.is_open
        step: PairingStep | UserError = RefusedError("The pairing came to nothing; nothing was changed.")
        self._talking += 1
        try:
            done = await self._pairing.shown(channel, link.peer, link.remote.rpartition(":")[0], self)
            log.note("paired", device=device_text(link.peer), address=link.remote)
            step = _done(done)
            await self._peers.roll.refresh()
        except UserError as error:
            log.fault("pairing_failed", error, device=device_text(link.peer), address=link.remote)
            step = error
        finally:
            self._talking -= 1
            if steps is not None and was_open and not self._pairing.is_open:  # Who has to wait uses no code up.
                steps.put_nowait(step)

    # Typing

    async def _with(self, code: str, host: str | None = None) -> AsyncIterator[PairingStep]:
        """Pair with the device that shows `code`; `host`: where it is, None to look for it on this network."""
        parsed(code)  # A slip of the finger costs no guess.
        places = None if host is None else [typed(host)]
        with self._one_at_a_time() as steps:
            if places is not None and await self._is_here(places[0]):
                raise RefusedError(
                    f"{places[0]} is this device itself; nothing was sent. Say where the device is that shows the code."
                )
            before = self._peers.connected()
            link, place = await self._linked(places or await self._find())
            try:
                if link.peer in before:  # Two links at once would not last: the code stays good for another device.
                    raise RefusedError(
                        "That device is paired with this one already, and linked; nothing was sent. To give it another "
                        "role, put it out with hhd unpair first, and pair the two again."
                    )
                yield PairingStep(kind="found", address=str(place), device=device_text(link.peer))
                channel = await link.open(PAIR)
                guess = self._pairing.guessed(channel, link.peer, code, self, await self._name())
                async with contextlib.aclosing(_until(guess, steps)) as told:
                    async for step in told:
                        if isinstance(step, Done):
                            log.note("paired", device=device_text(link.peer), address=link.remote)
                            await self._peers.roll.refresh()
                            self._peers.met(link.peer, place)
                            step = _done(step)
                        yield step
            except LinkError as error:
                raise RefusedError(f"The connection ended ({error}); nothing was changed here.") from error
            finally:
                await link.close("pairing is over")

    async def _is_here(self, place: Place) -> bool:
        """Whether this very daemon is at `place`: its port, on an address that this device has."""
        if place.port != await self._peers.listening():
            return False
        try:
            found = await sockets.found(place.host, 0)
        except (OSError, UnicodeError):
            return False  # Who dials it is told.
        for family, _, _, _, address in found:
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind(address)  # What is another's cannot be bound to.
                return True
        return False

    async def _find(self) -> list[Place]:
        """Return where the one device is that shows a code on this network; raises RefusedError."""
        showing = self._peers.beacon.showing
        loop = asyncio.get_running_loop()
        await self._peers.listening()
        until = loop.time() + FIND_SECONDS
        while loop.time() < until:
            was_showing = bool(showing)
            await asyncio.sleep(MORE_SECONDS if was_showing else 0.1)
            if was_showing and showing:  # Not the one alone that was closed meanwhile: another may follow it.
                break
        places = list(showing.values())
        if len(places) == 1:
            return places[0]
        if places:
            several = ", ".join(str(one[0]) for one in places)
            raise RefusedError(
                f"{len(places)} devices in reach show a code ({several}), and a code is only good for one guess: say "
                "which one with --host. Nothing was sent."
            )
        trouble = self._peers.beacon.trouble
        raise RefusedError(
            "No device that shows a code was found on this network"
            + (f" ({trouble})" if trouble else "")
            + ". Run hhd pair on the other one first; or, where the network keeps the two apart, say where it is with "
            "--host. Nothing was sent."
        )

    async def _linked(self, places: list[Place]) -> tuple[Link, Place]:
        """Return a link to whoever is at one of `places`, whichever answers first; raises RefusedError."""
        failure = LinkError(Why.UNREACHABLE, "Nobody answers.")
        found: asyncio.Queue[tuple[Link | LinkError, Place]] = asyncio.Queue()

        async def dial(place: Place, after: float) -> None:
            await asyncio.sleep(after)
            try:
                found.put_nowait((await self._peers.dial_stranger(place), place))
            except LinkError as error:
                found.put_nowait((error, place))

        dials = [asyncio.ensure_future(dial(one, at * STAGGER_SECONDS)) for at, one in enumerate(places)]
        try:
            for _ in places:
                link, place = await found.get()
                if not isinstance(link, LinkError):
                    return link, place
                failure = link
        finally:
            for one in dials:
                one.cancel()
            await asyncio.gather(*dials, return_exceptions=True)
        closed = failure.why in (Why.REFUSED, Why.STRANGER, Why.FULL)
        hint = " It shows no code now, or this device failed there before and has to wait." if closed else ""
        raise RefusedError(f"{failure}{hint} Nothing was changed.")

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[Steps]:
        """What the person is told, and a network to be on, for as long as this device pairs."""
        if self._steps is not None:
            raise RefusedError("This device is being paired already; end that first (Ctrl-C there).")
        self._steps = asyncio.Queue()
        self._peers.pairing_wanted(True)
        try:
            yield self._steps
        finally:
            self._steps = None
            if self._asked is not None and not self._asked.done():
                self._asked.set_result(False)
            self._peers.pairing_wanted(False)


async def _until(work: Awaitable[Done], steps: Steps) -> AsyncGenerator[PairingStep | Done, None]:
    """Yield the steps that come while `work` is done, and then what came of it."""
    doing = asyncio.ensure_future(work)
    step: asyncio.Task[PairingStep | UserError] | None = None
    try:
        while not doing.done():
            step = step or asyncio.ensure_future(steps.get())
            await asyncio.wait([doing, step], return_when=asyncio.FIRST_COMPLETED)
            if step.done():
                said, step = step.result(), None
                assert isinstance(said, PairingStep)
                yield said
        yield doing.result()
    finally:
        for task in (doing, step):
            if task is not None:
                task.cancel()


def _done(done: Done) -> PairingStep:
    return PairingStep(
        kind="done", device=device_text(done.other), name=done.name, role=done.role.value, takes_in=done.introduced
    )


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise UsageError(f"'{text}' is no role; there are {', '.join(one.value for one in Role)}.") from None
