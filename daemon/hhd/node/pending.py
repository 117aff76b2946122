"""The effect that a session waits with, while nothing runs: shown to a person, settled, approved or denied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hhd.base.errors import RefusedError, UsageError
from hhd.effects.approvals import Answer, Choice
from hhd.effects.executor import HowSettled
from hhd.identity.key import Identity
from hhd.node import listing
from hhd.node.answers.decided import Asked, Decided, Uncertain
from hhd.node.face import Nobody
from hhd.node.foreign import described
from hhd.node.kinds import kind_of
from hhd.node.listing import State as Listed
from hhd.node.naming import ID_SHOWN
from hhd.node.opening import stored
from hhd.node.run import Run
from hhd.node.stored_session import StoredSession
from hhd.node.words import Words, reply_of
from hhd.runtime.outcomes import StopFlag
from hhd.store.store import Store
from hhd_protocol.ids import SessionId, Sha256
from hhd_protocol.journal import Entry, State
from hhd_protocol.statements import EffectKind


@dataclass(frozen=True, kw_only=True)
class Pending:
    """What `session` of `store` waits with; `me` is this device."""

    store: Store
    me: Identity
    session: SessionId

    def settle(self, effect: int | None, how: HowSettled, output: str, *, shown: str | None = None) -> Decided:
        """Note a person's word on the effect that may have run; durable when this returns.

        `shown`: SHA-256 in hex of the text that went to their screen, None where the word is by itself. Raises
        RefusedError where nothing of the kind waits, or another than `effect`, or than what was shown.
        """
        with StoredSession(self.store, self.me, self.session) as one:
            entry = self._doubted(one, effect)
            if shown is not None and digest_of(_text(entry)) != shown.lower():
                raise RefusedError(
                    f"What {self._name} waits with is not the text that was shown, so the word does not count; look at "
                    "it again."
                )
            if how is HowSettled.RAN:
                journal = one.standing.journal
                journal = journal.doubt() if entry.state is State.STARTED else journal
                one.record(journal.answer(reply_of(output, entry)))
            else:
                with self.store.transaction():
                    Words(store=self.store, session=self.session).keep_settlement(entry, how)
                    listing.change(self.store, self.session, state=Listed.PAUSED)
        return Decided(session=self.session.hex(), effect=entry.index, op=entry.op, word=how.value)

    def told(self, effect: int | None) -> Uncertain:
        """The effect that may have run; raises RefusedError where none waits that may."""
        with StoredSession(self.store, self.me, self.session) as one:
            entry = self._doubted(one, effect)
        return Uncertain(session=self.session.hex(), effect=entry.index, op=entry.op, text=_text(entry))

    def asked(self, effect: int | None, folder: Path | None) -> Asked:
        """What a person would be asked before the effect runs here, in `folder` or where the session last was at work.

        Raises RefusedError where nothing needs a yes.
        """
        with self._run(folder) as run:
            return self._asked(run, effect)[1]

    def decide(self, effect: int | None, folder: Path | None, *, shown: str, agreed: bool, message: str) -> Decided:
        """Note a person's answer; `shown`: SHA-256 in hex of the text that went to their screen.

        Raises RefusedError where what waits is not what was shown.
        """
        with self._run(folder) as run:
            entry, asked = self._asked(run, effect)
            if asked.shown != shown.lower():
                raise RefusedError(
                    f"What {self._name} waits with is not the text that was shown, so the answer does not count; look "
                    "at it again."
                )
            answer = Answer(
                choice=Choice.YES if agreed else Choice.NO, seen=Sha256(bytes.fromhex(asked.shown)), message=message
            )
            Words(store=self.store, session=self.session).keep_answer(entry, answer)
        word = "approved" if agreed else "denied"
        return Decided(session=self.session.hex(), effect=entry.index, op=entry.op, word=word)

    @contextmanager
    def _run(self, folder: Path | None) -> Iterator[Run]:
        with stored(
            self.store, self.me, self.session, folder=folder, model=None, face=Nobody(), stop=StopFlag()
        ) as run:
            yield run

    def _asked(self, run: Run, effect: int | None) -> tuple[Entry, Asked]:
        entry = self._entry(run.session.standing.journal.pending, effect)
        if _doubtful(entry) and Words(store=self.store, session=self.session).settlement(entry) is None:
            raise RefusedError(
                f"{self._name} waits with effect {entry.index}, which may have run; say what happened first: hhd "
                f"settle {self.session.hex()[:ID_SHOWN]}."
            )
        if run.session.owner.place is None:
            raise RefusedError(
                f"{self._name} was not made here by you; go on with it at a terminal first, where it is shown to you."
            )
        question = run.question()
        if question is None:
            raise RefusedError(f"{self._name} waits with effect {entry.index} ({entry.op}), which needs no yes.")
        return entry, Asked(
            session=self.session.hex(),
            effect=entry.index,
            op=entry.op,
            pages=question.pages,
            shown=question.shown.hex(),
        )

    def _entry(self, entry: Entry | None, effect: int | None) -> Entry:
        if entry is None:
            raise RefusedError(f"{self._name} waits with no effect, so there is nothing to decide.")
        if effect is not None and effect != entry.index:
            raise RefusedError(f"{self._name} waits with effect {entry.index}, not with {effect}.")
        return entry

    def _doubted(self, one: StoredSession, effect: int | None) -> Entry:
        entry = self._entry(one.standing.journal.pending, effect)
        if not _doubtful(entry):
            raise RefusedError(f"{self._name} waits with effect {entry.index}, of which nothing is uncertain.")
        return entry

    @property
    def _name(self) -> str:
        return f"Session {self.session.hex()[:ID_SHOWN]}"


def effect_number(text: str | None) -> int | None:
    """The number of an effect, as 'hhd log' prints it; raises UsageError."""
    if text is None:
        return None
    digits = text.removeprefix("#")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise UsageError("An effect is named by its number, as 'hhd log' prints it.")
    return int(digits)


def how_settled(text: str) -> HowSettled:
    """What a person may say of an effect that may have run; raises UsageError for anything else."""
    try:
        return HowSettled(text)
    except ValueError:
        words = ", ".join(one.value for one in HowSettled)
        raise UsageError(f"What became of an effect is one of: {words}.") from None


def digest_of(text: str) -> str:
    """What stands for a text that went to a screen: SHA-256 in hex."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(entry: Entry) -> str:
    return "\n".join(described(entry))


def _doubtful(entry: Entry) -> bool:
    return entry.state in (State.STARTED, State.UNCERTAIN) and kind_of(entry) is EffectKind.TOOL
