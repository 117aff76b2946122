"""A store that two open at once, for the first time, is made once; none of them takes it for damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.conftest import SEED

from hhd.store.rows import Rows
from hhd.store.store import Store


def test_who_finds_nothing_while_another_makes_the_store_opens_what_that_one_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = Rows.get_either, list[Store]()

    def late(rows: Rows, table: str, scope: bytes, key: bytes) -> bytes | None:
        """The first look finds nothing yet; right after it another process makes the store."""
        found = real(rows, table, scope, key)
        if found is None and not made:
            monkeypatch.setattr(Rows, "get_either", real)
            made.append(Store.open(tmp_path / "store", seed=SEED))
        return found

    monkeypatch.setattr(Rows, "get_either", late)
    with Store.open(tmp_path / "store", seed=SEED) as second:
        (first,) = made
        with first:
            assert first.commons() == second.commons()
