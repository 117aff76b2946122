"""A finding holds a session's first way to each device wherever it goes on from: what one device found, all know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.node.sync.wired import Person, Wired, Work, person
from tests.store.conftest import Memory

from hhd.base.errors import UserError
from hhd.node import findings, registry
from hhd.node.sync.wishes import Wishes, insist_wanted
from hhd.registry import registers
from hhd.registry import sync as documents
from hhd.registry.registry import Registry
from hhd.store.errors import BusyError, FullStoreError
from hhd_protocol.ids import SessionId

SECRET = b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret"


def begin(alice: Person) -> None:
    """All screen what goes out, as daemons do."""
    for name in alice.names:
        alice.restart(name, screen=Wishes(alice[name].id, tells=True))


def screen(one: Wired) -> Wishes:
    found: Any = one.engine._screen
    assert isinstance(found, Wishes)
    return found


def share(alice: Person, source: str, *targets: str) -> None:
    """The shared document goes from one to others, as between daemons."""
    raw = documents.copy(registry.opened(alice[source].store))
    for target in targets:
        documents.merge_from(registry.opened(alice[target].store), raw)
        alice.do(target, lambda engine: engine.rescreened())


def suspicious(alice: Person) -> tuple[SessionId, Work]:
    """A session of the laptop in which something was found before it went anywhere."""
    session = alice.create("laptop")
    findings.of_text(alice["laptop"].store, session, 0, SECRET)
    work = Work(alice, "laptop", session, Memory(5))
    work.step()
    return session, work


def let_go(alice: Person, session: SessionId, name: str) -> None:
    laptop = alice["laptop"]
    screen(laptop).follow(laptop.store, session, alice[name].id, True)
    alice.do("laptop", lambda engine: engine.rescreened())


def has(alice: Person, name: str, session: SessionId) -> bool:
    return session in alice[name].store.sessions()


def held(alice: Person, name: str) -> list[str]:
    return [alice.devices[device].owned.name for _, device in screen(alice[name]).held()]


def test_a_session_that_was_let_go_to_one_device_does_not_go_on_from_there_to_a_third_unasked(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        begin(alice)
        session, _ = suspicious(alice)
        plain = alice.create("laptop")
        Work(alice, "laptop", plain, Memory(5)).step()
        alice.link("laptop", "desktop")
        assert alice.pump() and not has(alice, "desktop", session) and has(alice, "desktop", plain)
        let_go(alice, session, "desktop")
        share(alice, "laptop", "desktop")
        assert alice.pump() and has(alice, "desktop", session)
        assert not findings.count(alice["desktop"].store, session), "what was found, and where, stays where it arose"
        alice.link("desktop", "tower")
        assert alice.pump() and has(alice, "tower", plain) and not has(alice, "tower", session)
        assert held(alice, "desktop") == ["tower"]
        let_go(alice, session, "tower")
        share(alice, "laptop", "desktop")
        assert alice.pump() and has(alice, "tower", session)
        assert held(alice, "desktop") == []


def test_who_had_it_before_anything_was_found_goes_on_getting_it_from_each_device(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        begin(alice)
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(5))
        work.step()
        for name in ("desktop", "tower"):  # The two never heard of each other.
            alice.link("laptop", name)
            assert alice.pump() and has(alice, name, session)
            alice.cut(name)
        findings.of_text(alice["laptop"].store, session, 1, SECRET)
        alice.link("laptop", "desktop")
        made = work.step()
        share(alice, "laptop", "desktop", "tower")
        assert alice.pump()
        alice.cut("laptop")
        alice.link("desktop", "tower")
        assert alice.pump() and made in alice["tower"].store.checkpoint_ids(session)
        assert held(alice, "desktop") == held(alice, "tower") == []


def test_it_is_not_handed_over_there_either_before_a_person_said_so(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        begin(alice)
        session, _ = suspicious(alice)
        alice.link("laptop", "desktop")
        let_go(alice, session, "desktop")
        share(alice, "laptop", "desktop")
        assert alice.pump() and has(alice, "desktop", session)
        desktop, tower = alice["desktop"], alice["tower"].id
        refused = ""
        try:
            insist_wanted(desktop.store, desktop.id, session, tower, "tower")
        except Exception as error:  # noqa: BLE001  Whatever it says is looked at.
            refused = str(error)
        assert "looks like a credential" in refused and "hhd follow" in refused
        let_go(alice, session, "tower")
        share(alice, "laptop", "desktop")
        insist_wanted(desktop.store, desktop.id, session, tower, "tower")


def test_what_the_document_says_of_a_finding_is_read_in_its_form_alone() -> None:
    devices = [bytes([one]) * 16 for one in range(60)]
    for some in (devices[:0], devices[:1], devices[:46]):
        assert registers.halves(registers.halves_text(reversed(some))) == frozenset(some)
    assert registers.halves(registers.halves_text(devices)) == frozenset(devices[:46]), "a text takes no more"
    text = registers.halves_text(devices[:2])
    for odd in (
        "",
        "1",
        "00",
        text[:-1],
        text + "A",
        text[22:] + text[:22],
        text[:22] * 2,
        "é" * 22,
        "!" * 22,
        text * 60,
    ):
        assert registers.halves(odd) is None, odd


def test_two_devices_that_find_something_apart_are_no_question(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        session = alice.create("laptop")
        for name in ("laptop", "desktop"):
            registry.opened(alice[name].store).suspect(session, [alice[name].id])
        share(alice, "laptop", "desktop")
        document = registry.opened(alice["desktop"].store)
        assert document.suspects() == {session[:16]: {alice[name].id[:16] for name in ("laptop", "desktop")}}
        assert not document.questions()


def test_of_the_device_at_which_something_was_found_it_is_not_said_that_it_waits_for_a_word(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        suspicious(alice)
        begin(alice)
        alice.link("laptop", "desktop")
        assert alice.pump() and held(alice, "laptop") == ["desktop"]


@pytest.mark.parametrize("error", [BusyError, FullStoreError])
def test_where_a_finding_cannot_be_said_it_is_held_all_the_same_and_said_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[UserError]
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        begin(alice)
        session, _ = suspicious(alice)
        plain = alice.create("laptop")
        Work(alice, "laptop", plain, Memory(5)).step()

        def fails(*_: object) -> None:
            raise error("It cannot be written.")

        with monkeypatch.context() as while_it_is_so:
            while_it_is_so.setattr(Registry, "suspect", fails)
            alice.link("laptop", "desktop")
            assert alice.pump() and has(alice, "desktop", plain) and not has(alice, "desktop", session)
        assert not screen(alice["laptop"]).told
        alice.do("laptop", lambda engine: engine.rescreened())
        assert screen(alice["laptop"]).told
        assert set(registry.opened(alice["laptop"].store).suspects()) == {session[:16]}
