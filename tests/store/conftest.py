"""Stores and sessions for the tests of the store."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hhd.store.store import Limits, Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.ids import SessionId
from hhd_protocol.limits import PAGE_BYTES

SEED = bytes(range(32))
ALICE, BOB = (SessionId(hashlib.sha256(name).digest()) for name in (b"alice", b"bob"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as opened:
        yield opened


_WORDS = b" ".join(b"%x" % number for number in random.Random(7).choices(range(1 << 14), k=20_000))


class Memory:
    """A guest's memory that changes: what a snapshot of it would hold, page by page."""

    def __init__(self, pages: int, seed: int = 0) -> None:
        self.dice = random.Random(seed)
        self.pages = {number: self.text() for number in range(pages)}

    def text(self) -> bytes:
        parts = (self.dice.randrange(len(_WORDS) - 256) for _ in range(PAGE_BYTES // 256))
        return b"".join(_WORDS[at : at + 256] for at in parts)

    def edit(self, count: int) -> list[int]:
        """Change a little of `count` pages; return their numbers."""
        chosen = sorted(self.dice.sample(sorted(self.pages), min(count, len(self.pages))))
        for number in chosen:
            at = self.dice.randrange(PAGE_BYTES - 20)
            self.pages[number] = self.pages[number][:at] + self.dice.randbytes(20) + self.pages[number][at + 20 :]
        return chosen

    def rewrite(self, count: int) -> list[int]:
        """Replace `count` pages; return their numbers."""
        chosen = sorted(self.dice.sample(sorted(self.pages), min(count, len(self.pages))))
        self.pages |= {number: self.text() for number in chosen}
        return chosen

    def snapshot(self) -> Snapshot:
        numbers = sorted(self.pages)
        return Snapshot(
            entry="hhd_run",
            memory_bytes=64 * 1024 * 1024,
            page_numbers=numbers,
            pages=[b"".join(self.pages[number] for number in numbers)],
            globals={"g0": len(numbers), "stack": 2**63},
            asyncify_stack_bytes=96,
        )


def flat(snapshot: Snapshot) -> dict[int, bytes]:
    """Return the pages of a snapshot by number."""
    joined = b"".join(snapshot.pages)
    return {n: joined[i * PAGE_BYTES : (i + 1) * PAGE_BYTES] for i, n in enumerate(snapshot.page_numbers)}
