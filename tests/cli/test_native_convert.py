"""`hhd native convert`, `verify` and `resume`, as a person calls them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from hhd.cli import run

SOURCE = next((Path(__file__).parents[1] / "fixtures/native/captured/claude/tools").rglob("*.jsonl"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    (home / "w").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "w")
    return home


def _rollouts(home: Path) -> list[Path]:
    return [path for path in home.rglob("rollout-*.jsonl") if path.is_file()]


def test_without_a_place_it_only_says_what_would_happen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["native", "convert", str(SOURCE), "--to", "codex"]) == 0
    out = capsys.readouterr().out
    assert "Nothing was written" in out
    assert "2 thinking" in out
    assert not _rollouts(home)


def test_installed_it_is_listed_and_has_a_manifest(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["native", "convert", str(SOURCE), "--to", "codex", "--install", "--cwd", str(home / "w"), "--json"]
    assert run([*words, "--manifest", str(home / "manifest")]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["manifest"] == str(home / "manifest") and (home / "manifest").stat().st_mode & 0o777 == 0o600
    assert _rollouts(home) == [Path(done["path"])]
    rows = [json.loads(line) for line in Path(done["manifest"]).read_text().splitlines()]
    assert rows[0]["items"] == done["items"] == 15
    assert len([row for row in rows if isinstance(row, list)]) == 15
    assert {row["loss"]["kind"] for row in rows[1:] if isinstance(row, dict)} >= {
        "thinking",
        "error-flag",
        "privileged",
    }
    assert run(["native", "ls", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["sessions"]
    assert [(card["harness"], card["id"]) for card in listed] == [("codex", done["id"])]
    assert run(["native", "verify", done["path"]]) == 0
    assert "fits together" in capsys.readouterr().out
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["did"] == "unchanged"
    assert len(_rollouts(home)) == 1


def test_strict_refuses_with_3_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["native", "convert", str(SOURCE), "--to", "codex", "--out", str(home / "out"), "--cwd", str(home / "w")]
    assert run([*words, "--strict", "thinking"]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not _rollouts(home)
    assert run([*words, "--strict", "text"]) == 0
    assert len(_rollouts(home)) == 1


def test_wrong_words_end_in_2(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["native", "convert", str(SOURCE), "--to", "codex", "--strict", "nonsense"]) == 2
    assert "knows no kind nonsense" in capsys.readouterr().err
    assert run(["native", "convert", str(SOURCE), "--to", "pi", "--install", "--cwd", "/nowhere/at/all"]) == 2
    assert "There is no folder" in capsys.readouterr().err
    assert run(["native", "convert", str(SOURCE), "--to", "vim"]) == 2


def test_without_a_place_for_its_manifest_nothing_is_converted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["native", "convert", str(SOURCE), "--to", "codex", "--out", str(home / "out"), "--cwd", str(home / "w")]
    assert run([*words, "--manifest", str(home / "not-there" / "m")]) == 3
    assert "cannot be written" in capsys.readouterr().err
    (home / "mine").write_text("mine")
    assert run([*words, "--manifest", str(home / "mine")]) == 2
    assert "exists" in capsys.readouterr().err and (home / "mine").read_text() == "mine"
    assert run([*words[:5], "--manifest", str(home / "m")]) == 2
    assert not _rollouts(home)
    assert run(words) == 0
    assert len(_rollouts(home)) == 1


@pytest.mark.parametrize("folder", ["/w\x00x", "/" + "w" * 5000, "/" + "w" * 300])
def test_a_session_of_a_folder_that_cannot_be_needs_another(
    folder: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = home / "11111111-2222-4333-8444-555555555555.jsonl"
    message = {"role": "user", "content": "hello"}
    record = {"type": "user", "uuid": "u", "parentUuid": None, "isSidechain": False, "cwd": folder}
    source.write_text(json.dumps({**record, "message": message}) + "\n")
    words = ["native", "convert", str(source), "--to", "pi"]
    for place in (["--install"], ["--out", str(home / "out")]):
        assert run([*words, *place]) in (2, 3)
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert run([*words, "--install", "--cwd", str(home / "w")]) == 0


def test_resume_prints_the_clients_own_command(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["native", "resume", str(SOURCE), "--with", "pi", "--print"]) == 0
    out = capsys.readouterr().out.strip()
    (made,) = (path for path in (home / ".pi").rglob("*.jsonl"))
    assert out == f"cd {home / 'w'} && pi --session {made}"
    assert run(["native", "resume", str(made), "--with", "pi", "--print"]) == 0
    assert str(made) in capsys.readouterr().out


def test_claude_gets_the_file_where_the_id_would_not_be_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The folder that the session worked in is not on this device: from another one its id means nothing.
    assert run(["native", "resume", str(SOURCE), "--with", "claude", "--print"]) == 0
    assert capsys.readouterr().out.strip() == f"cd {home / 'w'} && claude --resume {SOURCE}"
    words = ["native", "convert", str(SOURCE), "--to", "claude", "--install", "--cwd", str(home / "w"), "--json"]
    assert run(words) == 0
    made = json.loads(capsys.readouterr().out)
    assert run(["native", "resume", made["path"], "--with", "claude", "--print"]) == 0
    assert capsys.readouterr().out.strip() == f"cd {home / 'w'} && claude --resume {made['id']}"


def test_what_a_client_would_not_open_is_refused_with_the_way_out(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for client in ("codex", "pi"):
        words = ["native", "convert", str(SOURCE), "--to", client, "--out", str(home / "out"), "--json"]
        assert run(words) == 0
        made = json.loads(capsys.readouterr().out)["path"]
        assert run(["native", "resume", made, "--with", client, "--print"]) == 3
        error = capsys.readouterr().err
        assert f"hhd native convert {made} --to {client} --install --cwd {home / 'w'}" in error


def test_a_client_that_is_not_installed_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert run(["native", "verify", str(SOURCE), "--with-client"]) == 3
    assert "claude is not installed here" in capsys.readouterr().err
    assert run(["native", "resume", str(SOURCE), "--with", "codex"]) == 3
    assert "codex is not installed here" in capsys.readouterr().err
    assert not _rollouts(home)  # 3: nothing changed.
    assert run(["native", "resume", str(SOURCE), "--with", "codex", "--print"]) == 0
    assert len(_rollouts(home)) == 1


def test_the_hint_of_a_conversion_works_when_it_is_typed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "a folder"))
    words = ["native", "convert", str(SOURCE), "--to", "codex", "--cwd", str(home / "w")]
    assert run([*words, "--install"]) == 0
    hint = shlex.split(capsys.readouterr().out.splitlines()[-1].removeprefix("Go on with: "))
    assert run([*hint[1:], "--print"]) == 0
    assert "codex resume" in capsys.readouterr().out
    # Codex finds nothing there, so nothing is said that would be refused.
    assert run([*words, "--out", str(home / "out")]) == 0
    assert "Go on with" not in capsys.readouterr().out


def test_a_manifest_that_was_not_written_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["native", "convert", str(SOURCE), "--to", "codex", "--cwd", str(home / "w"), "--install"]
    assert run(words) == 0
    assert "was not written" not in capsys.readouterr().out
    assert run([*words, "--manifest", str(home / "m")]) == 0
    assert "m was not written" in capsys.readouterr().out and not (home / "m").exists()
    assert run([*words, "--manifest", str(home / "m"), "--new"]) == 0
    assert "was not written" not in capsys.readouterr().out and (home / "m").exists()


def test_a_folder_of_a_session_cannot_speak_to_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = home / "11111111-2222-4333-8444-555555555555.jsonl"
    record = {"type": "user", "uuid": "u", "parentUuid": None, "isSidechain": False, "cwd": str(home / "w\x1b[31m")}
    source.write_text(json.dumps({**record, "message": {"role": "user", "content": "hello"}}) + "\n")
    (home / "w\x1b[31m").mkdir()
    assert run(["native", "convert", str(source), "--to", "pi", "--install"]) == 0
    out = capsys.readouterr().out
    assert "Go on with" in out and "\x1b" not in out


def test_the_way_back_takes_the_original_from_the_archive(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = home / ".claude" / "projects" / "-x" / SOURCE.name
    own.parent.mkdir(parents=True)
    own.write_bytes(SOURCE.read_bytes())
    assert run(["native", "convert", str(own), "--to", "codex", "--install", "--cwd", str(home / "w"), "--json"]) == 0
    there = Path(json.loads(capsys.readouterr().out)["path"])
    own.unlink()
    words = ["native", "convert", str(there), "--to", "claude", "--install", "--cwd", str(home / "w"), "--json"]
    assert run(words) == 0
    back = json.loads(capsys.readouterr().out)
    assert back["returned"]
    assert Path(back["path"]).read_bytes().startswith(SOURCE.read_bytes())
