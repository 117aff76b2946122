"""The ends of a session are those without a child, whether they are remembered or found anew."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.node.lines import Made, made, turn

from hhd.node import ends as module
from hhd.node import store as door
from hhd.node.ends import ENDS, ends
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(module, "SLOW", 3)
    with door.opened() as opened:
        yield opened


def grown(found: Made, rng: random.Random, ids: list[CheckpointId]) -> None:
    on = rng.choice(ids) if ids and rng.random() < 0.6 else (ids[-1] if ids else None)
    ids.append(found.work([turn(len(ids))], on=on))


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_without_a_child_at_every_moment(store: Store, seed: int) -> None:
    rng, found, ids = random.Random(seed), made(store), list[CheckpointId]()
    remembered = 0
    for _ in range(25):
        grown(found, rng, ids)
        if rng.random() < 0.5:
            assert ends(store, found.id) == store.heads(found.id)
            remembered += store.rows.get(ENDS, b"", found.id) is not None
    assert remembered, "some of it was remembered"
    assert ends(store, found.id) == ends(store, found.id) == store.heads(found.id)


def test_only_what_came_since_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(store, says=[turn(n) for n in range(10)])
    assert len(ends(store, found.id)) == 1
    read: list[CheckpointId] = []
    real = store.checkpoint
    monkeypatch.setattr(store, "checkpoint", lambda id: read.append(id) or real(id))  # type: ignore[func-returns-value]
    (end,) = ends(store, found.id)
    assert not read
    on = found.work([turn(11)], on=end)
    read.clear()
    assert ends(store, found.id) == [on] and read == [on]


@pytest.mark.parametrize("raw", [b"", b"no value", b"\x80", b"\x85\x01\x18\x63\x40\x40\x40"])
def test_a_copy_that_does_not_fit_is_made_anew(store: Store, raw: bytes) -> None:
    found = made(store, says=[turn(n) for n in range(5)])
    store.rows.put(ENDS, b"", found.id, raw)
    assert ends(store, found.id) == store.heads(found.id)
