"""What others wrote is found, and what nobody wrote to costs a look next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Work, person
from tests.store.conftest import Memory

from hhd.node.sync import index as syncing_index
from hhd.store.arrived import Arrived
from hhd.store.rows import position_key
from hhd.store.statements import STATEMENTS
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.sync import decode_message
from hhd_protocol.sync.messages import Bare, Hello
from hhd_protocol.sync.wants import NO_SESSION

COUNT = 6


def looks(alice: Person) -> list[SessionId]:
    """What the laptop's sync finds changed."""
    engine = alice["laptop"].engine
    return engine._held.index.changed(engine.store, engine._held.index.all(engine.store))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[SessionId]:
    """The sessions whose revisions were read."""
    read: list[SessionId] = []
    revision = Arrived.revision

    def reads(self: Arrived, session: SessionId) -> bytes:
        read.append(session)
        return revision(self, session)

    monkeypatch.setattr(Arrived, "revision", reads)
    return read


def writes(alice: Person, session: SessionId) -> None:
    """A process of the laptop adds to a session, without a word."""
    Work(alice, "laptop", session, Memory(5)).step(tell=False)


def removes(alice: Person, session: SessionId) -> None:
    """A person removes it there."""
    store = alice["laptop"].store
    with store.advance(session):
        store.remove_session(session)


def looked_again(alice: Person, session: SessionId) -> None:
    """What was found of it was told to nobody."""
    alice["laptop"].engine._held.index.look_again(session)


@pytest.mark.parametrize("happens", [writes, removes, looked_again])
def test_a_look_reads_only_what_was_written_to_since_the_last_and_finds_that(
    tmp_path: Path, counted: list[SessionId], happens: Callable[[Person, SessionId], None]
) -> None:
    with person(tmp_path, "laptop") as alice:
        made = [alice.create("laptop", str(number)) for number in range(COUNT)]
        for session in made[:3]:
            Work(alice, "laptop", session, Memory(5)).step(tell=False)
        alice["laptop"].engine.looked()
        assert looks(alice) == [] and set(counted) >= set(made), "each of them is looked at once"
        counted.clear()
        assert looks(alice) == [] and counted == []
        for number in (1, 4):
            happens(alice, made[number])
        assert set(looks(alice)) == {made[1], made[4]} and set(counted) <= {made[1], made[4]}
        alice["laptop"].engine.looked()
        assert looks(alice) == []
        counted.clear()
        assert looks(alice) == [] and counted == []


def test_saying_of_many_sessions_what_content_is_not_here_puts_none_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing_index, "SEEN_KEPT", 2)
    with person(tmp_path, "laptop", "desktop") as alice:
        at_work, *others = (alice.create("laptop") for _ in range(4))
        alice.link("laptop", "desktop")
        assert alice.pump()
        index = alice["laptop"].engine._held.index
        index._bare.update(dict.fromkeys(others))
        index.seen(alice["laptop"].store, at_work)
        alice.do("laptop", lambda engine: engine._ask_all_again())
        assert index.holds(at_work), "else others are asked to compare at its next step, and are told of all once more"
        index.seen(alice["laptop"].store, others[0])
        index.seen(alice["laptop"].store, others[1])
        assert not index.holds(at_work)


def test_many_sessions_that_others_wrote_are_compared_together(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        alice.link("laptop", "desktop")
        assert alice.pump()
        made = {alice.create("laptop") for _ in range(5)}
        alice.seen.clear()
        alice.do("laptop", lambda engine: engine.looked())
        assert sum(isinstance(decode_message(raw), Hello) for raw in alice.seen) == 1
        assert alice.pump() and set(alice["desktop"].store.sessions()) == made


def test_what_content_is_not_here_is_read_once_until_the_session_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing_index, "SEEN_KEPT", 1)
    read: list[SessionId] = []
    reads = syncing_index._read
    monkeypatch.setattr(syncing_index, "_read", lambda store, session: read.append(session) or reads(store, session))
    with person(tmp_path, "laptop", "desktop") as alice:
        alice.do("desktop", lambda engine: engine.hold("its person paused it"))
        made = [alice.create("laptop") for _ in range(2)]
        works = [Work(alice, "laptop", session, Memory(5)) for session in made]
        for work in works:
            work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        index, store = alice["desktop"].engine._held.index, alice["desktop"].store

        def lacks() -> list[set[CheckpointId]]:
            return [set(index.without_content(store, session)) for session in made]

        def made_there() -> list[set[CheckpointId]]:
            return [set(alice["laptop"].store.checkpoint_ids(session)) for session in made]

        assert lacks() == made_there()
        read.clear()
        assert lacks() == made_there() and not read
        works[0].step()
        assert alice.pump()
        index.seen(store, made[1])  # The other one is held no more.
        assert lacks() == made_there()
        alice.do("desktop", lambda engine: engine.hold(""))
        assert alice.pump() and not index.bare and lacks() == [set(), set()]


def test_a_session_whose_rows_are_damaged_keeps_no_other_from_being_compared(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        alice.do("desktop", lambda engine: engine.hold("its person paused it"))
        sound, damaged = sorted(alice.create("laptop") for _ in range(2))
        for session in (sound, damaged):
            Work(alice, "laptop", session, Memory(5)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        index, store = alice["desktop"].engine._held.index, alice["desktop"].store
        assert index.bare == {sound, damaged}
        with store.transaction():
            for at in range(store.rows.length(STATEMENTS, damaged)):
                name = store.rows.name(STATEMENTS, damaged, position_key(at))
                store.database.write("UPDATE rows SET sealed=? WHERE name=?", bytes(100), name)
        index.reread(damaged)
        alice.seen.clear()
        alice.do("desktop", lambda engine: engine._ask_all_again())
        said = [decode_message(raw) for raw in alice.seen]
        assert [one.session for one in said if isinstance(one, Bare)] == [sound, NO_SESSION], "not all is known"
        assert isinstance(said[-1], Hello)
