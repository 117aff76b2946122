"""The disk of a simulated device that also keeps the journals of handoffs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from tests.sim.device import Disk

from hhd_protocol.handoff import Record, Stage, recover
from hhd_protocol.ids import TransferId


@dataclass
class HandoffDisk(Disk):
    """`journals`: the records of each handoff, as they became durable."""

    journals: dict[TransferId, list[Record]] = field(default_factory=dict)

    def copy(self) -> HandoffDisk:
        plain = super().copy()
        said = {one.name: getattr(plain, one.name) for one in fields(Disk)}
        return HandoffDisk(**said, journals={transfer: list(kept) for transfer, kept in self.journals.items()})

    def keep(self, record: Record) -> None:
        """Add a record; one of the stage that the journal ends in takes that one's place."""
        kept = self.journals.setdefault(record.transfer, [])
        if kept and kept[-1].stage is record.stage:
            kept.pop()
        kept.append(record)

    def stage(self, transfer: TransferId) -> Stage:
        """How far the handoff came, as this disk says."""
        record = recover(self.journals.get(transfer, []))
        return Stage.NONE if record is None else record.stage
