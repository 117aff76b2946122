"""Sessions of the store: driven like capsules, readable at every checkpoint, forked from any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB, Bench, Person
from tests.node.stored import Laptop

from hhd.effects.executor import HowSettled, Settlement
from hhd.node import capsules, listed_step, listing, programs, sessions
from hhd.node.capsule_session import CapsuleSession
from hhd.node.control import ControlService
from hhd.node.ended import End
from hhd.node.listing import State
from hhd.node.sessions import StoredSession
from hhd.node.standing import Step
from hhd.node.stored_session import StoreKeeper
from hhd.node.turning import turn_to
from hhd.runtime.outcomes import Slice, StopFlag
from hhd.store.check import Check
from hhd.store.errors import BusyError
from hhd_protocol import capsule, journal
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.paused import At
from hhd_protocol.statements import Progress

pytestmark = needs_agent


class Killed(BaseException):
    """Ends a run as a kill would, at once."""


COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, says(text("One.")), GLOB, says(text("Two."))]


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path / "laptop", script=SCRIPT)
    yield made
    assert Check(made.store, read_data=True).run().findings == []
    made.store.close()


def test_a_stored_session_says_byte_for_byte_what_a_capsule_says(laptop: Laptop, tmp_path: Path) -> None:
    session = laptop.create()
    assert laptop.go(session, Person(words=["on"])).end is End.WAITING
    (laptop.repo / "runs").unlink()
    bench = Bench(folder=tmp_path / "capsule", script=SCRIPT)
    bench.go(Person(words=["on"]), laptop.repo)
    assert laptop.transcript(session) == b"".join(capsules.transcript(bench.path))
    stored = sessions.loaded(laptop.store, session, laptop.store.heads(session)[0], embed=True)
    kept = capsule.decode(bench.path.read_bytes())
    assert stored.content_digest() == kept.content_digest(), "memory, journal, history: all of it"


def test_every_checkpoint_of_a_session_can_be_loaded_and_gone_on_with(laptop: Laptop) -> None:
    session = laptop.create()
    laptop.go(session, Person(words=["on"]))
    whole = laptop.transcript(session)
    for checkpoint in laptop.store.checkpoint_ids(session):
        value = sessions.loaded(laptop.store, session, checkpoint)
        assert whole.startswith(b"".join(value.transcript))
        assert capsule.decode(b"".join(bytes(one) for one in capsule.encode(value))).content_digest()


def test_who_creates_a_session_owns_it_from_the_first_moment(laptop: Laptop) -> None:
    session = laptop.create()
    view = sessions.view(laptop.store, laptop.me, session)
    assert view.owner == laptop.me.id and view.token is not None and view.token.number == 1
    assert [view.main] == laptop.store.heads(session) and not view.held and not view.refused


def test_each_effect_is_asked_and_answered_on_the_line_and_only_what_may_not_be_repeated_has_an_intent(
    laptop: Laptop,
) -> None:
    session = laptop.create()
    laptop.go(session)
    statements = [signed.body for signed in laptop.store.statements.all(session)]
    said: dict[int, list[Progress]] = {}
    for body in statements:
        for position, progress in getattr(body, "effects", {}).items():
            said.setdefault(position, []).append(progress)
    *over, (_, waiting) = sorted(said.items())
    assert all(progress == [Progress.ASKED, Progress.ANSWERED] for _, progress in over)
    assert waiting == [Progress.ASKED], "the person is being waited for"
    intents = [body for body in statements if type(body).__name__ == "IntentBody"]
    assert [body.op for body in intents] == ["tool"], "glob may be run again; the command may not"


def test_the_step_that_has_an_intent_is_told_apart_when_it_is_durable_and_before_what_it_is_of_begins(
    laptop: Laptop,
) -> None:
    session = laptop.create()
    told: list[tuple[bool, int, bool]] = []
    with laptop.run(session) as run:

        def saved() -> None:
            kept = (type(one.body).__name__ for one in laptop.store.statements.all(session))
            intents = sum(name == "IntentBody" for name in kept)
            told.append((run.session.keeper.intended, intents, (laptop.repo / "runs").exists()))

        run.session.on_saved = saved
        run.go()
    assert [one for one in told if one[0]] == [(True, 1, False)]
    at = told.index((True, 1, False))
    assert at > 3 and {one[1:] for one in told[:at]} == {(0, False)}
    assert len(told) > at + 1 and {one[1:] for one in told[at + 1 :]} == {(1, True)}


def test_one_process_at_a_time_advances_a_session(laptop: Laptop) -> None:
    session = laptop.create()
    with laptop.run(session), pytest.raises(BusyError, match="another process"):
        laptop.go(session)
    assert laptop.go(session).end is End.WAITING


def test_a_fork_goes_on_from_any_checkpoint_and_the_origin_is_as_it_was(laptop: Laptop) -> None:
    session = laptop.create()
    laptop.go(session)
    before = laptop.transcript(session)
    for checkpoint in laptop.store.checkpoint_ids(session)[::3]:
        fork = sessions.create_fork(laptop.store, laptop.me, session, checkpoint)
        assert laptop.store.session(fork).family == laptop.store.session(session).family
        ended = laptop.go(fork)
        if ended.status == 5:
            ended = laptop.go(fork, settlement=Settlement(how=HowSettled.AGAIN))
        assert ended.end is End.WAITING
        assert json.loads(laptop.transcript(fork).splitlines()[-1])["event"] == "waiting"
        assert sessions.view(laptop.store, laptop.me, fork).owner == laptop.me.id
    assert laptop.transcript(session) == before


def test_what_waited_in_the_origin_and_may_have_run_waits_for_a_word_in_the_fork(laptop: Laptop) -> None:
    laptop.rules = {"allow": []}
    session = laptop.create()
    assert laptop.go(session).status == 3, "nobody says yes"
    (head,) = laptop.store.heads(session)
    fork = sessions.create_fork(laptop.store, laptop.me, session, head)
    assert sessions.view(laptop.store, laptop.me, fork).uncertain
    laptop.rules = {"allow": ["bash"]}
    assert laptop.go(fork).status == 5 and not (laptop.repo / "runs").exists()
    assert laptop.go(fork, settlement=Settlement(how=HowSettled.DID_NOT_RUN)).end is End.WAITING
    assert (laptop.repo / "runs").read_text() == "x\n"
    assert not sessions.view(laptop.store, laptop.me, fork).uncertain


def test_a_list_shows_what_a_session_is_at(laptop: Laptop) -> None:
    session = laptop.create("Fix the parser\nand more")
    (one,) = listing.listed(laptop.store)
    assert (one.id, one.title, one.state) == (session, "Fix the parser", State.PAUSED)
    laptop.go(session)
    (one,) = listing.listed(laptop.store)
    assert (one.state, one.waiting, one.turns) == (State.WAITING, "input", 1)


def test_what_is_waited_for_is_said_and_one_that_goes_on_by_itself_is_paused_or_was_cut_off(laptop: Laptop) -> None:
    laptop.rules = {"allow": []}
    session = laptop.create()

    def state() -> tuple[State, str]:
        (one,) = listing.listed(laptop.store)
        shown = ControlService(store=laptop.store, me=laptop.me).show(session.hex())
        now = listing.now(one, laptop.store)
        assert (shown.state, shown.waiting) == (now.state, now.waiting)
        return now.state, now.waiting

    assert laptop.go(session).end is End.WAITING
    assert state() == (State.WAITING, "approval of bash")
    laptop.rules = {"allow": ["bash"]}
    real = StoreKeeper.save

    def cut(keeper: StoreKeeper, step: Step) -> None:
        real(keeper, step)
        if (live := keeper.standing.journal.live) is not None and live.state is journal.State.STARTED:
            assert state() == (State.RUNNING, "")
            raise Killed

    with (
        mock.patch.object(StoreKeeper, "save", cut),
        mock.patch.object(listed_step, "rested"),  # As if it were killed.
        pytest.raises(Killed),
    ):
        laptop.go(session)
    assert state() == (State.CUT_OFF, "")
    assert laptop.go(session).status == 5
    assert state()[0] is State.UNCERTAIN


def test_the_verbs_count_the_same_turns(laptop: Laptop) -> None:
    session = laptop.create()
    control = ControlService(store=laptop.store, me=laptop.me)

    def counted(name: str) -> set[int]:
        (head,) = control.heads(name).heads
        described = listing.described(laptop.store, SessionId(StatementId(bytes.fromhex(name))))
        return {control.show(name).turns, head.turns, control.removal(name).turns, described.turns}

    assert counted(session.hex()) == {0}, "nothing was done yet"
    laptop.go(session)
    assert counted(session.hex()) == {1}
    assert counted(control.fork(session.hex()).session) == {0}, "of a fork, what it did itself"


def test_a_session_that_has_ended_is_finished_and_still_tells_what_it_said(laptop: Laptop) -> None:
    session = laptop.create(once="true")
    assert laptop.go(session).end is End.FINISHED
    (head,) = laptop.store.heads(session)
    value = sessions.loaded(laptop.store, session, head)
    assert value.at is At.FINISHED and value.execution is None and b"One." in b"".join(value.transcript)


def test_a_busy_program_cut_anywhere_is_in_the_store_what_it_is_in_a_capsule(laptop: Laptop, tmp_path: Path) -> None:
    """Pages that the runtime says changed are all that did: each checkpoint is whole, by its content digest."""
    args = programs.encode_args({"iterations": "400000"})
    session = sessions.create(laptop.store, laptop.me, program="spin", args=args)
    path, stop = tmp_path / "spin.hhd", StopFlag()
    capsules.new("spin", path, args={"iterations": "400000"}, embed=True, force=False)
    digests = []
    with CapsuleSession(path) as kept:
        while kept.standing.at is not At.FINISHED:
            kept.advance(Slice(checks=70_000), stop)
            digests.append(kept.capsule.content_digest())
    number = 0
    while number < len(digests):
        with StoredSession(laptop.store, laptop.me, session) as stored:
            for _ in range(3):  # Then another process goes on.
                if stored.standing.at is not At.FINISHED:
                    stored.advance(Slice(checks=70_000), stop)
                    (head,) = laptop.store.heads(session)
                    assert sessions.loaded(laptop.store, session, head).content_digest() == digests[number]
                    number += 1
    assert number > 5


def test_a_model_call_that_another_line_made_too_is_made_again_on_this_one(laptop: Laptop) -> None:
    laptop.script = [GLOB, says(text("One."))]
    session = laptop.create()
    laptop.go(session)
    other = laptop.store.heads(session)
    for checkpoint in laptop.store.checkpoint_ids(session):
        standing = sessions.loaded(laptop.store, session, checkpoint)
        if standing.journal.settled == 2 and standing.journal.pending is None:
            turn_to(laptop.store, laptop.me, session, checkpoint, "another way")
            break
    ended = laptop.go(session)
    assert (ended.end, ended.status) == (End.WAITING, 0), ended
    assert set(laptop.store.heads(session)) > set(other)
