"""After all that a person does in a day, no word of a session or of a folder can be read from what hhd keeps."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.e2e.lab import ALLOW, Device, call, needs_agent, repository, says, script, text
from tests.e2e.test_run_workspace import KILLED_AT_THE_SECOND_FILE
from tests.store.phrase import leaks

from hhd.base.box import Box

SOURCE = next((Path(__file__).parents[1] / "fixtures/native/captured/claude/tools").rglob("*.jsonl"))


@pytest.fixture
def laptop(tmp_path: Path) -> Device:
    folders = {"HHD_CACHE_HOME": str(tmp_path / "kept" / "cache"), "CODEX_HOME": str(tmp_path / "codex")}
    homes = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "PI_CODING_AGENT_DIR": str(tmp_path / "pi")}
    return Device(home=tmp_path / "kept", config=ALLOW, environ={**folders, **homes})


def native_session(tmp_path: Path, phrase: str) -> Path:
    """A session of Claude Code that speaks of the phrase, in a folder of that name, where the client keeps it."""
    path = tmp_path / "claude" / "projects" / f"-{phrase}" / SOURCE.name
    path.parent.mkdir(parents=True)
    raw = SOURCE.read_text()
    cwd = next(record["cwd"] for record in map(json.loads, raw.splitlines()) if record.get("cwd"))
    path.write_text(raw.replace(cwd, f"/home/alice/{phrase}"))
    with open(path, "a") as file:
        file.write(json.dumps({"type": "custom-title", "customTitle": phrase, "sessionId": path.stem}) + "\n")
    return path


def by_native_verbs(laptop: Device, tmp_path: Path, phrase: str) -> None:
    """List, keep, convert and bring home a session of another client."""
    native_session(tmp_path, phrase)
    (tmp_path / phrase).mkdir()
    for words in (
        ("ls",),
        ("search", phrase),
        ("archive", "--all"),
        ("convert", SOURCE.stem[:8], "--to", "codex", "--install", "--cwd", tmp_path / phrase),
        ("convert", SOURCE.stem[:8], "--to", "pi", "--out", tmp_path / "out", "--cwd", tmp_path / phrase),
        ("ls",),
    ):
        done = laptop.hhd("native", *words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    assert phrase in done.stdout and leaks(tmp_path / "codex", phrase), "there was something to be read"


def test_nothing_of_another_clients_session_is_kept_in_plain_text(laptop: Device, tmp_path: Path) -> None:
    phrase = "zebrafishquorum7732"
    old = laptop.home / "data" / "native"
    (old / "manifests").mkdir(parents=True)
    (old / "manifests" / "codex-1.jsonl").write_text(phrase)
    (laptop.home / "cache").mkdir()
    (laptop.home / "cache" / "native-sessions").write_text(f"as an earlier hhd wrote it: {phrase}")
    by_native_verbs(laptop, tmp_path, phrase)
    assert list((laptop.home / "data" / "native" / "conversions").glob("*.sealed"))
    assert not leaks(laptop.home, phrase)
    assert not leaks(laptop.home, SOURCE.stem), "nor its id"


def test_with_small_files_left_unsealed_the_phrase_is_found(laptop: Device, tmp_path: Path) -> None:
    phrase = "zebrafishquorum7733"
    native_session(tmp_path, phrase)
    assert laptop.hhd("native", "ls", cwd=tmp_path, before=UNSEALED).returncode == 0
    assert leaks(laptop.home, phrase)


def killed_apply(laptop: Device, tmp_path: Path, phrase: str, *, before: str = "") -> Path:
    """Kill hhd while it changes a folder of that name, with files of that name, back to how it was; the folder."""
    repo = repository(tmp_path / f"at-{phrase}")
    captures = []
    for state in ("old", "new"):
        for number in range(2):
            (repo / f"{phrase}-{number}.txt").write_text(f"{state} {phrase}\n")
        done = laptop.hhd("workspace", "capture", repo, "--json", cwd=tmp_path)
        captures.append(json.loads(done.stdout)["capture"])
    done = laptop.hhd("workspace", "apply", captures[0], repo, cwd=tmp_path, before=before + KILLED_AT_THE_SECOND_FILE)
    assert done.returncode == -9
    assert sorted(path.read_text()[:3] for path in repo.glob("*.txt")) == ["new", "old"], "half-changed"
    return repo


def test_of_a_folder_that_is_half_changed_nothing_is_kept_in_plain_text(laptop: Device, tmp_path: Path) -> None:
    phrase = "zebrafishquorum7735"
    repo = killed_apply(laptop, tmp_path, phrase)
    assert list((laptop.home / "data" / "pending").glob("*.sealed")), "what was begun is kept"
    guess = hashlib.sha256(bytes(repo)).hexdigest()[:32]
    assert not leaks(laptop.home, phrase)
    assert not leaks(laptop.home, guess), "nor a name that shows whether a folder was guessed right"
    done = laptop.hhd("workspace", "capture", repo, cwd=tmp_path)
    assert done.returncode == 0 and "was carried to its end" in done.stdout + done.stderr
    assert {path.read_text()[:3] for path in repo.glob("*.txt")} == {"old"}
    assert not list((laptop.home / "data" / "pending").glob("*.sealed")) and not leaks(laptop.home, phrase)


def test_with_what_was_begun_left_unsealed_the_phrase_is_found(laptop: Device, tmp_path: Path) -> None:
    phrase = "zebrafishquorum7736"
    killed_apply(laptop, tmp_path, phrase, before=UNSEALED)
    assert any("pending" in where for where in leaks(laptop.home, phrase))


UNSEALED = f"from {Box.__module__} import Box; Box.sealed = lambda self, name, raw: raw\n"


@needs_agent
def test_nothing_of_a_session_or_its_folder_is_kept_in_plain_text(laptop: Device, tmp_path: Path) -> None:
    phrase = "zebrafishquorum7734"
    repo = repository(tmp_path / f"at-{phrase}")
    (repo / f"{phrase}.txt").write_text(f"{phrase} in a file\n")
    tool = says(text(f"The model says {phrase}."), call("bash", command=f"cat {phrase}.txt; pwd"))
    model = script(tmp_path / "s.jsonl", [tool, says(text("Done.")), says(call("write", path="new", content=phrase))])
    done = laptop.hhd("run", f"find {phrase}", "--model", model, "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)["session"][:12]
    (laptop.home / "config" / "config.toml").write_text('[policy]\nask = ["write"]\n')
    done = laptop.hhd("resume", session, "--model", model, cwd=repo, typed=f"more {phrase}\n")
    assert done.returncode == 3, "it asks"
    for words in (
        ("rename", session, f"the {phrase}"),
        ("deny", session, "-m", f"not {phrase}"),
        ("workspace", "capture", repo),
        ("workspace", "map", session, repo),
        ("workspace", "apply", session, tmp_path / f"to-{phrase}"),
        ("fork", session),
        ("export", session, tmp_path / f"{phrase}.hhd"),
        ("import", tmp_path / f"{phrase}.hhd"),
        ("show", session),
        ("log", session),
        ("ls",),
        ("gc",),
        ("check",),
    ):
        done = laptop.hhd(*words, cwd=tmp_path, typed="y\n")
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert not leaks(laptop.home, phrase)
    assert not leaks(laptop.home, session)
