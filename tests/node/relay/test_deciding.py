"""What a session at another device waits with is decided here: what was shown, by who may, and once."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.relay.relayed import Desk, Home, home, pages, role, run, until
from tests.node.two import NOW, Device

from hhd.base.errors import RefusedError, UncertainError, UsageError, UserError
from hhd.node import sessions
from hhd.node.answers.decided import Asked, Decided, Uncertain
from hhd.node.relay import deciding as relay_deciding
from hhd.node.verbs import Verbs
from hhd.transports.link import Channel, Link
from hhd_protocol import live, relay
from hhd_protocol.ids import SessionId
from hhd_protocol.statements import Role

pytestmark = needs_agent


class Person:
    """One who types at the laptop, whose daemon asks the desktop."""

    def __init__(self, desk: Desk, session: SessionId) -> None:
        self.desk, self.name = desk, session.hex()
        self.verbs = Verbs(opened=desk.opened, overview=lambda *_: pytest.fail("no list"), lanes=desk.lanes)
        self.verbs.elsewhere = desk.relays

    async def asked(self, effect: str | None = None, folder: Path | None = None) -> Asked:
        return await self._does("asked", effect=effect, folder=folder)

    async def decide(self, shown: str, *, agreed: bool = True, effect: str | None = None, message: str = "") -> Decided:
        given = {"effect": effect, "shown": shown, "agreed": agreed, "message": message, "folder": None}
        return await self._does("decide", **given)

    async def uncertain(self, effect: str | None = None) -> Uncertain:
        return await self._does("uncertain", effect=effect)

    async def settle(self, effect: str | None, *, how: str, output: str = "", shown: str | None = None) -> Decided:
        return await self._does("settle", effect=effect, how=how, output=output, shown=shown)

    async def _does(self, verb: str, **given: Any) -> Any:
        return await self.verbs.verbs()[verb].act(name=self.name, **given)


async def at_rest(house: Home, session: SessionId) -> tuple[Desk, Desk, Person]:
    """A session that waits on the desktop, without a process, is known on the laptop, where a person is."""
    desktop, laptop = house.desk("desktop"), house.desk("laptop")
    await desktop.bring(session, "laptop")
    return desktop, laptop, Person(laptop, session)


async def refused(doing: Any) -> str:
    with pytest.raises(RefusedError) as error:
        await doing
    return str(error.value)


def test_what_is_typed_at_another_member_counts_there_for_the_text_that_was_shown_here_whether_it_rests_or_runs(
    two: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop, person = await at_rest(house, asking)
            there = two[0].control.asked(asking.hex())
            seen = await person.asked()
            assert (seen.session, seen.effect, seen.pages, seen.shown) == (
                asking.hex(), there.effect, there.pages, there.shown,
            )  # fmt: skip
            assert "waits with effect" in await refused(person.asked("99"))
            assert "its folder is chosen there" in await refused(person.asked(folder=Path("/tmp")))

            told = r"may not approve there\. .* hhd devices allow laptop approve"
            for agreed in (True, False):
                with pytest.raises(RefusedError, match=told):
                    await person.decide(seen.shown, agreed=agreed)
            assert desktop.started == [] and desktop.workers.going(asking).answer is None

            two[0].group.allow(two[1].me.id, True, NOW)
            assert "not the text that was shown" in await refused(person.decide("00" * 32))
            assert "not with 99" in await refused(person.decide(seen.shown, effect="99"))
            assert desktop.started == []
            done = await person.decide(seen.shown, message="go on")
            assert (done.word, done.at, done.effect) == ("approved", "desktop", seen.effect)
            answer = desktop.workers.going(asking).answer
            assert answer is not None and (answer.choice, answer.shown.hex(), answer.message) == (
                "yes", seen.shown, "go on",
            )  # fmt: skip
            assert desktop.started == [asking] and laptop.started == [], "it goes on there"

            assert desktop.process(asking), "it runs, and its process asks"
            assert "is at work now" in await refused(person.uncertain())
            assert "waits with nothing that needs a yes" in await refused(person.asked())
            question = pages()
            desktop.tells(asking, question)
            seen = await person.asked()
            assert seen.shown == question.shown.hex() and seen.effect == 7
            desktop.tells(asking, replace(question, pages=("other",), shown=sha256(b"other").digest()))
            assert "not the text that was shown" in await refused(person.decide(seen.shown, agreed=False))
            desktop.tells(asking, question)
            done = await person.decide(seen.shown, agreed=False, message="use make")
            assert done.word == "denied"
            said = desktop.process(asking).said[-1]
            assert (said.choice, said.message) == ("no", "use make")
            desktop.tells(asking, live.Listening(id="input", prompt="", why="next"))
            assert "waits for your words" in await refused(person.asked())

    run(go())


# What may have run


@pytest.fixture
def doubted(two: list[Device], asking: SessionId) -> SessionId:
    """A session on the desktop whose command may have run."""
    return sessions.create_fork(two[0].store, two[0].me, asking, two[0].main(asking))


def test_a_word_on_what_may_have_run_is_noted_where_the_session_is_for_the_text_that_was_shown(
    two: list[Device], doubted: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop, person = await at_rest(house, doubted)
            here = two[0].control
            seen = await person.uncertain()
            assert seen == here.uncertain(doubted.hex()) and "echo one" in seen.text
            assert "waits with effect" in await refused(person.uncertain("99"))
            assert "needs a yes. Something it did may have run" in await refused(person.asked())
            shown = sha256(seen.text.encode()).hexdigest()
            word: dict[str, Any] = {"how": "ran", "output": "one", "shown": shown}
            assert "hhd devices allow laptop approve" in await refused(person.settle(str(seen.effect), **word))
            two[0].group.allow(two[1].me.id, True, NOW)
            blanks, no_hex = f"  {shown[2:]}", f"zz{shown[2:]}"
            for wrong in (
                {"shown": None},
                {"how": "perhaps"},
                {"shown": blanks},
                {"shown": no_hex},
                {"shown": shown[2:]},
            ):
                with pytest.raises(UsageError):
                    await person.settle(str(seen.effect), **{**word, **wrong})
            with (
                mock.patch.object(relay_deciding, "_DIGEST", re.compile(".*")),
                pytest.raises(UsageError, match="said to"),
            ):
                await person.settle(str(seen.effect), **{**word, "shown": blanks})
            link = laptop.link(two[0].me.id)
            assert link is not None and link.error is None, "what was typed here is no fault of the other device"
            assert "not the text that was shown" in await refused(
                person.settle(str(seen.effect), **{**word, "shown": "00" * 32})
            )
            assert "not with 99" in await refused(person.settle("99", **word))
            assert here.uncertain(doubted.hex()) == seen, "nothing was noted so far"
            done = await person.settle(str(seen.effect), **word)
            assert (done.word, done.at, done.op) == ("ran", "desktop", seen.op)
            with pytest.raises(RefusedError):
                here.uncertain(doubted.hex())
            assert desktop.started == [], "nothing goes on by it"

    run(go())


def test_homes_that_are_older_gone_or_hostile_and_those_where_this_device_may_not_are_told_apart(
    two: list[Device], doubted: SessionId
) -> None:
    two[0].group.allow(two[1].me.id, True, NOW)

    async def go() -> None:
        async with home(two) as house:
            desktop, laptop, person = await at_rest(house, doubted)
            seen = await person.uncertain()
            shown = sha256(seen.text.encode()).hexdigest()

            served = desktop.handlers[relay_deciding.CHANNEL]

            async def older(channel: Channel, link: Link) -> None:
                """It knows no such channel."""

            async def gone(channel: Channel, link: Link) -> None:
                await channel.receive()
                house.cut("laptop", "desktop")

            async def hostile(channel: Channel, link: Link) -> None:
                asked: Any = relay.decode_message((await channel.receive()) or b"")
                said = relay.Doubted(id=asked.id, effect=seen.effect, op="tool", text="\x1b[2Jnothing")
                await channel.send(relay.encode_message(said))

            desktop.handlers[relay_deciding.CHANNEL] = older
            assert "The hhd on desktop is older" in await refused(person.uncertain())
            link = laptop.link(two[0].me.id)
            assert link is not None and link.error is None
            desktop.handlers[relay_deciding.CHANNEL] = gone
            with pytest.raises(UncertainError, match="may have been noted, or not"):
                await person.settle(str(seen.effect), how="again", shown=shown)
            await house.link("laptop", "desktop")
            await until(lambda: laptop.link(two[0].me.id) is not None)
            assert "nothing was decided" in await refused(person.uncertain())
            await house.link("laptop", "desktop")
            await until(lambda: laptop.link(two[0].me.id) is not None)
            desktop.handlers[relay_deciding.CHANNEL] = hostile
            link = laptop.link(two[0].me.id)
            with pytest.raises(UserError):
                await person.uncertain()
            assert link is not None and link.error is not None
            desktop.handlers[relay_deciding.CHANNEL] = served

            await house.link("laptop", "desktop")
            await until(lambda: laptop.link(two[0].me.id) is not None)
            role(two, Role.STORE_ONLY)
            for reached, told in (True, "no such session there for this device"), (False, "which is not connected now"):
                if not reached:
                    house.cut("laptop", "desktop")
                for doing in (
                    person.asked(),
                    person.decide(shown),
                    person.uncertain(),
                    person.settle(str(seen.effect), how="again", shown=shown),
                ):
                    assert told in await refused(doing)
            assert two[0].control.uncertain(doubted.hex()) == seen and desktop.started == [], "nothing was noted"

    run(go())
