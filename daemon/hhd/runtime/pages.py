"""Which pages of a guest's memory differ from its baseline.

The truth is a comparison of bytes, 64 KiB at a time, then 16 and 4 KiB where they differ. Most of a memory was never
touched, though, and the kernel knows that: in `/proc/self/pagemap` a page of ours that is neither present nor swapped
still is what it was when it was mapped, which is the baseline. Those are skipped, which makes the cost follow what a
guest touched instead of what it reserved. Where the file is missing, or does not tell the truth about our addresses (an
emulator has its own), everything is compared; a probe over a pattern of touched pages decides, once a process.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from collections.abc import Iterable, Iterator

from hhd_protocol.limits import PAGE_BYTES

Run = tuple[int, int]
"""The first page of a run, and the first one after it."""

_LARGE, _MIDDLE = 16 * PAGE_BYTES, 4 * PAGE_BYTES
"""Bytes compared at once, before single pages: with one page in a hundred changed, the middle step halves the calls."""

_memcmp = ctypes.PyDLL(None).memcmp  # PyDLL keeps Python's lock: letting it go costs more than a small comparison
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int

_zeros = ctypes.create_string_buffer(_LARGE)
_ZEROS_AT = ctypes.addressof(_zeros)

_ENTRY_BYTES = 8
_ENTRIES_AT_ONCE = 8192
"""64 KiB: a larger buffer is mapped anew at each read, which costs more than the read."""

_MARKED = bytes(1 if top & 0xC0 and not top & 0x20 else 0 for top in range(256))
"""Maps the top byte of a pagemap entry to whether the page may differ: present (0x80) or swapped (0x40), and not a page
of the file it was mapped from (0x20), which a private mapping replaces when it is written to."""


def changed_runs(memory: int, size: int, baseline: int, baseline_size: int) -> list[Run]:
    """Runs of pages in which `size` bytes at `memory` differ from the baseline, and from zeros past its end.

    The sizes are multiples of 64 KiB, the addresses of the system's page.
    """
    border = baseline_size // PAGE_BYTES
    runs: list[Run] = []
    for first, end in touched_runs(memory, size):
        for low, high in ((first, min(end, border)), (max(first, border), end)):
            if low < high:
                _compare(memory, baseline if high <= border else None, low, high, runs)
    return runs


def differing_runs(memory: int, other: int, runs: Iterable[Run]) -> list[Run]:
    """Runs of those pages among `runs` that differ between the memories at two addresses."""
    found: list[Run] = []
    for first, end in runs:
        _compare(memory, other, first, end, found)
    return found


def _compare(memory: int, baseline: int | None, first: int, end: int, runs: list[Run]) -> None:
    """Append the pages from `first` to `end` that differ from `baseline`, None for zeros.

    Three nested loops over plain integers: written as one recursive step it took a quarter longer.
    """
    compare = _memcmp  # found once: the loops run some thousand times
    shift = 0 if baseline is None else baseline - memory
    stop = memory + end * PAGE_BYTES
    for large in range(memory + first * PAGE_BYTES, stop, _LARGE):
        large_end = min(large + _LARGE, stop)
        if compare(large, large + shift if shift else _ZEROS_AT, large_end - large) == 0:
            continue
        for middle in range(large, large_end, _MIDDLE):
            middle_end = min(middle + _MIDDLE, large_end)
            if compare(middle, middle + shift if shift else _ZEROS_AT, middle_end - middle) == 0:
                continue
            for small in range(middle, middle_end, PAGE_BYTES):
                if compare(small, small + shift if shift else _ZEROS_AT, PAGE_BYTES):
                    _append((small - memory) // PAGE_BYTES, runs)


def _append(page: int, runs: list[Run]) -> None:
    if runs and runs[-1][1] == page:
        runs[-1] = (runs[-1][0], page + 1)
    else:
        runs.append((page, page + 1))


def touched_runs(memory: int, size: int) -> list[Run]:
    """Runs of pages that may have been written to since `memory` was mapped; one run of all where that is not known."""
    if not pagemap_tells_the_truth():
        return [(0, size // PAGE_BYTES)]
    try:
        return list(_marked_runs(memory, size))
    except OSError:
        return [(0, size // PAGE_BYTES)]


def _marked_runs(memory: int, size: int) -> Iterator[Run]:
    count = size // PAGE_BYTES
    fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for begin in range(0, count, _ENTRIES_AT_ONCE):
            wanted = min(_ENTRIES_AT_ONCE, count - begin) * _ENTRY_BYTES
            entries = os.pread(fd, wanted, (memory // PAGE_BYTES + begin) * _ENTRY_BYTES)
            if len(entries) != wanted:
                raise OSError("short read of pagemap")
            marks = entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES].translate(_MARKED)
            first = marks.find(1)
            while first >= 0:
                end = marks.find(0, first)
                end = len(marks) if end < 0 else end
                yield begin + first, begin + end
                first = marks.find(1, end)
    finally:
        os.close(fd)


@functools.cache
def pagemap_tells_the_truth() -> bool:
    """Whether this system's pagemap shows which of 64 fresh pages were written to."""
    if mmap.PAGESIZE != PAGE_BYTES:
        return False
    touched = [page for page in range(64) if (0x9D3A_61C7_582E_F0B4 >> page) & 1]
    with mmap.mmap(-1, 64 * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as probe:
        for page in touched:
            probe[page * PAGE_BYTES] = 1
        window = ctypes.c_char.from_buffer(probe)
        try:
            shown = [page for run in _marked_runs(ctypes.addressof(window), 64 * PAGE_BYTES) for page in range(*run)]
        except OSError:
            return False
        finally:
            del window
    return shown == touched
