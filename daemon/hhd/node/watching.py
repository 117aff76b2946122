"""Looks after workers: one that hangs, or takes too much memory, is ended.

A worker says that it turns; one that has not for so long *of its own processor time* hangs in something that lets
nothing else of it run. Time that it sleeps, or is stopped, accuses nobody. (A program that does not come back hangs no
worker: `hhd.runtime.thread` sees it.) On a system that does not say what a process takes, nothing is looked at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hhd.node.forks import Worker

HANGS_SECONDS = 10.0
"""Of its own processor time without a sign of life, which comes every other second."""

MEMORY_BYTES_MAX = 3 * 1024 * 1024 * 1024
"""Of one worker: the largest memory that a program may have, a copy of it while it is paused, and room to work."""

LOOK_SECONDS = 0.5
"""Between two looks, while there are workers: a program that eats memory takes some hundred megabytes in it."""

_PAGE, _TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


@dataclass
class Watching:
    """What was seen of each worker at its last sign of life."""

    memory_bytes_max: int = MEMORY_BYTES_MAX
    hangs_seconds: float = HANGS_SECONDS
    _since: dict[Worker, float] = field(default_factory=dict)

    def look(self, worker: Worker) -> str | None:
        """Return why this worker has to be ended, as a sentence; None where it need not be."""
        seconds, memory = taken(worker.process)
        if worker.beat:
            worker.beat = False
            self._since[worker] = seconds
        if memory > self.memory_bytes_max:
            mib = self.memory_bytes_max // (1024 * 1024)
            return f"Its process took more than {mib} MiB of memory, and was ended."
        if seconds - self._since.setdefault(worker, seconds) > self.hangs_seconds:
            return f"Its process hung for {self.hangs_seconds:.0f} seconds of computing, and was ended."
        return None

    def forget(self, worker: Worker) -> None:
        """It is gone."""
        self._since.pop(worker, None)


def taken(process: int) -> tuple[float, int]:
    """Return the processor time in seconds and the memory in bytes that a process takes; zeros if nobody says."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0, 0
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE
