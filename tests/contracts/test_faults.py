"""The table of reported faults is whole, and what it names is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.contracts.faults import ALL, KINDS, NOT_YET, Kind

TESTS = Path(__file__).parent.parent


@cache
def names_in(file: str) -> set[str]:
    """The tests that a file has."""
    tree = ast.parse((TESTS / file).read_text())
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_kind_is_in_the_table_once() -> None:
    numbers = [kind.number for kind in (*KINDS, *NOT_YET)]
    assert sorted(numbers) == sorted(ALL) and len(set(ALL)) == len(ALL)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.number}: {kind.what}")
def test_each_kind_of_fault_has_its_tests(kind: Kind) -> None:
    assert KINDS[kind]
    for place in KINDS[kind]:
        file, name = place.split("::")
        assert name.startswith("test_") and name in names_in(file), place
