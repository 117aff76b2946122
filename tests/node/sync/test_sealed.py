"""A device that only stores holds sealed bytes and reads nothing; a reader restores a session from it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.sync.wired import Grown, Work, person, remove_everywhere
from tests.store.conftest import Memory, flat

from hhd.node import listing, sessions
from hhd.store.check import Check
from hhd.store.line import Line
from hhd_protocol.ids import ObjectName
from hhd_protocol.statements import Role
from hhd_protocol.sync import decode_message, encode_message
from hhd_protocol.sync.messages import Acknowledge, Ask, AskKeys, Keys, Statements, Want

ROLES = {"vault": Role.STORE_ONLY}
PHRASE = "the heron stands in the reeds at dawn"


def test_a_reader_restores_a_session_from_a_store_only_device_alone_after_its_owner_died(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "vault", "tower", roles=ROLES) as alice:
        session = alice.create("laptop", PHRASE)
        work = Work(alice, "laptop", session, Memory(60))
        for number in range(6):
            work.step(said=b"line %d\n" % number)
        alice.link("laptop", "vault")
        assert alice.pump()
        work.step(said=b"the last\n")
        alice.do("laptop", lambda engine: engine.piled())
        assert alice.pump()
        alice.cut("laptop")  # It is never heard of again; the tower never met it.
        alice.link("tower", "vault")
        assert alice.pump()
        tower = alice["tower"]
        assert tower.store.sessions() == [session] and not alice["vault"].store.sessions()
        view = sessions.view(tower.store, tower.owned.me, session)
        assert view.main is not None
        assert flat(Line(tower.store, session, view.main).snapshot()) == work.memory.pages
        listed = listing.get(tower.store, session)
        assert listed is not None and listed.title == PHRASE
        grown = Grown(tower.store, tower.owned.me, session, work.memory)
        grown.takes_over()
        grown.step()
        assert not Check(tower.store).run().findings and not Check(alice["vault"].store).run().findings


def test_a_store_only_device_is_told_no_name_and_holds_nothing_that_it_could_read(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "vault", roles=ROLES) as alice:
        session = alice.create("laptop", PHRASE)
        work = Work(alice, "laptop", session, Memory(20))
        work.step(said=PHRASE.encode())
        alice.link("laptop", "vault")
        assert alice.pump()
        wire = b"".join(alice.seen)
        assert len(wire) > 20_000
        kinds = {type(decode_message(raw)) for raw in alice.seen}
        assert not kinds & {Statements, Keys, Ask, AskKeys, Acknowledge}
        family = alice["laptop"].store.session(session).family
        for told in (session, family, PHRASE.encode(), alice["laptop"].store.checkpoint_ids(session)[-1]):
            assert told not in wire, [type(decode_message(raw)) for raw in alice.seen if told in raw]
        assert len(alice["vault"].store.piles.names()) >= 5


def test_what_is_there_is_not_sent_again_and_new_work_follows(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "vault", roles=ROLES) as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(40))
        work.step()
        alice.link("laptop", "vault")
        assert alice.pump()
        before = len(alice["vault"].store.piles.names())
        alice.cut("laptop")
        alice.seen.clear()
        alice.link("laptop", "vault")
        assert alice.pump()
        assert sum(map(len, alice.seen)) < 400
        work.step()
        alice.do("laptop", lambda engine: engine.piled())
        assert alice.pump()
        assert before < len(alice["vault"].store.piles.names()) <= before + 3


def test_work_that_outlives_a_removal_comes_back_whole_also_by_letters_that_were_read_before(tmp_path: Path) -> None:
    """The letter with the newer work stands on letters that were read, and went with the session."""
    with person(tmp_path, "laptop", "vault", "tower", roles=ROLES) as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "vault")
        alice.link("tower", "vault")
        assert alice.pump()
        tower = alice["tower"]
        assert tower.store.sessions() == [session]
        alice.cut("tower")
        remove_everywhere(alice, "tower", session)
        alice.do("tower", lambda engine: engine.looked())
        alice.link("tower", "vault")
        assert alice.pump()
        assert tower.store.sessions() == [], "what was read and is covered brings nothing back"
        newest = work.step()
        alice.do("laptop", lambda engine: engine.piled())
        assert alice.pump()
        alice.cut("tower")
        alice.link("tower", "vault")
        assert alice.pump()
        assert newest in tower.store.checkpoint_ids(session)
        assert flat(Line(tower.store, session, newest).snapshot()) == work.memory.pages
        assert len(tower.store.statements.tombstone_ids(session)) == 1
        counted = tower.engine.counted[alice["vault"].id]
        before = counted.received
        alice.cut("tower")
        alice.link("tower", "vault")
        assert alice.pump()
        assert counted.received - before < 2000, "no letter is asked for once more"
        assert not Check(tower.store).run().findings


@pytest.mark.parametrize("kind", [Statements, Keys, AskKeys])
def test_a_store_only_device_that_asks_for_more_is_cut_off(tmp_path: Path, kind: type) -> None:
    with person(tmp_path, "laptop", "vault", roles=ROLES) as alice:
        session = alice.create("laptop")
        alice.link("laptop", "vault")
        assert alice.pump()
        message = AskKeys(session=session)
        if kind is Keys:
            message = Keys(session=session, family=bytes(16), epoch=bytes(32), wrapped=())  # type: ignore[assignment,arg-type]
        one = alice["laptop"]
        alice._do(one, one.engine.heard(alice["vault"].id, encode_message(message)))
        assert "only stores" in one.cuts[-1]


def test_sealed_bytes_that_are_others_are_not_kept(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "vault", roles=ROLES) as alice:
        session = alice.create("laptop")
        alice.link("laptop", "vault")
        assert alice.pump()
        laptop = alice["laptop"]
        name = laptop.store.checkpoint(laptop.store.checkpoint_ids(session)[-1]).objects[0]
        raw = encode_message(Want(session=session, objects=(ObjectName(name),)))
        alice._do(laptop, laptop.engine.heard(alice["vault"].id, raw))
        assert not laptop.cuts, "it may ask for any of its names"
        assert laptop.engine.next_part(alice["vault"].id) is not None


def test_what_this_device_wrote_is_not_hidden_by_a_letter_that_came_in_the_same_moment(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "vault", "tower", "desktop", roles=ROLES) as alice:
        session = alice.create("laptop")
        away = Work(alice, "laptop", session, Memory(20))
        away.step()
        for one, other in (("laptop", "vault"), ("tower", "vault"), ("tower", "desktop")):
            alice.link(one, other)
            assert alice.pump()
        alice.cut("laptop")
        alice.takes_over("tower", session)
        work = Work(alice, "tower", session, away.memory)
        work.step()
        assert alice.pump()
        alice.cut("tower", "vault")
        later = away.step()
        alice.link("laptop", "vault")
        assert alice.pump()
        alice.cut("laptop")
        own = work.step(tell=False)
        alice.link("tower", "vault")
        assert alice.pump()
        alice.noticed("tower", session)
        assert alice.pump()
        assert {own, later} <= set(alice["tower"].store.checkpoint_ids(session))
        assert {own, later} <= set(alice["desktop"].store.checkpoint_ids(session))
