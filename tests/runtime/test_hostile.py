"""Guests that break the rules: each ends in one sentence, does no harm, and leaves the snapshot it came from good."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.runtime import wat
from tests.runtime.conftest import Load
from tests.runtime.runs import assert_finished_alike, owned, whole

from hhd.runtime import guest as guest_module
from hhd.runtime.guest import Guest
from hhd.runtime.outcomes import Failed, Finished, Interrupted, Limits, Slice, Waiting

DATA = '(data (i32.const 64) "ask")'
ASK = "(drop (call $effect (i32.const 64) (i32.const 3) (i32.const 0) (i32.const 5)))"
ASKS = {"run": ASK, "program": DATA}
ENDLESS = "(loop $l (br $l))"
CALLED = "called the host"

BREAKERS: dict[str, tuple[str, dict[str, str]]] = {
    "recurses for ever": ("too deeply", {"run": "(call $run)"}),
    "reads outside its memory": ("outside its memory", {"run": "(drop (i32.load (i32.const 0x7fffffff)))"}),
    "emits from outside": ("outside its memory", {"run": "(call $emit (i32.const 0x7fffffff) (i32.const 2))"}),
    "emits past the end": ("outside its memory", {"run": "(call $emit (i32.const 0x5ffff) (i32.const 2))"}),
    "emits a negative length": ("may hold", {"run": "(call $emit (i32.const 0) (i32.const -1))"}),
    "wraps around": ("outside its memory", {"run": "(call $emit (i32.const -1) (i32.const 2))"}),
    "panics from outside": ("outside its memory", {"run": "(call $panic (i32.const 0) (i32.const -1))"}),
    "wants args outside": ("outside its memory", {"run": "(drop (call $args (i32.const -4) (i32.const 9)))"}),
    "wants a reply that is not there": (
        "more of a reply",
        {"run": "(call $reply (i32.const 0) (i32.const 0) (i32.const 1))"},
    ),
    "wraps around in a reply": ("more of a reply", {"run": "(call $reply (i32.const 0) (i32.const -1) (i32.const 1))"}),
    "asks without a name": (
        "name has a length",
        {"run": "(drop (call $effect (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))"},
    ),
    "asks with a long name": (
        "name has a length",
        {"run": "(drop (call $effect (i32.const 0) (i32.const 65) (i32.const 0) (i32.const 0)))"},
    ),
    "asks with letters of control": (
        "name has letters",
        {"run": "(drop (call $effect (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)))"},
    ),
    "asks with 4 GiB": (
        "more than the",
        {"run": "(drop (call $effect (i32.const 64) (i32.const 1) (i32.const 0) (i32.const -1)))", "program": DATA},
    ),
    "asks with bytes outside": (
        "outside its memory",
        {"run": "(drop (call $effect (i32.const 64) (i32.const 1) (i32.const -8) (i32.const 9)))", "program": DATA},
    ),
    "gives up": ("without saying why", {"run": "unreachable"}),
    "divides by zero": ("failed: integer divide by zero.", {"run": "(drop (i32.div_u (i32.const 1) (global.get $n)))"}),
    "ends in the middle of a pause": ("no pause and no end", {"run": "(global.set $state (i32.const 1))"}),
    "does not pause when asked": ("no pause and no end", {**ASKS, "start_unwind": "(param i32)"}),
    "pauses but says it does not": (
        "no pause",
        {**ASKS, "get_state": "(result i32) (i32.const 0)"},
    ),
    "calls back while being paused": (
        CALLED,
        {**ASKS, "start_unwind": "(param i32) (call $yield)"},
    ),
    "runs on while being paused": (CALLED, {"run": ASK + ASK, "program": DATA}),
    "runs itself while being paused": (
        CALLED,
        {**ASKS, "start_unwind": "(param i32) (call $run)"},
    ),
    "calls back while ending a pause": (CALLED, {**ASKS, "stop_unwind": "(call $yield)"}),
    "calls back while saying its state": (CALLED, {"get_state": "(result i32) (call $yield) (i32.const 0)", "run": ""}),
    "overruns the stack of a pause": (
        "too deep in calls",
        {
            "run": ASK,
            "program": DATA,
            "start_unwind": """(param i32) (global.set $state (i32.const 1))
              (i32.store (local.get 0) (i32.add (i32.load (local.get 0)) (i32.const 262144)))""",
        },
    ),
    "overruns it and traps": (
        "too deep in calls",
        {
            "run": ASK,
            "program": DATA,
            "start_unwind": """(param i32) (global.set $state (i32.const 1))
              (i32.store (local.get 0) (i32.add (i32.load (local.get 0)) (i32.const 262144)))""",
            "stop_unwind": "unreachable",
        },
    ),
    "leaves the stack of a pause below its start": (
        "too deep in calls",
        {
            "run": ASK,
            "program": DATA,
            "start_unwind": "(param i32) (global.set $state (i32.const 1)) (i32.store (local.get 0) (i32.const 0))",
        },
    ),
}


@pytest.mark.parametrize("what", BREAKERS)
def test_a_breaker_fails_with_one_sentence(load: Load, what: str) -> None:
    why, parts = BREAKERS[what]
    guest = Guest.start(load(wat.module(**parts)), args=b"{}")
    outcome = guest.run(Slice(checks=100))
    assert isinstance(outcome, Failed)
    assert why in outcome.reason
    assert outcome.reason.startswith("The program ") and outcome.reason.isprintable() and not outcome.stuck
    assert guest.over


def test_the_same_guests_without_the_fault_do_not_fail(load: Load) -> None:
    """The positive control of the table above."""
    asks = Guest.start(load(wat.module(run=ASK, program=DATA)), args=b"{}")
    assert isinstance(asks.run(Slice()), Waiting)
    for run in (
        "(call $emit (i32.const 0x5fffe) (i32.const 2))",
        "(call $panic (i32.const 0) (i32.const 9))",
        "(call $reply (i32.const 0) (i32.const 0) (i32.const 0))",
    ):
        assert not isinstance(Guest.start(load(wat.module(run=run)), args=b"{}").run(Slice()), Failed)


def test_a_panic_is_told_with_its_control_sequences_made_visible(load: Load) -> None:
    program = load(
        wat.module(
            run="(call $panic (i32.const 64) (i32.const 12)) unreachable",
            program='(data (i32.const 64) "\\1b[31mred\\0a\\e2\\80\\ae")',
        )
    )
    outcome = Guest.start(program, args=b"{}").run(Slice())
    assert outcome == Failed(reason="The program panicked: \\x1b[31mred\\x0a\\u202e.")


def test_after_a_failure_the_snapshot_before_runs_on(load: Load) -> None:
    counter = load(wat.module())
    guest = Guest.start(counter, args=b"{}")
    assert guest.run(Slice(checks=1500)) == Interrupted()
    before, transcript = owned(guest.snapshot()), guest.take_transcript()
    fails = Guest.resume(counter, before, args=b"{}", limits=Limits(transcript_bytes=3))
    assert isinstance(fails.run(Slice()), Failed)
    again = Guest.resume(counter, before, args=b"{}")
    assert isinstance(again.run(Slice()), Waiting)
    again.answer(b"ask:?yhw")
    assert again.run(Slice()) == Finished()
    assert transcript + again.take_transcript() == whole(counter).transcript


def test_a_transcript_past_its_bound_ends_the_run(load: Load) -> None:
    chatty = load(wat.module(run=f"(loop $l {wat.CHECK} (call $emit (i32.const 0) (i32.const 1000)) (br $l))"))
    guest = Guest.start(chatty, args=b"{}", limits=Limits(transcript_bytes=10_000))
    outcome = guest.run(Slice())
    assert isinstance(outcome, Failed) and "transcript" in outcome.reason
    assert guest.checks <= 11


def test_processor_time_past_its_bound_ends_the_run(load: Load) -> None:
    endless = load(wat.module(run=f"(loop $l {wat.CHECK} (br $l))"))
    guest = Guest.start(endless, args=b"{}", limits=Limits(cpu_seconds=0.05))
    assert guest.run(Slice()) == Failed(reason="The program used its 0.05 s of processor time.")


def test_an_interruption_of_the_waiting_thread_is_raised_once_the_guest_is_at_rest(load: Load) -> None:
    endless = load(wat.module(run=f"(loop $l {wat.CHECK} (br $l))"))
    guest = Guest.start(endless, args=b"{}")
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        guest.run(Slice())
    assert guest.over and guest.checks > 0


def test_an_error_of_the_host_is_not_taken_for_the_guests(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise MemoryError("full")

    monkeypatch.setattr(guest_module, "visible", full)
    program = load(wat.module(run="(call $panic (i32.const 0) (i32.const 1)) unreachable"))
    with pytest.raises(MemoryError, match="full"):
        Guest.start(program, args=b"{}").run(Slice())


STEP = """
import sys
from pathlib import Path
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Limits, Slice
module = Module.load(Path(sys.argv[1]).read_bytes(), cache=Path(sys.argv[2]))
outcome = Guest.start(module, args=b"{}", limits=Limits(stuck_seconds=0.2)).run(Slice(milliseconds=1))
print(outcome.stuck, outcome.reason)
raise SystemExit(4)
"""


@pytest.mark.parametrize(
    "parts",
    [
        {"run": ENDLESS},
        {"run": "(loop $l (call $emit (i32.const 0) (i32.const 0)) (br $l))"},
        {
            "run": "(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 0x8000000)) (br $l))",
            "memory": '(memory (export "memory") 2048)',
        },
        {**ASKS, "start_unwind": f"(param i32) {ENDLESS}"},
        {**ASKS, "stop_unwind": ENDLESS},
        {"get_state": f"(result i32) {ENDLESS} (i32.const 0)", "run": ""},
        {"run": f"(loop $l (global.set $countdown (i32.const 0x7fffffff)) {wat.CHECK} (br $l))"},
    ],
    ids=("no checks", "host calls only", "bulk fill", "unwinding", "unwound", "state", "winds up its countdown"),
)
def test_a_guest_that_never_comes_back_is_given_up_and_its_process_ends_as_it_says(
    load: Load, code_cache: Path, tmp_path: Path, parts: dict[str, str]
) -> None:
    wasm = tmp_path / "stuck.wasm"
    wasm.write_bytes(wat.module(**parts))
    load(wasm.read_bytes())  # compile here, so that only the run counts
    done = subprocess.run([sys.executable, "-c", STEP, wasm, code_cache], capture_output=True, text=True, timeout=240)
    assert done.stdout == "True The program ran for 0.2 s without reaching an interrupt check and was given up.\n"
    assert (done.returncode, done.stderr) == (4, "")


def test_a_slow_guest_with_checks_is_not_taken_for_stuck(load: Load) -> None:
    """Each check takes a four-megabyte fill: the first looks come after one, two, four checks, not after a thousand."""
    slow = load(
        wat.module(
            run=f"(loop $l {wat.CHECK} (memory.fill (i32.const 0) (i32.const 1) (i32.const 0x400000)) (br $l))",
            memory='(memory (export "memory") 2048)',
        )
    )
    guest = Guest.start(slow, args=b"{}", limits=Limits(stuck_seconds=2))
    assert guest.run(Slice(checks=3)) == Interrupted()


def test_the_hand_written_guest_is_sound(load: Load) -> None:
    counter = load(wat.module())
    assert_finished_alike(whole(counter), whole(counter))
