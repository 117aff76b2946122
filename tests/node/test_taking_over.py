"""A takeover says first what it would go on from, how old that is, and what may have run; then it takes all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB
from tests.node.two import Device, brought, devices

from hhd.base.errors import RefusedError, UsageError
from hhd.node import listing, sessions
from hhd.node.ended import End
from hhd_protocol.ids import SessionId

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, COUNT, says(text("Done."))]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    with devices(tmp_path, SCRIPT, "laptop", "desktop", rules={"allow": []}) as made:
        yield made


def asking(laptop: Device) -> SessionId:
    (laptop.repo / "notes").write_text("one\n")
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    return session


def test_it_says_what_it_goes_on_from_and_its_age_by_our_own_clock(two: list[Device]) -> None:
    laptop, desktop = two
    desktop.store.now_ms = lambda: 5_000_000
    session = asking(laptop)
    brought(laptop, desktop, session)
    desktop.store.now_ms = lambda: 5_002_500
    shown = desktop.control.takeable(session.hex())
    assert shown.owner is not None and shown.owner.name == "laptop" and shown.token == 1
    assert (shown.age_ms, shown.clock) == (2_500, "ours")
    assert shown.head == laptop.main(session).hex() and shown.by.name == "laptop"
    assert len(shown.capture) == 64


def test_conversation_and_files_are_of_one_instant(two: list[Device]) -> None:
    laptop, desktop = two
    session = asking(laptop)
    brought(laptop, desktop, session)
    (laptop.repo / "notes").write_text("two, after the last checkpoint\n")
    done = desktop.control.take_over(desktop.control.takeable(session.hex()), "the laptop is in the ocean")
    assert (Path(done.folder) / "notes").read_text() == "one\n"
    assert desktop.transcript(session) == laptop.transcript(session)
    assert sessions.view(desktop.store, desktop.me, session).owner == desktop.me.id
    entry = listing.get(desktop.store, session)
    assert entry is not None and entry.owner == desktop.me.id and entry.token == 2


def test_a_command_whose_holder_did_not_say_that_it_did_not_run_is_doubted_and_settled_before_anything_runs(
    two: list[Device],
) -> None:
    laptop, desktop = two
    session = asking(laptop)
    brought(laptop, desktop, session)
    shown = desktop.control.takeable(session.hex())
    (doubt,) = shown.doubts
    assert doubt.op == "tool" and "echo x" in doubt.text
    done = desktop.control.take_over(shown, "it is gone")
    assert done.uncertain
    desktop.rules = {"allow": ["bash"]}
    folder = Path(done.folder)
    assert desktop.go_here(session).end is End.WAITING and not (folder / "runs").exists()
    desktop.control.settle(session.hex(), None, how="did-not-run")
    desktop.go_here(session)
    assert (folder / "runs").read_text() == "x\nx\n", "that one, and the next"


def test_an_intent_that_came_without_its_checkpoint_is_told_of(two: list[Device]) -> None:
    laptop, desktop = two
    session = asking(laptop)
    brought(laptop, desktop, session)
    laptop.rules = {"allow": ["bash"]}
    laptop.go_here(session)
    intents = [one for one in laptop.store.statements.all(session) if type(one.body).__name__ == "IntentBody"]
    assert intents
    for one in intents:
        desktop.store.statements.add(session, one.raw)
    shown = desktop.control.takeable(session.hex())
    assert {doubt.effect for doubt in shown.doubts} >= {intents[0].body.position}  # type: ignore[union-attr]


def test_what_changed_since_it_was_shown_is_not_taken_over(two: list[Device]) -> None:
    laptop, desktop = two
    session = asking(laptop)
    brought(laptop, desktop, session)
    shown = desktop.control.takeable(session.hex())
    laptop.rules = {"allow": ["bash"]}
    laptop.go_here(session)
    brought(laptop, desktop, session)
    with pytest.raises(RefusedError, match="has changed since it was shown"):
        desktop.control.take_over(shown, "it is gone")
    assert sessions.view(desktop.store, desktop.me, session).owner == laptop.me.id


def test_who_has_it_already_is_told_to_go_on_and_a_reason_is_needed(two: list[Device]) -> None:
    laptop, desktop = two
    session = asking(laptop)
    with pytest.raises(RefusedError, match="this device's already"):
        laptop.control.takeable(session.hex())
    brought(laptop, desktop, session)
    shown = desktop.control.takeable(session.hex())
    for reason in ("", "  ", "x" * 1025):
        with pytest.raises(UsageError, match="A reason"):
            desktop.control.take_over(shown, reason)


def test_two_takeovers_while_apart_end_with_one_owner_and_both_works_kept(tmp_path: Path) -> None:
    with devices(tmp_path, SCRIPT, "laptop", "desktop", "tower", rules={"allow": []}) as (laptop, desktop, tower):
        session = asking(laptop)
        for other in (desktop, tower):
            brought(laptop, other, session)
            other.control.take_over(other.control.takeable(session.hex()), f"taken by {other.repo.parent.name}")
            other.control.settle(session.hex(), None, how="did-not-run")
            other.rules = {"allow": ["bash"]}
            other.go_here(session)
        brought(desktop, tower, session)
        brought(tower, desktop, session)
        views = [sessions.view(one.store, one.me, session) for one in (desktop, tower)]
        assert views[0].owner == views[1].owner and views[0].heads == views[1].heads
        assert len(views[0].heads) == 2
        loser = desktop if views[0].owner == tower.me.id else tower
        with pytest.raises(RefusedError, match="another device owns"):
            loser.go_here(session)
