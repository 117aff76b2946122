"""Pairing as a device does it: real key exchange, real stores, a channel in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from tests.node.circles import NOW, Owned, devices

from hhd.base.errors import RefusedError, UncertainError, UsageError
from hhd.identity.spake import Spake
from hhd.node.pairing import Done, Pairing, Question, WrongCodeError, parsed
from hhd.store.store import Store
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import PAIRING_CODE_MS, PAIRING_LOCKED_MS, PAIRING_LOCKED_MS_MAX
from hhd_protocol.pairing import Side, codes
from hhd_protocol.pairing.messages import Hello, Opening, decode_message, encode_message
from hhd_protocol.statements import Role

T = TypeVar("T")


@dataclass
class End:
    """One end of a channel in memory; `change` is given what is sent and says what arrives."""

    out: asyncio.Queue[bytes | None]
    into: asyncio.Queue[bytes | None]
    change: Callable[[bytes], list[bytes]] = lambda raw: [raw]
    name: str = "pair"
    sent: list[bytes] = field(default_factory=list)
    closed: bool = False

    async def send(self, message: bytes) -> None:
        self.sent.append(message)
        for one in self.change(message):
            self.out.put_nowait(one)

    async def receive(self) -> bytes | None:
        return await self.into.get()

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.out.put_nowait(None)


def channel() -> tuple[End, End]:
    one: asyncio.Queue[bytes | None] = asyncio.Queue()
    other: asyncio.Queue[bytes | None] = asyncio.Queue()
    return End(one, other), End(other, one)


@dataclass
class Person:
    """Says yes, or what is asked of it, and remembers what was on the screen."""

    yes: bool = True
    saw: list[Question] = field(default_factory=list)

    async def agrees(self, question: Question) -> bool:
        self.saw.append(question)
        return self.yes


@dataclass
class Clock:
    ms: int = NOW

    def __call__(self) -> int:
        return self.ms


@dataclass
class At:
    """A device with its pairing and its person."""

    owned: Owned
    clock: Clock
    person: Person = field(default_factory=Person)
    changes: int = 0

    def __post_init__(self) -> None:
        store = self.owned.store

        async def work(act: Callable[[Store], T]) -> T:
            await asyncio.sleep(0)
            return act(store)

        self.pairing = Pairing(
            me=self.owned.me,
            work=work,  # type: ignore[arg-type]
            random=os.urandom,
            boot_ms=self.clock,
            wall_ms=self.clock,
            changed=self._changed,
        )

    def _changed(self) -> None:
        self.changes += 1

    @property
    def id(self) -> DeviceId:
        return self.owned.me.id

    def shows(self, end: End, other: At, remote: str = "192.0.2.7") -> Awaitable[Done]:
        return self.pairing.shown(end, other.id, remote, self.person)

    def types(self, end: End, other: At, code: str) -> Awaitable[Done]:
        return self.pairing.guessed(end, other.id, code, self.person, self.owned.name)


@contextmanager
def met(folder: Path, *names: str) -> Iterator[list[At]]:
    clock = Clock()
    with devices(folder, *names) as owned:
        yield [At(one, clock) for one in owned]


async def both(one: Awaitable[Done], other: Awaitable[Done]) -> list[Done | BaseException]:
    return await asyncio.wait_for(asyncio.gather(one, other, return_exceptions=True), 30)


def pair(laptop: At, desktop: At, *, role: Role = Role.FULL, code: str | None = None) -> list[Done | BaseException]:
    """The laptop shows a code, the desktop types it, or another one."""

    async def run() -> list[Done | BaseException]:
        shown = laptop.pairing.open(laptop.owned.name, role)
        one, other = channel()
        return await both(laptop.shows(one, desktop), desktop.types(other, laptop, code or shown))

    return asyncio.run(run())


def wrong(code: str) -> str:
    """A code of good form that is another one."""
    return codes.code_of(((int(code.replace("-", "")[:7]) + 1) % codes.CODES).to_bytes(16, "big"))


def test_after_pairing_both_devices_are_full_members_of_one_group(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):
        one, other = pair(laptop, desktop)
        assert one == Done(other=desktop.id, name="desktop", role=Role.FULL, introduced=True)
        assert other == Done(other=laptop.id, name="laptop", role=Role.FULL, introduced=False)
        assert laptop.owned.names == desktop.owned.names == {"laptop", "desktop"}
        assert set(laptop.owned.group.records()) == set(desktop.owned.group.records())
        (here,), (there,) = laptop.person.saw, desktop.person.saw
        assert here.words == there.words and here.introducing and not there.introducing
        assert (here.other, here.name, there.other, there.name) == (desktop.id, "desktop", laptop.id, "laptop")
        assert laptop.changes == 2 and not laptop.pairing.is_open, "opened, and used"


def test_the_role_that_was_asked_for_is_what_the_other_becomes(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "phone") as (laptop, phone):
        pair(laptop, phone, role=Role.STORE_ONLY)
        assert phone.owned.group.members()[phone.id].role is Role.STORE_ONLY
        assert [one.role for one in (*laptop.person.saw, *phone.person.saw)] == [Role.STORE_ONLY] * 2


def test_a_device_of_a_group_takes_in_one_that_shows_the_code(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        pair(laptop, desktop)
        one, other = pair(tower, desktop)
        assert isinstance(one, Done) and not one.introduced and isinstance(other, Done) and other.introduced
        assert tower.person.saw[0].others == 1, "a person sees that there is another device in it"
        laptop.owned.hears(desktop.owned)
        assert laptop.owned.names == tower.owned.names == {"laptop", "desktop", "tower"}


def test_a_wrong_code_is_one_guess_and_burns_the_code(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        async def run() -> None:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            first = await both(laptop.shows(one, desktop), desktop.types(other, laptop, wrong(code)))
            assert all(isinstance(error, WrongCodeError) for error in first)
            assert len(one.sent) == 1 and isinstance(decode_message(one.sent[0]), Hello)
            laptop.clock.ms += PAIRING_LOCKED_MS
            one, other = channel()
            second = await both(laptop.shows(one, desktop), desktop.types(other, laptop, code))
            assert all(isinstance(error, RefusedError) for error in second) and one.sent == []
            assert "used" in str(second[0])

        asyncio.run(run())
        assert laptop.owned.group.group is None is desktop.owned.group.group
        assert laptop.person.saw == desktop.person.saw == []
        assert all(isinstance(one, Done) for one in pair(laptop, desktop)), "with a new code it goes"


def test_a_right_code_is_used_up_too(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):

        async def run() -> None:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            await both(laptop.shows(one, desktop), desktop.types(other, laptop, code))
            one, other = channel()
            again = await both(laptop.shows(one, tower), tower.types(other, laptop, code))
            assert all(isinstance(error, RefusedError) for error in again) and one.sent == []

        asyncio.run(run())
        assert laptop.owned.names == {"laptop", "desktop"}


def test_two_that_guess_at_a_time_have_one_guess(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):

        async def run() -> list[Done | BaseException]:
            code = laptop.pairing.open("laptop")
            (one, other), (third, fourth) = channel(), channel()
            acts = (
                laptop.shows(one, desktop),
                desktop.types(other, laptop, code),
                laptop.shows(third, tower, "192.0.2.8"),
                tower.types(fourth, laptop, code),
            )
            return await asyncio.gather(*acts, return_exceptions=True)

        found = asyncio.run(run())
        assert [isinstance(one, Done) for one in found] == [True, True, False, False]


@pytest.mark.parametrize("late_ms", [0, -1])
def test_an_expired_code_lets_nobody_in(tmp_path: Path, late_ms: int) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        async def run() -> tuple[list[Done | BaseException], End]:
            code = laptop.pairing.open("laptop")
            laptop.clock.ms += PAIRING_CODE_MS + late_ms
            assert laptop.pairing.is_open is (late_ms < 0)
            one, other = channel()
            return await both(laptop.shows(one, desktop), desktop.types(other, laptop, code)), one

        found, end = asyncio.run(run())
        if late_ms < 0:
            assert all(isinstance(one, Done) for one in found), "a millisecond before, it does"
        else:
            assert all(isinstance(one, RefusedError) for one in found) and end.sent == []


def test_an_address_that_failed_waits_also_with_a_new_code(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):
        pair(laptop, desktop, code=wrong("0000000-0"))
        refused = pair(laptop, desktop)
        assert all(isinstance(one, RefusedError) for one in refused)
        assert any("wait since it guessed wrongly" in str(one) for one in refused), "whoever waits is told that it may"
        laptop.clock.ms += PAIRING_LOCKED_MS
        assert all(isinstance(one, Done) for one in pair(laptop, desktop))


@pytest.mark.parametrize("said", ["nothing", "junk", "a half of a key, and nothing more", "an opening that is none"])
def test_whoever_uses_a_code_up_without_proving_that_it_knows_it_has_to_wait(tmp_path: Path, said: str) -> None:
    """Else one stranger could use up each code that a person opens."""
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        async def spoil() -> Done | BaseException:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            if said == "junk":
                await other.send(b"junk")
            if said.startswith(("a half", "an opening")):
                spake = Spake(Side.GUESSER, "00000000", guesser=desktop.id, shower=laptop.id, random=os.urandom)
                await other.send(encode_message(Hello(pake=spake.start(), commitment=bytes(32))))
            if said.startswith("an opening"):
                await other.send(encode_message(Opening(mac=bytes(32), box=b"")) + b"more")
            await other.close()
            (found,) = await asyncio.gather(laptop.shows(one, desktop), return_exceptions=True)
            assert not laptop.pairing.is_open and code
            return found

        assert isinstance(asyncio.run(spoil()), RefusedError)
        assert all(isinstance(one, RefusedError) for one in pair(laptop, desktop)), "it waits"
        laptop.clock.ms += PAIRING_LOCKED_MS
        assert all(isinstance(one, Done) for one in pair(laptop, desktop))


def test_who_sits_in_between_is_caught_by_the_key(tmp_path: Path) -> None:
    """The thief has a link to each, and passes on what they say, changed or not."""
    with met(tmp_path, "laptop", "desktop", "thief") as (laptop, desktop, thief):

        async def run() -> list[Done | BaseException]:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            # Each side's link leads to the thief, whose key it proved; the messages go through untouched.
            return await both(laptop.shows(one, thief), desktop.types(other, thief, code))

        # By the key, so before either opened anything: to both it is as if the code were another one.
        assert all(isinstance(one, WrongCodeError) for one in asyncio.run(run()))
        assert laptop.owned.group.group is None is desktop.owned.group.group
        assert laptop.person.saw == desktop.person.saw == []
        laptop.clock.ms += PAIRING_LOCKED_MS
        assert all(isinstance(one, Done) for one in pair(laptop, desktop)), "without the thief it goes"


def test_who_sits_in_between_and_even_knows_the_code_is_seen_in_the_words(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop", "thief") as (laptop, desktop, thief):
        laptop.person.yes = desktop.person.yes = False  # They see that the words differ.

        async def run() -> None:
            code = laptop.pairing.open("laptop")
            stolen = At(thief.owned, thief.clock)
            stolen.pairing.open("thief")
            stolen.pairing._window = laptop.pairing._window
            one, other = channel()
            third, fourth = channel()
            await asyncio.gather(
                laptop.shows(one, thief),
                thief.types(other, laptop, code),
                stolen.shows(third, desktop),
                desktop.types(fourth, thief, code),
                return_exceptions=True,
            )

        asyncio.run(run())
        (here,), (there,) = laptop.person.saw, desktop.person.saw
        assert here.words != there.words and here.other == thief.id == there.other
        assert laptop.owned.group.group is None is desktop.owned.group.group


@pytest.mark.parametrize("kind", [Hello, Opening])
def test_a_message_that_was_changed_on_its_way_ends_it(tmp_path: Path, kind: type) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        def change(raw: bytes) -> list[bytes]:
            message = decode_message(raw)
            if isinstance(message, Hello) and kind is Hello:
                message = Hello(pake=message.pake, commitment=message.commitment[::-1])
            if isinstance(message, Opening) and kind is Opening:
                message = Opening(mac=message.mac, box=message.box[:-1] + bytes([message.box[-1] ^ 1]))
            return [encode_message(message)]

        async def run() -> list[Done | BaseException]:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            other.change = change
            return await both(laptop.shows(one, desktop), desktop.types(other, laptop, code))

        assert all(isinstance(one, RefusedError) for one in asyncio.run(run()))
        assert laptop.owned.group.group is None and laptop.person.saw == []


def test_replayed_messages_of_a_pairing_bring_nobody_in(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        async def run() -> BaseException | Done:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            await both(laptop.shows(one, desktop), desktop.types(other, laptop, code))
            laptop.owned.group.revoke(desktop.id, NOW)
            laptop.pairing.open("laptop")
            again, feed = channel()
            for raw in other.sent:
                await feed.send(raw)
            (found,) = await asyncio.gather(laptop.shows(again, desktop), return_exceptions=True)
            return found

        assert isinstance(asyncio.run(run()), RefusedError)
        assert laptop.owned.names == {"laptop"} and len(laptop.person.saw) == 1


def test_nonsense_instead_of_a_guess_burns_the_code_and_nothing_else(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):
        no_side, no_point = bytes(33), b"A" + b"B" * 32
        hellos = [encode_message(Hello(pake=pake, commitment=bytes(32))) for pake in (no_side, no_point)]
        for junk in (b"", b"\xff" * 1000, *hellos):

            async def run(junk: bytes = junk) -> Done | BaseException:
                laptop.pairing.open("laptop")
                one, other = channel()
                await other.send(junk)
                (found,) = await asyncio.gather(laptop.shows(one, desktop), return_exceptions=True)
                assert one.closed
                laptop.clock.ms += PAIRING_LOCKED_MS_MAX
                return found

            assert isinstance(asyncio.run(run()), RefusedError) and not laptop.pairing.is_open


def test_where_a_person_says_no_nothing_is_changed_on_either(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):
        for unwilling in (laptop, desktop):
            unwilling.person.yes = False
            found = pair(laptop, desktop)
            assert all(isinstance(one, RefusedError) for one in found)
            assert laptop.owned.group.records() == [] == desktop.owned.group.records()
            unwilling.person.yes = True
        assert all(isinstance(one, Done) for one in pair(laptop, desktop))


def test_a_link_that_breaks_after_the_introduction_is_uncertain_and_pairing_again_mends_it(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        async def run() -> list[Done | BaseException]:
            code = laptop.pairing.open("laptop")
            one, other = channel()
            count = 0

            def cut(raw: bytes) -> list[bytes]:
                nonlocal count
                count += 1
                if count > 3:  # Hello, opening, yes; what follows are records.
                    one.out.put_nowait(None)
                    other.out.put_nowait(None)
                    return []
                return [raw]

            one.change = cut
            return await both(laptop.shows(one, desktop), desktop.types(other, laptop, code))

        here, there = asyncio.run(run())
        assert isinstance(here, UncertainError) and isinstance(there, UncertainError)
        assert "either device" not in str(there), "it was taken in there, and cannot know"
        assert desktop.owned.group.group is None and laptop.owned.names == {"laptop", "desktop"}
        assert all(isinstance(one, Done) for one in pair(laptop, desktop))
        assert laptop.owned.names == desktop.owned.names == {"laptop", "desktop"}


@pytest.mark.parametrize("refounds", [False, True])
def test_who_was_put_out_and_has_not_heard_takes_nobody_in(tmp_path: Path, refounds: bool) -> None:
    with met(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        for other in (desktop, tower):
            assert all(isinstance(one, Done) for one in pair(laptop, other))
        desktop.owned.hears(laptop.owned)
        laptop.owned.group.revoke(desktop.id, NOW)
        if refounds:
            laptop.owned.group.refound("laptop", NOW)
        before = laptop.owned.group.group
        there, here = pair(desktop, laptop)  # It shows a code as the full member that it takes itself for.
        assert isinstance(here, RefusedError) and "put out" in str(here) and isinstance(there, UncertainError)
        assert laptop.owned.group.group == before and desktop.owned.name not in laptop.owned.names
        if refounds:
            desktop.owned.group.refound("desktop", NOW)
        assert all(isinstance(one, Done) for one in pair(laptop, desktop)), "the other way round it is taken in"
        assert laptop.owned.names == desktop.owned.names and desktop.owned.name in laptop.owned.names


def test_a_slip_of_the_finger_sends_nothing(tmp_path: Path) -> None:
    with met(tmp_path, "laptop", "desktop") as (laptop, desktop):

        async def run() -> None:
            code = laptop.pairing.open("laptop")
            _, other = channel()
            slip = code[:-1] + str((int(code[-1]) + 1) % 10)
            with pytest.raises(UsageError, match="still good"):
                await desktop.types(other, laptop, slip)
            assert other.sent == [] and laptop.pairing.is_open and parsed(code)

        asyncio.run(run())


def test_a_person_who_gives_up_closes_the_code(tmp_path: Path) -> None:
    with met(tmp_path, "laptop") as (laptop,):
        laptop.pairing.open("laptop")
        assert laptop.pairing.left_ms == PAIRING_CODE_MS
        laptop.pairing.close()
        laptop.pairing.close()
        assert not laptop.pairing.is_open and laptop.pairing.left_ms == 0 and laptop.changes == 2
