"""Who woke waits for what others know, as the daemon says how things stand; without a daemon a command acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Work, person
from tests.store.conftest import Memory

from hhd.base import locks
from hhd.base.paths import data_folder, private_folder
from hhd.control.address import LOCK_FILE
from hhd.node import around
from hhd.node.around import Told
from hhd.node.doors import Doors
from hhd_protocol.holding import Why
from hhd_protocol.ids import SessionId
from hhd_protocol.limits import WAKE_WAIT_MS_MAX


@pytest.fixture
def daemon() -> Iterator[None]:
    """As if a daemon ran."""
    lock = locks.take(private_folder(data_folder()) / LOCK_FILE)
    assert lock is not None
    with lock:
        yield


@pytest.fixture
def known(tmp_path: Path) -> Iterator[tuple[Person, SessionId]]:
    """A session that the desktop acknowledged."""
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(5)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        yield alice, session


def why(alice: Person, session: SessionId) -> Why | None:
    one = alice["laptop"]
    refusal = Doors(one.store, one.owned.me, session).waits()
    return None if refusal is None else refusal.why


def test_a_session_waits_for_who_is_linked_and_goes_on_when_they_answered(
    known: tuple[Person, SessionId], daemon: None
) -> None:
    alice, session = known
    desktop = alice["desktop"].id
    around.write(Told(woke_ms=around.now_ms(), connected=frozenset({desktop})))
    assert why(alice, session) is Why.WAKING
    around.write(Told(woke_ms=around.now_ms(), connected=frozenset({desktop}), answered=frozenset({desktop})))
    assert why(alice, session) is None


def test_where_nobody_answers_it_goes_on_for_a_person_who_is_here_and_waits_without_one(
    known: tuple[Person, SessionId], daemon: None
) -> None:
    alice, session = known
    long_ago = around.now_ms() - WAKE_WAIT_MS_MAX - 1
    around.write(Told(woke_ms=long_ago, alone=frozenset({session})))
    assert why(alice, session) is Why.ALONE
    around.write(Told(woke_ms=long_ago))
    assert why(alice, session) is None
    around.write(Told(woke_ms=long_ago, alone=None))
    assert why(alice, session) is Why.ALONE, "where it is not known which do so, each may be one that goes on alone"
    around.write(Told(woke_ms=long_ago, alone=None, attended=frozenset({session})))
    assert why(alice, session) is None


def test_the_first_link_after_there_was_none_is_a_wake_for_who_goes_on_alone_and_not_for_a_person_who_is_here(
    known: tuple[Person, SessionId], daemon: None
) -> None:
    alice, session = known
    desktop, now = frozenset({alice["desktop"].id}), around.now_ms()
    long_ago = now - WAKE_WAIT_MS_MAX - 1
    told = Told(woke_ms=long_ago, linked_ms=now, connected=desktop, alone=frozenset({session}))
    around.write(told)
    assert why(alice, session) is Why.WAKING
    around.write(replace(told, answered=desktop))
    assert why(alice, session) is None
    around.write(replace(told, alone=frozenset()))
    assert why(alice, session) is None
    around.write(replace(told, linked_ms=long_ago))
    assert why(alice, session) is Why.ALONE


def test_without_a_daemon_what_one_said_does_not_count(known: tuple[Person, SessionId]) -> None:
    alice, session = known
    around.write(Told(woke_ms=around.now_ms(), connected=frozenset({alice["desktop"].id}), alone=frozenset({session})))
    assert around.read() is None and why(alice, session) is None


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"\x87\x03\x1b" + b"\xff" * 8 + b"\x00\x40\x40\x40\x40", b"\x80"])
def test_a_damaged_word_is_none(raw: bytes, daemon: None) -> None:
    (private_folder(data_folder()) / around.FILE).write_bytes(raw)
    assert around.read() is None
    told = Told(woke_ms=1, linked_ms=2)
    around.write(told)
    assert around.read() == told
    around.remove()
    assert around.read() is None


def test_a_session_that_nobody_else_has_never_waits(tmp_path: Path, daemon: None) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        around.write(
            Told(woke_ms=around.now_ms(), connected=frozenset({alice["desktop"].id}), alone=frozenset({session}))
        )
        assert why(alice, session) is None
