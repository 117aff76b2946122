"""The log of a session's steps, read whole or damaged; and bytes of a memory found in its pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.base.errors import UserError
from hhd.node.recording import first
from hhd.node.step_log import StepLog, read_memory
from hhd.store.errors import DamagedStoreError
from hhd_protocol.abi import Snapshot
from hhd_protocol.ids import EpochId, ObjectName, Sha256
from hhd_protocol.journal import State
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.logs import Chunk
from hhd_protocol.objects import Ref
from hhd_protocol.paused import At, Limits
from hhd_protocol.steps import InMemory, Live, Opening, Place, StepRecord, encode_opening, encode_step

REF = Ref(name=ObjectName(bytes(32)), epoch=EpochId(bytes(32)))
OPENING = Opening(program="agent", module=Sha256(bytes(32)), module_bytes=1, args=b"{}", limits=Limits())


class Pieces:
    """A reader of one log, in pieces of 100 bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def log_chunks(self, ref: Ref) -> list[Chunk]:
        return [Chunk(ref, slot, len(self.raw[at : at + 100])) for slot, at in enumerate(range(0, len(self.raw), 100))]

    def log(self, ref: Ref, start: int = 0, *, chunks: Sequence[Chunk]) -> Iterator[bytes]:
        assert sum(chunk.length for chunk in chunks) == len(self.raw), "the list was read once"
        for at in range(start, len(self.raw), 100):
            yield self.raw[at : at + 100]


def log_of(raw: bytes) -> StepLog:
    reader: Any = Pieces(raw)
    return StepLog(reader, REF)


def snapshot(numbers: list[int], *sizes: int) -> Snapshot:
    """Pages whose bytes are their own number, in pieces of `sizes` pages."""
    pages = [bytes([number]) * PAGE_BYTES for number in numbers]
    pieces, at = [], 0
    for size in sizes or (len(pages),):
        pieces.append(b"".join(pages[at : at + size]))
        at += size
    return Snapshot(
        entry="e", memory_bytes=1 << 20, page_numbers=numbers, pages=pieces, globals={}, asyncify_stack_bytes=1
    )


REQUEST = bytes([3]) * 10 + bytes([4]) * 10
ADDRESS = 4 * PAGE_BYTES - 10


def whole() -> bytes:
    """A log of three records: fresh, one that waits with a request in memory, one that runs on with its reply."""
    raw, recorded = first(encode_opening(OPENING), At.FRESH)
    where = InMemory(address=ADDRESS, length=len(REQUEST), digest=Sha256(sha256(REQUEST).digest()))
    live = Live(op="tool", request=where, state=State.ASKED, starts=0, reply=None, approval=None, cancelled=False)
    asked = dataclasses.replace(recorded.record, before=len(raw), at=At.EFFECT, steps=1, live=live)
    raw += encode_step(asked)
    reply = Place(start=len(raw), length=5)
    answered = dataclasses.replace(live, request=b"x", state=State.ANSWERED, starts=1, reply=reply)
    raw += b"reply" + encode_step(dataclasses.replace(asked, before=len(raw), at=At.INTERRUPTED, live=answered))
    return raw


RAW = whole()
MEMORY = snapshot([3, 4, 7])


def test_records_are_found_from_the_end_of_the_log() -> None:
    log = log_of(RAW)
    records = list(log.records())
    assert log.last() == records[0] and [record.at for record in records] == [At.INTERRUPTED, At.EFFECT, At.FRESH]
    assert log.opening(records[0]) == OPENING
    reply = log.journal(records[0], MEMORY).live
    assert reply is not None and reply.reply == b"reply"
    asked = log.journal(records[1], MEMORY).pending
    assert asked is not None and asked.request == REQUEST


def test_a_request_that_is_not_in_the_memory_is_damage() -> None:
    log = log_of(RAW)
    asked = list(log.records())[1]
    for memory in (None, snapshot([3]), snapshot([3, 5])):
        with pytest.raises(DamagedStoreError, match="not in its memory"):
            log.journal(asked, memory)
    assert log.journal(asked, snapshot([3, 4], 1, 1)).pending is not None


@given(
    cut=st.integers(0, len(RAW)),
    flips=st.lists(st.tuples(st.integers(0, len(RAW) - 1), st.integers(0, 255)), max_size=4),
    more=st.binary(max_size=8),
)
def test_a_damaged_log_ends_in_one_sentence_whatever_its_bytes_are(
    cut: int, flips: list[tuple[int, int]], more: bytes
) -> None:
    raw = bytearray(RAW)
    for at, to in flips:
        raw[at] = to
    log = log_of(bytes(raw[:cut]) + more)
    seen: list[StepRecord] = []
    try:
        seen.append(log.last())
        seen += log.records()
        for record in seen:
            log.opening(record)
            log.journal(record, MEMORY)
    except UserError as error:
        assert str(error).endswith(".")
    else:
        assert len(seen) <= 4


@given(
    numbers=st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=12).map(sorted),
    address=st.integers(0, 41 * PAGE_BYTES),
    length=st.integers(0, 3 * PAGE_BYTES),
    cut=st.integers(1, 12),
)
def test_bytes_of_a_memory_are_those_of_its_pages_or_not_there(
    numbers: list[int], address: int, length: int, cut: int
) -> None:
    memory = snapshot(numbers, cut, max(0, len(numbers) - cut))
    wanted = range(address // PAGE_BYTES, (address + max(length, 1) - 1) // PAGE_BYTES + 1)
    flat = b"".join(bytes([number % 256]) * PAGE_BYTES for number in range(60))
    expected = flat[address : address + length] if set(wanted) <= set(numbers) else None
    assert read_memory(memory, address, length) == expected
