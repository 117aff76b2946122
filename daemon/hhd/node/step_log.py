"""The log of a stored session's steps, read: the newest record, the ones before it, and the bytes they name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import sha256

from hhd.store.errors import DamagedStoreError
from hhd.store.reading import Reader
from hhd_protocol import journal, steps
from hhd_protocol.abi import Snapshot
from hhd_protocol.errors import FormatError
from hhd_protocol.journal import Entry, Journal
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.objects import Ref
from hhd_protocol.steps import InMemory, Live, Opening, Place, StepRecord

LOG = "journal"


class StepLog:
    """The log of one checkpoint. Its methods raise DamagedStoreError where it is not what it should be."""

    def __init__(self, reader: Reader, ref: Ref) -> None:
        self._reader, self._ref = reader, ref
        self._chunks = reader.log_chunks(ref)
        self.size = sum(chunk.length for chunk in self._chunks)

    def last(self) -> StepRecord:
        """The newest record."""
        return self._record(self.size)

    def records(self) -> Iterator[StepRecord]:
        """Every record, the newest first."""
        whole = b"".join(self._reader.log(self._ref, chunks=self._chunks))
        end: int | None = self.size
        while end is not None:
            record = _decoded(whole, end)
            if record.before is not None and record.before >= end:
                raise DamagedStoreError("The log of a session's steps does not go back to its beginning.")
            yield record
            end = record.before

    def opening(self, record: StepRecord) -> Opening:
        """What stays the same for the life of the session."""
        try:
            return steps.decode_opening(self.at(record.opening))
        except FormatError as error:
            raise _damaged(error) from error

    def at(self, place: Place) -> bytes:
        """The bytes of `place`."""
        found: list[bytes] = []
        left = place.length
        for piece in self._reader.log(self._ref, place.start, chunks=self._chunks) if left else ():
            found.append(piece[:left])
            left -= len(found[-1])
            if not left:
                break
        if left:
            raise DamagedStoreError("The log of a session's steps ends before what a record names.")
        return b"".join(found)

    def journal(self, record: StepRecord, snapshot: Snapshot | None) -> Journal:
        """The effect journal at `record`, whole; `snapshot`: the memory there, None where there is none."""
        live = record.live
        if live is None:
            return Journal(settled=record.settled)
        entry = Entry(
            index=record.settled,
            op=live.op,
            request=self._request(live, snapshot),
            state=live.state,
            starts=live.starts,
            reply=None if live.reply is None else self.at(live.reply),
            approval=live.approval,
            cancelled=live.cancelled,
        )
        try:
            journal.decode(journal.encode(Journal(settled=record.settled, live=entry)))
        except FormatError as error:
            raise _damaged(error) from error
        return Journal(settled=record.settled, live=entry)

    def _request(self, live: Live, snapshot: Snapshot | None) -> bytes:
        match live.request:
            case bytes() as request:
                return request
            case Place() as place:
                return self.at(place)
            case InMemory() as where:
                found = None if snapshot is None else read_memory(snapshot, where.address, where.length)
                if found is None or sha256(found).digest() != where.digest:
                    raise DamagedStoreError("The request that the session waits with is not in its memory.")
                return found

    def _record(self, end: int) -> StepRecord:
        tail = self.at(Place(start=max(0, end - steps.TRAILER_BYTES), length=min(end, steps.TRAILER_BYTES)))
        try:
            length = steps.record_bytes(tail) + steps.TRAILER_BYTES
        except FormatError as error:
            raise _damaged(error) from error
        if length > end:
            raise DamagedStoreError("The log of a session's steps is shorter than its newest record.")
        return _decoded(self.at(Place(start=end - length, length=length)), length)


def _decoded(whole: bytes, end: int) -> StepRecord:
    """The record that ends at `end`."""
    try:
        begin = end - steps.TRAILER_BYTES
        length = steps.record_bytes(whole[max(0, begin) : end])
        if length > begin:
            raise FormatError("a record begins before its log")
        return steps.decode_step(whole[begin - length : begin])
    except FormatError as error:
        raise _damaged(error) from error


def read_memory(snapshot: Snapshot, address: int, length: int) -> bytes | None:
    """Bytes of a snapshot's memory; None where a page of them is not in it, or lies outside."""
    first, last = address // PAGE_BYTES, (address + max(length, 1) - 1) // PAGE_BYTES
    numbers = snapshot.page_numbers
    begin = _index(numbers, first)
    if begin is None or begin + last - first >= len(numbers) or numbers[begin + last - first] != last:
        return None
    found = _pages(snapshot, begin, last - first + 1)
    at = address - first * PAGE_BYTES
    return found[at : at + length]


def _index(numbers: Sequence[int], wanted: int) -> int | None:
    index = bisect_left(numbers, wanted)
    return index if index < len(numbers) and numbers[index] == wanted else None


def _pages(snapshot: Snapshot, begin: int, count: int) -> bytes:
    """The contents of `count` pages from number `begin` in the list on."""
    at, left = begin * PAGE_BYTES, count * PAGE_BYTES
    found: list[bytes] = []
    for piece in snapshot.pages:
        view = memoryview(piece).cast("B")
        if at < len(view):
            found.append(bytes(view[at : at + left]))
            left -= len(found[-1])
            at = 0
            if not left:
                break
        else:
            at -= len(view)
    return b"".join(found)


def _damaged(error: FormatError) -> DamagedStoreError:
    return DamagedStoreError(f"The log of a session's steps is damaged: {error}.")
