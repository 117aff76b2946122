"""Whether a session could run elsewhere, asked at any device: answered, refused, and nothing moved for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, known_to_all, run, unasked, until
from tests.node.two import NOW, Device

from hhd.base.errors import RefusedError
from hhd.node import sessions
from hhd.node.handoff import admission as handoff_admission
from hhd.node.handoff import inquiries as handoff_inquiries
from hhd.node.handoff import steps as handoff_steps
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import handoff, limits
from hhd_protocol.handoff import Admit, Inquire, Please, Probe, Told
from hhd_protocol.ids import SessionId, StatementId, TransferId
from hhd_protocol.statements import Role

pytestmark = needs_agent


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, [GLOB], "laptop", "desktop", "tower") as made:
        yield made


@pytest.fixture
def session(three: list[Device]) -> SessionId:
    return known_to_all(three)


def told(inquire: Inquire, **fields: Any) -> Told:
    said = Told(
        transfer=inquire.transfer, session=inquire.session, stage="admitted", sentence="It could go.", over=True
    )
    return replace(said, **fields)


async def refusal(home: House, at: str, session: SessionId, to: str) -> str:
    """What a dry run is refused with that is typed at the device `at`."""
    with pytest.raises(RefusedError) as error:
        await home.sites[at].transfer(session, to, dry_run=True)
    return str(error.value)


def test_it_is_asked_at_the_owner_at_the_target_and_at_a_third_device_and_nothing_moves(
    three: list[Device], session: SessionId
) -> None:
    laptop = three[0]
    before = laptop.main(session)

    async def go(home: House) -> None:
        for at, to in (("laptop", "desktop"), ("desktop", "here"), ("tower", "desktop")):
            with mock.patch.object(handoff_admission, "_of_folder", lambda _: ["its folder is another one"]):
                (fit,) = await home.sites[at].transfer(session, to, dry_run=True)
            assert fit.over and fit.status == 0 and fit.stage == "admitted"
            assert fit.sentence.startswith("It could go to desktop") and fit.notes == ("its folder is another one",)
            assert fit.continuity == "nothing was sent"
            assert fit.ownership == ("this device has it" if at == "laptop" else "laptop has it")
        for site in home.sites.values():
            assert not site.handoffs.turns.goings and site.soft == site.readied == site.started == site.looked == []
        for one in three:
            assert one.control.transfers() == []
            assert sessions.view(one.store, one.me, session).owner == laptop.me.id
        assert laptop.main(session) == before
        assert (await home.sites["tower"].transfer(session, "desktop"))[-1].status == 0, "and what could be is"
        assert len(laptop.control.transfers()) == 1

    run(three, go)
    assert sessions.view(laptop.store, laptop.me, session).owner == three[1].me.id


def test_what_the_target_refuses_reaches_who_asked_with_its_way_out(three: list[Device], session: SessionId) -> None:
    async def go(home: House) -> None:
        why = RefusedError("It needs git, which is not there; install it there.")
        with mock.patch.object(handoff_steps, "fit", side_effect=why):
            assert await refusal(home, "tower", session, "desktop") == (
                "laptop says: It needs git, which is not there; install it there. Nothing was changed."
            )
            assert "install it there" in await refusal(home, "desktop", session, "here")
        assert "is there already" in await refusal(home, "tower", session, "laptop")
        home.cut("laptop", "desktop")
        said = await refusal(home, "tower", session, "desktop")
        assert said.startswith("laptop says: desktop is not connected now; nothing was changed.")
        said = await refusal(home, "desktop", session, "here")
        assert "laptop has session" in said and "cannot be asked" in said and "hhd takeover" in said

    run(three, go)
    assert three[0].control.transfers() == []


def test_records_that_are_behind_here_ask_a_device_that_says_it_is_no_longer_its_own(
    three: list[Device], session: SessionId
) -> None:
    async def go(home: House) -> None:
        assert (await home.sites["laptop"].transfer(session, "desktop"))[-1].status == 0
        assert "is not this device's to hand on" in await refusal(home, "tower", session, "here")

    run(three, go)


def test_an_older_owner_hands_nothing_over_and_who_asked_hears_at_once_that_it_cannot_be_asked(
    three: list[Device], session: SessionId
) -> None:
    async def go(home: House) -> None:
        laptop, tower = home.sites["laptop"], home.sites["tower"]
        del laptop.handlers[handoff_inquiries.CHANNEL]
        async with asyncio.timeout(handoff_inquiries.REPLY_SECONDS / 2):
            said = await refusal(home, "tower", session, "desktop")
        assert said.startswith("laptop runs an older hhd, which cannot be asked this from here; nothing was changed.")
        assert f"hhd transfer {session.hex()[:12]}" in said and said.endswith("desktop --dry-run")
        assert three[0].control.transfers() == [] and not laptop.handoffs.turns.goings
        assert tower.link(three[0].me.id) is not None, "the link is none the worse for it"
        assert (await tower.transfer(session, "desktop"))[-1].status == 0, "what it knows is done still"

    run(three, go)


@asynccontextmanager
async def asking(home: House, at: str, of: str) -> AsyncIterator[Channel]:
    """A channel of one question."""
    link = home.sites[at].link(home.devices[of].me.id)
    assert link is not None
    channel = await link.open(handoff_inquiries.CHANNEL)
    yield channel
    await channel.close()


async def answer(home: House, at: str, of: str, message: handoff.AnyAside) -> Told | None:
    """What one device answers another one; None where that costs the link."""
    try:
        async with asking(home, at, of) as channel:
            await channel.send(handoff.encode_message(message))
            raw = await channel.receive()
    except LinkError:
        return None
    said = None if raw is None else handoff.decode_message(raw)
    assert isinstance(said, Told)
    return said


def inquiry(home: House, session: SessionId, to: str = "desktop") -> Inquire:
    return Inquire(transfer=TransferId(os.urandom(16)), session=session, to=home.devices[to].me.id)


def test_a_device_that_only_stores_is_told_nothing_and_can_have_nothing_moved(
    three: list[Device], session: SessionId
) -> None:
    laptop, _, tower = three

    async def go(home: House) -> None:
        fit = await answer(home, "tower", "laptop", inquiry(home, session))
        assert fit is not None and fit.status == 0, "while it was a full one it was told"
        laptop.group.add(tower.me.public, "tower", Role.STORE_ONLY, NOW)
        said = await answer(home, "tower", "laptop", inquiry(home, session))
        assert said is not None and said.status == 3 and "only stores" in said.sentence and not said.notes
        to = home.devices["desktop"].me.id
        please = Please(transfer=TransferId(os.urandom(16)), session=session, to=to, deadline_ms=1000)
        heard: list[str] = []
        askings = home.sites["tower"].handoffs._askings
        with mock.patch.object(askings, "told", lambda _, message: heard.append(message.sentence)):
            await home.sites["tower"].handoffs._ways.send(laptop.me.id, please)
            await until(lambda: len(heard) == 1)
        assert "only stores" in heard[0]
        offer = handoff_steps.offer_of(laptop.store, laptop.me, session, please.transfer, None)
        fields = {name: getattr(offer, name) for name in ("hhd", "token", "head", "needs")}
        refusals: list[str] = []

        def refused(_: object, message: Any) -> bool:
            refusals.append(getattr(message, "why", ""))
            return True

        with mock.patch.object(home.sites["tower"].handoffs._inquiries, "is_of_probe", refused):
            probe = Probe(transfer=please.transfer, session=session, **fields)
            await home.sites["tower"].handoffs._ways.send(laptop.me.id, probe)
            await until(lambda: len(refusals) == 1)
        assert "only stores" in refusals[0]

    run(three, go)
    assert laptop.control.transfers() == []


def test_no_more_are_looked_into_at_a_time_than_may_be_and_one_more_is_told_so(
    three: list[Device], session: SessionId
) -> None:
    most, each = limits.HANDOFF_INQUIRIES_MAX, limits.HANDOFF_INQUIRIES_PEER_MAX

    async def go(home: House) -> None:
        inquiries, begun, goes_on = home.sites["laptop"].handoffs._inquiries, [0], asyncio.Event()
        real = inquiries._probed

        async def probed(*given: Any) -> Told:
            begun[0] += 1
            await goes_on.wait()
            return await real(*given)

        with mock.patch.object(inquiries, "_probed", probed):
            waiting = []
            for count, at in enumerate(("tower", "desktop"), 1):  # One that asks on and on leaves room for the other.
                waiting += [
                    asyncio.create_task(answer(home, at, "laptop", inquiry(home, session))) for _ in range(each)
                ]
                await until(lambda count=count: begun[0] == count * each)  # type: ignore[misc]
                async with asyncio.timeout(240):
                    more = await answer(home, at, "laptop", inquiry(home, session))
                assert more is not None and more.status == 3 and "too much" in more.sentence
            assert begun[0] == most
            goes_on.set()
            assert [one.status for one in await asyncio.gather(*waiting) if one is not None] == [0] * most
            again = await answer(home, "desktop", "laptop", inquiry(home, session, "tower"))
            assert again is not None and again.status == 0

    run(three, go)


def test_however_much_others_ask_the_first_question_of_a_device_is_looked_into(
    three: list[Device], session: SessionId
) -> None:
    async def go(home: House) -> None:
        inquiries, begun, goes_on = home.sites["laptop"].handoffs._inquiries, asyncio.Event(), asyncio.Event()
        real = inquiries._probed

        async def probed(*given: Any) -> Told:
            begun.set()
            await goes_on.wait()
            return await real(*given)

        greedy = [type(three[0].me.id)(bytes([one]) * 32) for one in (1, 2)]
        inquiries._looked_into.update(dict.fromkeys(greedy, limits.HANDOFF_INQUIRIES_PEER_MAX))
        assert inquiries._looked_into.total() == limits.HANDOFF_INQUIRIES_MAX
        with mock.patch.object(inquiries, "_probed", probed):
            waiting = asyncio.create_task(answer(home, "tower", "laptop", inquiry(home, session)))
            await asyncio.wait([waiting, asyncio.create_task(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
            assert begun.is_set() and not waiting.done()
            more = await answer(home, "tower", "laptop", inquiry(home, session))
            assert more is not None and more.status == 3 and "too much" in more.sentence
            goes_on.set()
            said = await waiting
            assert said is not None and said.status == 0

    run(three, go)


def test_a_question_of_what_is_not_here_or_of_where_nobody_could_go_is_answered(
    three: list[Device], session: SessionId
) -> None:
    async def go(home: House) -> None:
        unknown = await answer(home, "tower", "laptop", inquiry(home, SessionId(StatementId(b"?" * 32))))
        assert unknown is not None and unknown.status == 3 and unknown.sentence
        here = await answer(home, "tower", "laptop", inquiry(home, session, "laptop"))
        assert here is not None and here.status == 3 and "here already" in here.sentence
        nobody = replace(inquiry(home, session), to=type(three[0].me.id)(b"?" * 32))
        said = await answer(home, "tower", "laptop", nobody)
        assert said is not None and said.status == 3 and "Only a device of yours" in said.sentence

    run(three, go)


def test_what_breaks_the_rules_of_either_channel_costs_the_link(three: list[Device], session: SessionId) -> None:
    async def go(home: House) -> None:
        please = Please(transfer=TransferId(b"t" * 16), session=session, to=home.devices["desktop"].me.id)
        assert await answer(home, "tower", "laptop", please) is None, "it hands nothing over on this channel"
        assert home.sites["tower"].link(three[0].me.id) is None
        link = home.sites["desktop"].link(three[0].me.id)
        assert link is not None
        await home.sites["desktop"].handoffs._ways.send(three[0].me.id, inquiry(home, session))
        async with asyncio.timeout(240):
            await link.ended()

    run(three, go)
    assert three[0].control.transfers() == []


WRONG: dict[str, Callable[[Inquire], bytes]] = {
    "no message": lambda _: b"\xff" * 40,
    "another message": handoff.encode_message,
    "of another question": lambda q: handoff.encode_message(told(q, transfer=TransferId(b"x" * 16))),
    "of another session": lambda q: handoff.encode_message(told(q, session=SessionId(StatementId(b"x" * 32)))),
    "not over": lambda q: handoff.encode_message(told(q, over=False)),
    "could go and is refused": lambda q: handoff.encode_message(told(q, status=3)),
    "could not go and is done": lambda q: handoff.encode_message(told(q, stage="none")),
    "too long": lambda _: bytes(limits.HANDOFF_MESSAGE_BYTES_MAX + 1),
}


def test_an_answer_that_is_none_costs_the_link_and_one_that_is_is_shown_without_what_a_terminal_obeys(
    three: list[Device], session: SessionId
) -> None:
    says: list[Callable[[Inquire], bytes]] = []

    async def hostile(channel: Channel, link: Link) -> None:
        raw = await channel.receive()
        asked = None if raw is None else handoff.decode_message(raw)
        assert isinstance(asked, Inquire)
        await channel.send(says[0](asked))

    async def go(home: House) -> None:
        home.sites["laptop"].handlers[handoff_inquiries.CHANNEL] = hostile
        says[:] = [lambda q: handoff.encode_message(told(q, stage="none", sentence="No.\x1b[2J\nYes.", status=200))]
        said = await refusal(home, "tower", session, "desktop")
        assert said == "laptop says: No.\\x1b[2J\\x0aYes." and home.sites["tower"].link(three[0].me.id) is not None
        for what, wrong in WRONG.items():
            says[:] = [wrong]
            said = await refusal(home, "tower", session, "desktop")
            assert "no answer, so its link was cut" in said, what
            assert home.sites["tower"].link(three[0].me.id) is None, what
            await home.link("tower", "laptop")
            await until(lambda: home.sites["tower"].link(three[0].me.id) is not None)

    run(three, go)


def test_a_link_that_breaks_or_a_device_that_says_nothing_ends_the_wait_in_a_sentence(
    three: list[Device], session: SessionId
) -> None:
    asked = asyncio.Event()

    async def silent(channel: Channel, link: Link) -> None:
        asked.set()
        await link.ended()

    async def go(home: House) -> None:
        laptop = home.sites["laptop"]
        served = laptop.handlers[handoff_inquiries.CHANNEL]
        laptop.handlers[handoff_inquiries.CHANNEL] = silent
        with mock.patch.object(handoff_inquiries, "REPLY_SECONDS", 0.1):
            assert await refusal(home, "tower", session, "desktop") == "laptop did not answer; nothing was changed."
        asked.clear()
        waiting = asyncio.create_task(refusal(home, "tower", session, "desktop"))
        await asked.wait()
        home.cut("tower", "laptop")
        assert "The link to laptop broke before it answered" in await waiting
        await home.link("tower", "laptop")
        await until(lambda: home.sites["tower"].link(three[0].me.id) is not None)
        laptop.handlers[handoff_inquiries.CHANNEL] = served
        probed = asyncio.Event()
        inquiries, believed = laptop.handoffs._inquiries, list[bool]()

        async def deaf(_: object, probe: Probe) -> None:
            admit = Admit(transfer=probe.transfer, session=probe.session)
            believed.append(inquiries.is_of_probe(home.devices["tower"].me.id, admit))
            probed.set()

        with mock.patch.object(home.sites["desktop"].handlers["handoff"].__self__, "_probed_by", deaf):  # type: ignore[attr-defined]
            waiting = asyncio.create_task(refusal(home, "tower", session, "desktop"))
            await probed.wait()
            assert believed == [False], "another device does not answer it"
            home.cut("laptop", "desktop")
            assert "desktop is not connected any more" in await waiting

    run(three, go)
