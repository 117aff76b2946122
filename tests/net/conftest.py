"""The laboratory of network namespaces as a fixture; see `lab.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from tests.net import lab as laboratory
from tests.net.lab import Emulated, Net

LabMaker = Callable[..., AbstractContextManager[Net]]

_missing = functools.cache(laboratory.missing)
_sweep = functools.cache(laboratory.sweep)


@pytest.fixture
def lab(tmp_path: Path) -> LabMaker:
    """Makes a `Net` of hosts by their names, which is gone after the block; skips where there can be none.

    `in_memory`: so are the folders of the hosts.
    """
    if (why := _missing()) is not None:
        pytest.skip(why)
    _sweep()

    @contextmanager
    def made(*names: str, emulated: Emulated | None = None, in_memory: bool = False) -> Iterator[Net]:
        folder = tmp_path / f"net{len(list(tmp_path.glob('net*')))}"
        folder.mkdir()
        with laboratory.in_memory(folder) if in_memory else nullcontext():
            net = Net(names, folder, emulated)
            try:
                yield net
            finally:
                net.close()

    return made
