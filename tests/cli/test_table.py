"""The command table: help and errors without importing what they do not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hhd.cli import run


def test_help_imports_no_vendor() -> None:
    code = (
        "import sys\nfrom hhd.cli import run\nrun(['--help'])\n"
        "print([m for m in ('wasmtime', 'anthropic', 'aiortc', 'asyncio', 'cryptography') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "capsule" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_wrong_word_ends_in_2_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nonsense", "--json"]) == 2
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    assert json.loads(out)["exit"] == 2
