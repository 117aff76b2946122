"""A session that another device takes over while it is advanced here: nothing further runs, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB, Person
from tests.node.stored import Laptop, identity

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import listing, sessions, turning
from hhd.node.listing import State
from hhd.node.members import Member
from hhd.node.refused import FencedError
from hhd.store.check import Check
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CheckpointBody, ReceiptBody, TakeoverBody
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId, Sha256
from hhd_protocol.statements import Progress, Role

pytestmark = needs_agent

DESKTOP = identity(b"desktop".ljust(32, b"!"))
COUNT = says(call("bash", command="echo x >> runs; echo one"))


def group(store: Store, me: Identity) -> dict[DeviceId, Member]:
    return {one.id: Member(role=Role.FULL, public=one.public) for one in (me, DESKTOP)}


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path, script=[GLOB, COUNT, COUNT, says(text("Done."))])
    with mock.patch("hhd.node.doors.members", group):
        yield made
    assert Check(made.store, read_data=True).run().findings == []
    made.store.close()


def take_over(laptop: Laptop, session: SessionId) -> None:
    """The desktop's record comes in, as a link to it would bring it."""
    view = sessions.view(laptop.store, laptop.me, session)
    assert view.token is not None and view.main is not None
    body = TakeoverBody(
        session=session,
        by=DESKTOP.id,
        after=None,
        seq=0,
        incarnation=Incarnation(os.urandom(16)),
        at_ms=1,
        prev=view.token.id,
        number=view.token.number + 1,
        head=CheckpointId(view.main),
        reason="the laptop is at home",
    )
    laptop.store.statements.add(session, lineage.sign(body, DESKTOP.seed).raw)


@dataclass
class Meanwhile(Person):
    """A person during whose session the desktop takes over: when asked, or as a reply with `word` in it comes."""

    laptop: Laptop | None = None
    session: SessionId | None = None
    at: str = ""

    def taken(self, at: str) -> None:
        if at == self.at and self.laptop is not None and self.session is not None:
            take_over(self.laptop, self.session)
            self.at = ""

    def read(self, prompt: str) -> str | None:
        self.taken("question")
        return "y"

    def steering(self) -> list[str]:
        if self.laptop is not None and (self.laptop.repo / "runs").exists():
            self.taken("result")
        return []


def statements(laptop: Laptop, session: SessionId) -> list[lineage.Signed]:
    return laptop.store.statements.all(session)


def closings(laptop: Laptop, session: SessionId) -> list[CheckpointBody]:
    bodies = [one.body for one in statements(laptop, session)]
    return [body for body in bodies if isinstance(body, CheckpointBody) and body.journal is not None]


def test_taken_over_before_an_effect_starts_it_does_not_run_and_the_closing_checkpoint_says_so(laptop: Laptop) -> None:
    laptop.rules = {"allow": []}
    session = laptop.create()
    with pytest.raises(FencedError, match="nothing further was run here") as caught:
        laptop.go(session, Meanwhile(laptop=laptop, session=session, at="question"))
    assert not (laptop.repo / "runs").exists()
    assert "kept as a head of its own; see all with: hhd heads" in str(caught.value)
    (closing,) = closings(laptop, session)
    assert closing.journal is not None and set(closing.journal.values()) == {Progress.ASKED}
    view = sessions.view(laptop.store, laptop.me, session)
    assert view.owner == DESKTOP.id and not view.uncertain, "the closing checkpoint proves: not started"
    assert len(view.heads) == 2 and not view.refused and not view.held
    entry = listing.get(laptop.store, session)
    assert entry is not None and (entry.state, entry.heads) == (State.FENCED, 2)


def test_taken_over_while_an_effect_runs_its_result_is_kept_as_evidence_and_in_the_head(laptop: Laptop) -> None:
    session = laptop.create()
    with pytest.raises(FencedError):
        laptop.go(session, Meanwhile(laptop=laptop, session=session, at="result"))
    assert (laptop.repo / "runs").read_text() == "x\n"
    (closing,) = closings(laptop, session)
    assert closing.journal is not None and Progress.ANSWERED in closing.journal.values()
    receipts = [one.body for one in statements(laptop, session) if isinstance(one.body, ReceiptBody)]
    assert [body.position for body in receipts] == list(closing.journal)
    view = sessions.view(laptop.store, laptop.me, session)
    assert view.uncertain == view.evidence and view.evidence, "the desktop's line waits for a word, with evidence"
    (own,) = view.heads - {view.main}
    live = sessions.loaded(laptop.store, session, CheckpointId(own)).journal.live
    assert live is not None and live.reply is not None and b"one" in live.reply


def test_a_session_of_another_device_does_not_begin_here_and_nothing_is_written(laptop: Laptop) -> None:
    session = laptop.create()
    take_over(laptop, session)
    before = len(statements(laptop, session))
    with pytest.raises(RefusedError, match="another device owns this session"):
        laptop.go(session)
    assert len(statements(laptop, session)) == before


def test_without_a_takeover_the_same_session_goes_on_to_its_end(laptop: Laptop) -> None:
    """The positive control of the tests above."""
    session = laptop.create()
    assert laptop.go(session, Meanwhile(laptop=laptop, session=session)).status == 0
    assert (laptop.repo / "runs").read_text() == "x\nx\n" and not closings(laptop, session)


def test_statements_of_others_that_take_nothing_over_do_not_stop_a_session(laptop: Laptop) -> None:
    """A checkpoint of the desktop under no token of its own comes in: kept, judged, and the session goes on."""
    session = laptop.create()
    with laptop.run(session) as run:
        view = sessions.view(laptop.store, laptop.me, session)
        assert view.token is not None
        stray = CheckpointBody(
            session=session,
            by=DESKTOP.id,
            after=None,
            seq=0,
            incarnation=Incarnation(bytes(16)),
            at_ms=1,
            token=view.token.id,
            parents=(),
            payload=Sha256(bytes(32)),
            objects=(),
        )
        laptop.store.statements.add(session, lineage.sign(stray, DESKTOP.seed).raw)
        assert run.go().status == 0
    assert len(sessions.view(laptop.store, laptop.me, session).refused) == 1


@dataclass
class Restored:
    """A laptop whose store was put back to a copy made while the session waited with its first command."""

    laptop: Laptop
    session: SessionId
    lost: list[lineage.Signed]

    def told(self) -> None:
        """A peer gives back what this device had signed since the copy was made."""
        for one in self.lost:
            self.laptop.store.statements.add(self.session, one.raw)


@pytest.fixture
def restored(laptop: Laptop) -> Restored:
    """After the copy, the first of two commands ran, and its answer was in a checkpoint."""
    session, rules, kept = laptop.create(), laptop.rules, laptop.folder / "copy"
    laptop.rules = {"allow": []}
    laptop.go(session)
    here, before = laptop.store.folder, {one.id for one in statements(laptop, session)}
    laptop.store.close()
    shutil.copytree(here, kept)
    laptop.store = Store.open(here, seed=laptop.me.seed, limits=laptop.limits)
    laptop.rules = rules
    assert laptop.go(session).status == 0 and (laptop.repo / "runs").read_text() == "x\nx\n"
    lost = [one for one in statements(laptop, session) if one.id not in before]
    laptop.store.close()
    shutil.rmtree(here)
    kept.rename(here)
    laptop.store = Store.open(here, seed=laptop.me.seed, limits=laptop.limits)
    return Restored(laptop=laptop, session=session, lost=lost)


def test_a_restored_store_that_is_shown_what_it_lost_reads_and_runs_nothing(restored: Restored) -> None:
    laptop, session = restored.laptop, restored.session
    tip = laptop.store.statements.tip(session, laptop.me.id)
    restored.told()
    with pytest.raises(RefusedError, match="this store was rolled back"):
        laptop.go(session)
    assert (laptop.repo / "runs").read_text() == "x\nx\n"
    assert laptop.store.statements.tip(session, laptop.me.id) == tip
    entries = laptop.store.heads(session)
    turning.turn_to(laptop.store, laptop.me, session, entries[0], "from what is here")
    ended = laptop.go(session)
    assert ended.status == 5, "the command may have run, and did"
    assert (laptop.repo / "runs").read_text() == "x\nx\n"
    view = sessions.view(laptop.store, laptop.me, session)
    assert view.token is not None and view.token.number == 2 and not view.rolled_back, "the chain does not fork"
    assert len(view.heads) == 2, "what was lost is a head, until its content comes"


def test_a_restored_store_that_nobody_shows_anything_goes_on_as_it_was(restored: Restored) -> None:
    """The limit that the README states, and the positive control of the test above."""
    assert restored.laptop.go(restored.session).status == 0
    assert (restored.laptop.repo / "runs").read_text() == "x\nx\nx\nx\n"
    view = sessions.view(restored.laptop.store, restored.laptop.me, restored.session)
    assert view.token is not None and view.token.number == 1
