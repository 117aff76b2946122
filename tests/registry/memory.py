"""A shelf in memory, for registries without a store."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from hhd.registry.registry import Registry
from hhd.registry.shelf import Kept, Shown
from hhd_protocol.ids import DeviceId

NOTHING = Shown(sessions={}, names={}, questions=0, whole=True)


class Memory:
    """Keeps pieces as they are; a transaction that fails leaves what was before it."""

    def __init__(self, name: str = "laptop", seed: int = 0) -> None:
        dice = random.Random(f"{name} {seed}")
        self.device, self.random = DeviceId(random.Random(name).randbytes(32)), dice.randbytes
        self.pieces: list[bytes] = []
        self.marked: bytes | None = None
        self.shown, self.shown_mark, self.lost = NOTHING, b"", 0
        self._depth = 0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        before = list(self.pieces), self.marked, self.shown, self.shown_mark
        self._depth += 1
        try:
            yield
        except BaseException:
            self.pieces, self.marked, self.shown, self.shown_mark = before
            raise
        finally:
            self._depth -= 1

    def mark(self) -> bytes | None:
        return self.marked

    def kept(self) -> Kept:
        return Kept(pieces=list(self.pieces), lost=self.lost)

    def append(self, piece: bytes, mark: bytes) -> None:
        assert self._depth
        self.pieces.append(piece)
        self.marked = mark

    def replace(self, piece: bytes, mark: bytes) -> None:
        assert self._depth
        self.pieces, self.marked = [piece], mark

    def show(self, shown: Shown, mark: bytes) -> None:
        assert self._depth and mark == self.marked
        sessions = shown.sessions if shown.whole else {**self.shown.sessions, **shown.sessions}
        self.shown = Shown(sessions=sessions, names=shown.names, questions=shown.questions, whole=True)
        self.shown_mark = mark

    def still_shown(self) -> Shown:
        return self.shown


def registry(name: str = "laptop", seed: int = 0) -> tuple[Registry, Memory]:
    shelf = Memory(name, seed)
    return Registry(shelf), shelf
