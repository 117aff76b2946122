"""The catalogue holds what was put, in few rows, and its damage costs nothing but making it again."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.store.catalogue import BLOCK_VALUES, CATALOGUE, Catalogue
from hhd.store.check import Check
from hhd.store.errors import DamagedStoreError
from hhd.store.repair import repair
from hhd.store.store import Limits, Store
from hhd_protocol.ids import SessionId

from .conftest import SEED


def _session(number: int) -> SessionId:
    return SessionId(hashlib.sha256(b"%d" % number).digest())


def _corrupt(store: Store, position: int) -> None:
    name = store.rows.name(CATALOGUE, b"", position.to_bytes(8, "big"))
    with store.transaction():
        assert store.database.write("UPDATE rows SET sealed=zeroblob(length(sealed)) WHERE name=?", name)


def _vanish(store: Store, position: int) -> None:
    name = store.rows.name(CATALOGUE, b"", position.to_bytes(8, "big"))
    with store.transaction():
        assert store.database.write("DELETE FROM rows WHERE name=?", name)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_it_holds_exactly_what_was_put_and_not_removed(seed: int, sessions: int) -> None:
    import tempfile

    dice, expected = random.Random(seed), dict[SessionId, bytes]()
    with tempfile.TemporaryDirectory() as folder:
        with Store.open(Path(folder) / "store", seed=SEED, limits=Limits(free_bytes_min=0)) as store:
            with store.transaction():
                for _ in range(200):
                    session = _session(dice.randrange(sessions * 15))
                    if dice.random() < 0.25:
                        assert store.catalogue.remove(session) == (expected.pop(session, None) is not None)
                    else:
                        expected[session] = dice.randbytes(dice.randrange(300))
                        store.catalogue.put(session, expected[session])
            assert store.catalogue.entries() == expected
            assert all(store.catalogue.get(_session(n)) == expected.get(_session(n)) for n in range(sessions * 15))
            assert not Check(store).run().findings
        with Store.open(Path(folder) / "store", seed=SEED) as store:
            assert store.catalogue.entries() == expected


def test_a_block_holds_two_dozen_and_no_session_ever_many_rows(store: Store) -> None:
    with store.transaction():
        for number in range(1000):
            store.catalogue.put(_session(number), b"x" * 160)
        for _ in range(100):
            store.catalogue.put(_session(0), b"changed again and again")
    blocks = store.rows.ledger(b"")[CATALOGUE]
    assert 1000 / BLOCK_VALUES < blocks < 3 * 1000 / BLOCK_VALUES
    store.catalogue.refill(store.catalogue.entries().items())
    assert store.rows.ledger(b"")[CATALOGUE] <= blocks
    assert len(store.catalogue.entries()) == 1000 and store.catalogue.get(_session(0)) == b"changed again and again"


def test_what_a_rolled_back_transaction_put_is_not_there(store: Store) -> None:
    store.catalogue.put(_session(1), b"kept")
    with pytest.raises(KeyError), store.transaction():
        for number in range(100):
            store.catalogue.put(_session(number), b"not kept")
        raise KeyError
    assert store.catalogue.entries() == {_session(1): b"kept"}


@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("harm", [_corrupt, _vanish])
def test_damage_is_found_and_stops_no_writer(store: Store, harm: object, place: int) -> None:
    with store.transaction():
        for number in range(200):
            store.catalogue.put(_session(number), b"%d" % number)
    assert not Check(store).run().findings
    assert callable(harm)
    harm(store, place % store.rows.ledger(b"")[CATALOGUE])
    with pytest.raises(DamagedStoreError):
        store.catalogue.entries()
    found = Check(store).run().findings
    assert any(CATALOGUE in one.what or "row" in one.what for one in found)
    for number in range(200, 300):  # Also those that belong into the damaged block, which begin it anew.
        store.catalogue.put(_session(number), b"%d" % number)
    left = store.catalogue.entries()
    assert len(left) > 200 and all(left[_session(n)] == b"%d" % n for n in range(200, 300))
    assert all(left.get(_session(n)) in (None, b"%d" % n) for n in range(200))


@pytest.mark.parametrize("harm", [_corrupt, _vanish])
def test_a_repair_empties_it_and_the_rest_stays(store: Store, folder: Path, harm: object) -> None:
    session = _session(0)
    store.create_session(session)
    with store.transaction():
        for number in range(200):
            store.catalogue.put(_session(number), b"%d" % number)
    assert callable(harm)
    harm(store, 2)
    store.close()
    result = repair(folder, seed=SEED, limits=Limits(free_bytes_min=0))
    assert not result.report.findings and not result.lost
    with Store.open(folder, seed=SEED) as again:
        assert again.catalogue.entries() == {} and again.sessions() == [session]


def test_blocks_in_other_places_are_not_taken(store: Store) -> None:
    with store.transaction():
        for number in range(100):
            store.catalogue.put(_session(number), b"%d" % number)
        first = store.rows.at(CATALOGUE, b"", 0)
        assert first is not None
        store.rows.put_at(CATALOGUE, b"", 1, first)
    with pytest.raises(DamagedStoreError, match="not in the form"):
        Catalogue(store.rows).entries()


def test_a_removed_session_leaves_it(store: Store) -> None:
    store.create_session(_session(1))
    store.catalogue.put(_session(1), b"one")
    store.catalogue.put(_session(2), b"two")
    store.remove_session(_session(1))
    assert store.catalogue.entries() == {_session(2): b"two"}
