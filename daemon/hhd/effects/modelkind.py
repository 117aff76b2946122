"""Model calls as effects: within the session's spending, repeated freely, paused for what the person must mend."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from hhd.effects.approvals import Question
from hhd.effects.cancel import Cancel, Interrupted
from hhd.effects.executor import Ready
from hhd.effects.interrupts import Interrupts
from hhd.effects.model import Model, ModelUnavailable, Watch
from hhd.effects.spend import Purse
from hhd_protocol.journal import Entry


@dataclass(kw_only=True)
class ModelKind:
    """Answers `model` effects of one session.

    `model` gives the model when the first call is made. `position`: how many model calls of the session have been
    answered. `failure`: the latest reason for which a call could not be made.
    """

    model: Callable[[], Model]
    position: Callable[[], int]
    watch: Watch
    purse: Purse
    interrupts: Interrupts
    failure: ModelUnavailable | None = field(default=None, init=False)

    def prepare(self, entry: Entry) -> Ready:
        """A call may be made again, so it needs no question, unless as much was spent as the person allows."""
        spent = self.purse.empty()
        question = None
        if spent is not None:
            question = Question(title=spent, text="Yes allows as much again.")
        return Ready(run=lambda cancel: self._run(entry.request, cancel), repeatable=True, question=question)

    def repeatable(self, request: bytes) -> bool:
        """A model call changes nothing in the world."""
        return True

    def refused(self, entry: Entry, message: str) -> bytes:
        """The reply where the person allows no further calls."""
        error = {"type": "permission_error", "message": f"The person allows no further model calls. {message}".strip()}
        return json.dumps({"error": error, "status": 403}).encode()

    def _run(self, request: bytes, cancel: Cancel) -> bytes:
        if self.purse.empty() is not None:
            self.purse.refill()
        try:
            with self.interrupts.raised():
                model = self.model()
                self.purse.call()  # What has no key or address makes none.
                reply = model.answer(request, position=self.position(), watch=self.watch)
        except KeyboardInterrupt:
            raise Interrupted from None
        except ModelUnavailable as error:
            self.failure = error
            raise
        self.failure = None
        self.purse.reply(reply)
        return reply
