"""A copy of a memory tells which pages changed since it was last looked at."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.runtime.copies import MemoryCopy
from hhd_protocol.limits import PAGE_BYTES

PAGES = 48


@pytest.fixture(scope="module")
def memory() -> Iterator[tuple[mmap.mmap, int]]:
    whole = mmap.mmap(-1, PAGES * PAGE_BYTES)
    window = ctypes.c_char.from_buffer(whole)
    yield whole, ctypes.addressof(window)
    del window


@given(rounds=st.lists(st.dictionaries(st.integers(0, PAGES - 1), st.integers(0, 255), max_size=12), max_size=5))
def test_exactly_the_pages_written_with_something_else_are_told(
    memory: tuple[mmap.mmap, int], rounds: list[dict[int, int]]
) -> None:
    whole, address = memory
    whole[:] = bytes(len(whole))
    copy = MemoryCopy(len(whole))
    before = bytes(len(whole))
    for written in rounds:
        for page, value in written.items():
            whole[page * PAGE_BYTES + value] = value
        now = whole[:]
        told = copy.update(address, range(PAGES))
        cut = [slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES) for page in range(PAGES)]
        assert told == [page for page in range(PAGES) if before[cut[page]] != now[cut[page]]]
        before = now


def test_only_the_pages_asked_about_are_looked_at(memory: tuple[mmap.mmap, int]) -> None:
    whole, address = memory
    whole[:] = b"\1" * len(whole)
    copy = MemoryCopy(len(whole))
    assert copy.update(address, [3, 4, 9]) == [3, 4, 9]
    assert copy.update(address, [3, 4, 5, 9]) == [5]
