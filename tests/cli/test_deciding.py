"""Deciding at the command line: the question whole, the answer of exactly that, and the session goes on with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import call, needs_agent, says, script, text

from hhd.cli import run
from hhd.node import store as door

pytestmark = needs_agent

REPLIES = [says(call("bash", command="echo x >> runs; echo one")), says(text("One."))]


@dataclass
class Desk:
    """A person at a terminal whose answers are prepared, and a session that waits for a yes."""

    repo: Path
    model: str
    capsys: pytest.CaptureFixture[str]
    answers: list[str]
    session: str = ""

    def hhd(self, *words: str) -> tuple[int, str, str]:
        status = run(list(words))
        out, err = self.capsys.readouterr()
        return status, out, err

    def runs(self) -> int:
        file = self.repo / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def desk(
    tmp_path: Path, compiled_modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    monkeypatch.setenv("HHD_CACHE_HOME", str(compiled_modules))
    repo = tmp_path / "repo"
    repo.mkdir()
    made = Desk(repo=repo, model=script(tmp_path / "s.jsonl", REPLIES), capsys=capsys, answers=[])
    monkeypatch.setattr(
        "hhd.cli.keyboard.Keyboard.line", lambda self, prompt: made.answers.pop(0) if made.answers else None
    )
    assert made.hhd("run", "Count.", "-C", str(repo), "--model", made.model)[0] == 3
    with door.opened() as store:
        made.session = store.sessions()[0].hex()
    yield made
    assert not made.answers, "everything that was prepared was asked for"


def resumed(desk: Desk) -> Any:
    status, out, _ = desk.hhd("resume", desk.session, "--model", desk.model, "--json")
    return status, json.loads(out)


def test_a_yes_at_the_terminal_lets_it_run_when_the_session_goes_on(desk: Desk) -> None:
    desk.answers = ["y"]
    status, out, err = desk.hhd("approve", "Count.")
    assert status == 0 and not err and "echo x >> runs" in out and desk.runs() == 0
    assert "is approved here. Go on with: hhd resume" in out
    assert resumed(desk)[0] == 0 and desk.runs() == 1


def test_anything_else_than_a_yes_decides_nothing(desk: Desk) -> None:
    for answers in ([], ["n"], [""], ["yess"]):
        desk.answers = list(answers)
        for verb in ("approve", "deny"):
            status, out, err = desk.hhd(verb, "Count.")
            assert status == 3 and "nothing was decided" in err and "echo x" in out
            desk.answers = list(answers)
        desk.answers = []
    assert resumed(desk)[0] == 3 and desk.runs() == 0


def test_a_no_tells_the_agent_why(desk: Desk) -> None:
    desk.answers = ["y"]
    assert desk.hhd("deny", "Count.", "-m", "Use make.")[0] == 0
    assert resumed(desk)[0] == 0 and desk.runs() == 0
    events = json.loads(desk.hhd("show", "Count.", "--json")[1])["events"]
    assert any("Use make." in str(one.get("output")) for one in events if one["event"] == "result")


def test_a_script_answers_by_the_digest_of_what_it_was_given(desk: Desk) -> None:
    status, out, _ = desk.hhd("approve", "Count.", "--json")
    asked = json.loads(out)
    assert status == asked["exit"] == 3
    assert asked["shown"] == sha256("".join(asked["pages"]).encode()).hexdigest()
    assert desk.hhd("approve", "Count.", "--shown", "00" * 32)[0] == 3
    assert desk.hhd("approve", "Count.", str(asked["effect"]), "--shown", asked["shown"], "--json")[0] == 0
    assert resumed(desk)[0] == 0 and desk.runs() == 1


def test_what_may_have_run_is_shown_and_settled(desk: Desk) -> None:
    made = json.loads(desk.hhd("fork", "Count.", "--json")[1])["session"]
    assert desk.hhd("approve", made)[0] == 3, "that has to be settled first"
    status, out, _ = desk.hhd("settle", made)
    assert status == 0 and "echo x >> runs" in out and "--did-not-run" in out
    assert desk.hhd("settle", made, "--again", "--did-not-run")[0] == 2
    assert desk.hhd("settle", made, "7", "--again")[0] == 3
    assert desk.hhd("settle", desk.session, "--again")[0] == 3, "nothing is uncertain there"
    assert json.loads(desk.hhd("settle", made, "--ran", "three", "--json")[1])["word"] == "ran"
    desk.session = made
    assert resumed(desk)[0] == 0 and desk.runs() == 0
    assert "three" in desk.hhd("show", made, "--full")[1]


def test_a_session_is_exported_sealed_and_imported_by_a_descriptor(desk: Desk, tmp_path: Path) -> None:
    import os

    def given(words: bytes) -> str:
        ours, theirs = os.pipe()
        os.write(theirs, words)
        os.close(theirs)
        return str(ours)

    file = str(tmp_path / "made.hhd")
    assert desk.hhd("export", "Count.", file, "--passphrase-fd", given(b"correct horse\n"))[0] == 0
    assert os.stat(file).st_mode & 0o077 == 0
    assert desk.hhd("export", "Count.", file)[0] == 3, "it exists"
    assert desk.hhd("export", "Count.", file, "--to", "x", "--passphrase-fd", "0")[0] == 2
    assert "sealed with a passphrase" in desk.hhd("capsule", "info", file)[1]
    assert desk.hhd("import", file)[0] == 2
    assert desk.hhd("import", file, "--passphrase-fd", given(b"wrong"))[0] == 3
    status, out, _ = desk.hhd("import", file, "--passphrase-fd", given(b"correct horse"))
    assert status == 0 and "sealed by this device" in out
    first, second = [line.split(": ", 1)[1].split() for line in out.splitlines()[1:]]
    assert first[:2] == ["hhd", "settle"] and second[:2] == ["hhd", "resume"] and second[3:] == ["-C", "DIR"]
    assert desk.hhd(*first[1:])[0] == 0, "the hints work as they are printed"
    status, _, err = desk.hhd(*second[1:3])
    assert status == 3 and err.endswith(f"Go on with: hhd resume {second[2]} -C DIR\n"), "it needs a folder"
    assert "-C DIR" not in desk.hhd("resume", desk.session, "--model", desk.model)[2], "one that was here needs none"
    again = json.loads(desk.hhd("import", file, "--passphrase-fd", given(b"correct horse"), "--json")[1])
    assert not again["fresh"] and again["by"]["here"] and again["session"][:12] in out
    damaged = tmp_path / "damaged.hhd"
    damaged.write_bytes(Path(file).read_bytes()[:-9])
    status, _, err = desk.hhd("import", str(damaged), "--passphrase-fd", given(b"correct horse"))
    assert status == 3 and len(err.splitlines()) == 1
