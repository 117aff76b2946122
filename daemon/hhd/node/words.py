"""A person's words on the effect that a session waits with, said while nothing runs; used once, when it goes on here.

A word is bound to the very effect it was said of: its place in the journal, its request, and how often it had been
begun by then. So a word "again" runs it once more and not twice, and an approval is of the text that was shown: it
counts where the same text would be asked about again, in the same folder and under the same rules. Words are kept for
this device alone and never travel.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from hhd.effects.approvals import Answer, Choice, Question
from hhd.effects.executor import HowSettled, Settlement
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.ids import SessionId, Sha256
from hhd_protocol.journal import Entry

WORDS, ANSWERS = "words", "answers"
"""Tables of rows, by session: what was said of an effect that may have run, and to a question."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words that are kept for `session`."""

    store: Store
    session: SessionId

    def keep_settlement(self, entry: Entry, how: HowSettled) -> None:
        """Keep what a person said of `entry`, which may have run: that it did not, or is to run again."""
        assert how is not HowSettled.RAN, "what ran is recorded at once, with what it said"
        self.store.rows.put(WORDS, b"", self.session, encode([1, *_bound(entry), how.value]))

    def settlement(self, entry: Entry) -> Settlement | None:
        """What was said of `entry`; None if nothing was, or of another."""
        raw = self.store.rows.get(WORDS, b"", self.session)
        match decoded(raw, "a person's word") if raw is not None else None:
            case [1, index, request, starts, str(how)] if [index, request, starts] == _bound(entry):
                return Settlement(how=HowSettled(how))
        return None

    def keep_answer(self, entry: Entry, answer: Answer) -> None:
        """Keep a person's answer to the question about `entry`."""
        agreed = answer.choice is not Choice.NO
        value: list[Value] = [1, *_bound(entry), agreed, answer.seen, answer.message]
        self.store.rows.put(ANSWERS, b"", self.session, encode(value))

    def answer(self, entry: Entry, question: Question) -> Answer | None:
        """The answer to `question` about `entry`; None if none was given, or to another text."""
        raw = self.store.rows.get(ANSWERS, b"", self.session)
        match decoded(raw, "a person's answer") if raw is not None else None:
            case [1, index, request, starts, bool(agreed), bytes(seen), str(message)] if [
                index,
                request,
                starts,
            ] == _bound(entry) and seen == question.shown:
                return Answer(choice=Choice.YES if agreed else Choice.NO, seen=Sha256(seen), message=message)
        return None

    def answers(self, pending: Callable[[], Entry | None]) -> Callable[[Question], Answer | None]:
        """What a run asks before it asks the person; `pending`: the effect that waits then."""

        def before(question: Question) -> Answer | None:
            entry = pending()
            return None if entry is None else self.answer(entry, question)

        return before


def reply_of(output: str, entry: Entry | None) -> bytes:
    """The reply that a person gives for an effect: what it said, as its op has it."""
    if entry is not None and entry.op == "tool":
        return json.dumps({"is_error": False, "output": output}).encode()
    return output.encode("utf-8", "replace")


def _bound(entry: Entry) -> list[Value]:
    return [entry.index, sha256(entry.request).digest(), entry.starts]
