"""Programs are compiled once for all tests, not once a test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _shared_cache(_own_folders: None, compiled_modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HHD_CACHE_HOME", str(compiled_modules))
