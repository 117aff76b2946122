"""Every statement of one session that is here, with what they mean together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hhd_protocol import fencing
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import Checkpoint, EffectKind, Fact, Progress, Role


@dataclass(frozen=True, kw_only=True)
class Known:
    """Every statement of one session that is here, its own included, and who the members are."""

    session: StatementId
    members: Mapping[DeviceId, Role]
    statements: Mapping[StatementId, Fact]
    kinds: Mapping[EffectId, EffectKind] = field(default_factory=dict)

    def plus(self, statements: Iterable[Fact]) -> Known:
        """The same with `statements`; the very same when all of them are here."""
        fresh = {statement.id: statement for statement in statements if statement.id not in self.statements}
        return replace(self, statements={**self.statements, **fresh}) if fresh else self

    @cached_property
    def view(self) -> fencing.View:
        """What the statements mean."""
        found = fencing.Resolved(
            session=self.session, members=self.members, facts=self.statements.values(), kinds=self.kinds
        )
        return found.view

    def progress(self, head: StatementId | None) -> dict[EffectId, Progress]:
        """How far each effect came on the line that ends at `head`."""
        line: list[Checkpoint] = []
        seen: set[StatementId] = set()
        stack = [(head, False)]
        while stack:
            id, expanded = stack.pop()
            checkpoint = self.statements.get(id) if id is not None else None
            if not isinstance(checkpoint, Checkpoint):
                continue
            if expanded:
                line.append(checkpoint)
            elif checkpoint.id not in seen:
                seen.add(checkpoint.id)
                stack.append((checkpoint.id, True))
                stack.extend((parent, False) for parent in checkpoint.parents)
        found: dict[EffectId, Progress] = {}
        for checkpoint in line:
            found.update(checkpoint.effects)
        return found
