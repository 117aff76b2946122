"""Runs the effect a guest waits for, at most once.

The journal (`hhd_protocol.journal`) is the only truth. Each step is durable before the next:

    asked -> (policy, a person) -> started -> the act -> answered -> the guest hears of it

Whatever moment this process dies, the journal says what may have happened:

| it says | then | when found again |
|---|---|---|
| asked | nothing was done | judged and run as if new; an approval in the journal is a record, never a permission |
| started | it may have been done, or half done | run again only if declared repeatable; else a person settles it |
| answered | it was done | the reply is used |

A reply that cannot be written (disk full) is kept in this process and written at the next try; if the process ends
before, the effect stays `started`, and a person has it in front of them on the screen.

An executor is synchronous and knows no op by itself: a `Kind` for each is given to it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from hhd.base.errors import RefusedError, RolledBackError, UncertainError, UserError
from hhd.base.text import visible
from hhd.effects.approvals import Answer, Approver, Choice, Grants, Question
from hhd.effects.cancel import Cancel, Interrupted
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Approval, Entry, Journal, State


class Port(Protocol):
    """Where the journal of one session is kept: a capsule file, or the store."""

    def load(self) -> Journal:
        """The journal as it is on disk."""

    def save(self, journal: Journal) -> None:
        """Make `journal` durable before returning; raises OSError, and then the one before is still there.

        Raises Interrupted, with the one before still there too, where it would have had to wait and is to stop.
        """


class Why(enum.Enum):
    """Why a session waits."""

    APPROVAL = "approval"
    """A person has to be asked and cannot be asked here."""
    UNCERTAIN = "uncertain"
    """It was begun and not heard of; a person has to say what happened."""
    MEND = "mend"
    """Something on this device has to be put right first."""
    CANCELLED = "cancelled"
    """The person stopped it before it began, or where it can begin anew."""
    ELSEWHERE = "elsewhere"
    """This kind is not answered by running anything (the person's input)."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """The session waits: `sentence` for the person, `ways` on from here. Nothing was lost, nothing runs."""

    why: Why
    sentence: str
    ways: tuple[str, ...] = ()
    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The effect has its reply, in the journal. `ran`: an act was done here and now."""

    reply: bytes
    ran: bool


Outcome = Answered | Waits


@dataclass(frozen=True, kw_only=True)
class Ready:
    """An effect that can be run: `question` must be agreed to before, where there is one.

    `run` gets the reply by acting. It raises Interrupted if it ended early and may simply be done again, and UserError
    if nothing was done because the person has to mend something.
    """

    run: Callable[[Cancel], bytes]
    repeatable: bool
    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An effect that is answered without running anything: `reply` says no."""

    reply: bytes


class Kind(Protocol):
    """What to do with the effects of one op."""

    def prepare(self, entry: Entry) -> Ready | Refusal | Waits:
        """Judge `entry` without doing anything."""

    def repeatable(self, request: bytes) -> bool:
        """Whether `request` may be run again after an interrupted run."""

    def refused(self, entry: Entry, message: str) -> bytes:
        """The reply where a person said no, with their words."""


class HowSettled(enum.Enum):
    """What a person says of an effect that may have run."""

    RAN = "ran"
    DID_NOT_RUN = "did-not-run"
    AGAIN = "again"


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """A person's word on an uncertain effect; `reply` is what it answered, for RAN."""

    how: HowSettled
    reply: bytes = b""


WAYS_TO_SETTLE = (
    "--ran OUTPUT: it ran, and this is what it said",
    "--did-not-run: it did not run, so it is run now",
    "--again: it is run again, whatever happened before",
)


_SHOWN_BYTES = 2000
"""Of a reply that could not be written, in the error: enough to know what happened, and still readable."""


class UnwrittenReply(UncertainError):
    """An effect ran and its reply could not be written; `reply` is it."""

    def __init__(self, reply: bytes, reason: str) -> None:
        said = visible(reply[:_SHOWN_BYTES].decode("utf-8", "replace"), one_line=True)
        said += f" ({len(reply) - _SHOWN_BYTES} bytes more)" if len(reply) > _SHOWN_BYTES else ""
        super().__init__(
            f"The step ran, but its result could not be written ({reason}). It will not run again by itself: make room "
            f"and go on, and say then what happened (--ran OUTPUT). Its result was: {said}"
        )
        self.reply = reply


def _as_it_is(reply: bytes) -> bytes:
    return reply


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Answers the pending effect of one session.

    `decorate` adds to a reply what the host has to say beside it (steering, `moved`) before it is recorded.
    """

    kinds: Mapping[str, Kind]
    approver: Approver
    grants: Grants
    cancel: Cancel
    decorate: Callable[[bytes], bytes] = _as_it_is
    _unwritten: dict[tuple[int, Sha256], bytes] = field(default_factory=dict)

    def advance(self, port: Port, settlement: Settlement | None = None) -> Outcome:
        """Answer the pending effect, or say why the session waits.

        Raises RefusedError if a step cannot be recorded before anything was done, UnwrittenReply if it cannot after.
        """
        journal = port.load()
        entry = journal.pending
        assert entry is not None, "there is no pending effect"
        if (kept := self._unwritten.get(_identity(entry))) is not None:
            return self._record(port, journal, kept, ran=True)
        kind = self.kinds.get(entry.op)
        if kind is None:
            return Waits(why=Why.MEND, sentence=f"This hhd cannot do what the session asks for: {entry.op!r}.")
        if settlement is not None and not _is_open(entry, kind):
            raise RefusedError("There is nothing to settle here: what the session waits for has not been begun.")
        if settlement is not None and settlement.how is HowSettled.RAN:
            return self._record(port, _doubted(journal), settlement.reply, ran=False)
        if settlement is None and _is_open(entry, kind):
            _save(port, journal, _doubted(journal))
            return Waits(why=Why.UNCERTAIN, sentence=_UNCERTAIN, ways=WAYS_TO_SETTLE)
        return self._decide(port, journal, entry, kind)

    def _decide(self, port: Port, journal: Journal, entry: Entry, kind: Kind) -> Outcome:
        step = kind.prepare(entry)
        if isinstance(step, Waits):
            return step
        if isinstance(step, Refusal):
            return self._record(port, _doubted(journal), step.reply, ran=False)
        if step.question is None:
            return self._run(port, journal, step)
        answer = self.approver.ask(step.question)
        if answer is None:
            return Waits(
                why=Why.APPROVAL,
                sentence="It needs your yes before it runs.",
                ways=_WAYS_TO_APPROVE,
                question=step.question,
            )
        if answer.choice is not Choice.NO and answer.seen != step.question.shown:
            return Waits(
                why=Why.APPROVAL, sentence="It was not shown whole, so the yes does not count.", question=step.question
            )
        return self._answered(port, journal, entry, kind, step, answer)

    def _answered(self, port: Port, journal: Journal, entry: Entry, kind: Kind, step: Ready, answer: Answer) -> Outcome:
        agreed = answer.choice is not Choice.NO
        journal = journal.approve(Approval(shown=answer.seen, agreed=agreed))
        if not agreed:
            return self._record(port, _doubted(journal), kind.refused(entry, answer.message), ran=False)
        if answer.choice is Choice.ALWAYS and step.question is not None and step.question.grant is not None:
            self.grants.add(step.question.grant)
        return self._run(port, journal, step)

    def _run(self, port: Port, journal: Journal, step: Ready) -> Outcome:
        if self.cancel.is_set:
            return Waits(why=Why.CANCELLED, sentence="Stopped before it began.")
        started = _doubted(journal).start()
        try:
            _save(port, None, started)
        except Interrupted:
            return Waits(why=Why.CANCELLED, sentence="Stopped before it began.")
        if step.repeatable:
            return self._act(port, started, step)
        with self.cancel.on_interrupt():
            return self._act(port, started, step)

    def _act(self, port: Port, started: Journal, step: Ready) -> Outcome:
        try:
            reply = step.run(self.cancel)
        except Interrupted:
            return Waits(why=Why.CANCELLED, sentence="Stopped; it is done anew when you go on.")
        except UserError as error:
            _save(port, None, started.withdraw())
            return Waits(why=Why.MEND, sentence=str(error))
        return self._record(port, started, reply, ran=True)

    def _record(self, port: Port, journal: Journal, reply: bytes, *, ran: bool) -> Outcome:
        """Write the reply down; only then does anybody hear of it."""
        entry = journal.pending
        assert entry is not None
        whole = reply if (kept := _identity(entry)) in self._unwritten else self.decorate(reply)
        if ran and self.cancel.is_set:
            journal = journal.cancel()
        try:
            port.save(journal.answer(whole))
        except OSError as error:
            if not ran:
                raise RefusedError(
                    f"The answer could not be written ({error.strerror}); nothing was changed."
                ) from error
            self._unwritten[kept] = whole
            reason = error.strerror or str(error)
            if self.kinds[entry.op].repeatable(entry.request):
                raise RolledBackError(
                    f"The reply could not be written ({reason}); make room and go on: it is asked for again then."
                ) from error
            raise UnwrittenReply(whole, reason) from error
        self._unwritten.pop(kept, None)
        return Answered(reply=whole, ran=ran)


_UNCERTAIN = (
    "It may have run, wholly or in part, before an interruption here or where this session came from; hhd does not run "
    "it again by itself."
)

_WAYS_TO_APPROVE = (
    "go on at a terminal, where you can be asked",
    "allow it under [policy] in this device's configuration",
)


def _is_open(entry: Entry, kind: Kind) -> bool:
    """Whether a person must settle `entry` before anything is done about it."""
    return entry.state in (State.STARTED, State.UNCERTAIN) and not kind.repeatable(entry.request)


def _doubted(journal: Journal) -> Journal:
    """`journal`, its entry marked uncertain if it was found started: from there it may be answered or begun again."""
    assert journal.live is not None
    return journal.doubt() if journal.live.state is State.STARTED else journal


def _save(port: Port, before: Journal | None, after: Journal) -> None:
    if after == before:
        return
    try:
        port.save(after)
    except OSError as error:
        raise RefusedError(
            f"The next step could not be recorded ({error.strerror}), so it was not run; make room and go on."
        ) from error


def _identity(entry: Entry) -> tuple[int, Sha256]:
    return entry.index, Sha256(sha256(entry.request).digest())
