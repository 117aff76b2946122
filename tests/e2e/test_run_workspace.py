"""A session and the files of its folder, as a person uses them: captured as it works, whole again after a crash."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import ALLOW, Device, call, needs_agent, repository, says, script, text
from tests.workspace.by_hand import looks

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


def test_a_record_of_what_was_begun_that_does_not_open_stops_a_run_with_its_name_and_the_way_out(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(tmp_path / "s.jsonl", [says(text("Ok."))])
    ids = []
    for state in ("old", "new"):
        for name in ("one.txt", "two.txt"):
            (repo / name).write_text(f"{state}\n")
        ids.append(workspace(laptop, "capture", repo, cwd=tmp_path)["capture"])
    laptop.hhd("workspace", "apply", ids[0], repo, cwd=tmp_path, before=KILLED_AT_THE_SECOND_FILE)
    (record,) = (laptop.home / "data" / "pending").glob("*.sealed")
    raw = record.read_bytes()
    record.write_bytes(raw[:-1])
    before = looks(repo)
    done = laptop.hhd("run", "go", "--model", model, cwd=repo)
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, done.stderr
    assert str(record) in done.stderr and "move the file away" in done.stderr
    assert record.read_bytes() == raw[:-1] and looks(repo) == before, "it is left alone"
    record.write_bytes(raw)
    done = laptop.hhd("run", "go", "--model", model, cwd=repo)
    assert done.returncode == 0 and "was carried to its end" in done.stdout + done.stderr, "put back it serves"


def listed(laptop: Device, cwd: Path, session: str) -> list[str]:
    """Ids of a session's checkpoints, the oldest first."""
    code = """
import sys
from hhd.app import driving
with driving.workbench() as bench:
    print(*(one.hex() for one in bench.store.checkpoint_ids(bench.named(sys.argv[-1]))))
"""
    done = subprocess.run(
        [*laptop.python, "-c", code, session], cwd=cwd, env=laptop.environ, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_files_of_a_session_are_shown_compared_and_made_to_appear_by_its_name(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(tmp_path / "s.jsonl", [says(call("bash", command="echo 1 > new.txt")), says(text("Ok."))])
    assert laptop.hhd("run", "write it", "--model", model, cwd=repo).returncode == 0
    shown = workspace(laptop, "show", "write it", cwd=tmp_path)
    assert (shown["kind"], shown["entries"]) == ("repository", 1)
    assert workspace(laptop, "diff", "write it", cwd=tmp_path)["same"] is True
    points = listed(laptop, tmp_path, "write it")
    before = [
        at for at in points[1:] if workspace(laptop, "show", "write it", "--at", at, cwd=tmp_path)["entries"] == 0
    ]
    assert before, "a checkpoint from before the command names the folder as it was then"
    found = workspace(laptop, "diff", "write it", "--at", before[0], cwd=tmp_path)
    assert found["changes"] == [["folder", "added", "new.txt"]]
    workspace(laptop, "show", "write it", "--at", points[0], cwd=tmp_path, status=3)

    done = workspace(laptop, "apply", "write it", tmp_path / "copy", cwd=tmp_path)
    assert done["instead"] == "" and (tmp_path / "copy" / "new.txt").read_text() == "1\n"
    assert looks(tmp_path / "copy") == looks(repo)
    done = workspace(laptop, "apply", "write it", "--at", before[0], cwd=tmp_path)
    assert done["in_place"] is True and Path(done["folder"]) == repo and not (repo / "new.txt").exists()
    (repo / "mine.txt").write_text("mine\n")
    done = workspace(laptop, "apply", "write it", cwd=tmp_path)
    assert done["in_place"] is False and (repo / "mine.txt").exists() and not (repo / "new.txt").exists()

    workspace(laptop, "map", "write it", tmp_path / "copy", cwd=tmp_path)
    more = script(
        tmp_path / "m.jsonl", [says(text("-")), says(text("-")), says(call("bash", command="pwd")), says(text("."))]
    )
    done = laptop.hhd("resume", "write it", "--model", more, cwd=tmp_path, typed="where?\n")
    assert done.returncode == 0 and str(tmp_path / "copy") in done.stdout, done.stderr
    assert "is not as this session last knew it" not in done.stdout + done.stderr


def test_a_fork_and_an_import_are_captured_where_they_are_resumed_and_say_what_differs(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(tmp_path / "s.jsonl", [says(call("bash", command="echo 1 > new.txt")), says(text("Ok."))])
    assert laptop.hhd("run", "write it", "--model", model, cwd=repo).returncode == 0
    assert laptop.hhd("export", "write it", tmp_path / "c.hhd", cwd=tmp_path).returncode == 0
    fork = json.loads(laptop.hhd("fork", "write it", "--json", cwd=tmp_path).stdout)["session"]
    imported = json.loads(laptop.hhd("import", tmp_path / "c.hhd", "--json", cwd=tmp_path).stdout)["session"]
    assert workspace(laptop, "diff", fork, cwd=tmp_path)["same"] is True, "it begins with the files of its origin"
    more = [says(text("-"))] * 2 + [says(call("bash", command="echo 2 > there.txt")), says(text("."))]
    after = script(tmp_path / "m.jsonl", more)
    for session, says_so in ((fork, True), (imported, False)):
        other = tmp_path / f"other-{session[:6]}"
        other.mkdir()
        (other / "mine.txt").write_text("mine\n")
        done = laptop.hhd("resume", session, "--model", after, "-C", other, cwd=tmp_path, typed="go\n")
        assert done.returncode == 0, done.stderr
        assert ("is not as this session last knew it" in done.stdout + done.stderr) is says_so
        shown = workspace(laptop, "show", session, cwd=tmp_path)
        assert (shown["kind"], shown["entries"], Path(shown["folder"])) == ("folder", 2, other)
        assert (other / "mine.txt").read_text() == "mine\n" and not (other / "new.txt").exists()
    assert not (repo / "there.txt").exists(), "the folder of the origin is nobody else's"
