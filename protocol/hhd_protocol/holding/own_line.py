"""What one store has signed in a session, from its first statement there to its last."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.ids import EffectId, StatementId
from hhd_protocol.statements import Checkpoint, Fact, Intent, Progress, Statement


class OwnLine:
    """The statements that a tip leads to, with what they say last.

    `sound`: how many are well signed. `ends`: by token, the last checkpoint made under it. `missing`: what the first
    one follows that is not here, None if it is the first of all.
    """

    def __init__(self) -> None:
        self.tip: StatementId | None = None
        self.ids: set[StatementId] = set()
        self.sound = 0
        self.ends: dict[StatementId, StatementId] = {}
        self._begun: dict[tuple[StatementId, EffectId], bool] = {}
        self.missing: StatementId | None = None

    def lead(self, tip: StatementId | None, statements: Mapping[StatementId, Fact]) -> bool:
        """Go on to `tip`; False, and nothing done, if it does not follow upon where this line ends."""
        if self.missing in statements:
            return False
        fresh: list[Fact] = []
        at = tip
        while at != self.tip and at is not None and (statement := statements.get(at)) is not None:
            fresh.append(statement)
            at = statement.after
        if at != self.tip and self.ids:
            return False
        self.missing = at if at != self.tip else self.missing
        for statement in reversed(fresh):
            self._say(statement)
        return True

    def begun(self, effect: EffectId, token: StatementId) -> bool:
        """Whether it says, under `token`, that `effect` starts, and does not take that back."""
        return self._begun.get((token, effect), False)

    def _say(self, statement: Statement) -> None:
        self.tip = statement.id
        self.ids.add(statement.id)
        self.sound += statement.signature_good
        if isinstance(statement, Checkpoint):
            self.ends[statement.token] = statement.id
            for effect, said in statement.effects.items():
                self._begun[statement.token, effect] = said is Progress.STARTED
        elif isinstance(statement, Intent):
            self._begun[statement.token, statement.effect] = True
