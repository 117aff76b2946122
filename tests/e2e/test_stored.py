"""Sessions of the store as a person uses them: `hhd run` without a file, `hhd resume`, and what can go wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import ALLOW, FIX, FIXED, Device, call, needs_agent, repository, says, script, text
from tests.store.phrase import leaks

pytestmark = needs_agent


@pytest.fixture
def laptop(tmp_path: Path) -> Device:
    return Device(home=tmp_path / "laptop", config=ALLOW)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def begun(laptop: Device, repo: Path, model: str, *words: str, typed: str = "") -> dict[str, Any]:
    """Run a new session and return what it says of itself."""
    done = laptop.hhd("run", "fix it", "--model", model, "--json", *words, cwd=repo, typed=typed)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_a_file_the_session_goes_to_the_store_and_says_how_to_go_on(laptop: Device, repo: Path) -> None:
    model = script(laptop.home / "s.jsonl", [*FIX, says(text("Bye."))])
    done = laptop.hhd("run", "fix it", "--model", model, cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "It passes now." in done.stdout and (repo / "doubles.py").read_text() == FIXED
    assert not [entry for entry in repo.iterdir() if entry.suffix == ".hhd"]
    command = done.stderr.split("Go on with: hhd ")[1].split()
    assert command[0] == "resume" and len(command[1]) == 12
    done = laptop.hhd(*command, cwd=laptop.home, typed="see you\n")
    assert done.returncode == 0 and "Bye." in done.stdout, done.stderr


def test_a_session_goes_on_where_it_last_was_at_work_and_elsewhere_only_when_told(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    (laptop.home / "config" / "config.toml").write_text('[policy]\nallow = ["edit"]\n')
    model = script(laptop.home / "s.jsonl", FIX)
    told = begun(laptop, repo, model)
    assert (told["exit"], told["effect"]["op"], told["model_calls"]) == (3, "tool", 3)
    elsewhere = Path(shutil.copytree(repo, tmp_path / "elsewhere"))
    (laptop.home / "config" / "config.toml").write_text(ALLOW)
    done = laptop.hhd("resume", told["session"][:6], "--model", model, "-C", elsewhere, cwd=tmp_path)
    assert done.returncode == 0 and "the test passes" in done.stdout, done.stderr
    assert json.loads(laptop.hhd("ls", "--json", cwd=laptop.home).stdout)["sessions"][0]["folder"] == str(elsewhere)
    shutil.rmtree(repo)
    done = laptop.hhd("resume", "fix it", "--model", model, cwd=tmp_path)
    assert done.returncode == 0, "now it was last at work there"
    shutil.rmtree(elsewhere)
    done = laptop.hhd("resume", "fix it", "--model", model, cwd=tmp_path)
    assert done.returncode == 3 and "elsewhere cannot be used as a workspace" in done.stderr


def test_a_folder_that_is_not_there_is_refused_and_no_session_is_left(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(laptop.home / "s.jsonl", FIX)
    for words in ((), ("-o", tmp_path / "made.hhd")):
        done = laptop.hhd("run", "fix it", "-C", tmp_path / "gone", "--model", model, *words, cwd=repo)
        assert done.returncode == 3 and "cannot be used as a workspace" in done.stderr
        assert "Go on with" not in done.stderr
    assert json.loads(laptop.hhd("ls", "--json", cwd=laptop.home).stdout)["sessions"] == []
    assert not (tmp_path / "made.hhd").exists()
    assert laptop.hhd("run", "fix it", "-C", repo, "--model", model, cwd=tmp_path).returncode == 0
    assert len(json.loads(laptop.hhd("ls", "--json", cwd=laptop.home).stdout)["sessions"]) == 1


def test_a_finished_session_says_so_and_names_itself(laptop: Device, repo: Path) -> None:
    model = script(laptop.home / "s.jsonl", FIX)
    done = laptop.hhd("run", "fix it", "--once", "--model", model, cwd=repo)
    assert done.returncode == 0 and "has finished; see it with: hhd show " in done.stderr
    done = laptop.hhd("resume", "fix it", "--model", model, cwd=repo)
    assert done.returncode == 0 and "has finished" in done.stderr


def test_two_processes_on_one_session_end_in_one_sentence_for_the_second(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(laptop.home / "s.jsonl", [says(call("bash", command="cat fifo; echo done")), says(text("Ok."))])
    subprocess.run(["mkfifo", str(repo / "fifo")], check=True)
    first = subprocess.Popen(
        laptop.command("run", "wait", "--model", model),
        cwd=repo,
        env=laptop.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with open(repo / "fifo", "w") as fifo:  # Opened once the command reads it: the session is at work then.
        done = laptop.hhd("resume", "wait", "--model", model, cwd=repo)
        listed, shown = (
            laptop.hhd("ls", "--json", cwd=laptop.home),
            laptop.hhd("show", "wait", "--json", cwd=laptop.home),
        )
        fifo.write("x\n")
    out, _ = first.communicate(timeout=240)
    assert json.loads(listed.stdout)["sessions"][0]["state"] == json.loads(shown.stdout)["state"] == "running"
    assert json.loads(laptop.hhd("ls", "--json", cwd=laptop.home).stdout)["sessions"][0]["state"] == "waiting for you"
    assert done.returncode == 3 and "is being advanced by another process" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    assert first.returncode == 0 and "Ok." in out


KEEP_LOG = """
import shutil
from hhd.store.database import Database
real = Database.close
def close(self):
    shutil.copy(self.folder / "store.db-wal", self.folder / "kept-wal")
    real(self)
Database.close = close
"""
"""The write-ahead log is a file too, until the last process closes the store."""


def test_no_word_of_a_session_can_be_found_in_what_a_real_run_leaves_on_the_disk(
    laptop: Device, tmp_path: Path
) -> None:
    phrase = "zebrafishquorum7731"
    repo = repository(tmp_path / f"at-{phrase}")
    (repo / f"{phrase}.txt").write_text(f"{phrase} in a file\n")
    tool = says(text(f"The model says {phrase}."), call("bash", command=f"cat {phrase}.txt; pwd"))
    model = script(tmp_path / "s.jsonl", [tool, says(text("Done."))])
    done = laptop.hhd("run", f"find {phrase}", "--model", model, cwd=repo, before=KEEP_LOG)
    assert done.returncode == 0 and done.stdout.count(phrase) >= 3, done.stderr
    assert (laptop.home / "data" / "store" / "kept-wal").stat().st_size > 50_000
    assert not leaks(laptop.home, phrase)

    capsule = laptop.home / "data" / "c.hhd"
    done = laptop.hhd("run", f"find {phrase}", "--model", model, "-o", capsule, cwd=repo)
    assert done.returncode == 0
    assert leaks(laptop.home, phrase), "a capsule is not sealed, and the search finds what is not"


FULL = """
import resource, signal
from hhd.base.paths import data_folder
from hhd.node import stored_session
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
real, saves = stored_session.StoreKeeper.save, iter(range(1, 1000))
def save(self, step):
    if next(saves) == {save}:
        size = (data_folder() / "store" / "store.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
    return real(self, step)
stored_session.StoreKeeper.save = save
"""


@pytest.mark.parametrize(
    ("save", "status"), [(5, 4), (6, 4), (7, 4), (8, 5)], ids=["a call", "a reply", "a start", "a result"]
)
def test_a_disk_that_fills_during_a_step_pauses_the_session_in_one_sentence_and_it_goes_on_later(
    laptop: Device, repo: Path, save: int, status: int
) -> None:
    model = script(laptop.home / "s.jsonl", [says(call("bash", command="echo x >> runs; echo one")), says(text("Ok."))])
    done = laptop.hhd("run", "fill it", "--model", model, cwd=repo, before=FULL.format(save=save))
    assert done.returncode == status, (done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) == 1 and "Go on with: hhd resume" in done.stderr, done.stderr
    word = ["--ran", "one\n"] if status == 5 else []
    done = laptop.hhd("resume", "fill it", "--model", model, *word, cwd=repo)
    assert done.returncode == 0 and "Ok." in done.stdout, done.stderr
    assert (repo / "runs").read_text() == "x\n"
