"""What being pausable costs: each kind of work instrumented against plain, and how soon a 1 MB parse can be stopped."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import wasmtime
from tests.bench.harness import paired, percentile, report
from tests.runtime.instrument.host import ENGINE, Run, Slice

from hhd.runtime.instrument import instrument

PLAIN = Path(__file__).parents[1] / "fixtures" / "bench.plain.wasm"
WORKS = {
    # Rounds, so that one run takes some tens of milliseconds, and what is to be reached.
    "hash": (300, 1.1),
    "bytes": (300, 1.1),
    "sum": (400, 1.1),
    "float": (1500, 1.1),
    "vector": (4000, 1.4),
    "json": (60, 1.5),
    "json_parse": (4, 1.5),
    "maps": (60, 1.5),
    "sort": (150, 1.5),
    "recursion": (150, 1.5),
}
PAIRS = 31
STOPS = 60
SLICE_CHECKS = 50_000
"""Checks between two looks at the flag: what a host of some microseconds a look would choose."""


def main() -> None:
    """Print one figure for each kind of work, then those of stopping."""
    plain = PLAIN.read_bytes()
    begin = time.perf_counter()
    instrumented = instrument(plain, trusted=True)
    took = (time.perf_counter() - begin) * 1000
    sizes = {"plain_bytes": len(plain), "instrumented_bytes": len(instrumented)}
    report("the passes", "instrument(bench.plain.wasm)", "cold", n=1, median_ms=round(took, 1), **sizes)
    modules = wasmtime.Module(ENGINE, instrumented), wasmtime.Module(ENGINE, plain)
    for work, (rounds, target) in WORKS.items():
        ours, theirs = (running(module, work, rounds) for module in modules)
        report(
            f"{work}, instrumented / plain",
            f"work={work} rounds={rounds}",
            "warm",
            **paired(ours, theirs, PAIRS),
            target=target,
        )
    report_stops(modules[0])


def running(module: wasmtime.Module, work: str, rounds: int) -> Callable[[], object]:
    """An act that runs one kind of work to its end."""
    arguments = {"work": work, "rounds": str(rounds)}
    return lambda: Run(module, arguments).to_end()


class Stoppable(Slice):
    """A slice that looks at a flag every so many checks, and remembers at what processor time it looked.

    A busy machine takes the processor away for longer than any stretch of the guest; the guest cannot help that.
    """

    flag: threading.Event
    looks: list[float]

    def goes_on(self) -> bool:
        """Go on until the flag is set."""
        self.looks.append(time.thread_time())
        if self.flag.is_set():
            return False
        self.countdown.set_value(self.store, SLICE_CHECKS)
        return True


def report_stops(module: wasmtime.Module) -> None:
    """Stop the parse of a document of a megabyte at random moments, until the guest has left its stack."""
    dice = random.Random(1)
    running(module, "json_parse", 1)()
    waits, gaps = [], []
    for _ in range(STOPS):
        one = Stoppable(Run(module, {"work": "json_parse", "rounds": "400"}), SLICE_CHECKS)
        one.flag, one.looks = threading.Event(), []
        asked: list[float] = []

        def ask(flag: threading.Event = one.flag, asked: list[float] = asked) -> None:
            asked.append(time.perf_counter())
            flag.set()

        timer = threading.Timer(dice.uniform(0.05, 0.15), ask)
        timer.start()
        finished = one.run()
        waits.append((time.perf_counter() - asked[0]) * 1000)
        one.looks.append(time.thread_time())
        timer.join()
        one.store.close()
        assert not finished, "the parse was stopped in its midst"
        gaps += [(after - before) * 1000 for before, after in zip(one.looks, one.looks[1:], strict=False)]
    command = f"parse 1 MB of JSON, look every {SLICE_CHECKS} checks"
    for figure, values in (("stop request to an empty stack", waits), ("longest stretch, processor time", gaps)):
        measured = {"n": len(values), "median_ms": round(statistics.median(values), 3)}
        measured |= {"p99_ms": round(percentile(values, 0.99), 3), "most_ms": round(max(values), 3)}
        report(figure, command, "warm", **measured, target_ms=15)
