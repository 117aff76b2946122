"""What a peer said meanwhile is taken in one transaction, and comes to what it comes to one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Work, person, same, scribble
from tests.store.conftest import Memory

from hhd.node import listing
from hhd.node.sync import serving as syncing_serving
from hhd.node.sync import together as syncing_together
from hhd.node.sync.intake import Taken
from hhd.node.sync.out import Out
from hhd.store.check import Check
from hhd.store.errors import BusyError, DamagedStoreError, FullStoreError
from hhd.store.store import Store
from hhd_protocol.fencing import Resolved
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.sync import decode_message, encode_message
from hhd_protocol.sync.messages import Absent, Acknowledge, Keys, Rebuild, Statements, Want


class Busy:
    """A session that the laptop worked on while the desktop took nothing: what it was sent waits in `said`."""

    def __init__(self, alice: Person, steps: int = 6) -> None:
        self.alice, self.session = alice, alice.create("laptop", "mend the parser")
        self.work = Work(alice, "laptop", self.session, Memory(200))
        self.work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        self.before = self.here()
        for number in range(steps):
            self.work.step(scribble(self.work)[0], said=b"line %d\n" % number)
        self.said = [raw for source, target, raw in alice.wires if target == alice["desktop"].id]
        alice.wires.clear()

    @property
    def store(self) -> Store:
        return self.alice["desktop"].store

    def here(self) -> list[CheckpointId]:
        return self.alice["desktop"].store.checkpoint_ids(self.session)

    @property
    def made(self) -> list[CheckpointId]:
        return self.alice["laptop"].store.checkpoint_ids(self.session)

    @property
    def new(self) -> list[CheckpointId]:
        return self.made[len(self.before) :]

    def statements(self) -> list[int]:
        """Which of what was said are statements."""
        return [at for at, raw in enumerate(self.said) if isinstance(decode_message(raw), Statements)]

    def hears(self, *raws: bytes) -> Out:
        """The desktop takes these together; what it says to that is not carried."""
        return self.alice["desktop"].engine.heard(self.alice["laptop"].id, *raws)

    def all_comes(self) -> None:
        """A new link, and honest work: nothing is lacking then."""
        self.alice.cut("desktop")
        self.alice.link("laptop", "desktop")
        assert self.alice.pump()
        self.work.step()
        assert self.alice.pump()
        same(self.alice, self.session, "laptop", "desktop")
        assert not Check(self.store).run().findings


def acknowledged(out: Out) -> set[CheckpointId]:
    said = (decode_message(raw) for _, raw in out.messages)
    return {id for one in said if isinstance(one, Acknowledge) for id in one.whole}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Busy]:
    with person(tmp_path, "laptop", "desktop") as alice:
        yield Busy(alice)


def commits(busy: Busy, *batches: list[bytes]) -> int:
    """How many transactions wrote something while these came."""
    wrote: list[str] = []
    held = busy.alice["desktop"].engine.store.database._connection
    held.set_trace_callback(lambda said: wrote.append(said.split()[0]))
    try:
        for batch in batches:
            busy.hears(*batch)
    finally:
        held.set_trace_callback(None)
    count, writes = 0, False
    for word in wrote:
        writes = (writes or word in ("INSERT", "UPDATE", "DELETE")) and word != "BEGIN"
        count += writes and word == "COMMIT"
    return count


def test_what_waited_is_one_durable_write_and_one_acknowledgement(busy: Busy) -> None:
    assert commits(busy, busy.said) == 1
    assert busy.here() == busy.made and len(busy.new) == 6
    busy.all_comes()


def test_what_comes_one_after_the_other_is_a_durable_write_each(busy: Busy) -> None:
    assert commits(busy, *([raw] for raw in busy.said)) == len(busy.statements()) == 6
    assert busy.here() == busy.made


def test_who_waited_long_for_others_to_write_takes_something_all_the_same(
    busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, gate = busy.alice, nullcontext()
    begun: list[int] = []

    def late() -> AbstractContextManager[None]:
        begun.append(alice.now_ms)
        alice.now_ms += 10 * syncing_together.TOGETHER_MS
        assert len(begun) < 20, "it begins again and again"
        return gate

    monkeypatch.setattr(alice["desktop"].engine.store.database, "gate", late)
    busy.hears(*busy.said)
    assert busy.here() == busy.made and len(begun) == 1


def test_it_is_acknowledged_together_and_lists_show_the_last_of_it(busy: Busy) -> None:
    out = busy.hears(*busy.said)
    assert acknowledged(out) == set(busy.new)
    assert sum(isinstance(decode_message(raw), Acknowledge) for _, raw in out.messages) == 1
    shown = [listing.get(busy.alice[name].store, busy.session) for name in ("laptop", "desktop")]
    assert shown[1] is not None and shown[1].checkpoints == len(busy.made) and shown[1].title == "mend the parser"
    newest = busy.store.statements.get(busy.session, busy.made[-1])
    assert newest is not None and shown[1].at_ms == newest.body.at_ms


@pytest.mark.parametrize("error", [BusyError("It is busy."), FullStoreError("It is full.")])
def test_where_it_does_not_become_durable_nothing_is_acknowledged_and_nothing_kept(
    busy: Busy, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    database = busy.alice["desktop"].engine.store.database

    def fails() -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(database, "_write_tally", fails)  # The last thing before the commit.
        out = busy.hears(*busy.said)
    assert not acknowledged(out) and busy.here() == busy.before
    assert bool(out.trouble) == isinstance(error, BusyError)
    assert not Check(busy.store).run().findings
    busy.alice["desktop"].engine.hold("")
    busy.all_comes()


def test_a_death_within_leaves_nothing_of_it_and_all_comes_again(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dies(BaseException):
        pass

    took = syncing_together.Together._take_one
    left = [4]

    def dies(*given: object) -> None:
        took(*given)  # type: ignore[arg-type]
        left[0] -= 1
        if not left[0]:
            raise Dies

    with monkeypatch.context() as patched, pytest.raises(Dies):
        patched.setattr(syncing_together.Together, "_take_one", dies)
        busy.hears(*busy.said)
    assert busy.here() == busy.before
    busy.alice.restart("desktop")
    busy.alice.link("laptop", "desktop")
    assert busy.alice.pump()
    busy.all_comes()


def forged(first: bytes, then: bytes) -> dict[str, bytes]:
    """Messages that are wrong, made of two that are right and follow one another."""
    one, two = decode_message(first), decode_message(then)
    assert isinstance(one, Statements) and isinstance(two, Statements)
    raw, objects = one.entries[0].raw, (*one.objects, *two.objects)
    signed = replace(one.entries[0], raw=raw[:-1] + bytes([raw[-1] ^ 1]))
    lying = replace(two.entries[0], payload=one.entries[0].payload)
    return {
        "a signature that does not hold": encode_message(replace(one, entries=(signed,))),
        "a second statement that is wrong": encode_message(
            replace(one, entries=(*one.entries, lying), objects=objects)
        ),
        "no message": b"\xff",
    }


@pytest.mark.parametrize("how", ["a signature that does not hold", "a second statement that is wrong", "no message"])
def test_what_came_before_a_wrong_message_is_kept_and_nothing_of_it_and_behind_it(busy: Busy, how: str) -> None:
    at, then = busy.statements()[3:5]
    wrong = forged(busy.said[at], busy.said[then])[how]
    out = busy.hears(*busy.said[:at], wrong, *busy.said[at + 1 :])
    assert [peer for peer, _ in out.cuts] == [busy.alice["laptop"].id]
    assert busy.here() == [*busy.before, *busy.new[:3]] and acknowledged(out) == set(busy.new[:3])
    brought = busy.alice["laptop"].store.checkpoint(busy.new[3]).objects
    assert brought and not any(map(busy.store.objects.has, brought))
    assert [busy.store.statements.get(busy.session, one) for one in busy.new[3:]] == [None] * 3
    assert not Check(busy.store).run().findings
    busy.all_comes()


def test_what_the_store_cannot_keep_costs_no_other_message(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    store = busy.alice["desktop"].engine.store
    calls: list[int] = []

    def insist(size: int) -> None:
        calls.append(size)
        if len(calls) == 3:
            raise FullStoreError("It would pass what the store may use.")

    with monkeypatch.context() as patched:
        patched.setattr(store, "insist_on_room", insist)
        out = busy.hears(*busy.said)
    assert not out.cuts and acknowledged(out) == set(busy.new[:2])
    assert busy.here() == [*busy.before, *busy.new[:2]]
    busy.alice["desktop"].engine.hold("")
    busy.all_comes()


def test_what_waits_for_keys_is_set_aside_and_the_others_are_kept(busy: Busy) -> None:
    alice = busy.alice
    other = alice.create("laptop")
    alice.noticed("laptop", other)
    keys: list[bytes] = []
    without: list[bytes] = []
    while alice.wires:  # What the two ask of each other is carried.
        source, target, raw = alice.wires.popleft()
        message = decode_message(raw)
        if isinstance(message, Keys | Statements) and message.session == other:
            (keys if isinstance(message, Keys) else without).append(raw)
        else:
            alice._do(alice.devices[target], alice.devices[target].engine.heard(source, raw))
    assert keys and without
    out = busy.hears(*busy.said[:2], *without, *busy.said[2:])
    assert busy.here() == busy.made and other not in busy.store.sessions()
    assert acknowledged(out) == set(busy.new)
    busy.hears(*keys)
    assert other in busy.alice["desktop"].store.sessions()
    busy.all_comes()


def test_what_this_device_wrote_meanwhile_is_told_once_and_what_came_is_not_sent_back(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        busy = Busy(alice)
        alice.link("desktop", "tower")
        assert alice.pump()
        alice.takes_over("desktop", busy.session)
        own = Work(alice, "desktop", busy.session, busy.work.memory).step(tell=False)
        out = busy.hears(*busy.said)
        told = {alice[name].id: [decode_message(raw) for to, raw in out.messages if to == alice[name].id]
                for name in ("laptop", "tower")}  # fmt: skip
        ids = {device: [entry.raw for one in said if isinstance(one, Statements) for entry in one.entries]
               for device, said in told.items()}  # fmt: skip
        records = {id: busy.store.record(id) for id in (*busy.made, own)}
        assert [records[own] in ids[one] for one in ids] == [True, True], "what was written here goes to both"
        assert not any(records[id] in ids[alice["laptop"].id] for id in busy.made), "nothing goes back"
        assert all(records[id] in ids[alice["tower"].id] for id in busy.new), "and all goes on"
        alice._do(alice["desktop"], out)
        assert alice.pump()
        alice.noticed("desktop", busy.session)
        assert alice.pump()
        same(alice, busy.session, "laptop", "desktop", "tower")


def test_what_this_device_wrote_is_told_though_it_was_found_for_a_message_that_was_wrong(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        busy = Busy(alice)
        alice.link("desktop", "tower")
        assert alice.pump()
        alice.takes_over("desktop", busy.session)
        own = Work(alice, "desktop", busy.session, busy.work.memory).step(tell=False)
        at, then = busy.statements()[:2]
        busy.hears(forged(busy.said[at], busy.said[then])["a second statement that is wrong"])
        alice.cut("desktop", "laptop")
        alice.do("desktop", lambda engine: engine.looked())
        assert alice.pump()
        assert own in alice["tower"].store.checkpoint_ids(busy.session), "and not in five minutes"


def test_what_the_store_cannot_read_of_one_session_costs_another_one_nothing(
    busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what came, nor that it is acknowledged; and nothing is left for what another device says."""
    alice, engine = busy.alice, busy.alice["desktop"].engine
    second = Work(alice, "laptop", alice.create("laptop"), Memory(20))
    second.step()
    assert alice.pump()
    busy.work.step(), second.step()
    said = [raw for _, target, raw in alice.wires if target == alice["desktop"].id]
    alice.wires.clear()
    took = engine._statements.took

    def damaged(taken: Taken, *more: object) -> None:
        if taken.session == busy.session:
            raise DamagedStoreError("A row is damaged.")
        took(taken, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(engine._statements, "took", damaged)
        patched.setattr(syncing_together, "TOGETHER_MS", 0)
        out = busy.hears(*said)
    assert out.trouble and not engine._together._waiting
    told = [decode_message(raw) for _, raw in out.messages]
    assert {one.session for one in told if isinstance(one, Acknowledge) and one.whole} == {second.session}
    busy.all_comes()


@pytest.mark.parametrize("seed", range(3))
def test_however_many_are_taken_together_the_same_comes_of_it(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with person(tmp_path, "laptop", "desktop") as alice:
        sessions: list[SessionId] = []
        works: list[Work] = []
        alice.link("laptop", "desktop")
        for _ in range(30):
            if not works or dice.random() < 0.15:
                sessions.append(alice.create("laptop"))
                works.append(Work(alice, "laptop", sessions[-1], Memory(200)))
            work = dice.choice(works)
            tell = dice.random() < 0.7
            work.step(scribble(work)[0] if work.grown else None, said=b"x", tell=tell)
            if dice.random() < 0.4:
                alice.pump(dice.randrange(6), together=lambda: dice.randrange(1, 9))
        for session in sessions:
            alice.noticed("laptop", session)
        alice.cut("laptop")
        alice.link("laptop", "desktop")
        assert alice.pump(together=lambda: dice.randrange(1, 9))
        for session in sessions:
            same(alice, session, "laptop", "desktop")
            assert set(alice["laptop"].store.checkpoint_ids(session)) == set(
                alice["desktop"].store.checkpoint_ids(session)
            )
            assert alice["laptop"].engine.fresh(session, alice["desktop"].id)
        assert not Check(alice["desktop"].store).run().findings


@pytest.mark.parametrize("pages", [1, 20])
def test_steps_that_were_noticed_late_go_with_their_content_and_each_recipe_behind_its_parent(
    tmp_path: Path, pages: int
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        busy = Busy(alice, 0)
        alice.seen.clear()
        for _ in range(20):
            busy.work.step(scribble(busy.work)[0][:pages], tell=False)
        alice.noticed("laptop", busy.session)
        assert alice.pump(together=lambda: 64)
        said = [decode_message(raw) for raw in alice.seen]
        assert busy.here() == busy.made and len(busy.new) == 20
        assert not any(isinstance(one, Want | Absent) for one in said)
        assert any(isinstance(one, Rebuild) for one in said) == (pages == 20)
        assert sum(isinstance(one, Acknowledge) for one in said) == 1
        same(alice, busy.session, "laptop", "desktop")


def test_many_steps_that_were_noticed_late_are_asked_for_beyond_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing_serving, "EAGER_CHECKPOINTS_MAX", 5)
    with person(tmp_path, "laptop", "desktop") as alice:
        busy = Busy(alice, 0)
        for _ in range(12):
            busy.work.step(scribble(busy.work)[0][:1], tell=False)
        alice.noticed("laptop", busy.session)
        assert alice["laptop"].engine.machine.peers[alice["desktop"].id].along[busy.session] == set(busy.new[:5])
        assert alice.pump()
        assert set(busy.here()) == set(busy.made)
        same(alice, busy.session, "laptop", "desktop")


@pytest.mark.parametrize("carried", [4, 10])
def test_a_device_that_is_slower_than_a_busy_session_catches_up_and_stays_so(tmp_path: Path, carried: int) -> None:
    """What it lacked when the work began is all that it asks for: what is made meanwhile comes with its content."""
    with person(tmp_path, "laptop", "desktop") as alice:
        alice.link("laptop", "desktop")
        assert alice.pump()
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(200))
        alice.noticed("laptop", session)
        behind = []
        for _ in range(30):
            work.step(scribble(work)[0] if work.grown else None, said=b"x")
            alice.pump(carried, together=lambda: 64)
            here = [len(alice[name].store.checkpoint_ids(session)) for name in ("laptop", "desktop")]
            behind.append(here[0] - here[1])
        assert behind[0] and max(behind) <= 8 and not any(behind[15:]), behind
        said = [decode_message(raw) for raw in alice.seen]
        assert not any(isinstance(one, Absent) for one in said), (
            "nothing is sent as a recipe that cannot be carried out"
        )
        assert sum(isinstance(one, Rebuild) for one in said) >= 15, "and what can be, is"
        assert alice.pump()
        same(alice, session, "laptop", "desktop")
        assert not Check(alice["desktop"].store).run().findings


def test_a_step_that_comes_is_not_judged_with_all_that_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        busy = Busy(alice)
        judged: list[Resolved] = []
        sort = Resolved._sorted
        monkeypatch.setattr(Resolved, "_sorted", lambda one: judged.append(one) or sort(one))
        busy.hears(busy.said[0])
        busy.hears(*busy.said[1:])
        assert busy.here() == busy.made and judged == []
        busy.alice["desktop"].engine.intake.forget()
        assert busy.alice["desktop"].engine.intake.view(busy.session).main == busy.made[-1] and len(judged) == 1
