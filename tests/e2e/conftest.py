"""Programs are compiled once for all tests; a daemon that a test started is ended after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.told import Told

from hhd.base.locks import held


@pytest.fixture(autouse=True)
def _shared_cache(_own_folders: None, compiled_modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HHD_CACHE_HOME", str(compiled_modules))


@pytest.fixture
def data() -> Iterator[Path]:
    """The data folder of this test, whose daemon is ended after it."""
    folder = Path(os.environ["HHD_DATA_HOME"])
    yield folder
    Told("down")
    assert not held(folder / "daemon.lock")
