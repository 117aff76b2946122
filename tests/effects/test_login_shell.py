"""The environment of a login: the person's shell is asked once, within bounds, and what it says is taken as it is."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from hhd.effects.login_shell import BYTES_MAX, LoginShell


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of the terminal that started the daemon")
    return tmp_path


def shell(folder: Path, text: str, name: str = "shell") -> str:
    """A program in the place of a login shell."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("sh", ".profile", "echo welcome home\nexport PATH=/of/my/profile:$PATH TWO='a\n= b'\n"),
        ("bash", ".bash_profile", "echo welcome home\nexport PATH=/of/my/profile:$PATH TWO='a\n= b'\n"),
        ("zsh", ".zprofile", "echo welcome home\nexport PATH=/of/my/profile:$PATH TWO='a\n= b'\n"),
        ("fish", ".config/fish/config.fish", "set -gx PATH /of/my/profile $PATH; set -gx TWO 'a\n= b'\necho welcome\n"),
    ],
)
def test_it_reads_the_profile_of_the_person(name: str, file: str, text: str, home: Path) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(text)
    found = LoginShell(program, seconds_max=60).environment()
    assert found is not None and found["HOME"] == str(home)
    assert found["PATH"].startswith("/of/my/profile:") and found["TWO"] == "a\n= b"
    assert "ANTHROPIC_API_KEY" not in found


def test_it_is_asked_once_and_again_when_it_is_forgotten(home: Path) -> None:
    (home / ".profile").write_text(f"echo x >> {home}/asked\n")
    asked = LoginShell("/bin/sh")
    assert asked.environment() == asked.environment() is not None
    assert (home / "asked").read_text() == "x\n"
    asked.forget()
    asked.environment()
    assert (home / "asked").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 3", "did not say"),
        ("echo PATH=/a; printf 'PATH=/b\\0'", "did not say"),
        ("exec yes", "did not end in time, or said too much"),
        ("exec sleep 60", "did not end in time"),
        ("head -c 3000000 /dev/zero", "said too much"),
        ("head -c 1000 /dev/urandom; kill -9 $$", "did not say"),
    ],
)
def test_a_profile_that_hangs_breaks_or_babbles_costs_a_moment_and_a_sentence(text: str, why: str, home: Path) -> None:
    begun = time.monotonic()
    asked = LoginShell(shell(home, text), seconds_max=1.0 if "did not end" in why else 60)
    assert asked.environment() is None and why in asked.failed
    assert time.monotonic() - begun < 50


def test_no_more_of_what_it_says_is_held_than_may_be(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, read = [], os.read
    monkeypatch.setattr(os, "read", lambda fd, size: held.append(piece := read(fd, size)) or piece)
    assert LoginShell(shell(home, "exec yes"), seconds_max=60).environment() is None
    assert BYTES_MAX < sum(map(len, held)) <= BYTES_MAX + 64 * 1024


def test_what_it_says_before_the_mark_is_no_variable(home: Path) -> None:
    program = shell(home, "printf 'EVIL=1\\0'; exec /bin/sh \"$@\"")
    found = LoginShell(program).environment()
    assert found is not None and "EVIL" not in found and "PATH" in found


def test_a_program_that_a_profile_leaves_running_is_not_waited_for_and_ended(home: Path) -> None:
    (home / ".profile").write_text(f"sleep 100 & echo $! > {home}/left\nexport LAST=yes\n")
    found = LoginShell("/bin/sh", seconds_max=60).environment()
    assert found is not None and found["LAST"] == "yes"
    left = int((home / "left").read_text())
    while True:
        try:
            state = Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            break
        if state in "ZX":
            break


def test_nobody_is_asked_where_there_is_no_login_shell(home: Path) -> None:
    for name in ("nologin", "false"):
        asked = LoginShell(shell(home, f"touch {home}/asked", name))
        assert asked.environment() is None and "no login shell" in asked.failed
    assert not (home / "asked").exists()
    gone = LoginShell(str(home / "none"))
    assert gone.environment() is None and "could not be started" in gone.failed


def test_a_shell_without_the_usual_options_is_not_asked_in_its_own_words(home: Path) -> None:
    (home / ".profile").write_text("export FROM=profile\n")
    found = LoginShell(shell(home, "exit 1", "tcsh")).environment()
    assert found is not None and found["FROM"] == "profile" and found["SHELL"].endswith("tcsh")
    assert os.path.basename(found["SHELL"]) == "tcsh"
