"""Worlds with the sync machine, run one after the other.

python -m tests.sim.sync_running SEED            replay one world and print its whole trace
python -m tests.sim.sync_running --seeds 20000   many; `--mutant NAME SEED...` with one deliberate fault
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable

from tests.sim import mutants
from tests.sim.mutants import Mutant

_MACHINE, _ROUNDS, _WANTS, _CHAINS = (f"hhd_protocol.sync.{name}" for name in ("machine", "rounds", "wants", "chains"))
_WORLD = "tests.sim.sync_world"

REQUIRED = (
    "message lost",
    "message twice",
    "out of order",
    "partition",
    "link cut in the middle",
    "crash",
    "unsynced writes lost",
    "clock jumped",
    "wake",
    "full disk",
    "restore",
    "death",
    "fork",
    "takeover",
    "release in flight",
    "held",
    "already taken",
    "level at once",
    "content sent along",
    "content absent",
    "all level",
)
"""What some world of a run must have reached, or the run shows less than it says."""

MUTANTS: dict[str, Mutant] = {
    "acknowledged before it is durable": Mutant(
        breaks="2, nothing acknowledged is lost",
        module=_WORLD,
        old="        device.disk.sync()\n        device.disk.objects |= objects",
        new="        device.disk.objects |= objects",
    ),
    "content is acknowledged unseen": Mutant(
        breaks="3, whole or not acknowledged",
        module=_WORLD,
        old="        return self.whole(device) - view.held - view.refused",
        new="        return {i for i, s in device.disk.statements.items() if isinstance(s, Checkpoint)} - view.held",
    ),
    "what is absent is never asked of another": Mutant(
        breaks="6, all have all",
        module=_WANTS,
        old="            self._open[name] = None\n\n    def again",
        new="\n    def again",
    ),
    "a lost link leaves its wants": Mutant(
        breaks="6, all have all",
        module=_WANTS,
        old="            self._wants[name].asked = None\n            self._open[name] = None\n\n    def met",
        new="            pass\n\n    def met",
    ),
    "only ends that are known are told": Mutant(
        breaks="6, one meaning",
        module=_CHAINS,
        old="        return [id for id in self._after if id not in had]",
        new="        return [id for id in self._after if id not in had and self._after[id] in had]",
    ),
    "a comparison is never begun again": Mutant(
        breaks="6, all settles",
        module=_MACHINE,
        old="            if now_ms >= one.asked_ms + SYNC_AGAIN_MS:",
        new="            if False:",
    ),
    "sent is taken for had": Mutant(
        breaks="6, all have all",
        module=_ROUNDS,
        old="        one.sent.clear()  # What was lost on the way, if anything was, is asked for now.",
        new="        pass",
    ),
}


def run_world(seed: int) -> tuple[Counter[str], str | None, object]:
    """Run the world of `seed`; what it reached, what does not hold (None: all holds), the world."""
    from tests.sim.sync_world import SyncWorld

    world = SyncWorld(seed)
    try:
        return world.run(), None, world
    except Exception as error:  # noqa: BLE001 whatever breaks is reported with its seed
        where = traceback.extract_tb(error.__traceback__)[-1]
        return world.reached, f"{error or type(error).__name__} ({where.name}:{where.lineno})", world


def run_worlds(
    seeds: Iterable[int], go_on: Callable[[], bool] = lambda: True
) -> tuple[Counter[str], dict[int, str], int]:
    """Run worlds as long as `go_on` says so; how many reached what, what failed by seed, how many there were."""
    reached: Counter[str] = Counter()
    failures: dict[int, str] = {}
    count = 0
    for seed in seeds:
        if not go_on():
            break
        found, error, _ = run_world(seed)
        reached.update(found.keys())
        count += 1
        if error is not None:
            failures[seed] = error
    return reached, failures, count


def told(reached: Counter[str], count: int) -> str:
    return f"{count} worlds; reached by\n" + "\n".join(f"{n:7} {what}" for what, n in sorted(reached.items()))


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--mutant"]:
        mutants.install_mutant(MUTANTS[arguments[1]])
        print(json.dumps({seed: run_world(int(seed))[1] for seed in arguments[2:]}))
        return 0
    if arguments[:1] == ["--find"]:  # Seeds that catch a mutant, for `SEEDS` in the test.
        mutants.install_mutant(MUTANTS[arguments[1]])
        found = [seed for seed in range(int(arguments[2])) if run_world(seed)[1] is not None]
        print(json.dumps({arguments[1]: found[:3]}), len(found))
        return 0
    if arguments[:1] == ["--seeds"]:
        begin = time.monotonic()
        reached, failures, count = run_worlds(range(int(arguments[1])))
        print(told(reached, count), f"\n{time.monotonic() - begin:.0f} s; failures: {failures or 'none'}")
        return 1 if failures or any(not reached[what] for what in REQUIRED) else 0
    reached, error, world = run_world(int(arguments[0]))
    print(getattr(world, "story")())  # noqa: B009
    print(f"seed {arguments[0]}: {error or 'all holds'}; {dict(reached)}")
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
