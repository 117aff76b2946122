"""Drives one session in the foreground: the guest runs, what it asks for is answered, each step is durable first.

    run the guest -> saved: asked -> policy, a person -> saved: started -> the act -> saved: answered -> run the guest

The order of saves is `hhd.node.driver`'s and `hhd.effects.executor`'s; here they are joined with the model, the tools
of one folder and the person. Whatever moment this process dies, what is kept is a whole step of the session; going on
from it asks for nothing twice that was answered, and runs no tool twice.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from hhd.base.config import Config
from hhd.base.errors import Exit, RefusedError, RolledBackError, UserError
from hhd.effects import environment
from hhd.effects.approvals import Answer, Approver, Choice, Grants, Question, TerminalApprover
from hhd.effects.cancel import Cancel
from hhd.effects.confine import Workspace
from hhd.effects.executor import Executor, Ready, Settlement, Waits, Why
from hhd.effects.interrupts import Interrupts
from hhd.effects.model import Kind, Model, Told, open_model
from hhd.effects.modelkind import ModelKind
from hhd.effects.personkind import Asked, InputKind, MachineKind, parse
from hhd.effects.policy import Policy
from hhd.effects.sandbox import Sandbox
from hhd.effects.spend import Purse, Spend
from hhd.effects.toolkind import ToolKind
from hhd.node.driver import Driver
from hhd.node.ended import End, Ended
from hhd.node.face import Face
from hhd.node.foreign import described, question_of
from hhd.node.own import Place
from hhd.runtime.outcomes import Slice, StopFlag
from hhd_protocol.capsule import At
from hhd_protocol.journal import Entry, Journal

T = TypeVar("T")

_OURS = "agent"
"""The program whose replies may carry `steering` and `moved`; others get replies as their effects define them."""


@dataclass(frozen=True, kw_only=True)
class Here:
    """What this device brings: its configuration, the walls around commands, the name of the model."""

    config: Config
    sandbox: Sandbox
    model: str | None
    today: Callable[[], datetime.date]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Of the terminal that the session was made at, as far as it is known: what commands get a part of."""


@dataclass(kw_only=True)
class Run:
    """One session being driven, in one folder."""

    session: Driver
    here: Here
    workspace: Workspace
    face: Face
    stop: StopFlag = field(default_factory=StopFlag)
    """Set before it goes on, the session is paused before anything of it runs."""
    settlement: Settlement | None = None
    said_before: Callable[[Question], Answer | None] = lambda _: None
    """What the person answered before this run began; asked before they are."""
    approver: Approver | None = None
    """Who is asked for a person's yes; None: the face, page by page."""
    grants: Grants = field(default_factory=Grants)
    turn: Callable[[], AbstractContextManager[int]] = lambda: contextlib.nullcontext(0)
    """Entered to let the program compute; gives how many milliseconds it may at most, 0 for no bound."""
    asking: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """Entered while an effect is being answered, and the program rests."""

    def __post_init__(self) -> None:
        self._cancel = Cancel()
        self._interrupts = Interrupts(self._wish)
        tally, journal = self.session.keeper.tally(), self.session.standing.journal
        self._answered = Counter(tally.answered(journal))
        spent = Spend(calls=tally.starts("model", journal), tokens=tally.tokens)
        self._purse = Purse(config=self.here.config.model, spent=spent)
        self._place = self._place_now()
        self._moved = self.session.owner.place != self._place
        self._opened: Model | None = None

    @property
    def spent(self) -> Spend:
        """What the whole session has used so far."""
        return self._purse.spent

    def go(self) -> Ended:
        """Go on until the session ends, waits or is interrupted.

        Raises UserError where something fails; then what is kept is the last whole step.
        """
        return self._until(self._go)

    def answer(self) -> Ended | None:
        """Answer the effect that waits; None if it now has its reply, or nothing waited. The guest does not run."""
        if self.session.standing.journal.pending is None:
            return None
        return self._until(lambda: self._interrupted() if self.stop.is_set else self._answer(self._executor()))

    def _until(self, act: Callable[[], T]) -> T | Ended:
        try:
            with self._interrupts.caught():
                result: T | Ended
                try:
                    result = act()
                except KeyboardInterrupt:
                    result = self._interrupted()
                except UserError:
                    with contextlib.suppress(UserError):  # The first trouble is the one to tell.
                        self.session.flush()
                    raise
                self.session.flush()
                return replace(result, spent=self._purse.spent) if isinstance(result, Ended) else result
        finally:
            self._cancel.close()

    def _go(self) -> Ended:
        executor = self._executor()
        while True:
            if self.session.standing.at is At.FINISHED:
                return Ended(end=End.FINISHED, status=Exit.DONE)
            if self.stop.is_set:
                return self._interrupted()
            if self.session.standing.journal.pending is None:
                self._advance()
            elif (ended := self._answer(executor)) is not None:
                return ended

    def _answer(self, executor: Executor) -> Ended | None:
        entry = self.session.standing.journal.pending
        assert entry is not None
        self._agree_if_foreign(entry)
        with self.asking():
            outcome = executor.advance(_Port(self.session), self.settlement)
        self.settlement = None
        if isinstance(outcome, Waits):
            return self._waits(entry, outcome)
        self._answered[entry.op] += 1
        return None

    def _advance(self) -> None:
        with self.turn() as busy_ms:
            slice = self.session.next_slice()
            assert slice.milliseconds is not None
            # A fourth of its own pace at least: a checkpoint that costs much is not made that much more often.
            at_most = max(busy_ms, slice.milliseconds / 4) if busy_ms else slice.milliseconds
            bounded = Slice(milliseconds=min(slice.milliseconds, at_most))
            self.session.advance(bounded, self.stop, hold=True)
        if self.session.emitted:
            self.face.emitted(self.session.emitted)

    def _executor(self) -> Executor:
        grants = self.grants
        named = environment.named(self.here.config.policy)
        secrets = self.here.config.model.secrets()
        environ = self.here.environ
        tools = ToolKind(
            session=self.session.keeper.mark,
            workspace=self.workspace,
            sandbox=self.here.sandbox,
            environment=environment.for_commands(
                environ, named=named, secrets=secrets, walled=self.here.sandbox.program is not None
            ),
            policy=Policy.from_table(self.here.config.policy),
            grants=grants,
        )
        model = ModelKind(
            model=self._model,
            position=lambda: self._answered["model"],
            watch=self._told,
            purse=self._purse,
            interrupts=self._interrupts,
        )
        self._models = model
        return Executor(
            kinds={
                "model": model,
                "tool": tools,
                "input": InputKind(listener=self, interrupts=self._interrupts),
                "machine": MachineKind(path=environ.get("PATH"), today=self.here.today),
            },
            approver=self,
            grants=grants,
            cancel=self._cancel,
            decorate=self._decorate,
        )

    def _waits(self, entry: Entry, waits: Waits) -> Ended:
        """The end of a run in which `entry` could not be answered."""
        op = entry.op
        if waits.why is Why.CANCELLED:
            return self._interrupted()
        status: int = _STATUS[waits.why]
        if op == "model" and self._models.failure is not None:
            status = self._models.failure.exit
        if waits.why is Why.UNCERTAIN:
            self.face.write("\n".join([*described(entry), ""]))
        if op == "input" and parse(entry.request).why not in ("next", "prompt", ""):
            status = Exit.UNEXPECTED
        return Ended(end=End.WAITING, status=status, effect=op, sentence=waits.sentence, ways=waits.ways)

    def _interrupted(self) -> Ended:
        entry = self.session.standing.journal.pending
        return Ended(
            end=End.INTERRUPTED,
            status=Exit.DONE,
            effect=None if entry is None else entry.op,
            sentence="Paused.",
        )

    def _wish(self) -> None:
        self.stop.set()
        self._cancel.set()

    def _agree_if_foreign(self, entry: Entry) -> None:
        """Do nothing that a session from elsewhere asks for before a person saw what it is, and agreed.

        Its program may have run until it asked: it reaches nothing but its own memory.
        """
        if self.session.owner.place is not None:
            return
        whence = self.session.keeper.whence()
        question = question_of(whence, entry, self.workspace.folder)
        answer = self.ask(question)
        if answer is None or answer.choice is Choice.NO or answer.seen != question.shown:
            raise RefusedError(
                f"This {whence.kind} was not made here by you, and nobody agreed to go on; nothing it asks for was "
                "done."
            )
        self.session.owner.adopt()

    def question(self) -> Question | None:
        """What the person would be asked before the effect that waits is run; None if nothing.

        Nothing is run, and this run does not go on afterwards.
        """
        try:
            entry = self.session.standing.journal.pending
            kind = None if entry is None else self._executor().kinds.get(entry.op)
            step = None if entry is None or kind is None else kind.prepare(entry)
            return step.question if isinstance(step, Ready) else None
        finally:
            self._cancel.close()

    def ask(self, question: Question) -> Answer | None:
        """Ask the person; see `hhd.effects.approvals.Approver`."""
        if (before := self.said_before(question)) is not None:
            return before
        self.session.flush()
        approver = self.approver or TerminalApprover(write=self.face.write, read=self.face.read)
        with self._interrupts.raised():
            return approver.ask(question)

    def listen(self, asked: Asked) -> str | None:
        """Get words from the person; see `hhd.effects.personkind.Listener`."""
        self.session.flush()
        return self.face.listen(asked.prompt, asked.why)

    def _model(self) -> Model:
        if self._opened is None:
            self._opened = open_model(self.here.model, self.here.config.model, Path.cwd())
        return self._opened

    def _told(self, told: Told) -> None:
        if told.kind is Kind.TEXT:
            self.face.text(told.text)
        elif told.kind is Kind.NOTICE:
            self.face.notice(told.text)

    def _place_now(self) -> bytes:
        return Place(folder=self.workspace.folder, date=self.here.today().isoformat()).digest()

    def _decorate(self, reply: bytes) -> bytes:
        """Add to a reply what the agent should hear besides: that it moved, and what the person said meanwhile."""
        if (place := self._place_now()) != self._place:
            self._place, self._moved = place, True
        if self.session.standing.program != _OURS:
            return reply
        heard: dict[str, object] = {"moved": True} if self._moved else {}
        if words := self.face.steering():
            heard["steering"] = words
        self._moved, self.session.owner.place = False, self._place
        return json.dumps({**json.loads(reply), **heard}, ensure_ascii=False).encode() if heard else reply


_STATUS = {
    Why.APPROVAL: Exit.REFUSED,
    Why.UNCERTAIN: Exit.UNCERTAIN,
    Why.MEND: Exit.REFUSED,
    Why.ELSEWHERE: Exit.DONE,
}


class _Port:
    """The journal of a session, as an executor wants it: what could not be written is an OSError."""

    def __init__(self, session: Driver) -> None:
        self._session = session

    def load(self) -> Journal:
        return self._session.standing.journal

    def save(self, journal: Journal) -> None:
        try:
            self._session.record(journal)
        except RolledBackError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from error
            if journal.pending is None:  # Something was done, and the executor keeps what came of it.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
