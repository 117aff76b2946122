"""A person's word on what a session waits with counts once, for exactly what they saw, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import Person
from tests.node.stored import Laptop

from hhd.base.errors import RefusedError, UsageError
from hhd.node import here, listing, opening, sessions
from hhd.node.control import ControlService
from hhd.node.ended import End
from hhd.node.stored_session import StoredSession
from hhd.node.words import Words
from hhd.runtime.outcomes import StopFlag
from hhd.store.check import Check
from hhd_protocol.statements import Progress

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [COUNT, says(text("One."))]


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path / "laptop", script=SCRIPT)
    monkeypatch.setattr(opening, "here_with", lambda *_: made.here())
    yield made
    assert Check(made.store, read_data=True).run().findings == []
    made.store.close()


def control(laptop: Laptop) -> ControlService:
    return ControlService(store=laptop.store, me=laptop.me)


def runs(laptop: Laptop) -> int:
    file = laptop.repo / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def asking(laptop: Laptop) -> Any:
    """A session that waits for a yes, in a folder that is noted."""
    laptop.rules = {"allow": []}
    session = laptop.create("Ask.")
    with laptop.run(session) as run:
        run.session.owner.folder = laptop.repo  # type: ignore[attr-defined]
        assert run.go().status == 3
    return session


@pytest.fixture
def doubtful(laptop: Laptop, asking: Any) -> Any:
    """A fork of it, whose command may have run."""
    made = control(laptop).fork(asking.hex()).session
    return next(one for one in laptop.store.sessions() if one.hex() == made)


def go(laptop: Laptop, session: Any, person: Person | None = None) -> Any:
    """Go on as `hhd resume` does: where it last was at work, with the words that are kept."""
    face = person or Person()
    with opening.stored(
        laptop.store, laptop.me, session, folder=laptop.repo, model=None, face=face, stop=StopFlag()
    ) as run:
        return run.go()


@pytest.mark.parametrize(("how", "count"), [("ran", 0), ("did-not-run", 1), ("again", 1)])
def test_what_may_have_run_is_settled_each_way(laptop: Laptop, doubtful: Any, how: str, count: int) -> None:
    verbs, name = control(laptop), doubtful.hex()
    assert "echo x >> runs" in verbs.uncertain(name).text
    assert sessions.view(laptop.store, laptop.me, doubtful).uncertain
    done = verbs.settle(name, None, how=how, output="it said so")
    assert (done.word, done.op) == (how, "tool") and runs(laptop) == 0, "nothing runs before the session goes on"
    assert verbs.show(name).state == "paused"
    laptop.rules = {"allow": ["bash"]}
    ended = go(laptop, doubtful)
    assert ended.end is End.WAITING and runs(laptop) == count
    assert (b"it said so" in laptop.transcript(doubtful)) is (how == "ran")
    assert not sessions.view(laptop.store, laptop.me, doubtful).uncertain
    said = [p for one in laptop.store.statements.all(doubtful) for p in getattr(one.body, "effects", {}).values()]
    assert (Progress.SETTLED if how == "ran" else Progress.RERUN) in said


def test_what_may_have_run_is_listed_as_that_once_the_session_was_looked_at_until_a_person_said(
    laptop: Laptop, doubtful: Any
) -> None:
    verbs, name = control(laptop), doubtful.hex()
    listing.change(laptop.store, doubtful, state=listing.State.WAITING, waiting="approval of bash")  # As it was taken.
    with StoredSession(laptop.store, laptop.me, doubtful):
        pass
    assert verbs.show(name).state == "uncertain"
    verbs.settle(name, None, how="did-not-run")
    with StoredSession(laptop.store, laptop.me, doubtful):
        pass
    assert verbs.show(name).state == "paused"


def test_the_effect_can_be_named_and_another_one_is_refused(laptop: Laptop, doubtful: Any) -> None:
    verbs, name = control(laptop), doubtful.hex()
    number = verbs.uncertain(name).effect
    with pytest.raises(RefusedError, match=f"effect {number}, not with 77"):
        verbs.settle(name, "77", how="ran")
    for nonsense in ("", "x", "-1", "1.5", "٣", "9" * 30):
        with pytest.raises(UsageError):
            verbs.settle(name, nonsense, how="ran")
    assert verbs.settle(name, f"#{number}", how="ran", output="x").effect == number
    with pytest.raises(RefusedError, match="waits with no effect"):
        verbs.settle(name, None, how="ran")


def test_where_nothing_is_uncertain_no_word_is_taken(laptop: Laptop, asking: Any) -> None:
    verbs, name = control(laptop), asking.hex()
    for how in ("ran", "did-not-run", "again"):
        with pytest.raises(RefusedError, match="nothing is uncertain"):
            verbs.settle(name, None, how=how)
    with pytest.raises(RefusedError, match="nothing is uncertain"):
        verbs.uncertain(name)
    done = laptop.create("Done.", once="true")
    laptop.rules = {"allow": ["bash"]}
    laptop.go(done)
    with pytest.raises(RefusedError, match="waits with no effect"):
        verbs.settle("Done.", None, how="again")


def test_a_word_again_runs_it_once_more_and_not_twice(laptop: Laptop, doubtful: Any) -> None:
    control(laptop).settle(doubtful.hex(), None, how="again")
    laptop.rules = {"allow": ["bash"]}
    with laptop.run(doubtful) as run:
        assert run.settlement is None
        entry = run.session.standing.journal.pending
        assert entry is not None
        words = Words(store=laptop.store, session=doubtful)
        assert words.settlement(entry) is not None
        run.session.record(run.session.standing.journal.start())  # Begun, and then the power went.
    assert go(laptop, doubtful).status == 5 and runs(laptop) == 0, "begun once more, so it waits for a new word"


def test_a_yes_to_what_was_shown_lets_it_run_and_only_once(laptop: Laptop, asking: Any) -> None:
    verbs, name = control(laptop), asking.hex()
    asked = verbs.asked(name)
    assert "echo x >> runs" in "".join(asked.pages) and runs(laptop) == 0
    assert verbs.asked(name) == asked, "asking changes nothing"
    done = verbs.decide(name, str(asked.effect), shown=asked.shown, agreed=True)
    assert (done.word, done.effect) == ("approved", asked.effect) and runs(laptop) == 0
    assert go(laptop, asking, Person(words=[])).end is End.WAITING and runs(laptop) == 1


@pytest.mark.parametrize("how", ["did-not-run", "again"])
def test_what_was_settled_and_needs_a_yes_is_approved_with_nobody_at_it(
    laptop: Laptop, doubtful: Any, how: str
) -> None:
    """It waited for a yes that could not be given: first settle it, was said, and it was."""
    verbs, name = control(laptop), doubtful.hex()
    verbs.settle(name, None, how=how)
    laptop.rules = {"allow": []}
    ended = go(laptop, doubtful)
    assert ended.status == 3 and "your yes" in ended.sentence and runs(laptop) == 0
    verbs.decide(name, None, shown=verbs.asked(name).shown, agreed=True)
    go(laptop, doubtful)
    assert runs(laptop) == 1


def test_a_no_reaches_the_agent_with_its_message(laptop: Laptop, asking: Any) -> None:
    verbs, name = control(laptop), asking.hex()
    asked = verbs.asked(name)
    assert verbs.decide(name, None, shown=asked.shown, agreed=False, message="Use make.").word == "denied"
    assert go(laptop, asking).end is End.WAITING and runs(laptop) == 0
    assert b"Use make." in laptop.transcript(asking)


def test_an_answer_counts_for_the_very_text_that_was_shown(laptop: Laptop, asking: Any) -> None:
    verbs, name = control(laptop), asking.hex()
    asked = verbs.asked(name)
    for wrong in ("", "00" * 32, asked.shown[:-1], "no digest"):
        with pytest.raises(RefusedError, match="not the text that was shown"):
            verbs.decide(name, None, shown=wrong, agreed=True)
    assert go(laptop, asking).status == 3 and runs(laptop) == 0
    elsewhere = laptop.folder / "elsewhere"
    elsewhere.mkdir()
    verbs.decide(name, None, shown=verbs.asked(name).shown, agreed=True)
    repo, laptop.repo = laptop.repo, elsewhere
    person = Person()
    assert go(laptop, asking, person).status == 3 and runs(laptop) == 0, "another folder is another question"
    assert "echo x >> runs" in person.screen, "which the person is asked anew"
    laptop.repo = repo
    assert go(laptop, asking, Person(words=[])).end is End.WAITING and runs(laptop) == 1


def test_an_answer_kept_for_one_effect_does_not_answer_the_next(laptop: Laptop, asking: Any) -> None:
    laptop.script = [COUNT, COUNT, says(text("Two."))]
    verbs, name = control(laptop), asking.hex()
    verbs.decide(name, None, shown=verbs.asked(name).shown, agreed=True)
    ended = go(laptop, asking)
    assert (ended.status, ended.effect) == (3, "tool") and runs(laptop) == 1


def test_what_needs_no_yes_or_has_to_be_settled_or_looked_at_first_is_refused(
    laptop: Laptop, asking: Any, doubtful: Any
) -> None:
    verbs = control(laptop)
    with pytest.raises(RefusedError, match="may have run"):
        verbs.asked(doubtful.hex())
    here.forget(laptop.store, asking)
    with pytest.raises(RefusedError, match="not made here by you"):
        verbs.asked(asking.hex(), folder=laptop.repo)
    fresh = laptop.create("Later.")
    with pytest.raises(RefusedError, match="no effect"):
        verbs.asked(fresh.hex(), folder=laptop.repo)


def test_words_go_with_the_session(laptop: Laptop, doubtful: Any) -> None:
    verbs = control(laptop)
    verbs.settle(doubtful.hex(), None, how="again")
    verbs.remove(verbs.removal(doubtful.hex()))
    assert laptop.store.rows.get("words", b"", doubtful) is None
