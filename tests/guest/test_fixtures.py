"""The committed test guests are what their sources say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def build_script(name: str) -> ModuleType:
    """A script of guest/build as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "guest" / "build" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_every_fixture_is_made_from_its_source() -> None:
    testguests = build_script("testguests")
    sources = {source.stem: source for source in testguests.SOURCES.glob("*.wat")}
    fixtures = {path.stem: path for path in testguests.FIXTURES.glob("*.wasm")}
    assert sources.keys() == fixtures.keys()
    changed = [name for name, path in fixtures.items() if path.read_bytes() != testguests.translate(sources[name])]
    assert changed == [], "run guest/build/testguests.py"
