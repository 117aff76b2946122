"""Pairing on this device: the machine of `hhd_protocol.pairing` over a channel, beside it a person and the store.

One code is open at a time, in memory only: a daemon that ends forgets it, and the person asks for another. It is used
up before the first word is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hhd.base.errors import RefusedError, UncertainError, UsageError, UserError
from hhd.identity.key import Identity
from hhd.identity.spake import Spake
from hhd.node.group import Membership
from hhd.store.store import Store
from hhd.transports.link import Channel, LinkError
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId
from hhd_protocol.pairing import Card, Failures, Fault, Machine, Refusal, Side, Window, codes
from hhd_protocol.pairing.cards import NONCE_BYTES
from hhd_protocol.pairing.machine import (
    Answered,
    Ask,
    Closed,
    Ended,
    Event,
    Failed,
    Introduce,
    Introduced,
    Join,
    Joined,
    Output,
    Paired,
    Passed,
    Received,
    Send,
    Take,
)
from hhd_protocol.statements import Role

T = TypeVar("T")

FULL = Role.FULL


class Work(Protocol):
    """Does something with the store, where that may block, and returns what came of it."""

    def __call__(self, act: Callable[[Store], T]) -> Awaitable[T]:
        """Return what `act` returns; what it raises is raised here."""


class Person(Protocol):
    """Who sits at this device."""

    async def agrees(self, question: Question) -> bool:
        """Show the words and what is about to happen, and return whether the person says yes."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What both screens show: the same `words`; which device would become what.

    `other`: the device at the other end, `name` what it calls itself, as it came and not to be believed. `introducing`:
    this device takes the other one in, not the other way round. `others`: how many more devices the group has.
    """

    words: tuple[str, ...]
    other: DeviceId
    name: str
    role: Role
    introducing: bool
    others: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """Two devices are members of one group."""

    other: DeviceId
    name: str
    role: Role
    introduced: bool
    """This device took the other one in, not the other way round."""


class Pairing:
    """The pairing of one device; used in one event loop."""

    def __init__(
        self,
        *,
        me: Identity,
        work: Work,
        random: Callable[[int], bytes],
        boot_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`boot_ms`: a clock that counts sleep. `changed`: is called when a code was opened or is none any more."""
        self._me, self._work, self._random = me, work, random
        self._boot_ms, self._wall_ms, self._changed = boot_ms, wall_ms, changed
        self._window: Window | None = None
        self._failures = Failures()
        self._asked: tuple[str, Role] = "", FULL

    # The code

    def open(self, name: str, role: Role = FULL) -> str:
        """Open a code for a device that is to become `role`, and return it as it is shown; it replaces the last one.

        `name`: what this device calls itself.
        """
        code = codes.code_of(self._random(16))
        self._window, self._asked = Window.open(code, self._boot_ms()), (name, role)
        self._changed()
        return codes.shown(code)

    @property
    def is_open(self) -> bool:
        """Whether a stranger may come in now."""
        return self._window is not None and self._window.closed(self._boot_ms()) is None

    @property
    def left_ms(self) -> int:
        """How long the code stays open, 0 when none is."""
        return max(0, self._window.until_ms - self._boot_ms()) if self.is_open and self._window else 0

    def close(self) -> None:
        """The person gave up waiting, or it was used."""
        if self._window is not None:
            self._window = None
            self._changed()

    # Both sides

    async def shown(self, channel: Channel, other: DeviceId, remote: str, person: Person) -> Done:
        """Pair with who came to guess the code that is open here.

        `remote`: the host it came from, without a port. Raises RefusedError, where nothing was told, or UncertainError.
        """
        now_ms = self._boot_ms()
        window = self._window
        closed = self._failures.locked(remote, now_ms) or (None if window is None else window.closed(now_ms))
        if window is None or closed is not None:
            await channel.close()
            why = "no code is open" if closed is None else closed.value
            raise RefusedError(f"A device that came to pair was turned away ({why}); nothing was told.")
        self._window = window.taken()
        self._changed()
        try:
            done = await self._run(Side.SHOWER, channel, other, window.code, person, *self._asked)
        except UnprovenError:
            self._failures = self._failures.failed(remote, self._boot_ms())
            raise
        self._failures = self._failures.succeeded(remote)
        return done

    async def guessed(self, channel: Channel, other: DeviceId, code: str, person: Person, name: str) -> Done:
        """Pair with the device that shows `code`, as a person typed it; `name`: what this device calls itself.

        Raises RefusedError, UncertainError; UsageError for what cannot be a code, with nothing sent.
        """
        return await self._run(Side.GUESSER, channel, other, parsed(code), person, name, FULL)

    async def _run(
        self, side: Side, channel: Channel, other: DeviceId, code: str, person: Person, name: str, role: Role
    ) -> Done:
        card = await self._work(lambda store: card_of(store, self._me, name, role))
        guesser, shower = (self._me.id, other) if side is Side.GUESSER else (other, self._me.id)
        pake = Spake(side, code, guesser=guesser, shower=shower, random=self._random)
        machine = Machine(
            side=side, card=card, other=other, pake=pake, nonce=self._random(NONCE_BYTES), now_ms=self._boot_ms()
        )
        try:
            return await _Drive(self, machine, channel, other, side, person, name).run()
        finally:
            await _quietly(channel.close())

    # For the drive

    def now_ms(self) -> int:
        """The clock that deadlines are by."""
        return self._boot_ms()

    async def do(self, output: Introduce | Join | Take, name: str, other: DeviceId) -> Event | None:
        """Carry out what changes the store, durably; raises UserError, FormatError with nothing changed.

        `name`: what this device calls itself; `other`: the one at the other end.
        """
        now_ms = self._wall_ms()
        match output:
            case Introduce():
                return await self._work(lambda store: _introduce(Membership(store, self._me), output, now_ms, name))
            case Join():
                return await self._work(lambda store: _join(Membership(store, self._me), output, other, now_ms))
            case Take():
                await self._work(lambda store: Membership(store, self._me).take(output.records))
                return None


class _Drive:
    """One machine, being driven."""

    def __init__(
        self,
        pairing: Pairing,
        machine: Machine,
        channel: Channel,
        other: DeviceId,
        side: Side,
        person: Person,
        name: str,
    ) -> None:
        self._pairing, self._machine, self._channel, self._other = pairing, machine, channel, other
        self._side, self._person, self._name = side, person, name
        self._events: asyncio.Queue[Event] = asyncio.Queue(maxsize=1)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: UserError | None = None
        self._proven = self._may_be_in = False

    async def run(self) -> Done:
        """Carry out what the machine says, and tell it what happens, until it is over."""
        self._tasks.append(asyncio.create_task(self._listen()))
        try:
            outputs = self._machine.begin()
            while True:
                done = await self._carry_out(outputs)
                if isinstance(done, Done):
                    return done
                event = done or await self._next()
                outputs = self._machine.handle(event, self._pairing.now_ms())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, outputs: list[Output]) -> Done | Event | None:
        """Do what is in the list; returns what that led to, None if it is to be waited for."""
        led_to: Event | None = None
        for output in outputs:
            match output:
                case Send():
                    await _quietly(self._channel.send(output.raw))  # Where the channel ended, who listens says so.
                case Ask():
                    self._proven = True
                    self._tasks.append(asyncio.create_task(self._ask(output)))
                case Introduce() | Join() | Take():
                    led_to = await self._do(output)
                case Paired():
                    introduced = output.plan.introducer is self._side
                    name = output.other.name
                    return Done(other=output.other.device, name=name, role=output.plan.role, introduced=introduced)
                case Ended():
                    raise self._error(output)
        return led_to

    async def _do(self, output: Introduce | Join | Take) -> Event | None:
        try:
            return await self._pairing.do(output, self._name, self._other)
        except FormatError as error:
            self._failure = RefusedError(f"What the other device sent does not make a group ({error}).")
        except UserError as error:
            self._failure = error
        return None if isinstance(output, Take) else Failed()  # What was not taken comes with the next link.

    async def _next(self) -> Event:
        deadline = self._machine.deadline()
        left_ms = 0 if deadline is None else max(0, deadline - self._pairing.now_ms())
        try:
            return await asyncio.wait_for(self._events.get(), left_ms / 1000)
        except TimeoutError:
            return Passed()

    async def _listen(self) -> None:
        raw: bytes | None = b""
        while raw is not None:
            try:
                raw = await self._channel.receive()
            except LinkError:
                raw = None
            await self._events.put(Closed() if raw is None else Received(raw=raw))

    async def _ask(self, ask: Ask) -> None:
        introducing = ask.plan.introducer is self._side
        question = Question(
            words=ask.words,
            other=ask.other.device,
            name=ask.other.name,
            role=ask.plan.role,
            introducing=introducing,
            others=0 if introducing else ask.other.others,
        )
        yes = await self._person.agrees(question)
        self._may_be_in = yes and not introducing
        await self._events.put(Answered(yes=yes))

    def _error(self, ended: Ended) -> UserError:
        if ended.why is Fault.FAILED_HERE and self._failure is not None:
            return self._failure
        if ended.introduced:
            return UncertainError(
                "The other device was taken into the group here, and did not say that it heard of it. Pair the two "
                "once more; or, to put it out again, see `hhd devices` and run `hhd unpair`."
            )
        if self._may_be_in and ended.why in _UNHEARD:
            return UncertainError(
                f"{_ANY_SIDE[ended.why]} Nothing was changed here, but the other device may have taken this one into "
                "its group already: `hhd devices` there says so. Pair the two once more; or put it out there again, "
                "with `hhd unpair`."
            )
        if ended.why is Fault.WRONG_CODE:
            return WrongCodeError(_SENTENCES[self._side, ended.why] + _NOTHING)
        proven = self._proven or isinstance(ended.why, Refusal)
        kind = RefusedError if proven else UnprovenError
        sentence = None if self._proven else _SENTENCES.get((self._side, ended.why))
        return kind((sentence or _ANY_SIDE[ended.why]) + _NOTHING)


class UnprovenError(RefusedError):
    """It ended before the other side had proven that it knows the code: who used a code up so has to wait."""


class WrongCodeError(UnprovenError):
    """The other side does not know the code."""


_UNHEARD = (Fault.CLOSED, Fault.LATE, Fault.RULES)
"""After which it is not known here how far the other side came."""
_NOTHING = " Nothing was changed on either device."
_AGAIN = "Run `hhd pair` there again for another code."
_SENTENCES: dict[tuple[Side, Fault | Refusal], str] = {
    (Side.SHOWER, Fault.WRONG_CODE): "Somebody guessed the code wrongly, so it is used up. Run `hhd pair` again.",
    (Side.GUESSER, Fault.WRONG_CODE): f"That is not the code that the other device shows now. {_AGAIN}",
    (
        Side.GUESSER,
        Fault.CLOSED,
    ): f"The other device has no code open, ended the pairing, or has this one wait since it guessed wrongly. {_AGAIN}",
}
_ANY_SIDE: dict[Fault | Refusal, str] = {
    Fault.RULES: "The other device broke the rules of pairing, or what it said was changed on its way.",
    Fault.OTHER_KEY: "The connection leads to another device than the one that answered: somebody may be in between.",
    Fault.DECLINED: "You declined.",
    Fault.DECLINED_THERE: "It was declined on the other device.",
    Fault.LATE: "It took too long.",
    Fault.CLOSED: "The connection ended before it was done.",
    Fault.FAILED_HERE: "This device could not do its part.",
    Refusal.SAME: "This is one and the same device.",
    Refusal.BOTH_GROUPED: (
        "Both devices are in groups with other devices already. Let one of them leave its group first, with "
        "`hhd devices refound` there."
    ),
    Refusal.NOT_FULL: "Neither device may take the other one in: do it on a full member of the group.",
    Refusal.OWN_SESSIONS: (
        "The device that joins has sessions of its own, which it could not go on with unless it is full. Pair with "
        "`--role full`, or remove them first."
    ),
}


def parsed(text: str) -> str:
    """Return the code that a person typed; raises UsageError if it cannot be one."""
    try:
        return codes.parse(text)
    except FormatError as error:
        raise UsageError(f"This is not a code: {error}. Nothing was sent, so the code is still good.") from error


def card_of(store: Store, me: Identity, name: str, role: Role) -> Card:
    """Return what this device tells of itself to one that knows the code."""
    membership = Membership(store, me)
    group, members = membership.group, membership.members()
    live = me.id in members
    return Card(
        public=me.public,
        name=name,
        root=group.root if group is not None and live else None,
        others=len(members) - 1 if live else 0,
        full=live and members[me.id].role is Role.FULL,
        sessions=store.sessions_count() > 0,
        role=role,
    )


def _introduce(membership: Membership, output: Introduce, now_ms: int, own_name: str) -> Introduced:
    membership.found(own_name, now_ms)
    membership.add(output.public, output.name, output.plan.role, now_ms)
    group = membership.group
    assert group is not None
    return Introduced(root=group.root, records=tuple(membership.records()))


def _join(membership: Membership, output: Join, by: DeviceId, now_ms: int) -> Joined:
    membership.join(output.records, output.root, now_ms, by=by)
    return Joined(root=output.root, records=tuple(membership.records()))


async def _quietly(act: Awaitable[None]) -> None:
    with contextlib.suppress(LinkError):
        await act
