"""`hhd native ...` on captured homes: what a person and a program see."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.native.native import FIXTURES, claude_record, lines

from hhd.cli import run
from hhd_protocol.transcript import decode_header, decode_item

CAPTURED = FIXTURES / "captured"
SESSION = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The homes of three clients, with a session in each, and a Claude home to add to."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(CAPTURED / "claude" / "tools"))
    monkeypatch.setenv("CODEX_HOME", str(CAPTURED / "codex" / "image"))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(CAPTURED / "pi" / "compact"))
    monkeypatch.delenv("PI_CODING_AGENT_SESSION_DIR", raising=False)
    return tmp_path


def out(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run(["native", *words]) == status
    return capsys.readouterr().out


def test_ls_lists_all_or_one_client_or_one_directory(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(out(capsys, "ls", "--json"))["sessions"]
    assert {card["harness"] for card in found} == {"claude", "codex", "pi"}
    assert len(out(capsys, "ls").splitlines()) == 3
    only = json.loads(out(capsys, "ls", "--json", "--harness", "pi"))["sessions"]
    assert [card["cwd"] for card in only] == ["/home/alice/src/compact"]
    there = json.loads(out(capsys, "ls", "--json", "--cwd", "/home/alice/src/tools"))["sessions"]
    assert [card["harness"] for card in there] == ["claude"]


def test_show_prints_a_session_by_id_or_file_from_a_turn_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = out(capsys, "show", "01a22778-89e9")
    assert "filler" in whole and "PELICAN" in whole and "not sent to the model" in whole
    last = out(capsys, "show", "01a22778-89e9", "--from", "3")
    assert "after reply" in last and "filler" not in last
    assert "after reply" in out(capsys, "show", "01a22778-89e9", "--from", "-1")
    file = next((CAPTURED / "codex" / "image").rglob("*.jsonl"))
    rows = out(capsys, "show", str(file), "--json").encode().splitlines()
    assert decode_header(rows[0]).id == file.stem[-36:]
    assert len([decode_item(row) for row in rows[1:]]) == 4


def test_info_accounts_for_every_record(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(out(capsys, "info", "8381068d", "--json"))
    assert sum(row["records"] for row in facts["account"]) == facts["records"] == 47
    assert facts["items"] == {"message": 1, "thinking": 2, "text": 2, "call": 6, "result": 6}
    assert "vendor-text" in out(capsys, "info", "8381068d")


def test_search_finds_text_in_prompts_calls_and_results(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = json.loads(out(capsys, "search", "does NOT exist", "--json"))["places"]
    assert [(p["harness"], p["speaker"]) for p in places] == [("claude", "result")]
    assert json.loads(out(capsys, "search", "never said anywhere", "--json"))["places"] == []
    assert len(json.loads(out(capsys, "search", "e", "--limit", "2", "--json"))["places"]) == 2
    assert out(capsys, "search", " ", status=2) == ""


def test_archive_keeps_lists_checks_and_restores(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = json.loads(out(capsys, "archive", "--all", "--json"))["kept"]
    assert len(kept) == 3 and all(row["new"] for row in kept)
    assert not json.loads(out(capsys, "archive", "8381068d", "--json"))["kept"][0]["new"]
    assert len(json.loads(out(capsys, "archive", "--list", "--json"))["originals"]) == 3
    assert json.loads(out(capsys, "archive", "--check", "--json")) == {"damages": []}
    (file,) = json.loads(out(capsys, "archive", "8381068d", "--restore", str(home / "r"), "--json"))["files"]
    source = next((CAPTURED / "claude" / "tools").rglob("*.jsonl"))
    assert Path(file).read_bytes() == source.read_bytes()
    out(capsys, "archive", "8381068d", "--restore", str(home / "r"), status=3)


def test_wrong_names_are_refused_in_one_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "x.jsonl").write_text("no session\n")
    for words, status in ((["show", "0000"], 2), (["show", "./gone"], 2), (["show", str(home / "x.jsonl")], 3)):
        assert run(["native", *words]) == status
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert run(["native", "show", "01a2"]) == 2


def test_nothing_a_session_holds_reaches_the_terminal_as_a_control_sequence(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\u2028\x00\x9b31m"
    call = [{"type": "tool_use", "id": "t" + evil, "name": "N" + evil, "input": {evil: evil}}]
    answer = [{"type": "tool_result", "tool_use_id": "t" + evil, "content": evil}]
    records = [
        claude_record(1, None, "user", evil, cwd="/w/" + evil, version=evil, gitBranch=evil),
        claude_record(2, 1, "assistant", call),
        claude_record(3, 2, "user", answer),
        claude_record(4, 3, "assistant", [{"type": "text", "text": evil}, {"type": evil, "text": evil}]),
        {"type": "custom-title", "customTitle": evil},
        {"type": evil},
    ]
    path = home / "claude" / "projects" / "-w" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(*records))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    shown = "".join(
        out(capsys, *words)
        for words in (["ls"], ["show", SESSION], ["info", SESSION], ["search", "owned"], ["archive", SESSION])
    )
    assert "owned" in shown
    assert not [c for c in shown if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028"]


def test_a_bar_is_shown_on_a_terminal_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = home / "claude" / "projects" / "-w"
    project.mkdir(parents=True)
    for number in range(250):
        name = f"aaaaaaaa-0000-4000-8000-{number:012}.jsonl"
        (project / name).write_bytes(lines(claude_record(1, None, "user", "hello")))
    words = [sys.executable, "-m", "hhd", "native", "ls", "--json"]
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(home / "claude")}
    done = subprocess.run(words, env=environment, capture_output=True, check=True)
    assert done.stderr == b"" and len(json.loads(done.stdout)["sessions"]) == 252
    for cached in (home / "hhd-cache").rglob("native*"):
        cached.unlink()
    leader, follower = pty.openpty()
    child = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=follower)
    os.close(follower)
    said = b""
    try:
        while piece := os.read(leader, 65536):
            said += piece
    except OSError:  # What Linux says at the end of a terminal.
        pass
    os.close(leader)
    assert child.wait() == 0
    assert b"[####" in said and said.endswith(b"\x1b[K")


def test_help_loads_no_reader() -> None:
    code = (
        "import sys\nfrom hhd.cli import run\nrun(['native', 'ls', '--help'])\n"
        "print([m for m in sys.modules if m.startswith(('hhd.native', 'hhd.node', 'hhd_protocol', 'msgspec'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
