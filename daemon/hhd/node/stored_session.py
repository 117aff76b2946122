"""One session of the store being advanced: each step is one durable transaction, with the statements that belong to it.

    asked: a checkpoint    started: a checkpoint and, for what may not be repeated, an intent    answered: a checkpoint

The doors (`hhd.node.doors`) are asked within that very transaction, so nobody's statement can come in between. Where
another device took the session over, nothing more is begun: what is in hand becomes the closing checkpoint under the
old token, a head of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from hhd.base.errors import UserError
from hhd.effects.cancel import Interrupted
from hhd.identity.key import Identity
from hhd.node import findings, listed_step
from hhd.node.captures import Captures
from hhd.node.doors import Doors, now_ms
from hhd.node.driver import Driver
from hhd.node.foreign import Whence
from hhd.node.here import Here
from hhd.node.kinds import kind_of
from hhd.node.moment import Moment
from hhd.node.progress import not_started, said
from hhd.node.refused import fenced, refused, short
from hhd.node.signing import Pen
from hhd.node.standing import Standing, Step
from hhd.node.step_log import LOG
from hhd.node.tally import Tally
from hhd.node.transcripts import TRANSCRIPT
from hhd.runtime.outcomes import StopFlag
from hhd.store.checkpoints import Checkpoint
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.fencing import View
from hhd_protocol.holding import CheckpointDraft, Persist, ReceiptDraft, Why, decide
from hhd_protocol.ids import CheckpointId, EffectId, SessionId, Sha256, StatementId
from hhd_protocol.journal import State
from hhd_protocol.lineage import Signed, effect_id
from hhd_protocol.paused import At
from hhd_protocol.statements import EffectKind, Progress

WAKE_LOOK_SECONDS = 0.05
"""How often a session that waits looks whether the others have answered."""
_SPOKEN = ("input", "tool")
"""Effects whose replies are texts that arise here: what a person said, what a tool gave."""


class StoredSession(Driver):
    """The session `session` of the store, driven; this process alone advances it until `close`."""

    keeper: StoreKeeper

    def __init__(self, store: Store, me: Identity, session: SessionId) -> None:
        """Raises RefusedError where this device may not advance it, BusyError where another process does."""
        super().__init__(StoreKeeper(store, me, session))

    def __enter__(self) -> StoredSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StoreKeeper:
    """Keeps `session` in the store (see `hhd.node.keeper.Keeper`)."""

    incremental = True

    def __init__(self, store: Store, me: Identity, session: SessionId) -> None:
        self._store, self._me, self.session = store, me, session
        self._lock = store.advance(session)
        self._ended: UserError | None = None
        self._running: EffectId | None = None
        self.intended = False
        self.stop = StopFlag()
        """Set, the session is to pause: a step that waits for what others know is left as it was."""
        self.captures: Captures | None = None
        """Of the folder it is at work in; None: checkpoints name the `workspace` that the one before named."""
        try:
            with store.snapshot():
                self._doors = Doors(store, me, session)
                self._pen = Pen(store, me, session, self._doors)
                view = self._doors.part.known.view
                if (refusal := self._doors.may_append()) is not None:
                    raise refused(session, refusal, view)
                assert view.main is not None, "a session is created with its first checkpoint"
                self._moment: Moment | None = Moment(store, CheckpointId(view.main))
                self._recorded = self._moment.recorded
                self._standing = doubted_by(view, session, self._moment.standing)
                self._line = Line(store, session, CheckpointId(view.main))
                self.workspace = self._moment.checkpoint.workspace
                self.owner = Here(store, session)
        except BaseException:
            self._lock.release()
            raise

    @property
    def name(self) -> str:
        """The session's short id."""
        return f"Session {short(self.session)}"

    @property
    def mark(self) -> bytes:
        """The session's id."""
        return self.session

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        return self._standing

    def close(self) -> None:
        """Let others advance it."""
        try:
            listed_step.rested(self._store, self.session, self._standing)
        finally:
            self._lock.release()

    def wasm(self) -> bytes:
        """The module out of the store."""
        return self._store.modules.get(self._standing.module)

    def snapshot(self) -> Snapshot:
        """The memory where it stands."""
        moment = self._moment
        if moment is not None and moment.snapshot is not None:
            self._moment = None  # It is read once, for a guest that runs on from it.
            return moment.snapshot
        return self._line.snapshot()

    def tally(self) -> Tally:
        """What it has asked and spent."""
        return self._recorded.tally

    def whence(self) -> Whence:
        """What it says of where it is from."""
        return Whence(
            kind="session",
            label="session",
            place=short(self.session),
            device=None,
            folder=None,
            program=self._standing.program,
            module=self._standing.module,
            journal=self._standing.journal,
        )

    def save(self, step: Step) -> None:
        """Write `step` and what belongs to it in one transaction.

        Raises FencedError where another device took over, with a closing checkpoint written if one was owed; other
        UserErrors with all as it was, except that an effect which may not be begun is kept as asked; Interrupted with
        all as it was, where the session is to pause before the others were heard.
        """
        if self._ended is not None:
            raise self._ended
        self.intended = False
        self._capture(step)
        while True:
            self._hear_others(step)
            try:
                error = self._saved(step)
                break
            except _WakingError:
                continue  # A link came or went since it was asked: ten seconds after the wake it ends at the latest.
        self._moment = None
        if self.captures is not None:
            self.captures.written()
        if error is not None:
            self._ended = error  # What is written may be less than the step, so nothing can follow upon the step.
            raise error

    def _saved(self, step: Step) -> UserError | None:
        """Write it, or leave all as it was; return what ends the session, where another device took it over."""
        kept = self._standing, self._recorded, self._running
        head, leg = self._line.head, self._doors.part.leg
        try:
            with self._store.transaction():
                self._doors.look()
                error = self._close(step) if self._doors.part.fenced else self._append(step)
                self.owner.write()
        except BaseException:
            self._standing, self._recorded, self._running = kept
            self._line = Line(self._store, self.session, head)
            self._doors.load(leg)
            self.owner.reread()
            raise
        return error

    def _hear_others(self, step: Step) -> None:
        """Before an effect begins, of whatever kind, wait for what others know, if this device just woke."""
        live = step.standing.journal.live
        if live is None or live.state is not State.STARTED:
            return
        if self._running == effect_id(self.session, step.standing.journal.settled):
            return
        while (refusal := self._doors.waits()) is not None and refusal.why is Why.WAKING:
            if self.stop.is_set:
                raise Interrupted
            time.sleep(WAKE_LOOK_SECONDS)  # Ten seconds at most; the others' answers come in within one, or not at all.

    def rest(self) -> None:
        """Capture the folder if that is due, and let a checkpoint say so: what was put off is not lost at a pause."""
        if self.captures is None or self._ended is not None:
            return
        before = self.workspace
        self.captures.take(pause=True)
        if self.captures.workspace != before:
            self.save(Step(standing=self._standing))

    def _capture(self, step: Step) -> None:
        """Capture the folder, if that is due: what the next checkpoint names is of its moment."""
        if self.captures is None:
            return
        live = step.standing.journal.live
        if live is not None and live.state is State.ANSWERED and kind_of(live) is EffectKind.TOOL:
            self.captures.after_effect()
        self.captures.take(pause=step.rests or _is_turn(step))
        self.workspace = self.captures.workspace

    def _append(self, step: Step) -> UserError | None:
        """Write the next checkpoint; return why the effect that it would begin may not be, None if it may."""
        if (refusal := self._doors.may_append()) is not None:
            return refused(self.session, refusal, self._doors.part.known.view)
        journal = step.standing.journal
        kind = EffectKind.TOOL if journal.live is None else kind_of(journal.live)
        position = journal.settled
        effect = effect_id(self.session, position)
        found = said(self._standing.journal, journal, kind=kind, begun_here=self._running == effect)
        if found.starts:
            assert journal.live is not None
            effects = {effect_id(self.session, at): progress for at, progress in found.effects.items()}
            refusal = self._doors.may_start(effect, kind, journal.live.request, effects)
            if refusal is not None and refusal.why is Why.WAKING:
                raise _WakingError
            if refusal is not None:
                self._write(*self._without_start(step, kind))
                return refused(self.session, refusal, self._doors.part.known.view)
        self._write(step, found.effects)
        if found.starts:
            self._running = effect
        if found.starts and kind is EffectKind.TOOL:
            assert journal.live is not None
            digest = Sha256(sha256(journal.live.request).digest())
            self._pen.intent(token=self._token, position=position, op=journal.live.op, request=digest)
            self.intended = True
        return None

    def _without_start(self, step: Step, kind: EffectKind) -> tuple[Step, Mapping[int, Progress]]:
        journal = not_started(self._standing.journal, step.standing.journal)
        effects = said(self._standing.journal, journal, kind=kind, begun_here=False).effects
        return replace(step, standing=replace(step.standing, journal=journal)), effects

    def _close(self, step: Step) -> UserError:
        """Write what a fenced device owes, the work in hand with it; from now on nothing is saved any more."""
        journal, part = step.standing.journal, self._doors.part
        assert part.leg is not None
        token = part.leg.token
        live = journal.live
        kind = EffectKind.TOOL if live is None else kind_of(live)
        position = journal.settled
        effect = effect_id(self.session, position)
        if live is not None and live.state is State.STARTED and self._running != effect:
            step, effects = self._without_start(step, kind)
        else:
            effects = said(self._standing.journal, journal, kind=kind, begun_here=self._running == effect).effects
        leg = replace(part.leg, running=None, unsaved=step.pause is not None or bool(effects))
        if self._running == effect and live is not None and live.reply is not None:
            leg = replace(leg, replied=(effect, Sha256(sha256(live.reply).digest())))
        self._doors.part = replace(part, leg=leg)
        closed = False
        positions = {effect_id(self.session, at): at for at in range(position + 1)}
        while outputs := decide(self._doors.part, None, now_ms()):
            draft = next(output.draft for output in outputs if isinstance(output, Persist))
            if isinstance(draft, ReceiptDraft):
                self._pen.receipt(token=token, position=positions[draft.effect], reply=draft.reply)
            else:
                assert isinstance(draft, CheckpointDraft)
                of_draft = {positions[one]: progress for one, progress in draft.effects.items()}
                closing = {positions[one]: progress for one, progress in draft.journal.items()}
                self._write(step, {**effects, **of_draft}, closing=closing, token=token)
                closed = True
        listed_step.fenced(self._store, self.session)
        return fenced(self.session, self._doors.part.known.view, closed=closed)

    @property
    def _token(self) -> StatementId:
        token = self._doors.part.known.view.token
        assert token is not None
        return token.id

    def _write(
        self,
        step: Step,
        effects: Mapping[int, Progress],
        *,
        closing: Mapping[int, Progress] | None = None,
        token: StatementId | None = None,
    ) -> None:
        """Write one checkpoint with its record, and what a list says of the session."""
        under = token or self._token
        appended, recorded = self._recorded.after(step)
        logs = {LOG: appended}
        pause = step.pause
        if pause is not None and pause.emitted:
            logs[TRANSCRIPT] = pause.emitted
        signed: list[Signed] = []

        def sign(bare: Checkpoint) -> bytes:
            signed.append(self._pen.checkpoint(bare, token=under, effects=effects, journal=closing))
            return signed[0].raw

        live = step.standing.journal.live
        turn = _is_turn(step)
        if live is not None and live.state is State.ANSWERED and live.op in _SPOKEN and live.reply is not None:
            findings.of_text(self._store, self.session, live.index, live.reply)
        self._line.checkpoint(
            snapshot=None if pause is None else pause.snapshot,
            changed=None if pause is None else pause.changed,
            logs=logs,
            journal=step.standing.journal.settled,
            workspace=self.workspace,
            brought=() if self.captures is None else self.captures.brought(),
            turn=turn,
            sign=sign,
            reserve=live is not None and live.state is State.ANSWERED,
        )
        self._pen.written(signed[0])
        at_ms, folder = signed[0].body.at_ms, self.owner.folder
        listed_step.stepped(self._store, self.session, step.standing, turn=turn, folder=folder, at_ms=at_ms)
        self._standing, self._recorded = step.standing, recorded


class _WakingError(Exception):
    """It may be that others know more, and they can still be heard: nothing was written."""


def doubted_by(view: View, session: SessionId, standing: Standing) -> Standing:
    """`standing`, its effect marked as perhaps begun if the lines and intents that are known here say so."""
    entry = standing.journal.pending
    if entry is None or entry.state is not State.ASKED or kind_of(entry) is not EffectKind.TOOL:
        return standing
    if effect_id(session, entry.index) not in view.uncertain:
        return standing
    return replace(standing, journal=standing.journal.start().doubt())


def _is_turn(step: Step) -> bool:
    """Whether the program finished with this step, or waits for the person."""
    pause = step.pause
    return pause is not None and (pause.at is At.FINISHED or (pause.asked is not None and pause.asked.op == "input"))
