"""Lists say which devices have how much of each session, as these said it themselves, also without a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Role, Work, person
from tests.store.conftest import Memory

from hhd.cli import whereabouts
from hhd.node import lagging, listing, registry
from hhd.node.freshness import Reach, Spread, of_value, read, to_value
from hhd.node.lagging import Lag, lags
from hhd.node.sync.wishes import Wishes
from hhd.store.freshness import FRESHNESS
from hhd.store.objects import row_number
from hhd.store.store import Limits
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId


def spread(people: Person, name: str, session: SessionId) -> Spread:
    """What the list of a device says of a session now."""
    one = people[name]
    one.engine.note_freshness()
    listed = listing.change(one.store, session)
    _, found = read(one.store.freshness, [listed], exact=True)
    apart = read(one.store.freshness, [listed], exact=False)[1]
    assert (session in apart) == (not found[session].level or any(each.kept_back for each in found[session].reached))
    return found[session]


def test_a_list_counts_the_turns_that_come_from_other_devices_each_once(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step(turn=True)
        work.step()
        alice.do("desktop", lambda engine: engine.hold("paused"))
        alice.link("laptop", "desktop")
        assert alice.pump()
        there = alice["desktop"].store
        assert listing.change(there, session).turns == 0, "no content is here"
        alice.do("desktop", lambda engine: engine.hold(""))
        assert alice.pump()
        assert listing.change(there, session).turns == 1
        work.step(turn=True)
        assert alice.pump()
        assert listing.change(there, session).turns == 2 == listing.described(there, session).turns
        alice.restart("desktop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert listing.change(alice["desktop"].store, session).turns == 2, "nothing came again"


def test_a_device_is_behind_by_what_came_after_the_newest_checkpoint_it_has(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        count = len(alice["laptop"].store.checkpoint_ids(session))
        assert spread(alice, "laptop", session) == Spread(0, (Reach(count), Reach(count))), "nobody said anything"
        alice.link("laptop", "desktop")
        assert alice.pump()
        places = alice["laptop"].store.freshness.places()
        desktop = list(places).index(alice["desktop"].id)
        made = work.step()
        assert alice.pump()
        reached = spread(alice, "laptop", session).reached
        assert (reached[desktop].behind, reached[desktop].head) == (0, made) and reached[desktop].at_ms > 0
        assert reached[1 - desktop] == Reach(count + 1), "the tower was never linked"
        alice.cut("laptop")
        for _ in range(3):
            last = work.step()
        reached = spread(alice, "laptop", session).reached
        assert (reached[desktop].behind, reached[desktop].head) == (3, made)
        alice.restart("laptop")
        assert spread(alice, "laptop", session).reached[desktop][::2] == (3, made), "it is kept"
        alice.link("laptop", "desktop")
        assert alice.pump()
        reached = spread(alice, "laptop", session).reached
        assert (reached[desktop].behind, reached[desktop].head) == (0, last)


def test_who_only_received_knows_that_the_giver_has_it(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(20)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert spread(alice, "desktop", session).reached[0].behind == 0
        assert spread(alice, "desktop", session).level


def test_content_that_is_elsewhere_only_is_what_this_device_lacks(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.do("desktop", lambda engine: engine.hold("its person paused it"))
        assert alice.pump()
        work.step()
        work.step()
        assert alice.pump()
        assert spread(alice, "desktop", session).lacking == 2
        found = spread(alice, "laptop", session)
        assert found.lacking == 0 and found.reached[0].behind == 2
        alice.do("desktop", lambda engine: engine.hold(""))
        assert alice.pump()
        assert spread(alice, "desktop", session).level and spread(alice, "laptop", session).level


def insist_on_no_more_than_there_is(people: Person, session: SessionId) -> tuple[int, int]:
    """What the laptop says that the desktop has of a session is there; return how much it says, of how much."""
    ids = people["laptop"].store.checkpoint_ids(session)
    found = people["desktop"].store
    there = set(found.checkpoint_ids(session)) if session in found.sessions() else set()
    said = len(ids) - spread(people, "laptop", session).reached[0].behind
    assert set(ids[:said]) <= there, f"{said} of {len(ids)} are said, {len(there)} are there"
    return said, len(there)


def test_a_device_without_room_is_never_said_to_have_what_it_did_not_acknowledge(tmp_path: Path) -> None:
    limits = {"desktop": Limits(free_bytes_min=0, bytes_max=300_000)}
    with person(tmp_path, "laptop", "desktop", limits=limits) as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(40))
        for _ in range(11):
            work.step()
        for afresh in (False, True):
            if afresh:
                alice.restart("laptop")
                alice.restart("desktop")
            alice.link("laptop", "desktop")
            assert alice.pump()
            assert insist_on_no_more_than_there_is(alice, session) == (0, 0)
        work.step()
        assert alice.pump()
        assert insist_on_no_more_than_there_is(alice, session) == (0, 0), "a comparison named the head alone"
        alice.cut("laptop")
        alice.limits["desktop"] = Limits(free_bytes_min=0)
        alice.restart("desktop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        count = len(alice["laptop"].store.checkpoint_ids(session))
        assert insist_on_no_more_than_there_is(alice, session) == (count, count)
        assert spread(alice, "laptop", session).level


def test_a_device_that_has_the_newest_alone_is_not_said_to_have_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        for _ in range(11):
            work.step()
        count = len(alice["laptop"].store.checkpoint_ids(session))
        alice.do("desktop", lambda engine: engine.hold("its disk is full"))
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.restart("laptop")
        intake = alice["desktop"].engine.intake
        complete = intake._complete
        monkeypatch.setattr(intake, "_complete", lambda of, view, bare: complete(of, view, list(bare)[-1:]))
        alice.do("desktop", lambda engine: engine.hold(""))
        alice.link("laptop", "desktop")  # A comparison names the head, and its content comes.
        assert alice.pump()
        assert insist_on_no_more_than_there_is(alice, session) == (0, 1)
        alice.do("desktop", lambda engine: engine.hold("its disk is full"))
        for again in ("laptop", ""):
            if again:
                alice.restart(again)
            alice.cut("desktop")
            alice.link("laptop", "desktop")  # What they compare is the same at both.
            assert alice.pump()
            assert insist_on_no_more_than_there_is(alice, session) == (0, 1)
        alice.restart("desktop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert insist_on_no_more_than_there_is(alice, session) == (count, count)


def test_a_device_is_not_said_to_have_what_is_on_its_way_while_nothing_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        for _ in range(11):
            work.step()
        count = len(alice["laptop"].store.checkpoint_ids(session))
        alice.do("desktop", lambda engine: engine.hold("its disk is full"))
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.do("desktop", lambda engine: engine.hold(""))
        there = alice["desktop"].store
        parts, given = alice["laptop"].engine.next_part, list[int]()

        def one_by_one(peer: DeviceId) -> bytes | None:
            return parts(peer) if given and not given.clear() else None

        monkeypatch.setattr(alice["laptop"].engine, "next_part", one_by_one)
        while session not in there.sessions() or not there.checkpoint_ids(session):
            given.append(1)
            assert alice.pump()
            alice.do("desktop", lambda engine: engine.ticked())
        for name in ("laptop", "desktop"):  # What they compare is the same at both, and neither knows the other.
            alice.restart(name)
        alice.link("laptop", "desktop")
        assert not alice.pump(until=lambda: not alice.wires), "words went, and no content"
        before = len(alice["desktop"].store.checkpoint_ids(session))
        assert 0 < before < count, "the newest came first"
        assert insist_on_no_more_than_there_is(alice, session) == (0, before)
        alice.cut("laptop")  # Nor once the link is gone.
        assert insist_on_no_more_than_there_is(alice, session) == (0, before)
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert insist_on_no_more_than_there_is(alice, session) == (count, count)
        assert spread(alice, "laptop", session).level


def test_a_device_whose_store_was_wiped_has_nothing_any_more(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(20)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert spread(alice, "laptop", session).level
        alice.cut("laptop")
        desktop = alice["desktop"]
        objects = {one for id in desktop.store.checkpoint_ids(session) for one in desktop.store.checkpoint(id).objects}
        desktop.store.remove_session(session)
        with desktop.store.transaction():
            for name in objects:
                desktop.store.objects.remove(row_number(name))
        desktop.engine.rest()
        alice.restart("desktop")
        alice.do("desktop", lambda engine: engine.hold("its person paused it"))  # So that it does not get it again.
        alice.link("laptop", "desktop")
        assert alice.pump()
        found = spread(alice, "laptop", session).reached[0]
        assert found.head is None and found.behind == len(alice["laptop"].store.checkpoint_ids(session))


def test_a_device_that_only_stores_is_level_once_it_has_all_that_it_is_to_have(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "attic", roles={"attic": Role.STORE_ONLY}) as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "attic")
        assert alice.pump()
        alice.do("laptop", lambda engine: engine.piled())
        assert alice.pump()
        assert spread(alice, "laptop", session).level
        work.step()
        assert spread(alice, "laptop", session).reached[0].behind == 1
        alice.do("laptop", lambda engine: engine.piled())
        assert alice.pump()
        alice.do("laptop", lambda engine: engine.piled())
        assert alice.pump()
        assert spread(alice, "laptop", session).level


def test_a_session_that_is_kept_back_from_a_device_is_said_to_be(tmp_path: Path) -> None:
    class Nothing:
        def left_out(self, *_: object) -> frozenset[SessionId]:
            return frozenset({session})

        def leaves_out(self, *_: object) -> bool:
            return True

    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(20)).step()
        alice.restart("laptop", screen=Nothing())
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.noticed("laptop", session)
        assert alice.pump()
        found = spread(alice, "laptop", session)
        assert found.reached[0].kept_back and found.reached[0].behind and found.level


def test_what_a_person_keeps_back_is_on_no_device_of_theirs_any_more_as_far_as_lists_say(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        laptop = alice["laptop"]
        wishes = laptop.engine._screen = Wishes(laptop.id)
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        for name in ("desktop", "tower"):
            alice.link("laptop", name)
        assert alice.pump()
        assert whereabouts.newest([spread(alice, "laptop", session)], ["a", "b"])[1] == "all"
        alice.cut("tower")
        for device in (alice["desktop"], alice["tower"]):
            wishes.follow(laptop.store, session, device.id, False)
        at_once = spread(alice, "laptop", session)
        alice.do("laptop", lambda engine: engine.rescreened())
        work.step()
        assert alice.pump()
        for said in (at_once, spread(alice, "laptop", session)):
            assert all(one.kept_back for one in said.reached) and whereabouts.newest([said], ["a", "b"])[1] == "here"
        for device in (alice["desktop"], alice["tower"]):
            wishes.follow(laptop.store, session, device.id, True)
        alice.do("laptop", lambda engine: engine.rescreened())
        alice.link("laptop", "tower")
        for name in ("desktop", "tower"):
            alice.do(name, lambda engine: engine.woke())
        assert alice.pump()
        assert whereabouts.newest([spread(alice, "laptop", session)], ["a", "b"])[1] == "all"


def test_that_another_device_said_to_keep_a_session_back_is_in_the_list_once_it_is_known(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        laptop.engine._screen = Wishes(laptop.id)
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(20)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert not spread(alice, "laptop", session).reached[0].kept_back
        with laptop.store.transaction():  # As it comes with the shared document.
            registry.opened(laptop.store).wish(session, desktop.id, False)
        alice.do("laptop", lambda engine: engine.rescreened())
        assert spread(alice, "laptop", session).reached[0].kept_back


def test_who_is_put_out_is_in_no_list_any_more_and_comes_back_in_its_place(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        one, rest = alice["laptop"], (alice["desktop"], alice["tower"])
        before = one.store.freshness.places()
        assert before.keys() == {each.id for each in rest}
        one.owned.group.revoke(rest[0].id, alice.now_ms)
        assert one.store.freshness.places() == {rest[1].id: before[rest[1].id]}
        one.owned.adds(rest[0].owned, Role.FULL)
        assert one.store.freshness.places() == before


def test_a_removed_session_is_forgotten_and_damage_is_nothing_known(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        sessions = [alice.create("laptop") for _ in range(3)]
        for session in sessions:
            Work(alice, "laptop", session, Memory(20)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        store = alice["laptop"].store
        assert all(spread(alice, "laptop", session).level for session in sessions)
        store.remove_session(sessions[0])
        counts = dict.fromkeys(sessions, 1)
        assert [bool(store.freshness.all(counts)[one].reached) for one in sessions] == [False, True, True]
        assert store.freshness.apart(counts).keys() == {sessions[0]}
        store.rows.put(FRESHNESS, b"", bytes(8), b"\x83\x01\x00\xa0")
        assert not any(one.reached for one in store.freshness.apart(counts).values())


def test_where_sessions_are_travels_as_it_is_and_nonsense_is_refused() -> None:
    one = SessionId(CheckpointId(b"\x01" * 32))
    found = {one: Spread(2, (Reach(3, 5, CheckpointId(b"\x02" * 32), True), Reach(7)))}
    assert of_value(to_value(found), 2) == found
    for wrong in (
        [], {one: 3}, {one: [1, [0, 0, None, False]]}, {one: [1, [0, 0, None, 0], [0, 0, None, False]]},
        {1: [0]}, {one: ["0", [0, 0, None, False], [0, 0, None, False]]},
    ):  # fmt: skip
        with pytest.raises(FormatError):
            of_value(wrong, 2)  # type: ignore[arg-type]


def test_what_a_device_lacks_is_counted_in_sessions_checkpoints_and_bytes(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        first, second = alice.create("laptop"), alice.create("laptop")
        works = [Work(alice, "laptop", session, Memory(20)) for session in (first, second)]
        for work in works:
            work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        store = alice["laptop"].store
        for work in works:
            work.step()
        assert alice.pump()
        alice.cut("laptop")
        made = [works[0].step() for _ in range(3)]
        for session in (first, second):
            listing.change(store, session)
        alice["laptop"].engine.note_freshness()
        found = lags(store)
        sizes = sum(store.objects.size(name) for id in made for name in store.checkpoint(id).objects)
        assert found[alice["desktop"].id] == Lag(sessions=1, checkpoints=3, bytes=sizes) and sizes > 0
        tower = found[alice["tower"].id]
        all_ids = [*store.checkpoint_ids(first), *store.checkpoint_ids(second)]
        whole = sum(store.objects.size(name) for id in all_ids for name in store.checkpoint(id).objects)
        assert tower == Lag(sessions=2, checkpoints=len(all_ids), bytes=whole)


def test_the_sizes_of_very_many_checkpoints_are_not_all_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lagging, "CHECKPOINTS_SIZED_MAX", 2)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        made = [work.step() for _ in range(4)]
        store = alice["laptop"].store
        listing.change(store, session)
        (lag,) = lags(store).values()
        sized = sum(store.objects.size(name) for id in made[-2:] for name in store.checkpoint(id).objects)
        assert lag.at_least and lag.bytes == sized and lag.checkpoints == len(store.checkpoint_ids(session))
