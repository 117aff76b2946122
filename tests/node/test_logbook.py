"""The log tells every statement once, in an order that holds, and goes on from any position that it gave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.node import lines
from tests.node.lines import DESKTOP, Apart, apart, made, service, turn, waits

from hhd.base.errors import UsageError
from hhd.node import store as door
from hhd.node.control import ControlService
from hhd.node.one_hand import is_of_one_hand
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import IntentBody
from hhd_protocol.ids import Sha256


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lines.grouped(monkeypatch)
    with door.opened() as opened:
        yield opened


@pytest.fixture
def both(store: Store) -> Apart:
    return apart(store, [turn(2)], [turn(2), turn(3)])


def test_every_statement_is_told_once_with_what_it_says(store: Store, both: Apart) -> None:
    told = service(store).log("the parser")
    assert len({one.id for one in told}) == len(told) == 8
    assert [one.kind for one in told] == [
        "create",
        "checkpoint",
        "checkpoint",
        "takeover",
        "checkpoint",
        "checkpoint",
        "takeover",
        "checkpoint",
    ]
    by_id = {one.id: one for one in told}
    here, there = by_id[both.here.hex()], by_id[both.there.hex()]
    assert (here.head, there.head, by_id[both.fork.hex()].head) == (True, True, False)
    assert (here.device.here, there.device.name) == (True, "desktop")
    assert (here.token, there.token, here.standing) == (3, 2, "counts")
    assert here.turn and here.effects == ((3, "answered"),) and here.at_ms > there.at_ms
    assert [one.note for one in told if one.kind == "takeover"] == ["the laptop is lost", "it is found"]
    assert told[0].token == 1 and told[0].number == 0


def test_from_every_position_exactly_the_rest_is_told(store: Store, both: Apart) -> None:
    control = service(store)
    told = control.log("the parser")
    for place, one in enumerate(told, 1):
        assert [each.id for each in control.log("the parser", since=one.position)] == [each.id for each in told[place:]]
    assert control.log("the parser", since="0.0.0") == told
    assert control.log("the parser", since="99.99.99") == []
    assert both


def test_following_tells_what_comes_and_ends_when_told_to(store: Store, both: Apart) -> None:
    work = both.made
    late = waits(lambda: None, lambda: work.work([turn(3)], on=both.here, token=work.tip_record), lambda: None)
    followed = [one.id for one in service(store).follow("the parser", wait=late)]
    told = [one.id for one in service(store).log("the parser")]
    assert len(followed) == 9 and followed == told
    position = service(store).log("the parser")[-1].position
    assert list(service(store).follow("the parser", since=position, wait=waits())) == []


@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
def test_the_newest_are_the_last_of_all_that_is_told(store: Store, both: Apart, count: int) -> None:
    """In a session of two devices, and in one of a single hand, where no others are read."""
    alone = made(store, "alone", [turn(n) for n in range(1, 5)])
    intent = IntentBody(
        **alone.chain(alone.me.seed), token=alone.create.id, position=9, request=Sha256(bytes(32)), op="x"
    )
    store.statements.add(alone.id, alone.said(lineage.sign(intent, alone.me.seed)).raw)
    alone.work([turn(6), turn(7)], on=store.heads(alone.id)[0])
    for name in ("the parser", "alone"):
        every = service(store).log(name)
        assert service(store).log(name, newest=count) == every[max(0, len(every) - count) :]
        assert service(store).log(name, since=every[1].position, newest=1) == every[-1:]
    following = service(store).follow(
        "alone", newest=count, wait=waits(lambda: alone.work([turn(8)], on=store.heads(alone.id)[0]))
    )
    assert len(list(following)) == min(count, 8) + 1


def test_the_newest_of_a_session_of_one_hand_are_told_without_the_rest(
    store: Store, both: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = made(store, "alone", [turn(n) for n in range(1, 5)])
    monkeypatch.setattr(ControlService, "_lineage", lambda *_: pytest.fail("the whole lineage is read"))
    assert len(service(store).log("alone", newest=2)) == 2
    for change in (
        lambda: alone.takeover(store.heads(alone.id)[0], prev=alone.create, by=DESKTOP),
        lambda: alone.work([turn(9)], on=store.heads(alone.id)[0], by=DESKTOP),
    ):
        with pytest.raises(pytest.fail.Exception), store.transaction():
            change()
            service(store).log("alone", newest=2)
    with pytest.raises(pytest.fail.Exception):
        service(store).log("the parser", newest=1)


def test_a_checkpoint_signed_twice_at_one_number_is_judged_whole(store: Store) -> None:
    alone = made(store, "alone", [turn(1)])
    base, before = store.heads(alone.id)[0], alone.tip()
    alone.work([turn(2)], on=base)
    alone.work([turn(3)], on=base, after=before)
    assert not is_of_one_hand(store, alone.id)
    assert [one.head for one in service(store).log("alone", newest=2)] == [True, True]


def test_a_thinned_checkpoint_is_told_and_marked(store: Store, both: Apart) -> None:
    store.thin(both.fork)
    marked = {one.id for one in service(store).log("the parser") if one.thinned}
    assert marked == {both.fork.hex()}


def test_intents_say_what_was_about_to_run(store: Store) -> None:
    found = made(store, says=[turn(1)])
    body = IntentBody(
        **found.chain(found.me.seed), token=found.create.id, position=4, op="tool", request=Sha256(bytes(32))
    )
    store.statements.add(found.id, found.said(lineage.sign(body, found.me.seed)).raw)
    last = service(store).log("the parser")[-1]
    assert (last.kind, last.note, last.effects) == ("intent", "tool", ((4, "about to run"),))


def test_what_a_stranger_said_is_told_as_held(store: Store) -> None:
    found = made(store, says=[turn(1)])
    theirs = found.takeover(store.heads(found.id)[0], prev=found.create, by=lines.STRANGER)
    standings = {one.id: one.standing for one in service(store).log("the parser")}
    assert standings.pop(theirs.id.hex()) == "held" and set(standings.values()) == {"counts"}
    mine = found.takeover(store.heads(found.id)[0], prev=found.create, by=DESKTOP)
    assert {one.id: one.standing for one in service(store).log("the parser")}[mine.id.hex()] == "counts"


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "a.b.c", "-1.0.0", "1.2.٣", "1.2.9999999999"])
def test_what_is_no_position_is_refused(store: Store, both: Apart, text: str) -> None:
    with pytest.raises(UsageError, match="position"):
        service(store).log("the parser", since=text)
    assert both
