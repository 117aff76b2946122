"""Random programs, cut anywhere, end as the plain module does."""

from __future__ import annotations

import random

import pytest
import wasmtime
from tests.runtime.instrument.host import ENGINE, Run
from tests.runtime.instrument.programs import program

from hhd.runtime.instrument import instrument


def compare(seed: int) -> int:
    """Check one program under several cuts; return how often it was cut."""
    replies = [bytes(number % 7) for number in range(500)]
    plain = bytes(wasmtime.wat2wasm(program(seed)))
    pausable = wasmtime.Module(ENGINE, instrument(plain))
    uncut = Run(wasmtime.Module(ENGINE, plain), replies=list(replies))
    expected = uncut.to_end()
    cuts = 0
    for checks in (None, 0, random.Random(seed).randint(1, 9)):
        run = Run(pausable, replies=list(replies))
        assert run.to_end(checks) == expected, f"program {seed} cut every {checks} checks"
        assert run.asked == uncut.asked
        cuts += run.slices
    return cuts


def test_random_programs_cut_anywhere_end_as_uncut_ones() -> None:
    assert sum(compare(seed) for seed in range(40)) > 500


@pytest.mark.long
@pytest.mark.parametrize("block", range(4))
def test_many_random_programs_cut_anywhere_end_as_uncut_ones(block: int) -> None:
    assert sum(compare(seed) for seed in range(1000 + 100 * block, 1100 + 100 * block)) > 1000
