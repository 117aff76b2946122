"""A copy of a guest's memory as it was when last looked at, to tell which pages changed since.

`changed_runs` finds what differs from the baseline, which grows with a session; a store wants what differs from the
checkpoint before, which does not. The copy is reserved at the size a memory may reach, and takes what was touched.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

from hhd.runtime.pages import Run, differing_runs
from hhd_protocol.limits import PAGE_BYTES


class MemoryCopy:
    """Pages by number as they were when `update` was last told of them; zeros where it never was."""

    def __init__(self, memory_bytes_max: int) -> None:
        self._map = mmap.mmap(-1, max(memory_bytes_max, PAGE_BYTES), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._window = ctypes.c_char.from_buffer(self._map)  # It lives as long as the map: nothing has to be closed.
        self._address = ctypes.addressof(self._window)

    def update(self, memory: int, numbers: Sequence[int]) -> list[int]:
        """Copy the pages `numbers` (ascending) of the memory at address `memory`; return those that differed."""
        runs = differing_runs(memory, self._address, _runs(numbers))
        for first, end in runs:
            at, length = first * PAGE_BYTES, (end - first) * PAGE_BYTES
            ctypes.memmove(self._address + at, memory + at, length)
        return [page for first, end in runs for page in range(first, end)]


def _runs(numbers: Sequence[int]) -> list[Run]:
    """Join ascending numbers that follow each other."""
    runs: list[Run] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs
