"""How far something long is in this process: counted where it is done, looked at by who waits for it.

    with watched() as far: ...               # what is done within, in this thread, is counted
    begin("keeping", total); more(len(raw))  # where it is done; without a watcher that is nothing

It goes through no signature: what reads, seals or keeps bytes is called for many reasons, and few are watched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from hhd.base.files import Buffer

T = TypeVar("T", bytes, Buffer)

PIECE_BYTES = 4 * 1024 * 1024
"""At most so much is written between two counts: a tenth of a second on a slow disk."""


class Passing:
    """What is being done, and how many bytes of how many (0: not known) are. Another thread may look at any time."""

    def __init__(self) -> None:
        self.what, self.done, self.total = "", 0, 0

    def so_far(self) -> tuple[int, int]:
        """How many bytes are done, and of how many."""
        return self.done, self.total


_WATCHED: ContextVar[Passing | None] = ContextVar("passing", default=None)


@contextlib.contextmanager
def watched() -> Iterator[Passing]:
    """Count what is done within the block, in this thread."""
    token = _WATCHED.set(far := Passing())
    try:
        yield far
    finally:
        _WATCHED.reset(token)


def is_watched() -> bool:
    """Whether anybody watches what this thread does."""
    return _WATCHED.get() is not None


def begin(what: str, total: int) -> None:
    """From now on `what` is done, with `total` bytes; what was counted before is over."""
    far = _WATCHED.get()
    if far is not None:
        far.what, far.done, far.total = what, 0, total


def more(count: int, *, what: str | None = None) -> None:
    """So many bytes more are done; `what`: only if that is what is done now."""
    far = _WATCHED.get()
    if far is not None and what in (None, far.what):
        far.done += count


def counted(what: str, total: int, parts: Iterable[T]) -> Iterable[T]:
    """`parts`, each counted once the next one is asked for; the same ones where nobody watches."""
    return parts if _WATCHED.get() is None else _each(what, total, parts)


def _each(what: str, total: int, parts: Iterable[T]) -> Iterator[T]:
    begin(what, total)
    for part in parts:
        yield part
        more(len(part))


def cut(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield the same bytes in parts that are counted often enough."""
    for part in parts:
        view = memoryview(part).cast("B")
        for at in range(0, len(view), PIECE_BYTES):
            yield view[at : at + PIECE_BYTES]
