"""The bench of conversions converts: what it calls is what there is, and it keeps nothing among what a person has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench import bench_convert
from tests.bench.harness import own_folders
from tests.bench.native_inputs import claude_lines, write

from hhd.base.paths import data_folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    write(path, claude_lines(20_000))
    return path


def test_one_pass_converts(source: Path, tmp_path: Path) -> None:
    bench_convert.one_pass(source, tmp_path)
    assert list((tmp_path / "history").glob("*.sealed"))


def test_one_pass_in_a_process_of_its_own_says_its_memory(source: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", bench_convert.ONE_PASS, str(source)], check=True, capture_output=True, text=True
    )
    assert 10 < int(done.stdout) < 1000


def test_a_bench_keeps_its_own_things_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"HHD_{kind}_HOME", "elsewhere")
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        monkeypatch.setenv(name, "elsewhere")
    own_folders(tmp_path)
    assert data_folder().is_relative_to(tmp_path)
