"""Sessions between stores: everything arrives once, sealed, and as it was; what is not right costs the link alone."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from tests.node.circles import NOW
from tests.node.sync.wired import Person, Work, person, remove_everywhere, same, scribble
from tests.store.conftest import Memory, flat

from hhd.node import findings, listing, sessions
from hhd.node.doors import Doors
from hhd.node.sync import serving as syncing_serving
from hhd.node.sync.arrivals import FLUSH_MS
from hhd.node.sync.engine import ROOM_MS
from hhd.node.sync.wishes import Wishes
from hhd.store import begun, image_writer
from hhd.store.check import Check
from hhd.store.checkpoints import Checkpoint, refs_of
from hhd.store.errors import BusyError
from hhd.store.line import Line
from hhd.store.retention import session_bytes
from hhd.store.store import Limits
from hhd_protocol import logs, objects
from hhd_protocol.compression import compressor
from hhd_protocol.holding import Why
from hhd_protocol.ids import ObjectName, SessionId
from hhd_protocol.limits import SYNC_PART_BYTES, SYNC_WANT_AGAIN_MAX
from hhd_protocol.statements import Role
from hhd_protocol.sync import decode_message, encode_message, recipe
from hhd_protocol.sync.messages import Absent, AskKeys, Entry, Had, Hello, Keys, Statements, Want


def test_a_session_arrives_whole_and_runs_from_there(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop", "mend the parser")
        work = Work(alice, "laptop", session, Memory(40))
        for number in range(5):
            work.step(said=b"line %d\n" % number)
        alice.link("laptop", "desktop")
        assert alice.pump()
        same(alice, session, "laptop", "desktop")
        desktop = alice["desktop"].store
        main = sessions.view(desktop, alice["desktop"].owned.me, session).main
        assert main is not None
        assert flat(Line(desktop, session, main).snapshot()) == work.memory.pages
        assert desktop.modules.all() == alice["laptop"].store.modules.all()
        listed = listing.get(desktop, session)
        assert listed is not None and listed.title == "mend the parser"
        assert alice["laptop"].engine.fresh(session, alice["desktop"].id)
        assert not Check(desktop).run().findings


def test_each_step_goes_over_as_it_is_made(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(40))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        for number in range(12):
            made = work.step(said=b"%d\n" % number)
            alice.seen.clear()
            assert alice.pump()
            assert made in alice["desktop"].store.checkpoint_ids(session)
            assert sum(map(len, alice.seen)) < 12_000
            assert alice["laptop"].engine.fresh(session, alice["desktop"].id)
        same(alice, session, "laptop", "desktop")
        assert alice["laptop"].store.arrived.knowing(session) == {alice["desktop"].id}


@pytest.mark.parametrize("devices", [("laptop", "desktop"), ("laptop", "desktop", "tower")])
def test_lines_made_apart_become_competing_heads_on_all(tmp_path: Path, devices: tuple[str, ...]) -> None:
    with person(tmp_path, *devices) as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.cut("laptop", "desktop")
        alice.takes_over("desktop", session)
        Work(alice, "desktop", session, work.memory).step()
        work.step()
        for one, other in pairwise(devices):
            alice.link(one, other)
        assert alice.pump()
        same(alice, session, *devices)
        for name in devices:
            listed = listing.get(alice[name].store, session)
            assert listed is not None and listed.heads == 2 and listed.owner == alice["desktop"].id
        assert session in alice["laptop"].fenced, "who had it is told"


def test_pages_that_change_at_every_step_go_as_differences_to_their_parents(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(200))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        sizes = []
        for _ in range(25):
            hot, old = scribble(work)
            made = work.step(hot)
            content = b"".join(work.memory.pages[number] for number in hot)
            nearest = len(compressor(b"".join(old), len(content)).compress(content))
            alice.seen.clear()
            assert alice.pump()
            sizes.append((sum(map(len, alice.seen)), nearest))
            assert made in alice["desktop"].store.checkpoint_ids(session)
        assert all(size <= 1.15 * nearest + 2048 for size, nearest in sizes), sizes
        laptop, desktop = alice["laptop"].store, alice["desktop"].store
        for checkpoint in laptop.checkpoint_ids(session):
            for name in laptop.checkpoint(checkpoint).objects:
                assert desktop.objects.raw(name) == laptop.objects.raw(name) is not None, "the same, byte for byte"
        assert not Check(alice["desktop"].store).run().findings


def test_a_peer_whose_zstd_makes_other_streams_gets_whole_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "remake", lambda *given, **more: None)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(200))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        for _ in range(12):
            hot, _ = scribble(work)
            made = work.step(hot)
            assert alice.pump()
            assert made in alice["desktop"].store.checkpoint_ids(session)
        assert alice["laptop"].engine.recipes.refused == {alice["desktop"].id}


def test_whatever_the_wire_is_cut_at_everything_arrives_and_no_object_is_sent_twice(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(300))
        for number in range(6):
            work.step(said=b"line %d\n" % number)
        cuts = 0
        while True:
            alice.link("laptop", "desktop")
            if alice.pump(14 + cuts % 5):
                break
            alice.cut("laptop")
            cuts += 1
            assert cuts < 200
        same(alice, session, "laptop", "desktop")
        assert cuts > 3
        begun = alice["laptop"].engine.counted[alice["desktop"].id].objects_sent
        assert max(begun.values()) <= 2, "one that was under way when the link was cut begins anew; none that came"
        assert not Check(alice["desktop"].store).run().findings


@pytest.mark.parametrize("killed", ["laptop", "desktop"])
def test_either_daemon_may_be_killed_on_the_way(tmp_path: Path, killed: str) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(100))
        for number in range(4):
            work.step(said=b"line %d\n" % number)
        for messages in range(2, 40, 3):
            alice.link("laptop", "desktop")
            if alice.pump(messages):
                break
            alice.restart(killed)
        alice.cut("laptop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        same(alice, session, "laptop", "desktop")
        for name in ("laptop", "desktop"):
            assert not Check(alice[name].store).run().findings


def test_nothing_of_a_session_can_be_read_on_the_wire(tmp_path: Path) -> None:
    phrase = b"the heron stands in the reeds at dawn"
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop", phrase.decode())
        work = Work(alice, "laptop", session, Memory(20))
        work.memory.pages[3] = (phrase * 200)[:4096]
        work.step([3], said=phrase)
        alice.link("laptop", "desktop")
        work.step(said=phrase)
        assert alice.pump()
        same(alice, session, "laptop", "desktop")
        wire = b"".join(alice.seen)
        assert len(wire) > 10_000 and phrase not in wire
        main = sessions.view(alice["desktop"].store, alice["desktop"].owned.me, session).main
        assert main is not None, "and it did arrive"
        assert phrase in flat(Line(alice["desktop"].store, session, main).snapshot())[3]


def test_the_phrase_is_found_where_nothing_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the test above would notice: with the seal off, and nothing compressed, the same wire tells it."""
    phrase = b"the heron stands in the reeds at dawn"

    def bare(key: bytes, nonce: bytes, message: bytes, *, ad: bytes = b"") -> bytes:
        return message + bytes(16)

    monkeypatch.setattr(objects, "seal", bare)
    monkeypatch.setattr(objects, "unseal", lambda key, nonce, sealed, *, ad=b"": sealed[:-16])
    monkeypatch.setattr(logs, "compress", lambda content, level=3: zstandard.ZstdCompressor(level=-5).compress(content))
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        work.step(said=phrase)
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert phrase in b"".join(alice.seen)


def test_a_session_that_was_removed_everywhere_goes_everywhere_and_stays_gone(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(5)).step()
        for other in ("desktop", "tower"):
            alice.link("laptop", other)
        assert alice.pump()
        alice.cut("tower")
        remove_everywhere(alice, "laptop", session)
        alice.do("laptop", lambda engine: engine.looked())
        assert alice.pump()
        assert alice["desktop"].store.sessions() == []
        alice.link("tower", "desktop")
        assert alice.pump()
        for name in ("laptop", "desktop", "tower"):
            assert alice[name].store.sessions() == [] and alice[name].store.statements.removed() == [session]
        alice.cut("desktop")
        alice.link("desktop", "tower")
        assert alice.pump()
        assert alice["desktop"].store.sessions() == []


@pytest.mark.parametrize("work_ends", ["while the daemon is up", "while it is down"])
def test_a_session_that_is_at_work_when_it_is_removed_goes_when_that_has_ended(tmp_path: Path, work_ends: str) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        at_work = alice["laptop"].store.advance(session)
        remove_everywhere(alice, "desktop", session)
        alice.do("desktop", lambda engine: engine.looked())
        assert alice.pump()
        alice.do("laptop", lambda engine: engine.let_go())
        assert alice["laptop"].store.sessions() == [session] and alice["laptop"].engine.at_work
        if work_ends == "while it is down":
            alice.cut("laptop")
            alice.restart("laptop")
            alice.link("laptop", "desktop")
        at_work.release()
        alice.do("laptop", lambda engine: engine.let_go())
        alice.do("laptop", lambda engine: engine.looked())
        assert alice.pump()
        assert alice["laptop"].store.sessions() == alice["desktop"].store.sessions() == []
        assert not alice["laptop"].engine.at_work
        for name in ("laptop", "desktop"):
            assert alice[name].store.statements.removed() == [session]
        assert alice["desktop"].engine.machine.is_level(alice["laptop"].id, session), "it heard at once"


@pytest.mark.parametrize("messages", ["one", "several"])
def test_a_session_that_outlives_its_removal_comes_back_whole_also_in_several_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: str
) -> None:
    """The first message alone holds nothing that the tombstone does not cover."""
    if messages == "several":
        monkeypatch.setattr(syncing_serving, "STATEMENTS_BYTES", 2000)
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        for _ in range(12):
            work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.cut("laptop")
        remove_everywhere(alice, "desktop", session)
        alice.do("desktop", lambda engine: engine.looked())
        newest = work.step()
        alice.link("desktop", "laptop")
        alice.link("desktop", "tower")  # It hears of the tombstone first.
        assert alice.pump()
        same(alice, session, "laptop", "desktop", "tower")
        assert len(alice["desktop"].store.statements.tombstone_ids(session)) == 1, "it was removed, and shows so"
        for name in ("desktop", "tower"):
            assert newest in alice[name].store.checkpoint_ids(session)
            assert not Check(alice[name].store).run().findings
        assert alice["laptop"].engine.fresh(session, alice["desktop"].id)


def test_what_outlives_a_removal_and_never_comes_whole_costs_one_question(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.cut("laptop")
        remove_everywhere(alice, "desktop", session)
        alice.do("desktop", lambda engine: engine.looked())
        beyond = [alice["laptop"].store.statements.get(session, work.step()) for _ in range(3)]
        alice.link("desktop", "laptop")
        alice.wires.clear()
        asked = []
        for one in beyond:
            assert one is not None
            said = Statements(session=session, entries=(Entry(raw=one.raw),))
            alice.seen.clear()
            alice.do("desktop", lambda engine, said=said: engine.heard(alice["laptop"].id, encode_message(said)))
            asked.append([type(decode_message(raw)) for raw in alice.seen])
        assert asked == [[AskKeys, Hello], [], []] and not alice["desktop"].cuts
        assert alice["desktop"].store.sessions() == []


def test_content_that_was_given_up_comes_as_its_record_and_is_never_asked_for_again(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        made = [work.step() for _ in range(5)]
        for old in made[:3]:
            alice["laptop"].store.thin(old)
        alice.link("laptop", "desktop")
        assert alice.pump()
        desktop = alice["desktop"].store
        assert [desktop.checkpoint(one).thinned for one in made] == [True, True, True, False, False]
        alice.cut("laptop")
        alice.seen.clear()
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert sum(map(len, alice.seen)) < 400, "they are level at once"


def test_of_one_session_no_more_is_taken_than_it_may_have_here_a_restart_between_and_who_sends_is_told(
    tmp_path: Path,
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        sessions_ = [alice.create("laptop") for _ in range(2)]
        large, small = (Work(alice, "laptop", session, Memory(20)) for session in sessions_)
        desktop = alice.restart("desktop", session_bytes_max=29_000)
        alice.link("laptop", "desktop")
        told = alice["laptop"].engine.machine.peers[desktop.id].holding
        steps = 0
        while not told and steps < 9:
            large.step()
            steps += 1
            assert alice.pump()
        assert told == {large.session: "it takes at most 29000 bytes of one session"}, told
        assert steps > 1
        assert session_bytes(desktop.store, large.session)[2] < 30_000
        had = desktop.store.checkpoint_ids(large.session)
        for restarted in (False, True):
            if restarted:
                desktop = alice.restart("desktop", session_bytes_max=29_000)
                alice.link("laptop", "desktop")
            large.step()  # The session goes on.
            made = small.step([0])
            assert alice.pump()
            assert desktop.store.checkpoint_ids(large.session) == had, (
                f"what is full takes no more, restarted: {restarted}"
            )
            assert made in desktop.store.checkpoint_ids(small.session), "and another one does"
            assert large.session in alice["laptop"].engine.machine.peers[desktop.id].holding
        desktop = alice.restart("desktop", session_bytes_max=10_000_000)
        alice.link("laptop", "desktop")
        assert alice.pump()
        same(alice, large.session, "laptop", "desktop")
        assert not desktop.cuts and not alice["laptop"].cuts


def test_a_disk_without_room_stops_taking_tells_it_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    limits = {"desktop": Limits(free_bytes_min=0, bytes_max=300_000)}
    with person(tmp_path, "laptop", "desktop", limits=limits) as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(150))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert alice["desktop"].engine.machine.holding
        told = alice["laptop"].engine.machine.peers[alice["desktop"].id].holding
        assert told == {None: "its disk has no room left"}
        work.step()  # The session goes on.
        assert alice.pump()
        assert not alice["desktop"].cuts and not alice["laptop"].cuts
        for _ in range(3):  # No room yet: it looks again in a moment, and not all the time.
            due = alice["desktop"].engine.deadline_ms()
            assert due is not None and due <= alice.now_ms + ROOM_MS
            alice.now_ms = max(alice.now_ms, due)
            alice.do("desktop", lambda engine: engine.ticked())
            assert alice["desktop"].engine.deadline_ms() == alice.now_ms + ROOM_MS
        alice.limits["desktop"] = Limits(free_bytes_min=0)
        alice["desktop"].engine.rest()
        alice.now_ms += ROOM_MS
        alice.do("desktop", lambda engine: engine.ticked())
        assert alice.pump()
        same(alice, session, "laptop", "desktop")
        assert alice["laptop"].engine.machine.peers[alice["desktop"].id].holding == {}


def test_content_that_came_while_others_wrote_too_long_is_asked_for_again_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(60)).step()
        objects, failed = alice["desktop"].engine.store.objects, list[object]()
        put = objects.put

        def once(raw: bytes, **more: ObjectName) -> ObjectName:
            if not failed:
                failed.append(raw)
                raise BusyError("Another process writes for too long.")
            return put(raw, **more)

        monkeypatch.setattr(objects, "put", once)
        alice.link("laptop", "desktop")
        assert alice.pump() and failed and not alice["desktop"].store.checkpoint_ids(session)
        alice.do("desktop", lambda engine: engine.looked())
        assert alice.pump()
        same(alice, session, "laptop", "desktop")


def test_a_restored_store_is_told_what_it_had_and_waits_for_a_takeover(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.cut("laptop")
        alice["laptop"].engine.rest()
        alice["laptop"].store.close()
        shutil.copytree(tmp_path / "laptop", tmp_path / "backup")
        alice.restart("laptop")
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.cut("laptop")
        alice["laptop"].engine.rest()
        alice["laptop"].store.close()
        shutil.rmtree(tmp_path / "laptop")
        shutil.copytree(tmp_path / "backup", tmp_path / "laptop")
        alice.restart("laptop")
        one = alice["laptop"]
        assert Doors(one.store, one.owned.me, session).may_append() is None, "it cannot know yet"
        alice.link("laptop", "desktop")
        assert alice.pump()
        refusal = Doors(one.store, one.owned.me, session).may_append()
        assert refusal is not None and refusal.why is Why.ROLLED_BACK
        same(alice, session, "laptop", "desktop")


def test_who_was_far_ahead_and_is_told_again_what_it_has_is_not_taken_for_restored(tmp_path: Path) -> None:
    """The desktop cannot see in the ends and marks of so much new work that the laptop has the session's record."""
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        desktop = alice["desktop"].id
        for count in (1, 4, 8):  # So that no mark, at 1, 3, 7, 15 behind the end, is known there.
            for _ in range(count):
                work.step()
            alice.seen.clear()
            alice.link("laptop", "desktop")
            assert alice.pump()
            alice.restart("laptop")
        told = [decode_message(raw) for raw in alice.seen]
        assert [one for one in told if isinstance(one, Had) and session in one.records], "it is told, wrongly"
        laptop = alice["laptop"]
        assert Doors(laptop.store, laptop.owned.me, session).may_append() is None
        assert laptop.store.arrived.had(session, desktop) == {}


def test_who_gives_what_the_other_had_already_with_its_content_hears_that_it_has_it(tmp_path: Path) -> None:
    """Else it waits for that until the next round, five minutes later, and nothing is handed on meanwhile."""
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        again = []
        for count in (1, 4, 8):  # As above: no mark of so much new work is known to the other.
            for _ in range(count):
                work.step()
            alice.seen.clear()
            alice.link("laptop", "desktop")
            assert alice.pump()
            again += [one for one in map(decode_message, alice.seen) if isinstance(one, Statements)]
            for name, other in (("laptop", "desktop"), ("desktop", "laptop")):
                assert alice[name].engine.fresh(session, alice[other].id), f"{name} waits for what {other} has"
            alice.restart("laptop")
        given = [entry.raw for one in again for entry in one.entries]
        assert len(given) > len(set(given)), "something was given twice"


def test_steps_that_are_made_faster_than_they_are_acknowledged_all_bring_their_content(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(40))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.seen.clear()
        made = [work.step(said=b"%d\n" % number) for number in range(6)]
        assert alice.pump()
        assert set(made) <= set(alice["desktop"].store.checkpoint_ids(session))
        assert not [raw for raw in alice.seen if isinstance(decode_message(raw), Want)], "nobody had to ask"


def test_content_that_came_is_kept_within_a_moment_though_more_is_always_asked_for(tmp_path: Path) -> None:
    """As it is while a session is at work: what was asked for has never all come."""
    with large(tmp_path) as (alice, session, name, _):
        laptop, desktop = alice["laptop"], alice["desktop"]
        engine, wants = desktop.engine, desktop.engine.machine.wants
        assert not alice.pump(until=lambda: name in wants)
        other = alice.create("laptop")
        Work(alice, "laptop", other, Memory(60)).step()

        def in_hand() -> int:
            return len(engine._arrivals._objects)

        assert not alice.pump(until=lambda: in_hand() > 0 and wants.waits_for(laptop.id) > in_hand())
        alice.now_ms += FLUSH_MS
        assert not alice.pump(until=lambda: not in_hand()) and wants.waits_for(laptop.id) > 0
        assert session in desktop.store.sessions() and other in desktop.store.sessions()


def test_what_comes_of_content_that_is_kept_when_time_passed_is_said_to_peers(tmp_path: Path) -> None:
    with large(tmp_path) as (alice, _, name, _):
        engine = alice["desktop"].engine
        assert not alice.pump(until=lambda: name in engine.machine.wants)
        Work(alice, "laptop", alice.create("laptop"), Memory(60)).step()
        in_hand = engine._arrivals._objects
        assert not alice.pump(until=lambda: bool(in_hand) and engine.machine.wants.waits_for(alice["laptop"].id) > 1)
        alice.now_ms += FLUSH_MS
        assert engine.ticked().messages and not in_hand
        assert not engine._talk.out.messages, "nothing is said to nobody"


def test_what_another_process_wrote_is_not_hidden_by_what_came_in_the_same_moment(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.takes_over("desktop", session)
        Work(alice, "desktop", session, work.memory).step()
        work.step(tell=False)  # A command wrote it, and nobody told the daemon yet.
        assert alice.pump()
        assert len(alice["laptop"].store.checkpoint_ids(session)) == 4
        same(alice, session, "laptop", "desktop")


@pytest.mark.parametrize("now", ["full", "lowered", "put out"])
def test_keys_are_given_to_who_is_a_full_member_at_that_moment(tmp_path: Path, now: str) -> None:
    """It asks on a link that has not been cut yet."""
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        alice.link("laptop", "desktop")
        assert alice.pump()
        if now == "lowered":
            laptop.owned.group.add(desktop.owned.me.public, "desktop", Role.STORE_ONLY, NOW)
        if now == "put out":
            laptop.owned.group.revoke(desktop.id, NOW)
        session = alice.create("laptop")
        out = laptop.engine.heard(desktop.id, encode_message(AskKeys(session=session)))
        given = [decode_message(raw) for _, raw in out.messages]
        assert any(isinstance(one, Keys) for one in given) is (now == "full")


def test_a_revocation_that_another_process_wrote_judges_what_comes_next(tmp_path: Path) -> None:
    """Sync was not told of it yet: it looks at the group's records itself, beside those of the session."""
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        alice.takes_over("desktop", session)
        Work(alice, "desktop", session, work.memory).step()
        assert alice.pump()
        intake, desktop = alice["laptop"].engine.intake, alice["desktop"].id
        before = intake.view(session)
        assert not before.owner_revoked and before.owner == desktop, "and it is kept in memory, judged so"
        alice["laptop"].owned.group.revoke(desktop, NOW)
        after = intake.view(session)
        assert after.revoked == {desktop} and after.owner_revoked


LARGE_PAGES, LESS_PAGES = 10_000, 2_400
"""40 MB of memory, or 10: one object."""


@contextmanager
def large(tmp_path: Path, *others: str, pages: int = LESS_PAGES) -> Iterator[tuple[Person, SessionId, ObjectName, int]]:
    """A session of the laptop's whose newest object is large, and no other device has it; its name and size.

    What comes of it is written at once.
    """
    with pytest.MonkeyPatch.context() as patch, person(tmp_path, "laptop", "desktop", *others) as alice:
        patch.setattr(image_writer, "KEY_OBJECT_PAGES", pages)
        patch.setattr(begun, "UNWRITTEN_SECONDS", 0.0)
        session = alice.create("laptop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        work = Work(alice, "laptop", session, Memory(0))
        work.memory.pages = {number: os.urandom(4096) for number in range(pages)}
        work.step(list(work.memory.pages))
        store = alice["laptop"].store
        name = max(newest(alice, session).objects, key=store.objects.size)
        yield alice, session, name, store.objects.size(name)


def came(alice: Person, name: ObjectName) -> int:
    return alice["desktop"].engine._arrivals.begun.begun(name)


@pytest.mark.parametrize("happens", ["the link is cut", "the receiver is killed", "the sender is killed"])
@pytest.mark.parametrize("share", [0.5, 1])
@pytest.mark.parametrize("pages", [LESS_PAGES, pytest.param(LARGE_PAGES, marks=pytest.mark.long)])
def test_a_large_object_is_gone_on_with_after_a_cut_or_a_kill_in_the_middle_or_at_its_last_part(
    tmp_path: Path, share: float, happens: str, pages: int
) -> None:
    with large(tmp_path, pages=pages) as (alice, session, name, total):
        left = int(total * (1 - share)) // SYNC_PART_BYTES + 1
        assert not alice.pump(until=lambda: came(alice, name) > total - (left + 1) * SYNC_PART_BYTES)
        if happens == "the receiver is killed":
            alice.restart("desktop")
        elif happens == "the sender is killed":
            alice.restart("laptop")
        alice.cut("laptop")
        alice.seen.clear()
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert sum(map(len, alice.seen)) < (left + 4) * SYNC_PART_BYTES + 20_000 < total
        same(alice, session, "laptop", "desktop")
        assert came(alice, name) == 0 and not list((alice.folder / "desktop" / "begun").iterdir())
        assert not Check(alice["desktop"].store).run().findings


def test_what_lies_damaged_of_a_begun_object_is_found_out_and_asked_for_anew_without_a_cut(tmp_path: Path) -> None:
    """Whoever could write to the disk made the pieces look right: only the whole shows it."""
    with large(tmp_path) as (alice, session, name, total):
        assert not alice.pump(until=lambda: came(alice, name) > total // 2)
        path = alice.folder / "desktop" / "begun" / name.hex()
        piece = bytes(SYNC_PART_BYTES)
        path.write_bytes(len(piece).to_bytes(4, "big") + zlib.crc32(piece).to_bytes(4, "big") + piece)
        alice.restart("desktop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert not alice["desktop"].cuts
        same(alice, session, "laptop", "desktop")
        assert not Check(alice["desktop"].store).run().findings


def test_a_begun_object_is_gone_on_with_at_another_device_that_has_it(tmp_path: Path) -> None:
    with large(tmp_path, "tower") as (alice, session, name, total):
        alice.cut("desktop")
        alice.link("laptop", "tower")
        assert alice.pump() and alice["tower"].store.objects.has(name)
        alice.link("laptop", "desktop")
        assert not alice.pump(until=lambda: came(alice, name) > total // 4)
        alice.cut("laptop")
        alice.seen.clear()
        alice.link("desktop", "tower")
        assert alice.pump()
        assert sum(map(len, alice.seen)) < total * 3 // 4 + 4 * SYNC_PART_BYTES
        same(alice, session, "tower", "desktop")


def test_what_has_begun_to_come_goes_when_its_session_is_removed(tmp_path: Path) -> None:
    with large(tmp_path) as (alice, session, name, total):
        assert not alice.pump(until=lambda: came(alice, name) > total // 4)
        remove_everywhere(alice, "laptop", session)
        alice.do("laptop", lambda engine: engine.looked())
        assert alice.pump()
        desktop = alice["desktop"]
        assert desktop.store.sessions() == [] and not list((alice.folder / "desktop" / "begun").iterdir())
        assert name not in desktop.engine.machine.wants and len(desktop.engine.machine.wants) == 0


def test_a_disk_that_fills_up_within_a_large_object_costs_no_link_and_it_is_gone_on_with(tmp_path: Path) -> None:
    with large(tmp_path) as (alice, session, name, total):
        assert not alice.pump(until=lambda: came(alice, name) > total // 4)
        alice.limits["desktop"] = Limits(free_bytes_min=1 << 60)
        desktop = alice["desktop"]
        desktop.engine.rest()
        assert alice.pump()
        here = came(alice, name)
        assert desktop.engine.machine.holding and not desktop.cuts and total // 4 < here < total // 2
        del alice.limits["desktop"]
        desktop.engine.rest()
        alice.now_ms += 60_000
        alice.seen.clear()
        alice.do("desktop", lambda engine: engine.ticked())
        assert alice.pump()
        same(alice, session, "laptop", "desktop")
        assert sum(map(len, alice.seen)) < total - here + 4 * SYNC_PART_BYTES and not desktop.cuts


def newest(alice: Person, session: SessionId) -> Checkpoint:
    store = alice["laptop"].store
    return store.checkpoint(store.checkpoint_ids(session)[-1])


def test_a_session_goes_where_its_person_wants_it_and_a_suspicious_one_waits_for_a_word(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        wishes = Wishes(laptop.id)
        laptop.engine._screen = wishes
        plain, suspicious, unwanted = (alice.create("laptop", text) for text in ("a", "b", "c"))
        found = findings.of_text(laptop.store, suspicious, 0, b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret")
        assert found, "the scan finds it"
        wishes.follow(laptop.store, unwanted, desktop.id, False)
        alice.do("laptop", lambda engine: engine.looked())
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert desktop.store.sessions() == [plain]
        assert list(wishes.held()) == [(suspicious, desktop.id)]
        Work(alice, "laptop", suspicious, Memory(5)).step()
        assert alice.pump()
        assert desktop.store.sessions() == [plain], "nor does it go with its next step"
        wishes.follow(laptop.store, suspicious, desktop.id, True)
        alice.do("laptop", lambda engine: engine.rescreened())
        assert alice.pump()
        alice.do("desktop", lambda engine: engine.woke())
        assert alice.pump()
        assert set(desktop.store.sessions()) == {plain, suspicious} and not list(wishes.held())


def test_pausing_takes_no_content_and_says_so_while_records_go_on(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(30))
        alice.do("desktop", lambda engine: engine.hold("its person paused it"))
        alice.link("laptop", "desktop")
        assert alice.pump()
        made = work.step()
        assert alice.pump()
        desktop = alice["desktop"]
        assert desktop.store.statements.get(session, made) is not None and not desktop.store.checkpoint_ids(session)
        told = alice["laptop"].engine.machine.peers[desktop.id].holding
        assert told == {None: "its person paused it"}
        alice.do("desktop", lambda engine: engine.hold(""))
        assert alice.pump()
        same(alice, session, "laptop", "desktop")


def test_what_looks_like_a_credential_from_the_first_word_on_never_goes_unasked(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        laptop.engine._screen = Wishes(laptop.id)
        alice.link("laptop", "desktop")
        assert alice.pump()
        session = alice.create("laptop")
        assert findings.of_text(laptop.store, session, 0, b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret")
        alice.noticed("laptop", session)
        assert alice.pump()
        assert desktop.store.sessions() == []
        other = alice.create("laptop")
        alice.noticed("laptop", other)
        assert alice.pump()
        assert desktop.store.sessions() == [other], "and what is not suspicious does"


def test_what_looks_like_a_credential_only_later_holds_a_session_from_each_device_that_does_not_have_it_yet(
    tmp_path: Path,
) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        laptop, desktop, tower = alice["laptop"], alice["desktop"], alice["tower"]
        wishes = laptop.engine._screen = Wishes(laptop.id)
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump() and desktop.store.sessions() == [session]
        alice.do("laptop", lambda engine: engine.looked())
        assert not wishes.leaves_out(laptop.store, tower.id, session), "nothing was found so far"
        with laptop.store.transaction():
            assert findings.of_text(laptop.store, session, 1, b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret")
            work.step(tell=False)
        alice.noticed("laptop", session)
        alice.link("laptop", "tower")
        assert alice.pump()
        assert tower.store.sessions() == [] and list(wishes.held()) == [(session, tower.id)]
        same(alice, session, "laptop", "desktop")
        alice.cut("tower")
        for one in range(3):
            work.step(said=bytes([one]))
        alice.link("laptop", "tower")
        assert alice.pump() and tower.store.sessions() == []
        wishes.follow(laptop.store, session, tower.id, True)
        alice.do("laptop", lambda engine: engine.rescreened())
        alice.do("tower", lambda engine: engine.woke())
        assert alice.pump()
        same(alice, session, "laptop", "tower")


def test_what_looks_like_a_credential_while_a_session_is_on_its_way_holds_what_did_not_go_yet(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        wishes = laptop.engine._screen = Wishes(laptop.id)
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(200))
        work.step()
        alice.link("laptop", "desktop")
        assert not alice.pump(until=lambda: bool(laptop.engine._serving._queues[desktop.id])), "content is asked for"
        with laptop.store.transaction():
            assert findings.of_text(laptop.store, session, 1, b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret")
            work.step(tell=False)
        alice.noticed("laptop", session)
        assert alice.pump()
        assert not desktop.store.checkpoint_ids(session) and list(wishes.held()) == [(session, desktop.id)]
        work.step()
        assert alice.pump() and not desktop.store.checkpoint_ids(session), "nor does it go with its next step"
        wishes.follow(laptop.store, session, desktop.id, True)
        alice.do("laptop", lambda engine: engine.rescreened())
        alice.do("desktop", lambda engine: engine.woke())
        assert alice.pump()
        same(alice, session, "laptop", "desktop")


def test_a_fork_arrives_whole_also_where_what_it_was_forked_from_does_not(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        origin = alice.create("laptop")
        work = Work(alice, "laptop", origin, Memory(30))
        for _ in range(3):
            made = work.step(said=b"said\n")
        fork = sessions.create_fork(laptop.store, laptop.owned.me, origin, made)
        wishes = laptop.engine._screen = Wishes(laptop.id)
        wishes.follow(laptop.store, origin, desktop.id, False)
        alice.do("laptop", lambda engine: engine.looked())
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert desktop.store.sessions() == [fork]
        same(alice, fork, "laptop", "desktop")
        main = desktop.store.checkpoint_ids(fork)[-1]
        assert flat(Line(desktop.store, fork, main).snapshot()) == work.memory.pages
        assert not Check(desktop.store).run().findings


def test_who_asks_for_what_nobody_has_each_time_it_hears_of_more_keeps_its_link(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(5)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        engine, peer = alice["laptop"].engine, alice["desktop"].id
        gone = ObjectName(bytes(32))
        for _ in range(3 * SYNC_WANT_AGAIN_MAX):
            assert not engine.heard(peer, encode_message(Want(session=session, objects=(gone,)))).cuts
            absent = engine.next_part(peer)
            assert absent is not None and decode_message(absent) == Absent(objects=(gone,))
        store = alice["laptop"].store
        here = refs_of(store.checkpoint(store.checkpoint_ids(session)[-1]))[0].name
        cuts = []
        while not cuts:  # What is here costs reading, and is given so often and no more.
            cuts = engine.heard(peer, encode_message(Want(session=session, objects=(here,)))).cuts
            if not cuts:
                assert engine.next_part(peer) is not None
        assert "again and again" in cuts[0][1]
