"""Programs of every shape, cut at random points through a snapshot and a new guest each time."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime import programs
from tests.runtime.conftest import Load
from tests.runtime.runs import assert_finished_alike, cut, owned, whole

from hhd.runtime.guest import Guest
from hhd.runtime.outcomes import Failed, Interrupted, Slice


@pytest.mark.parametrize("name", programs.NAMES)
def test_hundreds_of_slices_change_nothing(load: Load, name: str) -> None:
    module, args = load(programs.instrumented(name)), programs.ARGS.get(name, b"{}")
    uncut = whole(module, args)
    rng = random.Random(name)
    sizes = [1] * 40 + [rng.choice((1, 2, 3, 5, rng.randrange(1, max(2, uncut.checks // 100)))) for _ in range(260)]
    rng.shuffle(sizes)
    run = cut(module, [Slice(checks=n) for n in sizes], args)
    assert run.pauses >= 100
    assert_finished_alike(run, uncut)
    assert uncut.transcript


@pytest.mark.parametrize("name", programs.NAMES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_cut_ends_alike_and_a_snapshot_depends_on_the_position_alone(
    load: Load, name: str, data: st.DataObject
) -> None:
    module, args = load(programs.instrumented(name)), programs.ARGS.get(name, b"{}")
    uncut = whole(module, args)
    many = st.lists(st.integers(1, max(1, uncut.checks // 4)), min_size=1, max_size=12)
    one, other = (cut(module, [Slice(checks=n) for n in data.draw(many)], args, keep=True) for _ in range(2))
    assert_finished_alike(one, uncut)
    assert_finished_alike(other, uncut)
    for position in one.snapshots.keys() & other.snapshots.keys():
        assert one.snapshots[position] == other.snapshots[position]


def test_a_position_is_counted_right_however_the_slice_ended(load: Load) -> None:
    """One check a turn, also where the guest calls the host between checks and time runs out at any moment."""
    turns = load(
        programs.plain(
            programs.HEAD
            + """
 (func (export "hhd_run") (local $i i32)
   (loop $more
     (local.set $i (i32.add (local.get $i) (i32.const 1)))
     (i32.store (i32.const 512) (local.get $i))
     (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 100))) (then (call $emit (i32.const 0) (i32.const 1))))
     (br_if $more (i32.lt_u (local.get $i) (i32.const 1000000000))))))"""
        )
    )
    guest = Guest.start(turns, args=b"{}")
    for milliseconds in (0, 0.05, 0.5, 1, 3, 0.7, 0.01):
        assert guest.run(Slice(milliseconds=milliseconds)) == Interrupted()
        turn = int.from_bytes(bytes(guest._instance.view()[512:516]), "little")
        assert guest.checks == turn + 1, "the check at the head of the next turn"


@pytest.mark.parametrize("through", ["one guest", "snapshots"])
def test_what_deep_pauses_left_does_not_show_in_the_shallow_ones_that_follow(load: Load, through: str) -> None:
    module = load(programs.instrumented("deep stacks"))
    rng = random.Random(5)
    guest, position, used = Guest.start(module, args=b"{}"), 0, []
    for n in (rng.randrange(1, 300) for _ in range(30)):
        assert guest.run(Slice(checks=n)) == Interrupted()
        position += n
        snapshot = owned(guest.snapshot())
        direct = Guest.start(module, args=b"{}")
        assert direct.run(Slice(checks=position)) == Interrupted()
        assert owned(direct.snapshot()) == snapshot
        used.append(snapshot.asyncify_stack_bytes)
        if through == "snapshots":
            guest = Guest.resume(module, snapshot, args=b"{}")
    assert any(later < earlier for earlier, later in itertools.pairwise(used))


def test_a_call_stack_too_deep_for_a_pause_fails_cleanly_and_the_snapshot_before_runs_on(load: Load) -> None:
    deep = load(
        programs.plain(
            programs.HEAD
            + """
 (func $down (param i32) (result i64) (local $k i64)
   (local.set $k (i64.extend_i32_s (local.get 0)))
   (if (result i64) (local.get 0)
     (then (i64.add (call $down (i32.sub (local.get 0) (i32.const 1))) (local.get $k))) (else (i64.const 0))))
 (func (export "hhd_run")
   (call $say (call $down (i32.const 100)))
   (call $say (call $down (i32.const 40000))))
 )"""
        )
    )
    uncut = whole(deep)
    assert uncut.transcript == (100 * 101 // 2).to_bytes(8, "little") + (40000 * 40001 // 2).to_bytes(8, "little")
    guest = Guest.start(deep, args=b"{}")
    assert guest.run(Slice(checks=60)) == Interrupted()
    before, transcript = owned(guest.snapshot()), guest.take_transcript()
    fails = Guest.resume(deep, before, args=b"{}")
    outcome = fails.run(Slice(checks=39_000))
    assert outcome == Failed(
        reason="The program was too deep in calls to be paused: its calls do not fit the stack for a pause.",
        too_deep=True,
    )
    again = Guest.resume(deep, before, args=b"{}")
    again.run(Slice())
    assert transcript + again.take_transcript() == uncut.transcript
