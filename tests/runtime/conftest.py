"""What the tests of this room share: a cache of compiled modules for the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hhd.runtime.module import Module

Load = Callable[[bytes], Module]


@pytest.fixture(scope="session")
def code_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled modules: compiling apart takes a tenth of a second each time."""
    return tmp_path_factory.mktemp("code")


@pytest.fixture(scope="session")
def load(code_cache: Path) -> Load:
    """`Module.load` with the shared cache."""
    loaded: dict[bytes, Module] = {}

    def load(wasm: bytes) -> Module:
        if wasm not in loaded:
            loaded[wasm] = Module.load(wasm, cache=code_cache)
        return loaded[wasm]

    return load
