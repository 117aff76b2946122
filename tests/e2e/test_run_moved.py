"""A session carried to another folder, another user and another processor: its next edit lands where it is now."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.arm64 import root
from tests.e2e.lab import ALLOW, EDIT, FIXED, Device, call, needs_agent, repository, says, script, text, transcript

pytestmark = needs_agent

NOBODY = 65534
SITES = ":".join(place for place in sys.path if place)
WALK = [
    says(call("read", path="doubles.py")),
    says(text("Mending."), EDIT),
    says(call("write", path="here/note.txt", content="second")),
    says(text("Done.")),
]


def other_user(home: Path) -> Device | None:
    """Another user with a Python they may run, where this user may become them."""
    if os.geteuid() != 0:
        return None
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        device = Device(home=home, config=ALLOW, python=(python,), user=NOBODY, environ={"PYTHONPATH": SITES})
        device.environ["HHD_CACHE_HOME"] = str(home / "cache")
        try:
            probe = [python, "-c", "import hhd.cli, click, wasmtime, zstandard, cbor2"]
            if not subprocess.run(probe, user=NOBODY, env=device.environ, capture_output=True).returncode:
                return device
        except OSError:
            continue
    return None


def give(folder: Path, user: int) -> None:
    for place in (folder, *folder.rglob("*")):
        os.chown(place, user, user, follow_symlinks=False)


def carried(tmp_path: Path, other: Device) -> None:
    """Pause before the edit is allowed, carry folder and capsule to `other`, go on; then back for the second edit."""
    model = script(tmp_path / "s.jsonl", WALK)
    os.chmod(tmp_path / "s.jsonl", 0o644)
    laptop, repo = Device(home=tmp_path / "laptop"), repository(tmp_path / "laptop" / "repo")
    done = laptop.hhd("run", "mend it", "--model", model, "-o", tmp_path / "laptop" / "c.hhd", cwd=repo)
    assert done.returncode == 3, done.stderr
    broken = (repo / "doubles.py").read_text()

    place = other.home / "deep" / "repo"
    shutil.copytree(repo, place)
    capsule = Path(shutil.copy(tmp_path / "laptop" / "c.hhd", other.home / "c.hhd"))
    if other.user is not None:
        give(other.home, other.user)
    done = other.hhd("capsule", "run", capsule, "-C", place, "--model", model, cwd=other.home, typed="y\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place / "doubles.py").read_text() == FIXED
    assert (place / "here" / "note.txt").read_text() == "second"
    assert (repo / "doubles.py").read_text() == broken and not (repo / "here").exists()
    if other.user is not None:
        assert (place / "here" / "note.txt").stat().st_uid == other.user
    assert transcript(other, capsule)[-1]["why"] == "next"


def test_carried_to_another_folder(tmp_path: Path) -> None:
    carried(tmp_path, Device(home=tmp_path / "desktop", config=ALLOW))


def test_carried_to_another_user() -> None:
    """Where nobody else can be had, this is the folder's test again. (Others may not enter pytest's own folders.)"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chmod(folder, 0o711)
        carried(folder, other_user(folder / "bob") or Device(home=folder / "bob", config=ALLOW))


@pytest.mark.arm64
def test_carried_to_another_processor(tmp_path: Path) -> None:
    root.need()
    environ = {name: value for name, value in root.environment().items() if os.environ.get(name) != value}
    home = tmp_path / "board"
    device = Device(home=home, config=ALLOW, python=tuple(root.python()), environ=environ)
    carried(tmp_path, device)
    machine = device.hhd(
        "capsule", "info", home / "c.hhd", cwd=home, before="import platform; print(platform.machine())"
    )
    assert machine.stdout.startswith("aarch64")
