"""An effect is recorded before and after, and never run twice by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from hhd.base.errors import RefusedError, UserError
from hhd.effects.approvals import Answer, Choice, Grant, Grants, Nobody, Question
from hhd.effects.cancel import Cancel, Interrupted
from hhd.effects.executor import (
    Answered,
    Executor,
    HowSettled,
    Ready,
    Refusal,
    Settlement,
    UnwrittenReply,
    Waits,
    Why,
)
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Approval, Entry, Journal, State

QUESTION = Question(title="May it?", text="rm -rf /", grant=Grant(session=b"s", folder="/w", tool="bash"), always="rm")


@dataclass
class Memory:
    """A journal kept in memory, with a list of what was written and a disk that may be full."""

    journal: Journal
    states: list[State] = field(default_factory=list)
    full: bool = False

    def load(self) -> Journal:
        return self.journal

    def save(self, journal: Journal) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        assert journal.live is not None
        self.journal = journal
        self.states.append(journal.live.state)


@dataclass
class OneKind:
    """A kind whose act is given; it counts its runs."""

    act: Callable[[Cancel], bytes] = lambda cancel: b"done"
    again: bool = False
    question: Question | None = None
    instead: Refusal | Waits | None = None
    runs: int = 0

    def prepare(self, entry: Entry) -> Ready | Refusal | Waits:
        return self.instead or Ready(run=self._run, repeatable=self.again, question=self.question)

    def repeatable(self, request: bytes) -> bool:
        return self.again

    def refused(self, entry: Entry, message: str) -> bytes:
        return b"refused: " + message.encode()

    def _run(self, cancel: Cancel) -> bytes:
        self.runs += 1
        return self.act(cancel)


@dataclass
class Person:
    """Gives one answer; `seen` None means the whole text."""

    choice: Choice
    seen: Sha256 | None = None
    message: str = ""
    asked: list[Question] = field(default_factory=list)

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(choice=self.choice, seen=self.seen or question.shown, message=self.message)


def asked(state: State = State.ASKED, **changes: object) -> Memory:
    journal, _ = Journal().ask("tool", b"request")
    if state is not State.ASKED:
        journal = journal.start()
    if state is State.UNCERTAIN:
        journal = journal.doubt()
    assert journal.live is not None
    return Memory(replace(journal, live=replace(journal.live, **changes)))  # type: ignore[arg-type]


def executor(kind: OneKind, person: object = None, **more: object) -> Executor:
    return Executor(
        kinds={"tool": kind},
        approver=person or Nobody(),  # type: ignore[arg-type]
        grants=Grants(),
        cancel=Cancel(),
        **more,  # type: ignore[arg-type]
    )


def test_an_effect_is_started_on_disk_before_it_runs_and_answered_before_anyone_hears() -> None:
    port = asked()
    kind = OneKind(act=lambda cancel: b"saw " + port.journal.live.state.name.encode())  # type: ignore[union-attr]
    assert executor(kind).advance(port) == Answered(reply=b"saw STARTED", ran=True)
    assert port.states == [State.STARTED, State.ANSWERED]
    assert port.journal.latest_reply == b"saw STARTED"


@pytest.mark.parametrize("state", [State.STARTED, State.UNCERTAIN])
def test_what_was_begun_is_not_run_again_by_itself(state: State) -> None:
    port, kind = asked(state), OneKind()
    for _ in range(2):
        outcome = executor(kind).advance(port)
        assert isinstance(outcome, Waits) and outcome.why is Why.UNCERTAIN and len(outcome.ways) == 3
    assert kind.runs == 0
    assert port.states == ([State.UNCERTAIN] if state is State.STARTED else [])


@pytest.mark.parametrize("state", [State.STARTED, State.UNCERTAIN])
def test_what_is_declared_repeatable_is_run_again(state: State) -> None:
    port, kind = asked(state), OneKind(again=True)
    assert executor(kind).advance(port) == Answered(reply=b"done", ran=True)
    assert kind.runs == 1 and port.states == [State.STARTED, State.ANSWERED]
    assert port.journal.live is not None and port.journal.live.starts == 2


@pytest.mark.parametrize("how", [HowSettled.DID_NOT_RUN, HowSettled.AGAIN])
def test_a_person_can_have_it_run_again_and_is_still_asked_for_approval(how: HowSettled) -> None:
    port, kind, person = asked(State.STARTED), OneKind(question=QUESTION), Person(Choice.YES)
    assert executor(kind, person).advance(port, Settlement(how=how)) == Answered(reply=b"done", ran=True)
    assert kind.runs == 1 and person.asked == [QUESTION]


def test_a_person_can_say_what_it_answered() -> None:
    port, kind = asked(State.STARTED), OneKind()
    outcome = executor(kind).advance(port, Settlement(how=HowSettled.RAN, reply=b"it said"))
    assert outcome == Answered(reply=b"it said", ran=False)
    assert kind.runs == 0 and port.journal.pending is None


@pytest.mark.parametrize("how", HowSettled)
def test_there_is_nothing_to_settle_where_nothing_was_begun(how: HowSettled) -> None:
    port, kind = asked(), OneKind()
    with pytest.raises(RefusedError, match="nothing to settle"):
        executor(kind).advance(port, Settlement(how=how, reply=b"forged"))
    assert kind.runs == 0 and port.states == []


def test_nobody_to_ask_means_waiting_with_nothing_written() -> None:
    port, kind = asked(), OneKind(question=QUESTION)
    outcome = executor(kind).advance(port)
    assert isinstance(outcome, Waits) and outcome.why is Why.APPROVAL and outcome.question == QUESTION
    assert kind.runs == 0 and port.states == []


def test_a_yes_runs_it_and_is_recorded_with_what_was_shown() -> None:
    port, kind = asked(), OneKind(question=QUESTION)
    assert executor(kind, Person(Choice.YES)).advance(port) == Answered(reply=b"done", ran=True)
    assert port.journal.live is not None
    assert port.journal.live.approval == Approval(shown=QUESTION.shown, agreed=True)


@pytest.mark.parametrize("choice", [Choice.YES, Choice.ALWAYS])
def test_a_yes_to_a_text_that_was_not_shown_whole_does_not_count(choice: Choice) -> None:
    port, kind = asked(), OneKind(question=QUESTION)
    other = Question(title=QUESTION.title, text="rm -rf").shown
    host = executor(kind, Person(choice, seen=other))
    outcome = host.advance(port)
    assert isinstance(outcome, Waits) and outcome.why is Why.APPROVAL
    assert kind.runs == 0 and port.states == [] and QUESTION.grant and not host.grants.covers(QUESTION.grant)
    host = executor(kind, Person(choice, seen=QUESTION.shown))  # Control.
    assert isinstance(host.advance(port), Answered) and kind.runs == 1


def test_a_no_is_answered_with_the_persons_words_and_nothing_runs() -> None:
    port, kind = asked(), OneKind(question=QUESTION)
    outcome = executor(kind, Person(Choice.NO, message="use git rm")).advance(port)
    assert outcome == Answered(reply=b"refused: use git rm", ran=False)
    assert kind.runs == 0 and port.states == [State.ANSWERED]


def test_an_approval_written_in_the_journal_permits_nothing() -> None:
    port, kind = asked(approval=Approval(shown=QUESTION.shown, agreed=True)), OneKind(question=QUESTION)
    outcome = executor(kind).advance(port)
    assert isinstance(outcome, Waits) and outcome.why is Why.APPROVAL and kind.runs == 0


def test_always_is_remembered_in_memory_only() -> None:
    port, kind = asked(), OneKind(question=QUESTION)
    host = executor(kind, Person(Choice.ALWAYS))
    host.advance(port)
    assert QUESTION.grant and host.grants.covers(QUESTION.grant) and not Grants().covers(QUESTION.grant)


def test_a_refusal_is_answered_without_a_start() -> None:
    port, kind = asked(), OneKind(instead=Refusal(reply=b"policy"))
    assert executor(kind).advance(port) == Answered(reply=b"policy", ran=False)
    assert port.states == [State.ANSWERED]


def test_a_full_disk_before_the_start_runs_nothing() -> None:
    port, kind = asked(), OneKind()
    port.full = True
    with pytest.raises(RefusedError, match="was not run"):
        executor(kind).advance(port)
    assert kind.runs == 0 and port.journal == asked().journal


def test_a_full_disk_after_the_run_keeps_the_reply_and_does_not_run_it_again() -> None:
    port = asked()

    def fill(cancel: Cancel) -> bytes:
        port.full = True
        return b"precious"

    kind = OneKind(act=fill)
    host = executor(kind, decorate=lambda reply: reply + b"!")
    with pytest.raises(UnwrittenReply) as caught:
        host.advance(port)
    assert caught.value.reply == b"precious!"
    with pytest.raises(UnwrittenReply):
        host.advance(port)
    other = executor(kind)
    port.full = False
    assert isinstance(waits := other.advance(port), Waits) and waits.why is Why.UNCERTAIN  # Another process.
    assert host.advance(port) == Answered(reply=b"precious!", ran=True)
    assert kind.runs == 1


def test_what_ends_early_and_can_be_repeated_stays_and_is_done_anew() -> None:
    port = asked()

    def stop(cancel: Cancel) -> bytes:
        raise Interrupted

    kind = OneKind(act=stop, again=True)
    assert isinstance(waits := executor(kind).advance(port), Waits) and waits.why is Why.CANCELLED
    kind.act = lambda cancel: b"done"
    assert executor(kind).advance(port) == Answered(reply=b"done", ran=True)


def test_what_the_person_must_mend_leaves_the_effect_as_if_never_begun() -> None:
    port = asked()

    def no_key(cancel: Cancel) -> bytes:
        raise UserError("There is no key.")

    outcome = executor(OneKind(act=no_key)).advance(port)
    assert isinstance(outcome, Waits) and outcome.why is Why.MEND and outcome.sentence == "There is no key."
    assert port.journal == asked().journal


def test_nothing_begins_after_the_person_said_stop() -> None:
    port, kind = asked(), OneKind()
    host = executor(kind)
    host.cancel.set()
    assert isinstance(waits := host.advance(port), Waits) and waits.why is Why.CANCELLED
    assert kind.runs == 0 and port.states == []


def test_a_cancelled_run_is_recorded_as_such() -> None:
    port = asked()

    def run(cancel: Cancel) -> bytes:
        cancel.set()
        return b"partly"

    assert executor(OneKind(act=run)).advance(port) == Answered(reply=b"partly", ran=True)
    assert port.journal.live is not None and port.journal.live.cancelled


def test_an_op_nobody_knows_waits() -> None:
    port = Memory(Journal().ask("dance", b"")[0])
    assert isinstance(waits := executor(OneKind()).advance(port), Waits) and waits.why is Why.MEND


def test_a_crash_of_ours_leaves_the_effect_open() -> None:
    port = asked()

    def bug(cancel: Cancel) -> bytes:
        raise ZeroDivisionError

    kind = OneKind(act=bug)
    with pytest.raises(ZeroDivisionError):
        executor(kind).advance(port)
    assert isinstance(waits := executor(kind).advance(port), Waits) and waits.why is Why.UNCERTAIN
