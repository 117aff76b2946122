"""Sessions of one device at terminals of another: shown live, spoken to, each byte and word once, wherever it goes."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.handoff import handing
from tests.node.relay.relayed import Desk, Home, home, pages, role, run, until
from tests.node.two import NOW, Device

from hhd.base.errors import RefusedError, UncertainError
from hhd.node import findings
from hhd.node.relay import asking as relay_asking
from hhd.node.relay import ports as relay_ports
from hhd.node.sync.wishes import Wishes
from hhd.transports.link import Channel, Link
from hhd_protocol import live, relay
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.limits import LIVE_WAITING_BYTES_MAX, RELAY_ASKS_MAX, RELAY_WATCHES_MAX
from hhd_protocol.statements import Role

pytestmark = needs_agent


async def up(house: Home, session: SessionId) -> tuple[Desk, Desk]:
    """The session is known on both devices, and runs on the desktop."""
    desktop, laptop = house.desk("desktop"), house.desk("laptop")
    await desktop.bring(session, "laptop")
    await desktop.start(session)
    return desktop, laptop


def test_what_happens_there_is_shown_here_and_each_byte_once(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            whole = two[0].transcript(asking)
            first, late = laptop.terminal(asking), laptop.terminal(asking.hex()[:8], len(whole) - 3, by="pts/2")
            local = desktop.terminal(asking, by="pts/9")
            for one in (first, late, local):
                await one.until(live.State, lambda state: state.name == "running")
            assert first.transcript == local.transcript == whole and late.transcript == whole[-3:]
            assert first.notices == ["It runs on desktop."] and local.notices == []
            assert first.of(live.Attached)[0].by == "laptop pts/1"
            desktop.tells(asking, live.Words(text="I will"))
            desktop.tells(asking, live.Emitted(position=len(whole) - 2, piece=whole[-2:] + b"more"))
            for one in (first, late, local):
                await one.until(live.Words, lambda words: words.text == "I will")
                await until(lambda one=one: one.transcript.endswith(b"more"))  # type: ignore[misc]
            assert first.transcript == whole + b"more" and late.transcript == whole[-3:] + b"more"

    run(go())


def test_what_is_said_here_is_heard_there_and_others_see_by_whom(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            here, there = laptop.terminal(asking), desktop.terminal(asking, by="pts/9")
            await here.until(live.State)
            await there.until(live.State)
            heard = await laptop.verbs.say(asking.hex(), "not that file", "laptop pts/1")
            assert (heard.session, heard.how) == (asking.hex(), "steering")
            assert [one.text for one in desktop.process(asking).said] == ["not that file"]
            said = await there.until(live.Said)
            assert (said.by, said.text) == ("laptop pts/1", "not that file")
            await laptop.verbs.keys(asking.hex(), "typed", "laptop pts/1")
            assert (await there.until(live.Keys)).line == "typed"
            rested = await laptop.verbs.pause(asking.hex())
            assert rested.state == "paused" and desktop.running() == {}
            assert (await here.until(live.State, lambda one: one.name == "paused")).sentence == "It is paused."
            begun = await laptop.verbs.go_on(asking.hex())
            assert (begun.session, begun.fresh, begun.at) == (asking.hex(), True, "desktop")
            assert desktop.started == [asking, asking] and laptop.started == [], "resumed where it is"

    run(go())


def test_of_one_out_of_reach_it_is_said_what_is_known_and_how_to_go_on(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            _, laptop = await up(house, asking)
            house.cut("laptop", "desktop")
            way = f"takeover {asking.hex()[:12]}"
            told = rf"desktop's to run, which is not connected now; nothing was changed\..* old\..* {way}"
            for asked in (
                laptop.verbs.say(asking.hex(), "hello"),
                laptop.verbs.pause(asking.hex()),
                laptop.verbs.go_on(asking.hex()),
            ):
                with pytest.raises(RefusedError, match=told):
                    await asked
            terminal = laptop.terminal(asking)
            await until(lambda: terminal.over)
            assert isinstance(terminal.error, RefusedError) and "takeover" in str(terminal.error)
            assert laptop.started == []

    run(go())


def test_terminals_stay_when_it_is_handed_over_and_back_and_are_told_where_it_runs(
    two: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            whole = two[0].transcript(asking)
            there, here = desktop.terminal(asking, by="pts/9"), laptop.terminal(asking)
            for one in (there, here):
                await one.until(live.State, lambda state: state.name == "running")
            moved = await desktop.transfer(asking, "laptop")
            assert moved[-1].status == 0, moved
            await until(lambda: asking in laptop.started)
            await there.until(live.Notice, lambda one: one.text == "It runs on laptop now.")
            await here.until(live.Notice, lambda one: one.text == "It runs here now.")
            for one in (there, here):
                await until(lambda one=one: one.of(live.State)[-1].name == "running" and not one.over)  # type: ignore[misc]
                assert {state.name for state in one.of(live.State)} == {"running"}, "nobody leaves for the pause"
            laptop.tells(asking, live.Emitted(position=len(whole), piece=b"on the laptop "))
            laptop.tells(asking, live.Words(text="I am here"))
            for one in (there, here):
                await until(lambda one=one: one.transcript == whole + b"on the laptop ")  # type: ignore[misc]
                await one.until(live.Words)
            heard = await desktop.verbs.say(asking.hex(), "well done", "pts/9")
            assert heard.how == "steering" and laptop.process(asking).said[-1].text == "well done"

            back = await laptop.transfer(asking, "desktop")
            assert back[-1].status == 0, back
            await there.until(live.Notice, lambda one: one.text == "It runs here now.")
            await until(lambda: here.notices.count("It runs on desktop now.") == 1)
            desktop.tells(asking, live.Words(text="and back"))
            for one in (there, here):
                await one.until(live.Words, lambda words: words.text == "and back")
                assert {state.name for state in one.of(live.State)} == {"running"}

    run(go())


def test_a_handoff_that_is_given_up_leaves_terminals_where_they_are(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            there = desktop.terminal(asking, by="pts/9")
            await there.until(live.State, lambda state: state.name == "running")
            with mock.patch.object(laptop.handoffs._ways, "send", _nothing):  # It never answers.
                moved = await desktop.transfer(asking, "laptop", deadline_ms=300)
            assert moved[-1].status == 4
            await desktop.start(asking)
            desktop.tells(asking, live.Words(text="still here"))
            await there.until(live.Words)
            assert not there.over and "It runs on laptop now." not in there.notices

    run(go())


async def _nothing(*_: object) -> None:
    """Said to nobody."""


def test_a_link_that_breaks_is_said_and_it_goes_on_at_the_byte_when_it_is_back(
    two: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            whole = two[0].transcript(asking)
            here = laptop.terminal(asking)
            await here.until(live.State)
            broke = "The connection to desktop broke; it goes on there, and here once it is back."
            again = "desktop is connected again."
            desktop.tells(asking, pages())
            desktop.tells(asking, live.State(name="waiting", sentence="", ways=(), effect="", status=3))
            await here.until(live.State, lambda state: state.name == "waiting")
            for times in (1, 2):
                house.cut("laptop", "desktop")
                await until(lambda times=times: here.notices.count(broke) == times)  # type: ignore[misc]
                await house.link("laptop", "desktop")
                await until(lambda times=times: here.notices.count(again) == times)  # type: ignore[misc]
                desktop.tells(asking, live.Words(text=f"again {times}"))
                await here.until(live.Words, lambda words, times=times: words.text.endswith(f"again {times}"))  # type: ignore[misc]
            assert here.transcript == whole
            assert here.notices == ["It runs on desktop.", broke, again, broke, again]
            assert not left(here), "a question that is out of sight is no reason to leave"
            await house.kill("desktop")
            anew = await house.up("desktop")
            assert isinstance(anew, Desk)
            await anew.start(asking)
            await until(lambda: here.notices.count(again) == 3)
            anew.tells(asking, live.Words(text="a new daemon"))
            await here.until(live.Words, lambda words: words.text == "a new daemon")
            assert here.transcript == whole

    run(go())


# Words that arrive once


def cut_after(desk: Desk, house: Home, *, back: bool) -> mock._patch[object]:
    """The link breaks once words are in the session, and before the answer to them is sent."""
    act = desk.verbs.__class__.say_here

    async def said(self: object, *given: object) -> object:
        heard = await act(self, *given)  # type: ignore[arg-type]
        patch.stop()
        house.cut("laptop", "desktop")
        if back:
            await house.link("laptop", "desktop")
        return heard

    patch = mock.patch.object(desk.verbs.__class__, "say_here", said)
    return patch  # type: ignore[return-value]


def test_words_arrive_once_when_the_link_breaks_before_their_answer(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            cut_after(desktop, house, back=True).start()
            heard = await laptop.verbs.say(asking.hex(), "once", "pts/1")
            assert heard.how == "steering"
            assert [one.text for one in desktop.process(asking).said] == ["once"]
            await laptop.verbs.say(asking.hex(), "once", "pts/1")
            assert [one.text for one in desktop.process(asking).said] == ["once", "once"], "said twice is heard twice"

    run(go())


def test_that_words_may_have_arrived_is_said_only_where_it_cannot_be_known(
    two: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            cut_after(desktop, house, back=False).start()
            saying = asyncio.ensure_future(laptop.verbs.say(asking.hex(), "hello", "pts/1"))
            await until(lambda: [one.text for one in desktop.process(asking).said] == ["hello"])
            await until(lambda: not laptop.relays._asking.linked(desktop.device.me.id))
            assert not saying.done()
            await house.kill("desktop")
            with mock.patch.object(handing, "INSTANCE", b"another"):
                await house.up("desktop")
            with pytest.raises(UncertainError, match="started anew meanwhile, so these words may have arrived, or not"):
                await saying
            house.cut("laptop", "desktop")
            with (
                mock.patch.object(relay_asking, "AGAIN_SECONDS", 0.05),
                pytest.raises(RefusedError, match="not connected now; nothing was changed"),
            ):
                await laptop.verbs.say(asking.hex(), "never sent", "pts/1")

    run(go())


# Who may


def test_an_answer_counts_only_from_a_device_that_was_given_the_right_and_for_the_text_shown(
    two: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            question = pages()
            here = laptop.terminal(asking)
            await here.until(live.State)
            desktop.tells(asking, question)
            assert await here.until(live.Question) == question
            answer = laptop.verbs.answer
            for choice in ("yes", "always", "no"):
                with pytest.raises(RefusedError, match=r"may not approve there.*hhd devices allow laptop approve"):
                    await answer(asking.hex(), question.id, question.shown, choice)
            assert not (await answer(asking.hex(), question.id, question.shown, "later")).counted
            assert desktop.process(asking).said == [] and desktop.workers.going(asking).ask == question

            two[0].group.allow(two[1].me.id, True, NOW)
            with pytest.raises(RefusedError, match="not the text that is asked about"):
                await answer(asking.hex(), question.id, bytes(32), "yes")
            two[0].group.allow(two[1].me.id, False, NOW)
            with pytest.raises(RefusedError, match="may not approve there"):
                await answer(asking.hex(), question.id, question.shown, "yes")
            two[0].group.allow(two[1].me.id, True, NOW)
            counted = await answer(asking.hex(), question.id, question.shown, "yes", "", "laptop pts/1")
            assert counted.counted and counted.by == "laptop pts/1"
            assert desktop.process(asking).said[-1].choice == "yes"
            assert (await here.until(live.Settled)).word == "yes"
            assert not (await answer(asking.hex(), question.id, question.shown, "no")).counted, "the first one counts"

    run(go())


@pytest.mark.parametrize("what", ["unknown", "unfollowed", "held", "store-only", "revoked"])
def test_what_is_not_there_and_what_is_not_for_it_are_refused_alike(
    two: list[Device], asking: SessionId, what: str
) -> None:
    desktop_, laptop_ = two
    asked = asking
    if what == "unknown":
        asked = SessionId(StatementId(b"u" * 32))
    elif what == "held":  # A session that the laptop never had, with something in it like a credential.
        asked = desktop_.create()
        desktop_.go_here(asked)
        findings.of_text(desktop_.store, asked, 0, b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret")
        assert findings.count(desktop_.store, asked)

    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            if what == "unfollowed":
                Wishes(desktop_.me.id).follow(desktop_.store, asked, laptop_.me.id, False)
            elif what == "store-only":
                role(two, Role.STORE_ONLY)
            elif what == "revoked":
                desktop_.group.revoke(laptop_.me.id, NOW)
            away = relay_ports.Home(session=asked, device=desktop_.me.id, name="desktop", here=False)
            said = []
            for ask in (
                relay.Say(id=b"1" * 16, session=asked, text="hello", by=""),
                relay.Pause(id=b"2" * 16, session=asked),
                relay.Resume(id=b"3" * 16, session=asked),
                relay.Answer(id=b"4" * 16, session=asked, question="", shown=bytes(32), choice="no", message="", by=""),
                relay.Find(id=b"5" * 16, name=asked.hex()),
            ):
                said.append(await laptop.relays._asking.ask(away, ask))
            assert {(type(one), one.why, one.sentence, one.exit) for one in said} == {  # type: ignore[union-attr]
                (relay.Refused, "unknown", "There is no such session there for this device.", 3)
            }
            with (
                mock.patch.object(laptop.relays, "away", _returns(away)),
                mock.patch.object(laptop.relays, "home", _returns(away)),
            ):
                here = laptop.terminal(asked)
                await until(lambda: here.over)
            assert str(here.error) == "There is no such session there for this device." and here.events == []
            assert desktop.process(asking).said == [] and desktop.soft == [] and desktop.started == [asking]

    run(go())


def _returns(value: object) -> object:
    async def returns(*_: object) -> object:
        return value

    return returns


def test_a_controller_watches_and_prompts_and_approves_only_with_the_right(
    two: list[Device], asking: SessionId
) -> None:
    role(two, Role.CONTROLLER)

    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = house.desk("desktop"), house.desk("laptop")
            laptop.relays.keeps = lambda: False
            await desktop.start(asking)
            here = laptop.terminal(asking.hex()[:6])
            await here.until(live.State)
            assert here.transcript == two[0].transcript(asking), "of a session that it keeps nothing of"
            await laptop.verbs.say(asking.hex(), "hello", "pts/1")
            assert desktop.process(asking).said[-1].text == "hello"
            question = pages()
            desktop.tells(asking, question)
            await here.until(live.Question)
            with pytest.raises(RefusedError, match="may not approve there"):
                await laptop.verbs.answer(asking.hex(), question.id, question.shown, "yes")
            two[0].group.allow(two[1].me.id, True, NOW)
            assert (await laptop.verbs.answer(asking.hex(), question.id, question.shown, "yes")).counted
            nothing = laptop.terminal("nonsense")
            await until(lambda: nothing.over)
            assert "There is no session 'nonsense' here." in str(nothing.error)

    run(go())


def test_one_who_watches_is_cut_off_when_a_person_takes_the_session_back_from_that_device(
    two: list[Device], asking: SessionId
) -> None:
    desktop_, laptop_ = two

    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            here, there = laptop.terminal(asking), desktop.terminal(asking, by="pts/9")
            await here.until(live.State)
            await there.until(live.State)
            Wishes(desktop_.me.id).follow(desktop_.store, asking, laptop_.me.id, False)
            whole = desktop_.transcript(asking)
            desktop.tells(asking, live.Emitted(position=len(whole), piece=b"not for the laptop"))
            await until(lambda: there.transcript.endswith(b"not for the laptop"))
            await until(lambda: here.over)
            assert here.transcript == whole and here.of(live.State)[-1].name == "ended"
            Wishes(desktop_.me.id).follow(desktop_.store, asking, laptop_.me.id, True)
            again = laptop.terminal(asking)
            await again.until(live.State)
            Wishes(desktop_.me.id).follow(desktop_.store, asking, laptop_.me.id, False)
            desktop.relays.look_again()  # As the daemon does at each wish: nothing needs to happen in the session.
            await until(lambda: again.over)
            assert not there.over

    run(go())


# One that takes nothing, and one that breaks the rules


def test_one_that_takes_nothing_holds_up_nobody_and_is_told_what_counts_when_it_reads_again(
    two: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            whole = two[0].transcript(asking)
            slow, other = laptop.terminal(asking), laptop.terminal(asking, by="pts/2")
            for one in (slow, other):
                await one.until(live.State)
            slow.reads.clear()
            words, at = "x" * 4000, len(whole)
            for number in range(3000):
                desktop.tells(asking, live.Words(text=words))
                if number % 50 == 0:
                    await asyncio.sleep(0)
            (seat,) = [one for one in desktop.workers.going(asking).audience._seats if one.by.endswith("pts/1")]
            assert seat._bytes <= LIVE_WAITING_BYTES_MAX and seat._missed > 0
            desktop.tells(asking, live.State(name="running", sentence="", ways=(), effect="after", status=0))
            await other.until(live.State, lambda state: state.effect == "after")
            assert (await laptop.verbs.say(asking.hex(), "still heard", "pts/2")).how == "steering"
            slow.reads.set()
            await slow.until(live.State, lambda state: state.effect == "after")
            assert slow.of(live.Missed) and slow.transcript == whole and at == len(whole)

    run(go())


HOSTILE = {
    "no message": b"\x00nonsense",
    "an ask on the wrong channel": relay.encode_message(relay.Pause(id=b"1" * 16, session=b"s" * 32)),
    "an answer to nothing": relay.encode_message(relay.Resumed(id=b"1" * 16, fresh=True)),
    "an event": relay.encode_message(live.Words(text="hello")),
    "a newer version": b"\x82\x02\x60",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_peer_that_breaks_the_rules_of_asking_loses_the_link_and_nothing_else_happens(
    two: list[Device], asking: SessionId, what: str
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            there = desktop.terminal(asking, by="pts/9")
            await there.until(live.State)
            for name in ("live", "watch"):
                if (name, what) == ("live", "an ask on the wrong channel"):
                    continue
                link = laptop.link(desktop.device.me.id)
                assert link is not None
                channel = await link.open(name)
                await channel.send(HOSTILE[what])
                await until(lambda link=link: link.error is not None and desktop.broken)  # type: ignore[misc]
                desktop.broken.clear()
                await house.link("laptop", "desktop")
                await until(lambda: laptop.relays._asking.linked(desktop.device.me.id))
            assert not there.over and asking in desktop.running()
            assert (await laptop.verbs.say(asking.hex(), "hello", "")).how == "steering", "the next link is a link"

    run(go())


def test_a_home_that_answers_with_something_else_loses_the_link(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)

            async def asks(channel: Channel, link: Link) -> None:
                await channel.receive()
                await channel.send(relay.encode_message(relay.Pause(id=b"1" * 16, session=asking)))
                await link.ended()

            desktop.handlers["live"] = asks
            link = laptop.link(desktop.device.me.id)
            assert link is not None
            with mock.patch.object(relay_asking, "AGAIN_SECONDS", 0.05), pytest.raises(UncertainError):
                await laptop.verbs.say(asking.hex(), "hello")
            assert link.error is not None and [str(one) for one in laptop.broken] == [
                "something is answered that is no answer"
            ]

    run(go())


def attached(session: SessionId, position: int = 0) -> live.Attached:
    return live.Attached(session=session.hex(), title="t\x1b[2J", program="p", folder="\x07", position=position, by="x")


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("a gap", [live.Emitted(position=5, piece=b"late")]),
        ("attached twice", [None]),
        (
            "a question that is not what its digest says",
            [live.Question(id="1", pages=("a",), shown=bytes(32), always="")],
        ),
        (
            "a question that moves the cursor",
            [live.Question(id="1", pages=("\x1b[2A",), shown=sha256(b"\x1b[2A").digest(), always="")],
        ),
    ],
)
def test_a_home_that_tells_what_cannot_be_loses_the_link(
    two: list[Device], asking: SessionId, name: str, events: list[live.Event | None]
) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)

            async def lies(channel: Channel, link: Link) -> None:
                await channel.receive()
                state = live.State(name="running", sentence="a\x1b[31mb", ways=("\x1b",) * 99, effect="", status=0)
                for event in (attached(asking), state, *(one or attached(asking) for one in events)):
                    await channel.send(relay.encode_message(event))
                await channel.receive()

            desktop.handlers["watch"] = lies
            here = laptop.terminal(asking)
            link = laptop.link(desktop.device.me.id)
            assert link is not None
            await until(lambda: link.error is not None)
            state, said = (await here.until(live.State)), here.of(live.Attached)
            assert state.sentence == "a\\x1b[31mb" and state.ways == ("\\x1b",) * 8
            assert len(said) == 1 and said[0].title == "t\\x1b[2J" and said[0].folder == "\\x07"
            assert not here.of(live.Question) and not here.of(live.Emitted)

    run(go())


def test_a_peer_has_so_many_watches_and_no_more_and_a_flood_of_asks_waits(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            link = laptop.link(desktop.device.me.id)
            assert link is not None
            watch = relay.encode_message(relay.Watch(session=asking, position=None, by=""))
            channels = [await link.open("watch") for _ in range(RELAY_WATCHES_MAX + 1)]
            for channel in channels:
                await channel.send(watch)
            first = [relay.decode_message(await channel.receive() or b"") for channel in channels]
            assert [type(one).__name__ for one in first] == ["Attached"] * RELAY_WATCHES_MAX + ["Over"]
            assert isinstance(first[-1], relay.Over) and first[-1].why == "full"
            for channel in channels:
                await channel.close()
            await until(lambda: not desktop.relays._serving._watching and not desktop.workers.going(asking).audience)

            blocked = asyncio.Event()

            begun = []

            async def says(session: SessionId, words: str, by: str) -> None:
                begun.append(words)
                await blocked.wait()
                raise RefusedError("enough")

            with mock.patch.object(desktop.relays._verbs, "say_here", says):
                channel = await link.open("live")
                for number in range(60):
                    ask = relay.Say(id=number.to_bytes(16, "big"), session=asking, text=str(number), by="")
                    await channel.send(relay.encode_message(ask))
                await until(lambda: len(begun) == RELAY_ASKS_MAX)
                later = laptop.terminal(asking)  # Looked up after all that was asked before it.
                await later.until(live.State)
                assert len(begun) == RELAY_ASKS_MAX
                blocked.set()
                await until(lambda: len(begun) == 60)
            assert begun == [str(number) for number in range(60)], "in the order in which they were said"

    run(go())


def left(terminal: object) -> bool:
    """Whether a person's terminal would have left: the session rests, and nothing is asked that could be answered."""
    asked, state, events = "", "running", terminal.events  # type: ignore[attr-defined]
    for event in events:
        match event:
            case live.Question() | live.Listening():
                asked = event.id
            case live.Settled(id=id) if id == asked:
                asked = ""
            case live.State():
                state = event.name
        if not asked and state != "running":
            return True
    return False


def test_a_question_goes_along_with_its_session_and_nobody_leaves_for_it(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = house.desk("desktop"), house.desk("laptop")
            await desktop.bring(asking, "laptop")
            there, here = desktop.terminal(asking, by="pts/9"), laptop.terminal(asking)
            for one in (there, here):
                await one.until(live.State, lambda state: state.name == "waiting")
                assert len(one.of(live.Question)) == 1
            assert (await desktop.transfer(asking, "laptop"))[-1].status == 0
            await there.until(live.Notice, lambda one: one.text == "It runs on laptop now.")
            await here.until(live.Notice, lambda one: one.text == "It runs here now.")
            await until(lambda: asking in laptop.started)
            question = pages()
            laptop.tells(asking, question)
            for one in (there, here):
                await one.until(live.Question, lambda asked: asked.id == question.id)
                assert not left(one), one.events
            two[1].group.allow(two[0].me.id, True, NOW)
            counted = await desktop.verbs.answer(asking.hex(), question.id, question.shown, "yes", "", "desktop pts/9")
            assert counted.counted and laptop.process(asking).said[-1].choice == "yes"

    run(go())
