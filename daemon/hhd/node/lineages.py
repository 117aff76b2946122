"""Everything that is here of one session's lineage: its statements, checked, and what they mean together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from hhd.node.members import Member
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.fencing import View
from hhd_protocol.holding import Known
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Record


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The statements of `session`, in the order they came by kind, and what those mean whose signature holds."""

    session: SessionId
    signed: tuple[Signed, ...]
    known: Known

    @property
    def view(self) -> View:
        """Owner, heads and what else follows from the whole set."""
        return self.known.view

    @cached_property
    def bodies(self) -> Mapping[CheckpointId, CheckpointBody]:
        """What is said in each checkpoint's statement."""
        return {CheckpointId(one.id): one.body for one in self.signed if isinstance(one.body, CheckpointBody)}

    @cached_property
    def heads(self) -> list[CheckpointId]:
        """The heads, the tip of the owner's line first, then as their ids order."""
        main = self.view.main
        return sorted(map(CheckpointId, self.view.heads), key=lambda id: (id != main, id))

    @cached_property
    def unsorted(self) -> list[CheckpointId]:
        """Tips of what is kept and is no head: held or sealed, and without a child; nothing kept goes unseen."""
        parents = {parent for body in self.bodies.values() for parent in body.parents}
        aside = self.view.held | self.view.sealed
        return sorted(id for id in self.bodies if id in aside and id not in parents)

    def number(self, token: StatementId) -> int | None:
        """The number of the token whose record is `token`; None while that is not here."""
        record = self.known.statements.get(token)
        return record.number if isinstance(record, Record) else None

    def ancestors(self, start: CheckpointId) -> Iterator[CheckpointId]:
        """`start` and what it stands on, nearest first, as far as it is here; each once."""
        seen = {start}
        layer = [start]
        while layer:
            following: list[CheckpointId] = []
            for one in layer:
                body = self.bodies.get(one)
                if body is None:
                    continue
                yield one
                following += [parent for parent in body.parents if parent not in seen]
                seen.update(body.parents)
            layer = following

    def fork_point(self, one: CheckpointId, other: CheckpointId) -> CheckpointId | None:
        """The nearest checkpoint that both stand on; None where they have none in common here."""
        line = set(self.ancestors(one))
        return next((id for id in self.ancestors(other) if id in line), None)

    def past(self, head: CheckpointId, fork: CheckpointId | None) -> list[CheckpointId]:
        """The checkpoints that `head` stands on and `fork` does not, `head` first."""
        before = set() if fork is None else set(self.ancestors(fork))
        return [id for id in self.ancestors(head) if id not in before]


def lineage_of(store: Store, session: SessionId, members: Mapping[DeviceId, Member]) -> Lineage:
    """Return what is here of `session`'s lineage, every signature checked; raises MissingError, DamagedStoreError."""
    store.session(session)
    with store.snapshot():
        signed = tuple(store.statements.all(session))
    facts = {one.id: lineage.fact(one, _holds(one, members)) for one in signed}
    roles = {device: member.role for device, member in members.items()}
    known = Known(session=StatementId(session), members=roles, statements=facts)
    return Lineage(session=session, signed=signed, known=known)


def _holds(signed: Signed, members: Mapping[DeviceId, Member]) -> bool:
    """Whether the signature holds; of an unknown signer it cannot be told, so what they say is held, not refused."""
    member = members.get(signed.body.by)
    return member is None or lineage.verify(signed, member.public)
