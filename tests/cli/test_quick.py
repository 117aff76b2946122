"""The words that are read without click mean what they mean to click."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.app import capsules, handoffs
from hhd.base.errors import RefusedError
from hhd.cli import _by_click, quick

WORDS = st.sampled_from(
    [
        "",
        "--json",
        "--slice-ms",
        "--slice-checks",
        "--reply-file",
        "--module",
        "--help",
        "-h",
        "--",
        "a.hhd",
        "b",
        "-1",
        "0",
        "1",
        "7",
        "250",
        "1e3",
        "0.5",
        "nan",
        "inf",
        "٣",
        "1_000",
        " 5",
        "--slice-ms=5",
        "--slice",
        "--jso",
        "999999999999999999999999999999",
    ]
)


def _calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def called(name: str) -> Any:
        def stand_in(file: Path, **given: Any) -> None:
            given.pop("stop", None)  # One of each call's own.
            calls.append((name, file, given))
            raise RefusedError("stop here")

        return stand_in

    for name in ("step", "run"):
        monkeypatch.setattr(capsules, name, called(name))
    return calls


@given(st.sampled_from(["step", "run"]), st.lists(WORDS, max_size=6))
def test_both_readers_agree_wherever_the_quick_one_reads(verb: str, rest: list[str]) -> None:
    words = ["capsule", verb, *rest]
    call = quick.parse(words)
    if call is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        calls = _calls(patch)
        patch.setattr("hhd.cli.capsule_report._reply", lambda path: path)
        for reader in (call, lambda: _by_click(words)):
            with pytest.raises(RefusedError, match="stop here"):
                reader()
    assert len(calls) == 2 and calls[0] == calls[1]


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("capsule step f", True),
        ("capsule step f --json --slice-checks 5", True),
        ("capsule step --slice-ms 5 f --reply-file r --module m", True),
        ("capsule run f --json", True),
        ("capsule step", False),
        ("capsule step --help", False),
        ("capsule step f g", False),
        ("capsule step f --slice-checks 0", False),
        ("capsule step f --slice-checks", False),
        ("capsule run f --slice-ms 5", False),
        ("capsule info f", False),
    ],
)
def test_only_what_is_beyond_doubt_is_read_without_click(words: str, read: bool) -> None:
    assert (quick.parse(words.split()) is not None) == read


TRANSFER_WORDS = st.sampled_from(
    ["", "a", "b c", "-", "--", "-h", "here", "--json", "--jso", "--json=1", "--dry-run", "--cancel-running", "--to",
     "--force", "--deadline", "600"]
)  # fmt: skip


@given(st.lists(TRANSFER_WORDS, max_size=6))
def test_both_readers_agree_on_a_transfer_wherever_the_quick_one_reads(rest: list[str]) -> None:
    call = quick.parse(["transfer", *rest])
    if call is None:
        return
    calls: list[Any] = []

    def stand_in(*given: Any, **more: Any) -> None:
        calls.append((given, more))
        raise RefusedError("stop here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handoffs, "Transfer", stand_in)
        for reader in (call, lambda: _by_click(["transfer", *rest])):
            with pytest.raises(RefusedError, match="stop here"):
                reader()
    assert len(calls) == 2 and calls[0] == calls[1]


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("transfer s d", True),
        ("transfer --json s --dry-run d --cancel-running", True),
        ("transfer s", False),
        ("transfer s d e", False),
        ("transfer s d --deadline 5", False),
        ("transfer s d --to f", False),
        ("transfer s -- d", False),
        ("transfer --help", False),
    ],
)
def test_only_a_transfer_beyond_doubt_is_read_without_click(words: str, read: bool) -> None:
    assert (quick.parse(words.split()) is not None) == read


def test_a_transfer_that_is_read_so_imports_neither_click_nor_what_a_daemon_is_made_of() -> None:
    vendors = (
        "click",
        "automerge",
        "wasmtime",
        "zstandard",
        "asyncio",
        "tempfile",
        "hhd.store.store",
        "hhd_protocol.live",
    )
    code = f"""
import sys
from hhd.app import sessions
from hhd.cli import run
from hhd.node.answers.handoff import Moved
from hhd_protocol import mapping
class Link:
    def stream(self, verb, given, *, changes):
        assert (verb, given["name"], given["to"], changes) == ("transfer", "s", "d", True), (verb, given)
        yield mapping.to_value(Moved(transfer="", session="", stage="acknowledged", sentence="", over=True, status=4))
    def close(self): pass
sessions.daemon_link = Link
assert run(["transfer", "s", "d", "--json"]) == 4
print([one for one in {vendors} if one in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and '"acknowledged"' in done.stdout
