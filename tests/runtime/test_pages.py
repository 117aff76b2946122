"""Changed pages: the quick way against the plain one."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.runtime import pages
from hhd_protocol.limits import PAGE_BYTES

PAGES = 160
"""Ten steps of 64 KiB."""


def fresh(count: int) -> tuple[mmap.mmap, int]:
    """Memory that was never touched, with its address."""
    memory = mmap.mmap(-1, count * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


@pytest.fixture(params=["pagemap", "comparison alone"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param != "pagemap":
        monkeypatch.setattr(pages, "pagemap_tells_the_truth", lambda: False)
    yield request.param


changes = st.dictionaries(st.integers(0, PAGES - 1), st.tuples(st.integers(0, PAGE_BYTES - 1), st.integers(0, 3)))


@settings(max_examples=150, deadline=None)
@given(memory=changes, baseline=changes, border=st.sampled_from([0, 16, 32, PAGES]))
@pytest.mark.parametrize("truth", [True, False])
def test_the_changed_pages_are_those_whose_bytes_differ(
    truth: bool, memory: dict[int, tuple[int, int]], baseline: dict[int, tuple[int, int]], border: int
) -> None:
    """Also pages written to with what they held before, which the kernel calls touched."""
    ours, address = fresh(PAGES)
    other, baseline_address = fresh(PAGES)
    for target, written in ((ours, memory), (other, {page: at for page, at in baseline.items() if page < border})):
        for page, (offset, value) in written.items():
            target[page * PAGE_BYTES + offset] = value
    expected = [
        page
        for page in range(PAGES)
        if ours[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] != other[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
    ]
    # what a baseline holds, a twin of it holds too, so a page that only the baseline was written to is not untouched
    touched = not truth or set(baseline) <= set(memory)
    pages.pagemap_tells_the_truth()  # kept from here on, so that the probe does not see the smaller reads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "_ENTRIES_AT_ONCE", 50)  # so that runs cross from one read of the pagemap to the next
        if not touched or not truth:
            patch.setattr(pages, "pagemap_tells_the_truth", lambda: False)
        runs = pages.changed_runs(address, PAGES * PAGE_BYTES, baseline_address, border * PAGE_BYTES)
    assert [page for run in runs for page in range(*run)] == expected
    assert all(first < end for first, end in runs)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(runs)), "runs are as long as they can be"


def test_touched_pages_are_few_where_few_were_touched(way: str) -> None:
    memory, address = fresh(PAGES)
    memory[7 * PAGE_BYTES] = 1
    runs = pages.touched_runs(address, PAGES * PAGE_BYTES)
    shown = way == "pagemap" and pages.pagemap_tells_the_truth()
    assert runs == ([(7, 8)] if shown else [(0, PAGES)])


def test_reading_memory_does_not_hide_later_writes(way: str) -> None:
    memory, address = fresh(PAGES)
    assert sum(memory[::PAGE_BYTES]) == 0
    memory[9 * PAGE_BYTES + 5] = 1
    assert pages.changed_runs(address, PAGES * PAGE_BYTES, 0, 0) == [(9, 10)]


def test_a_pagemap_that_lies_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pages.pagemap_tells_the_truth.cache_clear()
    monkeypatch.setattr(pages, "_marked_runs", lambda _memory, _size: iter([(0, 3)]))
    assert not pages.pagemap_tells_the_truth()
    pages.pagemap_tells_the_truth.cache_clear()


def test_a_pagemap_that_cannot_be_opened_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> int:
        raise PermissionError

    pages.pagemap_tells_the_truth.cache_clear()
    monkeypatch.setattr(pages.os, "open", closed)
    assert not pages.pagemap_tells_the_truth()
    pages.pagemap_tells_the_truth.cache_clear()
