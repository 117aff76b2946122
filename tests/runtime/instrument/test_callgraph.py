"""Checks stand on every cycle and on no more, and no stretch without a check is long."""

from __future__ import annotations

import random

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.instrument.host import ENGINE, Run

from hhd.runtime.instrument import instrument
from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.callgraph import Plan, Step, Summary, longest_stretch, never_returns, plan
from hhd.runtime.instrument.code import VOID
from hhd.runtime.instrument.module import Element, Module
from hhd.runtime.instrument.passes import function_names, instrument_binary
from hhd_protocol.limits import GUEST_STRETCH_INSTRS_MAX

HEAD = '(module (memory (export "memory") 1) (type $v (func)) (type $i (func (param i32)))'


def plan_of(text: str, *, trusted: bool = False) -> tuple[Plan, dict[str, int]]:
    """The plan for a text module, and its functions by name."""
    result = instrument_binary(wasmtime.wat2wasm(HEAD + text + ")"), trusted=trusted)
    return result.plan, {name: index for index, name in result.names.items()}


def test_a_loop_makes_its_function_and_all_that_call_it_pausable() -> None:
    text = '(func $a (call $b)) (func $b (call $c)) (func $c (loop)) (func $d) (func (export "hhd_run") (call $d))'
    found, at = plan_of(text, trusted=True)
    assert found.pausing == {at["a"], at["b"], at["c"]}
    assert found.entry_checks == frozenset()


def test_self_recursion_gets_a_check() -> None:
    found, at = plan_of('(func $a (call $a)) (func (export "hhd_run") (call $a))', trusted=True)
    assert found.entry_checks == {at["a"]}


def test_one_function_of_a_cycle_gets_the_check() -> None:
    text = '(func $a (call $b)) (func $b (call $c)) (func $c (call $a)) (func (export "hhd_run") (call $c))'
    found, at = plan_of(text, trusted=True)
    assert len(found.entry_checks) == 1
    assert found.pausing >= {at["a"], at["b"], at["c"]}


def test_an_indirect_call_reaches_what_has_its_type_in_the_table() -> None:
    text = """(table funcref (elem $a $b))
      (func $a (call_indirect (type $v) (i32.const 0)))
      (func $b (param i32) (call_indirect (type $v) (i32.const 0)))
      (func $c (call_indirect (type $v) (i32.const 0)))
      (func (export "hhd_run") (call $c))"""
    found, at = plan_of(text, trusted=True)
    assert found.entry_checks == {at["a"]}, "b has another type, c is not in the table"
    assert at["c"] in found.pausing


def test_equal_types_are_one_type_whatever_their_number() -> None:
    text = """(type $w (func)) (table funcref (elem $a))
      (func $a (type $v) (call_indirect (type $w) (i32.const 0)))
      (func (export "hhd_run") (call $a))"""
    found, at = plan_of(text, trusted=True)
    assert found.entry_checks == {at["a"]}


MEMCPY = '(func $memcpy (loop)) (func $other (loop)) (func (export "hhd_run") (call $memcpy) (call $other))'


def test_only_our_own_builds_have_functions_without_checks() -> None:
    trusted, at = plan_of(MEMCPY, trusted=True)
    assert trusted.exempt == {at["memcpy"]}
    assert at["memcpy"] not in trusted.pausing
    foreign, _ = plan_of(MEMCPY)
    assert foreign.exempt == frozenset()
    assert at["memcpy"] in foreign.pausing


def test_a_stranger_cannot_keep_a_loop_by_calling_it_memcpy() -> None:
    text = HEAD + '(func $memcpy (loop $next (br $next))) (func (export "hhd_run") (call $memcpy)))'
    run = Run(wasmtime.Module(ENGINE, instrument(wasmtime.wat2wasm(text))))
    assert not run.slice(1000), "it is paused, not finished"


def test_a_panic_of_our_own_build_is_not_paused() -> None:
    text = """(func $_ZN4core9panicking5panic17h0E (call $print) (unreachable))
      (func $print (loop)) (func $leaf (if (i32.const 0) (then (call $_ZN4core9panicking5panic17h0E) (unreachable))))
      (func (export "hhd_run") (call $leaf))"""
    found, at = plan_of(text, trusted=True)
    assert found.pausing == {at["print"]}
    foreign, _ = plan_of(text)
    assert foreign.pausing >= {at["print"], at["leaf"]}


def test_what_only_has_the_name_of_a_panic_is_paused() -> None:
    text = """(func $_ZN3std9panicking8set_hook17h0E (if (i32.const 1) (then (return))) (loop) (unreachable))
      (func (export "hhd_run") (call $_ZN3std9panicking8set_hook17h0E))"""
    found, at = plan_of(text, trusted=True)
    assert found.doomed == frozenset()
    assert at["_ZN3std9panicking8set_hook17h0E"] in found.pausing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unreachable, end", True),
        ("end", False),
        ("if, return, end, unreachable, end", False),
        ("loop, br 0, end, end", True),
        ("block, br_if 0, unreachable, end, end", False),
        ("if, unreachable, else, br 1, end, end", False),
        ("if, unreachable, else, unreachable, end, end", True),
        ("if, unreachable, end, end", False),
        ("block, unreachable, br 0, end, end", True),
    ],
)
def test_a_function_that_never_returns_is_known(text: str, expected: bool) -> None:
    assert never_returns(steps_of(text)) is expected


def test_names_are_read_as_far_as_they_hold_together() -> None:
    assert function_names(Module(customs=(("name", b"\x01\xff\xff"),))) == {}
    assert function_names(Module(customs=(("name", b"\x01\x04\x01\x00\x01a"),))) == {0: "a"}


def doubling(levels: int) -> str:
    """Functions that each call the next one twice: endless in practice, without loop or cycle."""
    calls = "".join(f"(func $f{n} (call $f{n + 1}) (call $f{n + 1}))" for n in range(levels))
    count = "(i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))"
    return f'{calls} (func $f{levels} {count}) (func (export "hhd_run") (call $f0))'


def test_calls_that_double_and_double_can_be_stopped() -> None:
    run = Run(wasmtime.Module(ENGINE, instrument(wasmtime.wat2wasm(HEAD + doubling(60) + ")"))))
    assert not run.slice(10), "it is paused, not finished"
    assert not run.slice(10)


def test_calls_that_soon_end_get_no_check() -> None:
    found, _ = plan_of(doubling(8))
    assert found.entry_checks == frozenset()
    assert found.pausing == frozenset()


def chain(edges: dict[int, list[int]], lengths: dict[int, int]) -> tuple[Module, list[Summary]]:
    """Functions that call each other in a row, without any code."""
    summaries = []
    for node in sorted(edges):
        steps: list[Step] = [(op.CALL, to, lengths[node]) for to in edges[node]]
        summaries.append(Summary(steps=(*steps, (op.END, 0, 1)), loops=False, bulk=False))
    return Module(types=(VOID,), function_types=(0,) * len(edges)), summaries


def unchecked_cycle(edges: dict[int, list[int]], checked: frozenset[int]) -> bool:
    """Whether a cycle passes no checked function."""
    left = {node: {to for to in edges[node] if to not in checked} for node in edges if node not in checked}
    while True:
        ends = [node for node, reached in left.items() if not reached]
        if not ends:
            return bool(left)
        for node in ends:
            del left[node]
        left = {node: reached - set(ends) for node, reached in left.items()}


GRAPHS = st.integers(1, 14).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=4), min_size=count, max_size=count)
)


@given(GRAPHS)
@settings(max_examples=300, deadline=None)
def test_no_cycle_is_without_a_check(rows: list[list[int]]) -> None:
    edges = dict(enumerate(rows))
    module, summaries = chain(edges, dict.fromkeys(edges, 3))
    found = plan(module, summaries, pausing_imports=frozenset(), exempt=frozenset())
    assert not unchecked_cycle(edges, found.entry_checks)
    if not unchecked_cycle(edges, frozenset()):
        assert not found.entry_checks


@given(GRAPHS, st.integers(1, GUEST_STRETCH_INSTRS_MAX // 2))
@settings(max_examples=300, deadline=None)
def test_no_stretch_passes_the_bound(rows: list[list[int]], length: int) -> None:
    edges = dict(enumerate(rows))
    module, summaries = chain(edges, dict.fromkeys(edges, length))
    found = plan(module, summaries, pausing_imports=frozenset(), exempt=frozenset())
    assert not unchecked_cycle(edges, found.entry_checks)

    def stretch(node: int) -> int:
        return sum(length + (0 if to in found.entry_checks else stretch(to)) for to in edges[node]) + 1

    own = max(len(row) for row in rows) * length
    assert max(stretch(node) for node in edges) <= GUEST_STRETCH_INSTRS_MAX + own + 1


def steps_of(text: str) -> tuple[Step, ...]:
    """Steps from words: `block`, `br 1`, `call 7`; each one instruction long."""
    words = {"block": op.BLOCK, "loop": op.LOOP, "if": op.IF, "else": op.ELSE, "end": op.END, "br": op.BR}
    words |= {"br_if": op.BR_IF, "call": op.CALL, "return": op.RETURN, "unreachable": op.UNREACHABLE}
    return tuple(
        (words[word], int(number or 0), 1) for word, _, number in (part.partition(" ") for part in text.split(", "))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call 100, end", 102),
        ("if, call 100, else, call 50, end, end", 104),
        ("if, call 100, end, call 7, end", 112),
        ("block, br_if 0, call 100, unreachable, end, end", 104),
        ("block, call 9, br 0, call 1000, end, end", 13),
        ("loop, call 10, br_if 0, call 5, end, end", 21),
        ("loop, call 10, br 0, end, call 1000, end", 13),
        ("if, call 70, return, end, call 30, end", 73),
        ("block, block, br_if 1, call 20, br 0, end, call 3, end, end", 31),
    ],
)
def test_the_longest_stretch_is_that_of_the_longest_path(text: str, expected: int) -> None:
    assert longest_stretch(steps_of(text), lambda to: int(str(to))) == expected


def test_many_functions_take_no_longer_than_they_must() -> None:
    """A graph of one large component, as a stranger might make it, is decided on in bounded work."""
    dice = random.Random(5)
    count = 2000
    edges = {node: [dice.randrange(count) for _ in range(8)] for node in range(count)}
    module, summaries = chain(edges, dict.fromkeys(edges, 1))
    module = Module(**{**vars(module), "table_size": 1, "elements": (Element(offset=0, functions=(0,)),)})
    found = plan(module, summaries, pausing_imports=frozenset(), exempt=frozenset())
    assert not unchecked_cycle(edges, found.entry_checks)
