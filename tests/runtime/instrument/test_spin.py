"""The committed spin module: cut anywhere, it says what it says uncut."""

from __future__ import annotations

from importlib import resources

import pytest
import wasmtime
from tests.runtime.instrument.host import ENGINE, Guest, Run

ARGUMENTS = {"iterations": "20000"}


@pytest.fixture(scope="module")
def spin() -> wasmtime.Module:
    return wasmtime.Module(ENGINE, resources.files("hhd.runtime").joinpath("modules/spin.wasm").read_bytes())


@pytest.mark.parametrize("checks", [1000, 777, 251])
def test_a_run_cut_into_fresh_instances_ends_as_an_uncut_one(spin: wasmtime.Module, checks: int) -> None:
    uncut = Run(spin, ARGUMENTS).to_end()
    cut = Run(spin, ARGUMENTS)
    assert cut.to_end(checks) == uncut
    assert uncut.startswith(b"spin: 20000 iterations, result ")
    assert cut.slices >= 20000 // (checks + 1)


def test_each_iteration_is_one_check(spin: wasmtime.Module) -> None:
    few, many = Run(spin, {"iterations": "100"}), Run(spin, {"iterations": "900"})
    few.to_end(0)
    many.to_end(0)
    assert 800 <= many.slices - few.slices < 830, "the rest prints the result"


def test_bad_arguments_are_refused_with_a_sentence(spin: wasmtime.Module) -> None:
    with pytest.raises(Guest, match='iterations is "many"; it must be a whole number from 0 to'):
        Run(spin, {"iterations": "many"}).to_end()
