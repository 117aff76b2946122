"""What two heads of a session did past the place where they part.

A long session has tens of thousands of checkpoints, so none of them is walked over: where two lines part is found along
the few ownership records, and what they said apart by the objects that their transcripts do not share.
"""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node import transcripts
from hhd.node.answers.difference import Difference, Side
from hhd.node.changed_files import CALLS, CAPTURES, changed
from hhd.node.devices import Devices
from hhd.node.folding import told
from hhd.node.listing import Listed
from hhd.store.checkpoints import Checkpoint
from hhd.store.errors import MissingError, ThinnedError
from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody, CreateBody, ReleaseBody, TakeoverBody
from hhd_protocol.ids import CheckpointId, StatementId

RECORDS_MAX = 10_000
"""Records walked along: a session that changes hands every minute has that many in a week."""


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A stretch of a line under one token: the last checkpoint of it that the line has, and its number in its chain."""

    token: StatementId
    end: CheckpointId
    number: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Compares checkpoints of the session `listed` in `store`."""

    store: Store
    listed: Listed
    devices: Devices

    def of(self, one: CheckpointId, other: CheckpointId) -> Difference:
        """Return what each did past the place where they part; raises ThinnedError where a content is gone."""
        mine, theirs = self.store.checkpoint(one), self.store.checkpoint(other)
        start = transcripts.shared(self.store, mine, theirs)
        lines = [transcripts.lines(transcripts.parts(self.store, each, start)) for each in (mine, theirs)]
        alike = _alike(*lines)
        fork = self.fork_point(one, other)
        before = self._workspace(fork)
        sides = [self._side(each, own, start, alike, before) for each, own in zip((mine, theirs), lines, strict=True)]
        first = [turn for _, turn in sides if turn is not None]
        return Difference(
            session=self.listed.id.hex(),
            title=self.listed.title,
            fork=None if fork is None else fork.hex(),
            model_calls=min(first) - 1 if first else None,
            one=sides[0][0],
            other=sides[1][0],
        )

    def fork_point(self, one: CheckpointId, other: CheckpointId) -> CheckpointId | None:
        """Return the newest checkpoint that both lines have; None where they have none, or it cannot be told."""
        theirs = {leg.token: leg for leg in self._legs(other)}
        for mine in self._legs(one):
            its = theirs.get(mine.token)
            if its is not None:
                fork = min(mine, its, key=lambda leg: leg.number).end
                return fork if self._stands_on(one, fork) and self._stands_on(other, fork) else self._walked(one, other)
        return None

    def _legs(self, head: CheckpointId) -> list[Leg]:
        """The tokens that the line of `head` was written under, newest first."""
        legs: list[Leg] = []
        at: CheckpointId | None = head
        while at is not None and len(legs) < RECORDS_MAX:
            body = self._body(at)
            if body is None:
                break
            legs.append(Leg(token=body.token, end=at, number=body.seq))
            record = self.store.statements.get(self.listed.id, body.token)
            match record.body if record is not None else None:
                case ReleaseBody(head=before) | TakeoverBody(head=before):
                    at = before
                case CreateBody() | _:
                    at = None
        return legs

    def _stands_on(self, head: CheckpointId, fork: CheckpointId) -> bool:
        """Whether what `fork` said, object by object, is the begin of what `head` said.

        Where a rolled-back disk split a line under one token, numbers alone would name the wrong checkpoint.
        """
        try:
            return transcripts.begins(self.store, self.store.checkpoint(fork), self.store.checkpoint(head))
        except ThinnedError:
            return True
        except MissingError:
            return False

    def _walked(self, one: CheckpointId, other: CheckpointId) -> CheckpointId | None:
        """The same, by every checkpoint of the session."""
        from hhd_protocol.heads import Lines  # Seldom needed, and slow to import.

        signed = self.store.statements.all(self.listed.id)
        bodies = {CheckpointId(each.id): each.body for each in signed if isinstance(each.body, CheckpointBody)}
        return Lines(bodies).fork(one, other)

    def _body(self, checkpoint: CheckpointId) -> CheckpointBody | None:
        signed = self.store.statements.get(self.listed.id, StatementId(checkpoint))
        return signed.body if signed is not None and isinstance(signed.body, CheckpointBody) else None

    def _number(self, token: StatementId) -> int | None:
        record = self.store.statements.get(self.listed.id, token)
        match record.body if record is not None else None:
            case CreateBody():
                return 1
            case ReleaseBody(number=number) | TakeoverBody(number=number):
                return number
            case _:
                return None

    def _workspace(self, checkpoint: CheckpointId | None) -> bytes | None:
        """The capture that a checkpoint names."""
        body = None if checkpoint is None else self._body(checkpoint)
        return None if body is None else body.workspace

    def _side(
        self, checkpoint: Checkpoint, lines: list[bytes], start: int, alike: int, before: bytes | None
    ) -> tuple[Side, int | None]:
        """One side, and the number of its first model call past the parting.

        `lines`: from byte `start` on, the first `alike` of them said on both sides. `before`: the capture at the fork.
        """
        captured = changed(self.store, self.listed.id, before, checkpoint.workspace)
        body = self._body(checkpoint.id)
        said = told(lines[alike:], lambda: [*transcripts.lead(self.store, checkpoint, start), *lines[:alike]])
        side = Side(
            head=checkpoint.id.hex(),
            device=self.devices.shown(body.by if body is not None else self.store.device),
            at_ms=checkpoint.at_ms,
            token=None if body is None else self._number(body.token),
            model_calls=said.model_calls,
            calls=said.calls,
            files=said.files if captured is None else captured,
            files_from=CALLS if captured is None else CAPTURES,
            lines=said.lines,
        )
        return side, said.first_turn


def _alike(one: list[bytes], other: list[bytes]) -> int:
    """How many lines two transcripts begin with alike; a model call that goes on differently is told whole."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    if any(count < len(lines) and not lines[count].startswith(transcripts.TURN) for lines in (one, other)):
        return next((place for place in range(count - 1, -1, -1) if one[place].startswith(transcripts.TURN)), count)
    return count
