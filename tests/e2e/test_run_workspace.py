"""A session and the files of its folder, as a person uses them: captured as it works, whole again after a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import ALLOW, Device, call, needs_agent, repository, says, script, text

pytestmark = needs_agent

KILLED_AT_THE_SECOND_FILE = """
import itertools, os, signal
from hhd.workspace import switcher
from hhd.workspace.switch import PUT
steps, puts = list(switcher._STEPS), itertools.count(1)
put, back = steps[PUT]
def killed(*given):
    if next(puts) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    put(*given)
steps[PUT] = (killed, back)
switcher._STEPS = tuple(steps)
"""


@pytest.fixture
def laptop(tmp_path: Path) -> Device:
    return Device(home=tmp_path / "laptop", config=ALLOW)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def workspace(laptop: Device, *words: str | Path, cwd: Path, status: int = 0) -> dict[str, Any]:
    """What a `hhd workspace` command says as JSON."""
    done = laptop.hhd("workspace", *words, "--json", cwd=cwd)
    assert done.returncode == status, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("way", ["resume", "run", "capsule"])
def test_a_folder_that_a_killed_apply_left_half_changed_is_whole_before_a_session_works_in_it(
    laptop: Device, repo: Path, tmp_path: Path, way: str
) -> None:
    look = says(call("bash", command="cat one.txt two.txt"))
    model = script(tmp_path / "s.jsonl", [says(text("Ok.")), look, says(text("Seen."))])
    anew = script(tmp_path / "anew.jsonl", [look, says(text("Seen."))])
    assert laptop.hhd("run", "begin", "--model", model, cwd=repo).returncode == 0
    laptop.hhd("capsule", "new", "agent", "-o", tmp_path / "c.hhd", "--arg", "prompt=go", cwd=tmp_path)
    ids = []
    for state in ("old", "new"):
        for name in ("one.txt", "two.txt"):
            (repo / name).write_text(f"{state} {name}\n")
        ids.append(workspace(laptop, "capture", repo, cwd=tmp_path)["capture"])
    done = laptop.hhd("workspace", "apply", ids[0], repo, cwd=tmp_path, before=KILLED_AT_THE_SECOND_FILE)
    assert done.returncode == -9
    assert sorted(path.read_text().split()[0] for path in repo.glob("*.txt")) == ["new", "old"], "half-changed"
    assert (repo / ".git/index.lock").exists()
    words: list[str | Path] = {
        "resume": ["resume", "begin", "--model", model],
        "run": ["run", "look", "--model", anew, "-C", repo],
        "capsule": ["capsule", "run", tmp_path / "c.hhd", "--model", anew, "-C", repo],
    }[way]
    done = laptop.hhd(*words, cwd=tmp_path, typed="look\n" if way == "resume" else "")
    assert done.returncode == 0 and "was carried to its end" in done.stdout + done.stderr, done.stderr
    assert "old one.txt" in done.stdout and "old two.txt" in done.stdout and "new one.txt" not in done.stdout
    assert not (repo / ".git/index.lock").exists()


def test_what_cannot_be_ended_stops_a_session_there_and_none_elsewhere(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(tmp_path / "s.jsonl", [says(text("Ok."))])
    (repo / "one.txt").write_text("1\n")
    first = workspace(laptop, "capture", repo, cwd=tmp_path)["capture"]
    for name in ("one.txt", "two.txt"):
        (repo / name).write_text("2\n")
    workspace(laptop, "capture", repo, cwd=tmp_path)
    (repo / "one.txt").unlink()
    second = workspace(laptop, "capture", repo, cwd=tmp_path)["capture"]
    assert first != second
    broken = """
from hhd.workspace import switcher
def cannot(self, **more):
    raise OSError(28, "No space left on device")
switcher.Switcher.forward = cannot
"""
    laptop.hhd(
        "workspace", "apply", first, repo, cwd=tmp_path, before=KILLED_AT_THE_SECOND_FILE.replace("== 2", "== 1")
    )
    assert (repo / ".git/index.lock").exists()
    done = laptop.hhd("run", "go", "--model", model, cwd=repo, before=broken)
    assert done.returncode == 3 and "No space left" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    (tmp_path / "other").mkdir()
    done = laptop.hhd("run", "go", "--model", model, cwd=tmp_path / "other", before=broken)
    assert done.returncode == 0 and "cannot be ended" in done.stdout + done.stderr
    done = laptop.hhd("run", "go", "--model", model, cwd=repo)
    assert done.returncode == 0 and "was carried to its end" in done.stdout + done.stderr
