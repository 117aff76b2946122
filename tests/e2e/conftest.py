"""Programs are compiled once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compiled_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(autouse=True)
def _shared_cache(_own_folders: None, compiled_modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HHD_CACHE_HOME", str(compiled_modules))
