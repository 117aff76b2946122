"""A log that grows by small appends has few chunks, and the same bytes at every moment, whoever goes on with it."""

from __future__ import annotations

import random

import pytest
from tests.store.conftest import ALICE

from hhd.store.check import Check
from hhd.store.log_writer import JOINED_BYTES, JOINED_CHUNKS_MIN, LIST_APPENDS, LogWriter
from hhd.store.store import Store
from hhd_protocol.limits import LOG_CHUNK_BYTES_MAX
from hhd_protocol.objects import Ref


@pytest.fixture(autouse=True)
def _alice(store: Store) -> None:
    store.create_session(ALICE)


def writer(store: Store, last: Ref | None = None) -> LogWriter:
    return store.log_writer(store.session(ALICE).family, store.keep, last)


def read(store: Store, ref: Ref) -> bytes:
    return b"".join(store.reader(store.session(ALICE).family).log(ref))


def chunks(store: Store, ref: Ref) -> list[int]:
    return [one.length for one in store.reader(store.session(ALICE).family).log_chunks(ref)]


def test_thousands_of_appends_are_few_chunks_and_read_back_at_every_one(store: Store) -> None:
    rng, log, whole, seen = random.Random(3), writer(store), b"", []
    with store.transaction():
        for _ in range(1500):
            piece = rng.randbytes(rng.choice((1, 40, 700)))
            whole += piece
            seen.append((log.append(piece), len(whole)))
            assert log.size == len(whole)
    assert len(chunks(store, seen[-1][0])) < LIST_APPENDS + len(whole) // JOINED_BYTES + 2
    for ref, length in seen[::37]:
        assert read(store, ref) == whole[:length]
    assert Check(store, read_data=True).run().findings == []


def test_whoever_goes_on_joins_what_others_left(store: Store) -> None:
    whole, last = b"", None
    for n in range(3 * JOINED_CHUNKS_MIN):
        with store.transaction():
            piece = b"%d\n" % n * 20
            whole += piece
            last = writer(store, last).append(piece)
        assert read(store, last) == whole
        assert len(chunks(store, last)) <= JOINED_CHUNKS_MIN + 1


def test_large_chunks_stay_as_they_are_and_none_passes_its_bound(store: Store) -> None:
    rng, log, whole = random.Random(4), writer(store), b""
    with store.transaction():
        for n in range(200):
            piece = rng.randbytes(JOINED_BYTES - 1 if n % 50 else LOG_CHUNK_BYTES_MAX)
            whole += piece
            ref = log.append(piece)
    found = chunks(store, ref)
    assert max(found) <= LOG_CHUNK_BYTES_MAX and found.count(LOG_CHUNK_BYTES_MAX) >= 4
    assert read(store, ref) == whole
    assert sum(map(len, log._recent.values())) <= LIST_APPENDS * JOINED_BYTES


def test_a_chunk_is_sealed_a_few_times_and_not_at_every_append(store: Store) -> None:
    sealed = [0]
    log = LogWriter(
        store.family(ALICE),
        lambda ref, raw: (sealed.__setitem__(0, sealed[0] + len(raw)), store.keep(ref, raw))[1],
        store.random,
        reader=store.reader(store.session(ALICE).family),
    )
    rng, total = random.Random(5), 0
    with store.transaction():
        for _ in range(2000):
            piece = rng.randbytes(300)
            total += len(piece)
            log.append(piece)
    assert total < sealed[0] < 5 * total, "joined twice or three times on its way to a chunk of full size"
