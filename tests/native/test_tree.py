"""The tree of records: parents near and far, ids that stand twice, circles."""

from __future__ import annotations

import pytest

from hhd.native import tree
from hhd.native.tree import MISSING, ROOT, Tree


def chain(count: int) -> Tree:
    made = Tree()
    for n in range(count):
        made.add(f"id-{n}", f"id-{n - 1}" if n else None, n + 1, 0)
    return made


@pytest.mark.parametrize("few", [0, 1_000_000])
def test_parents_are_found_however_far_they_are(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_FEW", few)
    made = chain(5000)
    for parent in ("id-4999", "id-4990", "id-3", "nowhere", "later", None):
        made.add(f"child of {parent}", parent, 0, 0)
    made.add("later", None, 0, 0)
    made.close()
    assert list(made.parents[5000:5006]) == [4999, 4990, 3, MISSING, 5006, ROOT]
    assert made.has_forward()
    assert made.is_above(3, 5002) and not made.is_above(4, 5002)
    assert made.run_of(4000) == 0 and made.run_of(5002) == 5002


@pytest.mark.parametrize("set_max", [0, 1_000_000])
def test_an_id_that_stands_twice_counts_where_it_stood_last(set_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_SET_MAX", set_max)
    plain = chain(3000)
    plain.close()
    assert not plain.duplicates and not plain.has_forward()
    made = chain(3000)
    made.add("id-7", "id-6", 3001, 0)
    made.close()
    assert made.duplicates == {7}
    assert made.find("id-7") == 3000 and made.place(3000) == 7 and made.parents[8] == 3000


def test_a_circle_ends_the_way_up() -> None:
    made = Tree()
    made.add("a", "c", 1, 0)
    made.add("b", "a", 2, 0)
    made.add("c", "b", 3, 0)
    made.close()
    assert len(list(made.up(1))) <= 7
    assert not made.is_above(99, 1)
