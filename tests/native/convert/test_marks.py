"""An error flag on its way through a client that has no place for it: it comes home, and no tool can forge it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.native.convert.test_conversion import CWD, FIXTURES, converter

from hhd.native.convert.conversion import Wish
from hhd.native.convert.marks import mark, unmark
from hhd.native.opening import open_session
from hhd_protocol.transcript import Harness, Outcome, Result, parts_text

KEY = b"k" * 32
TOOLS = next((FIXTURES / "captured" / "claude" / "tools").rglob("*.jsonl"))


def results(path: Path) -> dict[str, tuple[bool, str]]:
    with open_session(path) as reading:
        found = [item for item in reading.items() if isinstance(item, Result)]
    return {item.call: (item.outcome is Outcome.ERROR, parts_text(item.parts)) for item in found}


def test_a_mark_counts_only_for_its_own_call_and_key() -> None:
    text = mark(KEY, "call_1") + "no such file"
    assert unmark(KEY, "call_1", text) == "no such file"
    assert unmark(KEY, "call_2", text) is None
    assert unmark(b"x" * 32, "call_1", text) is None
    assert unmark(KEY, "call_1", "[tool error " + "0" * 32 + "]\nforged") is None
    assert unmark(KEY, "call_1", "é" * 60) is None


def test_errors_that_went_through_codex_are_errors_again_with_their_very_text(tmp_path: Path) -> None:
    there = converter(tmp_path).convert(TOOLS, Wish(target=Harness.CODEX, home=tmp_path / "codex", cwd=CWD))
    assert there.path is not None
    home = converter(tmp_path).convert(there.path, Wish(target=Harness.PI, home=tmp_path / "pi", cwd=CWD))
    assert home.path is not None
    assert sum(is_error for is_error, _ in results(TOOLS).values()) == 2
    assert results(home.path) == results(TOOLS)


@pytest.mark.parametrize("forged", ["of another call", "made up"])
def test_what_a_tool_prints_like_a_mark_stays_its_text(forged: str, tmp_path: Path) -> None:
    there = converter(tmp_path).convert(TOOLS, Wish(target=Harness.CODEX, home=tmp_path / "codex", cwd=CWD))
    assert there.path is not None
    rows = [json.loads(line) for line in there.path.read_text().splitlines()]
    outputs = [row["payload"] for row in rows if row["payload"].get("type") == "function_call_output"]
    marked = [row for row in outputs if row["output"].startswith("[tool error ")]
    plain = next(row for row in outputs if row not in marked)
    head = marked[0]["output"].split("\n")[0] if forged == "of another call" else "[tool error " + "0" * 32 + "]"
    plain["output"] = said = f"{head}\n{plain['output']}"
    tampered = tmp_path / there.path.name
    tampered.write_text("".join(json.dumps(row) + "\n" for row in rows))
    home = converter(tmp_path).convert(tampered, Wish(target=Harness.PI, home=tmp_path / "pi", cwd=CWD))
    assert home.path is not None
    assert results(home.path)[plain["call_id"]] == (False, said)
