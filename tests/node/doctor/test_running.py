"""Looks at the daemon and its service, and the command that tells of all looks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hhd.base import locks
from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder
from hhd.cli import run
from hhd.node import services, starting, units
from hhd.node.answers.clocks import Clock
from hhd.node.answers.health import Health
from hhd.node.answers.status import Status
from hhd.node.doctor import running, table
from hhd.node.doctor.finding import State, broken, ok, warn


def nobody() -> None:
    return None


class Says:
    """A daemon that says of itself what it is told to."""

    def __init__(self, notes: tuple[str, ...] = ()) -> None:
        self._health: object = Health(state="ok", notes=notes, hhd="1", process=1, since_ms=0)

    def __enter__(self) -> Says:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, *_: object, **__: object) -> Any:
        from hhd_protocol import mapping

        return mapping.to_value(self._health)

    def close(self) -> None:
        pass


def test_a_daemon_that_does_not_answer_is_of_another_age_or_has_something_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert running.daemon(nobody).state is State.OK
    with locks.take(data_folder() / "daemon.lock") or contextlib.nullcontext():
        assert running.daemon(nobody).state is State.BROKEN

        def hangs(_: object) -> Status:
            raise RefusedError("The daemon has not answered for 10 seconds.")

        monkeypatch.setattr(starting, "status", hangs)
        assert running.daemon(nobody).fix == "Run: hhd restart"
        for release, notes, state in (("0.0", (), State.WARN), (running.RELEASE, ("Look.",), State.WARN),
                                      (running.RELEASE, (), State.OK)):  # fmt: skip
            status = Status(hhd=release, process=1, since_ms=0, socket="/s", connections=1)
            monkeypatch.setattr(starting, "status", lambda _, status=status: status)
            link: Any = lambda notes=notes: Says(notes)  # noqa: E731
            assert running.daemon(link).state is state


def test_clocks_of_other_devices_that_are_off_are_named_with_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    assert running.clocks(nobody).state is State.OK

    def found(**ahead: int | None) -> Any:
        clocks = [Clock(device="abcd-efgh", name=name, ahead_ms=ms) for name, ms in ahead.items()]
        link: Any = Says()
        link._health = clocks
        return running.clocks(lambda: link)

    assert found().state is State.OK and found(desktop=None).state is State.OK
    well = found(desktop=running.CLOCK_APART_MS, phone=-300, tower=None)
    assert well.state is State.OK and "desktop, phone." in well.says and "tower" not in well.says
    off = found(desktop=180_000, phone=-300, tower=-86_400_000)
    assert off.state is State.WARN and off.fix
    assert off.says == "desktop's clock is 3 minutes ahead of this one. tower's clock is 1 day behind this one."


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    units.write(units.units(system="linux"), force=False)
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.mark.skipif(sys.platform == "darwin", reason="of systemd")
def test_a_service_that_nobody_starts_or_whose_files_are_old(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert running.service(nobody).state is State.OK
    installed.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    found = running.service(nobody)
    assert found.state is State.WARN and "Failed to connect to bus" in found.says
    unit = units.systemd_folder() / units.SERVICE
    unit.write_text(unit.read_text().replace("WatchdogSec=60", "WatchdogSec=1"))
    assert running.service(nobody).fix == "Run: hhd up --install"
    monkeypatch.setenv("HHD_DATA_HOME", "/another")
    assert "another data folder" in running.service(nobody).says


@pytest.mark.skipif(sys.platform == "darwin", reason="of systemd")
def test_a_service_that_ends_with_the_last_logout(installed: Path) -> None:
    program = installed.with_name("loginctl")
    for said, state in (("no", State.WARN), ("yes", State.OK)):
        program.write_text(f"#!/bin/sh\necho {said}\n")
        program.chmod(0o755)
        assert running.linger(nobody).state is state
    units.remove(force=False)
    program.write_text("#!/bin/sh\necho no\n")
    assert running.linger(nobody).state is State.OK  # Nothing to outlive it.
    assert services.Manager().lingers() is False


def test_each_look_is_in_the_table_once_and_has_a_way_out() -> None:
    wanted = {
        "key storage", "sandbox", "disk", "store", "multicast", "port", "firewall", "clock", "sleep", "model",
        "clients", "linger", "socket", "clocks",
    }  # fmt: skip
    assert wanted <= set(table.LOOKS)
    for _, found in table.findings(nobody):
        assert found.says.endswith(".") and (found.state is State.OK) == (found.fix == "")


def test_the_command_ends_in_3_when_something_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> Any:
        raise OSError(5, "Input/output error", "/dev/x")

    for looks, status in (
        ({"one": lambda _: ok("Well.")}, 0), ({"one": lambda _: warn("Hm.", "Look.")}, 0),
        ({"one": lambda _: broken("Bad.", "Mend.")}, 3), ({"one": fails, "two": lambda _: ok("Well.")}, 3),
    ):  # fmt: skip
        monkeypatch.setattr(table, "LOOKS", looks)
        assert run(["doctor", "--json"]) == status
        said = json.loads(capsys.readouterr().out)
        assert said["broken"] == (status == 3) and len(said["checks"]) == len(looks)
        assert run(["doctor"]) == status
        assert ("BROKEN" in capsys.readouterr().out) == (status == 3)
    assert said["checks"][0]["says"] == "The system said: Input/output error (/dev/x)."
    assert said["checks"][1]["state"] == "ok"


def test_what_is_said_is_safe_to_print(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(table, "LOOKS", {"one": lambda _: warn("a\x1b[31m\nb", "c\x07d")})
    run(["doctor"])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and len(out.splitlines()) == 2


def test_a_real_daemon_is_found_well() -> None:
    hhd = [sys.executable, "-m", "hhd"]
    assert subprocess.run([*hhd, "up"], capture_output=True, timeout=240).returncode == 0
    try:
        done = subprocess.run([*hhd, "doctor", "--json"], capture_output=True, text=True, timeout=240)
        looks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
        assert looks["daemon"]["state"] in ("ok", "warn")
        assert looks["log"]["state"] == "ok"
    finally:
        subprocess.run([*hhd, "down"], capture_output=True, timeout=240)
