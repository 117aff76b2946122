"""The daemon as a service: the files that are written, what the manager is asked, and the daemon it starts."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.told import HHD, Told
from tests.e2e.user_manager import HANDED

from hhd.base.locks import held
from hhd.node import services, units


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A service manager whose state is in this folder; whatever it started is stopped after the test."""
    state = tmp_path / "manager"
    (state / "bin").mkdir(parents=True)
    script = state / "bin/systemctl"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("user_manager.py")} "$@"\n')
    script.chmod(0o755)
    (state / "bin/loginctl").write_text("#!/bin/sh\necho no\n")
    (state / "bin/loginctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{state / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HHD_TEST_MANAGER", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg config"))
    monkeypatch.setenv("HHD_CACHE_HOME", str(tmp_path / "cache"))
    yield state
    subprocess.run([str(script), "stop", "hhd.service"], check=True)
    assert not held(Path(os.environ["HHD_DATA_HOME"]) / "daemon.lock")


def calls(state: Path) -> list[str]:
    return (state / "calls").read_text().splitlines()


def test_it_is_installed_started_by_its_manager_and_removed_again(manager: Path, tmp_path: Path) -> None:
    folder = tmp_path / "xdg config/systemd/user"
    first = Told("up", "--install")
    assert first.status == 0, first.err
    assert "was up already" in first.out and "loginctl enable-linger" in first.out
    assert sorted(one.name for one in folder.iterdir()) == ["hhd.service", "hhd.socket"]
    process = json.loads(Told("status", "--json").out)["process"]
    environ = Path(f"/proc/{process}/environ").read_bytes()
    assert (
        b"HHD_TEST_MANAGER" not in environ and b"HHD_DATA_HOME" in environ
    )  # The manager started it, and no child of us.
    before = {one: one.read_text() for one in folder.iterdir()}
    assert Told("up", "--install").status == 0  # Again: the same files, the same daemon.
    assert {one: one.read_text() for one in folder.iterdir()} == before
    assert json.loads(Told("status", "--json").out)["process"] == process
    assert {os.readlink(f"/proc/{process}/fd/{number}") for number in range(3)} == {"/dev/null"}
    foreground = Told("daemon")  # It would take the manager's socket away.
    assert foreground.status == 3 and "The service manager holds the daemon's socket" in foreground.err
    assert Told("ls").status == 0
    assert Told("down").out == "The daemon has ended.\n"
    assert calls(manager)[-1] == "--user --no-ask-password stop hhd.socket hhd.service"
    assert json.loads(Told("status", "--json").out) == {"running": False}
    assert Told("up").status == 0 and calls(manager)[-1].endswith("start hhd.socket hhd.service")
    gone = Told("down", "--uninstall")
    assert gone.status == 0 and "hhd.service" in gone.out and list(folder.iterdir()) == []
    assert json.loads(Told("status", "--json").out) == {"running": False}
    again = Told("down", "--uninstall")
    assert again.status == 0 and "No service of hhd was installed." in again.out


def test_a_start_that_the_manager_says_failed_is_explained(manager: Path) -> None:
    assert Told("up", "--install").status == 0 and Told("down").status == 0
    config = Path(os.environ["HHD_CONFIG_HOME"])
    config.mkdir(exist_ok=True)
    (config / "config.toml").write_text("[store]\nkeep_day = 3\n")
    told = Told("up")
    assert told.status == 3 and "keep_day" in told.err and len(told.err.splitlines()) == 1
    (config / "config.toml").unlink()
    assert Told("up").status == 0


def test_a_unit_that_a_person_edited_is_neither_overwritten_nor_removed_silently(manager: Path, tmp_path: Path) -> None:
    assert Told("up", "--install").status == 0
    service = tmp_path / "xdg config/systemd/user/hhd.service"
    edited = service.read_text().replace("WatchdogSec=60", "WatchdogSec=600")
    service.write_text(edited)
    for words in (["up", "--install"], ["down", "--uninstall"]):
        told = Told(*words)
        assert told.status == 3 and "is not as hhd wrote it" in told.err and service.read_text() == edited
    assert json.loads(Told("status", "--json").out)["running"]  # Nothing else was done either.
    forced = Told("up", "--install", "--force")
    assert forced.status == 0 and "WatchdogSec=60\n" in service.read_text()


def test_a_unit_of_an_older_hhd_is_brought_up_to_date(manager: Path, tmp_path: Path) -> None:
    service = tmp_path / "xdg config/systemd/user/hhd.service"
    old = units._unit(service, "[Service]\nExecStart=/old/hhd daemon\n")
    service.parent.mkdir(parents=True)
    service.write_text(old.text)
    assert Told("up", "--install").status == 0
    assert "/old/hhd" not in service.read_text()


def test_the_daemon_of_another_folder_is_none_of_the_service(manager: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Told("up", "--install").status == 0
    with monkeypatch.context() as other:
        other.setenv("HHD_DATA_HOME", str(manager / "other"))
        before = calls(manager)
        assert Told("up").status == 0 and Told("down").out == "The daemon has ended.\n"
        assert calls(manager) == before
    assert json.loads(Told("status", "--json").out)["running"]


def test_without_a_manager_the_files_are_written_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n")
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    told = Told("up", "--install")
    assert told.status == 0 and "No medium found" in told.out and "The daemon is up" in told.out
    assert (tmp_path / "xdg/systemd/user/hhd.service").exists()
    assert Told("down", "--uninstall").status == 0
    assert not (tmp_path / "xdg/systemd/user/hhd.service").exists()


def test_purge_shows_and_asks_removes_what_is_ours_and_leaves_what_is_not(manager: Path) -> None:
    data, config = Path(os.environ["HHD_DATA_HOME"]), Path(os.environ["HHD_CONFIG_HOME"])
    assert Told("up", "--install").status == 0 and Told("ls").status == 0
    (data / "mine").write_text("a person's")
    config.mkdir(exist_ok=True)
    (config / "config.toml").write_text("format = 1\n")
    work = Path(os.environ["HHD_WORKSPACES_HOME"])
    work.mkdir()
    no = Told("down", "--uninstall", "--purge", input="no\n")
    assert no.status == 3 and str(config / "config.toml") in no.out and f"Stays: {data / 'mine'}" in no.out
    assert (config / "config.toml").exists() and json.loads(Told("status", "--json").out)["running"]
    yes = Told("down", "--uninstall", "--purge", input="y\n")
    assert yes.status == 0, yes.err
    assert sorted(one.name for one in data.iterdir()) == ["mine"] and not config.exists() and work.exists()
    assert Told("down", "--uninstall", "--purge", "--yes").status == 0


def test_purge_waits_for_nobody_and_removes_nothing_beside_a_process_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hhd.base import locks

    monkeypatch.setenv("HHD_CACHE_HOME", str(tmp_path / "cache"))
    assert Told("up").status == 0 and Told("down").status == 0
    data = Path(os.environ["HHD_DATA_HOME"])
    (data / "store").mkdir(exist_ok=True)
    held_open = locks.take(data / "store/open.lock", shared=True)
    assert held_open is not None
    with held_open:
        told = Told("down", "--uninstall", "--purge", "--yes")
        assert told.status == 3 and "nothing was removed" in told.err and (data / "daemon.lock").exists()
    assert Told("down", "--uninstall", "--purge", "--yes").status == 0
    assert not data.exists()


def test_each_option_says_which_other_one_it_goes_with() -> None:
    for words in (["down", "--purge"], ["down", "--uninstall", "--yes"], ["up", "--force"]):
        assert Told(*words).status == 2


# What the manager is told, and gives


class Notified:
    """A notify socket, and the daemon that speaks to it; `activated`: it gets its socket as well."""

    def __init__(self, folder: Path, *, watchdog: str = "", activated: bool = False) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.socket.settimeout(240)
        self.path = folder / "sockets/asked.sock"
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": watchdog}
        fds: tuple[int, ...] = ()
        if activated:
            self.path.parent.mkdir(mode=0o700)
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(self.path))
            os.chmod(self.path, 0o600)
            self.listener.listen(16)
            fds = (self.listener.fileno(),)
            environment["LISTEN_FDS"] = "1"
        handed = [sys.executable, "-c", HANDED, str(fds[0])] if fds else []
        self.process = subprocess.Popen(
            [*handed, *HHD, "daemon"], env=environment, pass_fds=fds, stderr=subprocess.PIPE
        )

    def said(self) -> str:
        return self.socket.recv(4096).decode()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=240)
        assert self.process.returncode == 0, err

    def __enter__(self) -> Notified:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()


def test_it_says_when_it_is_ready_that_it_lives_and_that_it_stops(tmp_path: Path) -> None:
    with Notified(tmp_path, watchdog="300000") as daemon:
        assert daemon.said().startswith("READY=1\nSTATUS=")
        assert [daemon.said() for _ in range(3)] == ["WATCHDOG=1"] * 3
        daemon.process.send_signal(signal.SIGTERM)
        rest = []
        while not rest or not rest[-1].startswith("STOPPING=1"):
            rest.append(daemon.said())
        assert daemon.process.wait(240) == 0


def test_it_says_that_it_reads_its_configuration_anew_and_when_it_has(tmp_path: Path) -> None:
    with Notified(tmp_path) as daemon:
        assert daemon.said().startswith("READY=1")
        daemon.process.send_signal(signal.SIGHUP)
        said = daemon.said()
        assert said.startswith("RELOADING=1\nMONOTONIC_USEC=") and said.rpartition("=")[2].isdigit()
        assert daemon.said() == "READY=1\nSTATUS=Listening."
        config = Path(os.environ["HHD_CONFIG_HOME"])
        config.mkdir(exist_ok=True)
        (config / "config.toml").write_text("nonsense")
        daemon.process.send_signal(signal.SIGHUP)
        assert daemon.said().startswith("RELOADING=1")
        assert "refused" in daemon.said()
        daemon.end()


def test_without_a_watchdog_it_says_no_more_than_it_has_to(tmp_path: Path) -> None:
    with Notified(tmp_path) as daemon:
        assert daemon.said().startswith("READY=1")
        daemon.end()
        assert daemon.said().startswith("STOPPING=1")
        daemon.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            daemon.said()


def test_it_serves_the_socket_it_was_handed_and_leaves_it_in_its_place(tmp_path: Path) -> None:
    data = Path(os.environ["HHD_DATA_HOME"])
    with Notified(tmp_path, activated=True) as daemon:
        assert daemon.said().startswith("READY=1")
        found = json.loads(Told("status", "--json").out)
        assert found["process"] == daemon.process.pid and found["socket"] == str(daemon.path)
        for children in (Path(f"/proc/{daemon.process.pid}/environ"),):
            assert b"LISTEN_FDS" in children.read_bytes()
        daemon.end()
        assert daemon.path.exists() and (data / "daemon.lock").read_bytes() == os.fsencode(daemon.path)
        # Nobody runs, the manager listens: who connects waits for the daemon that it starts.
        asking = subprocess.Popen([*HHD, "status", "--json"], stdout=subprocess.PIPE)
        daemon.listener.settimeout(240)
        accepted, _ = daemon.listener.accept()
        accepted.close()
        assert asking.wait(240) != 0


def test_a_socket_that_was_handed_over_and_removed_is_made_anew_also_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "sockets").mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "sockets/asked.sock"))
    listener.listen(1)
    shutil.rmtree(tmp_path / "sockets")
    started = [sys.executable, "-c", HANDED, str(listener.fileno()), *HHD, "daemon"]
    with subprocess.Popen(started, pass_fds=(listener.fileno(),), env={**os.environ, "LISTEN_FDS": "1"}) as daemon:
        try:
            lock = Path(os.environ["HHD_DATA_HOME"]) / "daemon.lock"
            while daemon.poll() is None and not (held(lock) and lock.read_bytes()):
                os.sched_yield()
            assert json.loads(Told("status", "--json").out).get("process") == daemon.pid
            assert json.loads(Told("down", "--json").out) == {"ended": True}
        finally:
            daemon.kill()
    assert not (tmp_path / "sockets/asked.sock").exists()


@pytest.mark.parametrize(
    ("what", "said"),
    [("file", "is no socket"), ("open to others", "can be reached by others"), ("two", "handed over 2 sockets")],
)
def test_it_refuses_what_is_no_socket_of_this_user_alone(what: str, said: str, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "given"))
    os.chmod(tmp_path / "given", 0o666 if what == "open to others" else 0o600)
    listener.listen(1)
    with open(tmp_path / "plain", "w") as plain:
        fd = plain.fileno() if what == "file" else listener.fileno()
        told = subprocess.run(
            [sys.executable, "-c", HANDED, str(fd), *HHD, "daemon"], pass_fds=(fd,), capture_output=True, text=True,
            timeout=240, env={**os.environ, "LISTEN_FDS": "2" if what == "two" else "1"},
        )  # fmt: skip
    assert told.returncode == 3 and len(told.stderr.splitlines()) == 1
    assert said in told.stderr


def test_descriptors_that_are_meant_for_another_process_are_left_alone(tmp_path: Path) -> None:
    with Notified(tmp_path) as daemon:  # Positive control: it takes those that are meant for it, above.
        assert daemon.said().startswith("READY=1")
    told = Told("up", env={**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": "1"})
    assert told.status == 0 and Told("down").status == 0


# The files


needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def verified(folder: Path, runtime: Path) -> str:
    runtime.mkdir(exist_ok=True)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "./hhd.socket", "./hhd.service"], cwd=folder,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return done.stderr + (f"exit {done.returncode}" if done.returncode else "")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the unit files, for a home whose name has everything that is hard to write in one."""
    home = tmp_path / 'ho me "q" 100% $x'
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("HHD_DATA_HOME", str(home / "data"))
    units.write(units.units(system="linux"), force=False)
    return home / "config/systemd/user"


@needs_analyze
def test_systemd_has_nothing_to_say_against_the_units(written: Path, tmp_path: Path) -> None:
    assert verified(written, tmp_path / "r") == ""
    service = written / "hhd.service"
    service.write_text(service.read_text().replace("NoNewPrivileges=", "NoNewPrivilege="))
    assert "NoNewPrivilege" in verified(written, tmp_path / "r")


@needs_analyze
def test_the_hardening_is_worth_its_name(written: Path) -> None:
    def passes(threshold: int) -> bool:
        words = ["systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", "./hhd.service"]
        return subprocess.run(words, cwd=written, capture_output=True, timeout=240).returncode == 0

    assert passes(85)
    service = written / "hhd.service"
    service.write_text(service.read_text().replace("SystemCallFilter=", "#").replace("NoNewPrivileges=", "#"))
    assert not passes(85)


def test_nothing_in_the_unit_stops_a_jit_or_hides_a_home(written: Path) -> None:
    lines = [line for line in (written / "hhd.service").read_text().splitlines() if not line.startswith("#")]
    keys = {line.partition("=")[0] for line in lines}
    assert "NoNewPrivileges" in keys
    never = {"MemoryDenyWriteExecute", "ProtectHome", "ProtectSystem", "PrivateTmp", "RestrictNamespaces", "UMask"}
    assert not keys & never


def test_an_agent_of_launchd_is_read_back_as_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "a & b <c>"))
    monkeypatch.setenv("HHD_DATA_HOME", str(tmp_path / 'da"ta & <x>'))
    (agent,) = units.units(system="darwin")
    read = plistlib.loads(agent.text.encode())
    assert read["ProgramArguments"] == [*units.launcher(), "daemon"]
    assert read["EnvironmentVariables"]["HHD_DATA_HOME"] == str(tmp_path / 'da"ta & <x>')
    assert units.is_ours(agent.text) and not units.is_ours(agent.text.replace("<true/>", "<false/>"))
    units.write([agent], force=False)
    assert units.serve(tmp_path / 'da"ta & <x>', system="darwin") and not units.serve(tmp_path, system="darwin")
    assert units.remove(force=False, system="darwin") == [agent.path]


def test_launchd_is_asked_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/launchctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    manager = services.Manager(system="darwin")
    agent, domain = units.agents_folder() / units.AGENT, f"gui/{os.geteuid()}"
    assert services.install(force=False, manager=manager).started and agent.exists()
    manager.start()
    manager.stop()
    assert services.uninstall(force=False, manager=manager) == [agent] and not agent.exists()
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"print {domain}", f"bootout {domain}/dev.hhd.daemon", f"bootstrap {domain} {agent}",
        f"kickstart -k {domain}/dev.hhd.daemon", f"bootstrap {domain} {agent}", f"kickstart {domain}/dev.hhd.daemon",
        f"bootout {domain}/dev.hhd.daemon", f"bootout {domain}/dev.hhd.daemon",
    ]  # fmt: skip
    program.write_text("#!/bin/sh\necho 'Could not find domain' >&2\nexit 1\n")
    assert "Could not find domain" in services.Manager(system="darwin").missing


# Which program a unit starts


def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: Path, *, link: Path | None) -> tuple[str, ...]:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/hhd").write_text("#!/bin/sh\n")
    (prefix / "bin/hhd").chmod(0o755)
    (prefix / "bin/python").symlink_to(sys.executable)
    if link is not None:
        link.parent.mkdir(parents=True)
        link.symlink_to(prefix / "bin/hhd")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(prefix / "bin/python"))
    monkeypatch.setattr(sys, "prefix", str(prefix))
    return units.launcher()


def test_of_a_venv_it_is_its_own_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = tmp_path / "venv"
    assert launched(tmp_path, monkeypatch, venv, link=None) == (str(venv / "bin/hhd"),)


@pytest.mark.parametrize("place", [".local/share/pipx/venvs/hhd", ".local/share/uv/tools/hhd"])
def test_of_pipx_and_uv_it_is_the_link_that_an_upgrade_keeps(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / ".local/bin/hhd"
    assert launched(tmp_path, monkeypatch, tmp_path / place, link=link) == (str(link),)


def test_without_a_launcher_it_is_the_interpreter_by_the_name_of_the_venv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    assert units.launcher() == (str(tmp_path / "bin/python"), "-P", "-m", "hhd")


def test_a_place_that_is_emptied_by_itself_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hhd.base.errors import RefusedError

    with pytest.raises(RefusedError, match="emptied by itself"):
        launched(tmp_path, monkeypatch, tmp_path / ".cache/uv/archive-v0/x", link=None)
