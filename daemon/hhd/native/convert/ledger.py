"""The account that a conversion keeps while it runs: what was changed, lost or left out, with places on both sides."""

from __future__ import annotations

import msgspec

from hhd_protocol.transcript import At, Did, Loss, LossKind

LOSSES_MAX = 20_000
"""Losses located one by one; past it like ones are counted together with the first one's place."""


class Ledger:
    """Gathers losses; those of an item that is written get their target when its line is known."""

    def __init__(self) -> None:
        self._losses: list[Loss] = []
        self._gathered: dict[tuple[LossKind, Did, str], int] = {}
        self.waiting: dict[tuple[int, int, int], list[int]] = {}
        """Changes whose item has not been written yet, by the place of the item in the source."""

    def note(self, kind: LossKind, did: Did, why: str, source: At | None, *, count: int = 1) -> None:
        """Something of `source` was changed, lost or left out; `why` holds no text of the session."""
        if len(self._losses) < LOSSES_MAX:
            if did is Did.CHANGED and source is not None:
                self.waiting.setdefault((source.file, source.line, source.part), []).append(len(self._losses))
            self._losses.append(Loss(kind=kind, did=did, why=why, source=source, count=count))
            return
        key = (kind, did, why)
        known = self._gathered.get(key)
        if known is None:
            self._gathered[key] = len(self._losses)
            self._losses.append(Loss(kind=kind, did=did, why=why, source=source, count=count))
        else:
            old = self._losses[known]
            self._losses[known] = msgspec.structs.replace(old, count=old.count + count)

    def placed(self, at: At, line: int) -> None:
        """The item that comes from `at` stands in `line` of the target."""
        for n in self.waiting.pop((at.file, at.line, at.part), ()):
            self._losses[n] = msgspec.structs.replace(self._losses[n], target=At(0, line))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """All losses, in the order in which they were found."""
        return tuple(self._losses)
