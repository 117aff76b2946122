"""A full disk and a read-only home: each command of the daemon's care is one clear sentence, and changes nothing.

In a mount namespace of its own, on a small file system.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HHD = f"{sys.executable} -m hhd"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")
    home = tmp_path / "home"
    home.mkdir()
    for kind in ("config", "data", "cache"):
        monkeypatch.setenv(f"HHD_{kind.upper()}_HOME", str(home / kind))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    return home


def on(home: Path, options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script where `home` is a file system of its own."""
    whole = f"mount -t tmpfs -o {options} none {home} && {script}"
    return subprocess.run(["unshare", "-m", "sh", "-c", whole], capture_output=True, text=True, timeout=240)


FILL = "dd if=/dev/zero of={home}/fill bs=4k 2>/dev/null;"


@pytest.mark.parametrize(
    ("how", "words"), [("ro", "up"), ("ro", "up --install"), ("full", "daemon"), ("full", "up --install")]
)
def test_what_would_write_says_that_it_cannot(how: str, words: str, home: Path) -> None:
    fill = FILL.format(home=home) if how == "full" else ""
    done = on(home, "ro" if how == "ro" else "size=64k", f"{{ {fill} {HHD} {words}; }}")
    assert done.returncode in (1, 3, 4), done.stdout
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    assert ("Read-only file system" if how == "ro" else "No space left on device") in done.stderr


@pytest.mark.parametrize("words", ["status", "down", "logs", "down --uninstall", "down --uninstall --purge --yes"])
def test_what_writes_nothing_works_all_the_same(words: str, home: Path) -> None:
    done = on(home, "ro", f"{HHD} {words}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_daemon_whose_disk_fills_up_answers_says_so_and_ends_in_order(home: Path) -> None:
    script = (
        f"{HHD} up && {FILL.format(home=home)} {HHD} status && {HHD} status --metrics | grep -q hhd_disk_free_bytes && "
        f"{HHD} doctor | grep -A1 BROKEN; {HHD} down"
    )
    done = on(home, "size=3m", script)
    assert done.returncode == 0, done.stderr
    assert "0 MiB are left" in done.stdout and "cannot be written (No space left on device)" in done.stdout
    assert "The daemon has ended." in done.stdout


def test_what_a_crash_left_is_in_nobodys_way_also_where_nothing_can_be_written(home: Path) -> None:
    left = (
        f"mkdir -p {home}/data/run && chmod 700 {home}/data && "
        f"{sys.executable} -c \"import socket; socket.socket(socket.AF_UNIX).bind('{home}/data/run/control.sock')\" && "
        f"printf {home}/data/run/control.sock > {home}/data/daemon.lock"
    )
    only_read = f"until mount -o remount,ro {home} 2>/dev/null; do :; done"  # A process that ends holds it a moment.
    done = on(home, "size=8m", f"{left} && {HHD} status && {HHD} up && {HHD} down && {only_read} && {HHD} status")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No daemon runs here") == 2 and "The daemon is up" in done.stdout
