"""Compiled programs and the test guests, cut into fresh instances, end as they do uncut."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime
from tests.runtime.instrument.host import ENGINE, Guest, Run

from hhd.runtime.instrument import instrument

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
GUESTS = ("recursion", "indirect", "floats", "memory_growth", "deep_stack", "effects")
WORKS = ("hash", "bytes", "sum", "vector", "float", "json", "maps", "sort", "recursion")
REPLIES = [b"one", b"two", b"three"]


@pytest.fixture(scope="module")
def bench() -> tuple[wasmtime.Module, wasmtime.Module]:
    plain = (FIXTURES / "bench.plain.wasm").read_bytes()
    return wasmtime.Module(ENGINE, plain), wasmtime.Module(ENGINE, instrument(plain, trusted=True))


@pytest.mark.parametrize("work", WORKS)
def test_compiled_rust_cut_anywhere_ends_as_uncut(bench: tuple[wasmtime.Module, wasmtime.Module], work: str) -> None:
    plain, pausable = bench
    arguments = {"work": work, "rounds": "1"}
    whole = Run(pausable, arguments)
    assert whole.to_end() == Run(plain, arguments).to_end()
    cut = Run(pausable, arguments)
    assert cut.to_end(whole.checks // 29) == bytes(whole.transcript)
    assert cut.slices >= 28
    assert cut.checks == whole.checks


@pytest.mark.parametrize("name", GUESTS)
def test_a_test_guest_cut_anywhere_ends_as_uncut(name: str) -> None:
    plain = (FIXTURES / "guests" / f"{name}.wasm").read_bytes()
    expected = Run(wasmtime.Module(ENGINE, plain), replies=list(REPLIES)).to_end()
    pausable = wasmtime.Module(ENGINE, instrument(plain))
    whole = Run(pausable, replies=list(REPLIES))
    assert whole.to_end() == expected
    cut = Run(pausable, replies=list(REPLIES))
    assert cut.to_end(whole.checks // 40) == expected
    assert cut.slices >= 3
    assert cut.checks == whole.checks


def test_what_never_ends_is_paused_and_goes_on() -> None:
    run = Run(wasmtime.Module(ENGINE, instrument((FIXTURES / "guests" / "endless_loop.wasm").read_bytes())))
    assert not run.slice(100)
    assert not run.slice(100)
    assert run.state is not None
    assert int.from_bytes(run.state.memory[:8], "little") == 201


def test_a_recursion_without_end_is_paused_and_at_last_traps() -> None:
    module = wasmtime.Module(ENGINE, instrument((FIXTURES / "guests" / "endless_recursion.wasm").read_bytes()))
    run = Run(module)
    assert not run.slice(50)
    assert run.stack_used_most > 50 * 8
    with pytest.raises(Guest, match="call stack exhausted"):
        run.to_end()
