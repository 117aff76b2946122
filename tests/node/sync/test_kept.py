"""What is kept over all sessions, so that a link costs nothing that did not change, is what would be found anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Work, person, remove_everywhere
from tests.store.conftest import Memory

from hhd.node import findings, registry, sessions
from hhd.node.sync.index import Index
from hhd.node.sync.wishes import Wishes
from hhd.store.rows import Rows
from hhd.store.store import Store
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.sync import compare

SECRET = b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret"


def insist_on_roots(alice: Person) -> bytes:
    """The kept root of each device is the one over what a fresh look at its store finds; return the laptop's."""
    for name in alice.names:
        one = alice[name]
        fresh = Index()
        fresh.open(one.store)
        for peer in one.engine.machine.peers.values():
            there = {session: digest for session, digest in fresh.digests.items() if session not in peer.left_out}
            assert one.engine.machine._here.root_for(peer) == compare.root(there), name
    laptop = alice["laptop"].engine
    return laptop.machine._here.root_for(laptop.machine.peers[alice["desktop"].id])


def test_the_kept_root_is_the_one_found_anew_after_every_kind_of_change(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        first, second = alice.create("laptop", "a"), alice.create("laptop", "b")
        alice.do("laptop", lambda engine: engine.looked())
        alice.link("laptop", "desktop")
        assert alice.pump()
        roots = [insist_on_roots(alice)]

        def changed() -> None:
            assert alice.pump()
            roots.append(insist_on_roots(alice))
            assert roots[-1] != roots[-2], "the change is one"

        work = Work(alice, "laptop", first, Memory(8))
        work.step()
        changed()
        work.step(tell=False)  # Another process wrote, and it is found by looking.
        alice.do("laptop", lambda engine: engine.looked())
        changed()
        third = sessions.create_fork(alice["laptop"].store, alice["laptop"].owned.me, first, work.step())
        alice.noticed("laptop", third)
        changed()
        remove_everywhere(alice, "laptop", second)
        alice.noticed("laptop", second)
        changed()
        work.step(tell=False)
        alice.restart("laptop")
        alice.link("laptop", "desktop")
        changed()
        alice.cut("desktop")
        work.step()
        alice.restart("desktop")
        alice.link("laptop", "desktop")
        changed()
        wishes = alice["laptop"].engine._screen = Wishes(alice["laptop"].id)
        wishes.follow(alice["laptop"].store, third, alice["desktop"].id, False)
        alice.do("laptop", lambda engine: engine.rescreened())
        changed()


def test_lists_are_looked_through_anew_once_the_store_was_closed(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        alice.link("laptop", "desktop")
        work = Work(alice, "laptop", session, Memory(8))
        for _ in range(3):
            work.step()
        assert alice.pump()
        laptop = alice["laptop"]
        laptop.engine.rest()
        made = work.step(tell=False)
        ids = laptop.store.checkpoint_ids(session)
        assert ids[-1] == made
        with laptop.store.transaction():  # As a repair may put them.
            laptop.store.rows.relist("checkpoints", session, [made, *ids[:-1]])
        alice.noticed("laptop", session)
        assert alice.pump()
        insist_on_roots(alice)
        assert made in alice["desktop"].store.checkpoint_ids(session)


def test_a_step_reads_no_more_of_the_lists_than_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        alice.link("laptop", "desktop")
        work = Work(alice, "laptop", session, Memory(4))
        for _ in range(60):
            work.step()
        assert alice.pump()
        begun: list[int] = []
        read = Rows.listing_from

        def counted(self: Rows, table: str, scope: bytes, start: int) -> list[bytes]:
            begun.append(start)
            return read(self, table, scope, start)

        monkeypatch.setattr(Rows, "listing_from", counted)
        monkeypatch.setattr(Rows, "listing", lambda *_: pytest.fail("a whole list was read"))
        work.step()
        assert alice.pump()
        assert max(begun) >= 60, "the list of checkpoints, from where it was read to"
        monkeypatch.undo()
        insist_on_roots(alice)


def test_wishes_that_were_read_are_asked_again_of_a_store_that_was_closed_and_opened(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        kept, sent = alice.create("laptop", "a"), alice.create("laptop", "b")
        desktop, me = alice["desktop"].id, alice["laptop"].id
        Wishes(me).follow(alice["laptop"].store, kept, desktop, False)
        wishes = Wishes(me)
        for _ in range(3):
            with alice.store_of("laptop") as store:
                assert store.shared.mark() is not None, "there is a document to read"
                assert wishes.leaves_out(store, desktop, kept) and not wishes.leaves_out(store, desktop, sent)


def test_a_link_over_many_sessions_judges_again_only_those_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"].id
        store = laptop.store
        made = [alice.create("laptop", str(number)) for number in range(20)]
        wishes, judged = Wishes(laptop.id), []
        judge = Wishes._judge

        def counted(self: Wishes, store: Store, *rest: object) -> None:
            judged.append(rest[3])
            judge(self, store, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(Wishes, "_judge", counted)

        def out(device: DeviceId = desktop) -> frozenset[SessionId]:
            judged.clear()
            found = wishes.left_out(store, device, {one: store.arrived.revision(one) for one in store.sessions()})
            anew = Wishes(laptop.id)
            everything = {one: store.arrived.revision(one) for one in store.sessions()}
            count = len(judged)
            assert found == anew.left_out(store, device, everything) and set(wishes.held()) >= set(anew.held())
            del judged[count:]
            return found

        assert out() == frozenset() and len(judged) == 20
        assert out() == frozenset() and not judged
        with store.transaction():
            findings.of_text(store, made[3], 0, SECRET)
            Work(alice, "laptop", made[3], Memory(5)).step(tell=False)
        assert out() == {made[3]} and judged == [made[3]]
        assert out() == {made[3]} and judged == [made[3]], "who waits for a word is looked at each time"
        with store.transaction():
            store.arrived.knows(made[3], desktop)
        assert out() == frozenset() and not list(wishes.held())
        wishes.follow(store, made[5], desktop, False)
        assert out() == {made[5]}
        assert out() == {made[5]} and not judged
        wishes.follow(store, made[5], desktop, True)
        assert out() == frozenset()
        with store.transaction():  # Another device said so: the shared document alone has it.
            registry.opened(store).wish(made[7], desktop, False)
        assert out() == {made[7]}
        wishes.follow(store, made[7], desktop, True)
        wishes.follow(store, made[6], desktop, False)
        remove_everywhere(alice, "laptop", made[6])
        assert out() == frozenset() and made[6] not in store.sessions()
