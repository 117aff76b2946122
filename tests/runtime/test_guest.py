"""A guest that runs slice by slice."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime import wat
from tests.runtime.conftest import Load
from tests.runtime.runs import assert_finished_alike, cut, owned, whole

from hhd.base.errors import RefusedError
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Finished, Interrupted, Limits, Slice, StopFlag, Waiting
from hhd_protocol.abi import COUNTDOWN, EffectRequest, Snapshot
from hhd_protocol.limits import PAGE_BYTES, WASM_PAGE_BYTES


@pytest.fixture(scope="module")
def counter(load: Load) -> Module:
    return load(wat.module())


def test_a_program_runs_to_its_end_and_asks_on_the_way(counter: Module) -> None:
    guest = Guest.start(counter, args=b"{}")
    assert guest.run(Slice()) == Waiting(effect=EffectRequest(op="ask", request=b"why?"))
    assert guest.checks == 2500
    guest.answer(b"42!")
    assert guest.run(Slice()) == Finished()
    assert guest.checks == 5000
    numbers = [n.to_bytes(4, "little") for n in (1000, 2000, 3000, 4000, 5000)]
    assert guest.take_transcript() == b"".join([*numbers[:2], b"42!", *numbers[2:]])


def test_hundreds_of_slices_through_snapshots_change_nothing(counter: Module) -> None:
    rng = random.Random(7)
    sizes = [rng.choice((1, 1, 2, 3, rng.randrange(1, 50))) for _ in range(400)]
    run = cut(counter, [Slice(checks=n) for n in sizes])
    assert run.pauses >= 400
    assert_finished_alike(run, whole(counter))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 900), max_size=25))
def test_any_cut_ends_alike(counter: Module, sizes: list[int]) -> None:
    assert_finished_alike(cut(counter, [Slice(checks=n) for n in sizes]), whole(counter))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=15), st.data())
def test_a_snapshot_depends_on_the_position_alone(counter: Module, sizes: list[int], data: st.DataObject) -> None:
    """However it was cut before, at one position it is the same, byte for byte."""
    run = cut(counter, [Slice(checks=n) for n in sizes], keep=True)
    position = data.draw(st.sampled_from(sorted(p for p in run.snapshots if p > 0)))
    guest = Guest.start(counter, args=b"{}")
    left = position
    if position > 2500:
        guest.run(Slice())
        guest.answer(b"ask:?yhw")
        left -= 2500
    assert guest.run(Slice(checks=left)) == Interrupted()
    assert owned(guest.snapshot()) == run.snapshots[position]


@pytest.mark.parametrize("checks", [1, 2, 999, 1000, 1001, 2499])
def test_a_slice_of_checks_is_exact(counter: Module, checks: int) -> None:
    guest = Guest.start(counter, args=b"{}")
    assert guest.run(Slice(checks=checks)) == Interrupted()
    assert guest.checks == checks
    assert guest.snapshot().globals["n"] == checks


def test_a_paused_guest_runs_on_without_being_restored(counter: Module) -> None:
    guest = Guest.start(counter, args=b"{}")
    for _ in range(10):
        assert guest.run(Slice(checks=7)) == Interrupted()
        guest.snapshot()
    assert guest.checks == 70
    resumed = Guest.resume(counter, owned(guest.snapshot()), args=b"{}")
    assert resumed.run(Slice(checks=5)) == guest.run(Slice(checks=5)) == Interrupted()
    assert owned(resumed.snapshot()) == owned(guest.snapshot())


def test_a_program_that_has_not_begun_has_a_snapshot_too(counter: Module) -> None:
    snapshot = owned(Guest.start(counter, args=b"{}").snapshot())
    assert snapshot.asyncify_stack_bytes == 0
    guest = Guest.resume(counter, snapshot, args=b"{}")
    assert isinstance(guest.run(Slice()), Waiting)
    assert guest.checks == 2500


def test_the_countdown_of_the_host_is_not_part_of_a_snapshot(counter: Module) -> None:
    guest = Guest.start(counter, args=b"{}")
    guest.run(Slice(checks=3000))
    assert guest.snapshot().globals[COUNTDOWN] == 0


def test_a_stop_flag_that_is_set_ends_the_slice_at_the_next_look(load: Load) -> None:
    endless = load(wat.module(run=f"(if (global.get $state) (then (call $yield))) (loop $l {wat.CHECK} (br $l))"))
    stop = StopFlag()
    guest = Guest.start(endless, args=b"{}")
    timer = threading.Timer(0.05, stop.set)
    timer.start()
    assert guest.run(Slice(), stop=stop) == Interrupted()
    assert guest.checks > 1000
    before = guest.checks
    assert guest.run(Slice(), stop=stop) == Interrupted()
    assert guest.checks == before + 1


def test_a_slice_of_time_makes_progress_even_when_it_is_over_at_once(load: Load) -> None:
    endless = load(wat.module(run=f"(if (global.get $state) (then (call $yield))) (loop $l {wat.CHECK} (br $l))"))
    guest = Guest.start(endless, args=b"{}")
    assert guest.run(Slice(milliseconds=0)) == Interrupted()
    assert guest.checks == 1
    assert guest.run(Slice(milliseconds=20)) == Interrupted()
    assert guest.checks > 1
    assert guest.run(Slice(milliseconds=10_000, checks=3)) == Interrupted()


def test_a_guest_that_nobody_holds_is_gone_at_once_with_its_memory(counter: Module) -> None:
    guest = Guest.start(counter, args=b"{}")
    guest.run(Slice(checks=10))
    pages = guest.snapshot().pages
    instance = weakref.ref(guest._instance)
    gc.disable()
    try:
        del guest
        assert instance() is not None, "a view of its pages keeps the memory"
        del pages
        assert instance() is None
    finally:
        gc.enable()


def test_arguments_are_copied_as_far_as_there_is_room(load: Load) -> None:
    program = load(
        wat.module(
            run="""(i32.store (i32.const 0) (call $args (i32.const 8) (i32.const 3)))
                   (call $emit (i32.const 0) (i32.const 16))"""
        )
    )
    guest = Guest.start(program, args=b"ABCDEFG")
    assert guest.run(Slice()) == Finished()
    assert guest.take_transcript() == b"\7\0\0\0\0\0\0\0ABC\0\0\0\0\0"


def test_the_latest_reply_survives_a_snapshot(load: Load) -> None:
    program = load(
        wat.module(
            program='(data (i32.const 64) "e")',
            run="""
      (if (i32.eq (global.get $state) (i32.const 2))
        (then (if (i32.eqz (global.get $n))
          (then
            (drop (call $effect (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
            (global.set $n (i32.const 1)))
          (else
            (call $yield)
            (call $reply (i32.const 8) (i32.const 0) (i32.const 2))
            (call $emit (i32.const 8) (i32.const 2))
            (return))))
        (else (drop (call $effect (i32.const 64) (i32.const 1) (i32.const 0) (i32.const 0))) (return)))
      (call $yield)""",
        )
    )
    guest = Guest.start(program, args=b"{}")
    assert isinstance(guest.run(Slice()), Waiting)
    guest = Guest.resume(program, owned(guest.snapshot()), args=b"{}", reply=b"ok", waiting=True)
    assert guest.run(Slice(milliseconds=0)) == Interrupted()
    guest = Guest.resume(program, owned(guest.snapshot()), args=b"{}", reply=b"ok")
    assert guest.run(Slice()) == Finished()
    assert guest.take_transcript() == b"ok"


def test_only_pages_that_differ_from_the_baseline_are_in_a_snapshot(load: Load) -> None:
    """Of a memory with data in pages 0 to 5: read, written and written back are none of them changes."""
    data = "".join(f'(data (i32.const {page * PAGE_BYTES + 8}) "page {page}")' for page in range(6))
    program = load(
        wat.module(
            program=data + '(data (i32.const 100) "e")',
            run=f"""
              (if (i32.eq (global.get $state) (i32.const 2)) (then (return)))
              (drop (i32.load (i32.const {2 * PAGE_BYTES + 8})))
              (i32.store (i32.const {3 * PAGE_BYTES + 8}) (i32.const 1))
              (i32.store (i32.const {4 * PAGE_BYTES + 100}) (i32.const 1))
              (i32.store (i32.const {4 * PAGE_BYTES + 100}) (i32.const 0))
              (i32.store8 (i32.const {9 * PAGE_BYTES}) (i32.const 1))
              (i32.store8 (i32.const {9 * PAGE_BYTES}) (i32.const 0))
              (i32.store8 (i32.const {10 * PAGE_BYTES}) (i32.const 1))
              (drop (memory.grow (i32.const 2)))
              (i32.store8 (i32.const {8 * WASM_PAGE_BYTES - 1}) (i32.const 7))
              (drop (call $effect (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 0)))""",
        )
    )
    guest = Guest.start(program, args=b"{}")
    assert isinstance(guest.run(Slice()), Waiting)
    stack = 2 * WASM_PAGE_BYTES // PAGE_BYTES
    assert guest.snapshot().page_numbers == [3, 10, stack, 8 * WASM_PAGE_BYTES // PAGE_BYTES - 1]


BITS = {
    "a": ("i32", 0x8000_0001),
    "b": ("i64", 0x8000_0000_0000_0001),
    "c": ("f32", 0x7FA0_0001),
    "d": ("f64", 0xFFF4_0000_0000_0001),
}


def test_globals_of_all_kinds_are_kept_bit_by_bit_signalling_nans_included(load: Load) -> None:
    declared = "".join(f'(global (export "{name}") (mut {kind}) ({kind}.const 0))' for name, (kind, _) in BITS.items())
    program = load(wat.module(global_items=wat.GLOBALS + declared))
    guest = Guest.start(program, args=b"{}")
    guest.run(Slice(checks=5))
    snapshot = owned(guest.snapshot())
    wanted = {**snapshot.globals, **{name: bits for name, (_, bits) in BITS.items()}}
    resumed = Guest.resume(program, replace(snapshot, globals=wanted), args=b"{}")
    resumed.run(Slice(checks=5))
    assert {name: resumed.snapshot().globals[name] for name in BITS} == {name: bits for name, (_, bits) in BITS.items()}


def snapshot_of(module: Module) -> Snapshot:
    guest = Guest.start(module, args=b"{}")
    guest.run(Slice(checks=1500))
    return owned(guest.snapshot())


def _twice(s: Snapshot) -> Snapshot:
    return replace(s, page_numbers=(*s.page_numbers, s.page_numbers[-1]), pages=(*s.pages, bytes(PAGE_BYTES)))


@pytest.mark.parametrize(
    ("what", "damage", "why"),
    [
        ("another door", lambda s: replace(s, entry="main"), "another door"),
        ("a size that is no number of wasm pages", lambda s: replace(s, memory_bytes=s.memory_bytes + 4096), "size"),
        ("less memory than the module has", lambda s: replace(s, memory_bytes=WASM_PAGE_BYTES), "size"),
        ("no memory", lambda s: replace(s, memory_bytes=0), "size"),
        ("4 GiB", lambda s: replace(s, memory_bytes=1 << 32), "size"),
        ("more than any number", lambda s: replace(s, memory_bytes=1 << 80), "size"),
        ("a global more", lambda s: replace(s, globals={**s.globals, "x": 1}), "globals"),
        ("a global less", lambda s: replace(s, globals={COUNTDOWN: 0}), "globals"),
        ("a global too wide", lambda s: replace(s, globals={**s.globals, "n": 1 << 32}), "type"),
        ("a negative global", lambda s: replace(s, globals={**s.globals, "n": -1}), "type"),
        ("a page twice", _twice, "order"),
        (
            "a page past the end",
            lambda s: replace(s, page_numbers=(*s.page_numbers[:-1], s.memory_bytes // 4096)),
            "order",
        ),
        ("a huge page number", lambda s: replace(s, page_numbers=(*s.page_numbers[:-1], 1 << 70)), "order"),
        ("a negative page number", lambda s: replace(s, page_numbers=(-1, *s.page_numbers[1:])), "order"),
        ("a stack past its room", lambda s: replace(s, asyncify_stack_bytes=1 << 20), "stack"),
        ("a negative stack", lambda s: replace(s, asyncify_stack_bytes=-4), "stack"),
    ],
)
def test_a_snapshot_that_cannot_be_the_modules_is_refused(counter: Module, what: str, damage, why: str) -> None:  # type: ignore[no-untyped-def]
    good = snapshot_of(counter)
    Guest.resume(counter, good, args=b"{}")
    with pytest.raises(RefusedError, match=why):
        Guest.resume(counter, damage(good), args=b"{}")


def test_pages_may_come_in_pieces_of_any_length(counter: Module) -> None:
    good = snapshot_of(counter)
    whole_pages = good.pages[0]
    pieces = [whole_pages[at : at + 1000] for at in range(0, len(whole_pages), 1000)]
    resumed = Guest.resume(counter, replace(good, pages=pieces), args=b"{}")
    resumed.run(Slice(checks=5))
    same = Guest.resume(counter, good, args=b"{}")
    same.run(Slice(checks=5))
    assert owned(resumed.snapshot()) == owned(same.snapshot())


def test_a_snapshot_resumed_as_what_it_is_not_fails_and_does_no_harm(counter: Module) -> None:
    guest = Guest.start(counter, args=b"{}")
    guest.run(Slice(checks=100))
    outcome = Guest.resume(counter, owned(guest.snapshot()), args=b"{}", reply=b"x", waiting=True).run(Slice())
    assert "another place" in getattr(outcome, "reason", "")


def test_memory_grows_up_to_the_limit_of_the_session(load: Load) -> None:
    program = load(
        wat.module(
            run="""(loop $l (br_if $l (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0))))
                   (i32.store (i32.const 0) (memory.size))
                   (call $emit (i32.const 0) (i32.const 4))"""
        )
    )
    guest = Guest.start(program, args=b"{}", limits=Limits(memory_bytes=50 * WASM_PAGE_BYTES))
    assert guest.run(Slice()) == Finished()
    assert guest.take_transcript() == (50).to_bytes(4, "little")
