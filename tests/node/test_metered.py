"""Whether the network is metered is asked of NetworkManager over a real bus, with a stand-in for it."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from jeepney import DBusAddress, MessageType, new_error, new_method_call, new_method_return
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from hhd.node import metered
from hhd.node.metered import NAME, PATH, is_metered

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow own="*"/><allow send_destination="*"/><allow eavesdrop="true"/></policy></busconfig>
"""


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system bus of this test's own."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("dbus-daemon is not installed")
    (tmp_path / "bus.conf").write_text(CONFIG.format(path=tmp_path / "bus"))
    command = ["dbus-daemon", f"--config-file={tmp_path / 'bus.conf'}", "--nofork", "--nopidfile", "--print-address=1"]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout is not None
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", daemon.stdout.readline().strip())
        yield
    finally:
        daemon.kill()
        daemon.communicate()


class Manager:
    """Stands in for NetworkManager: `said` is what it says, None to say that it knows no such thing."""

    def __init__(self) -> None:
        self.said: tuple[str, object] | None = ("u", 0)
        self.asked = 0
        self._bus: DBusConnection = open_dbus_connection("SYSTEM")
        there = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        self._bus.send_and_get_reply(new_method_call(there, "RequestName", "su", (NAME, 4)))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            asked = self._bus.receive()
            if asked.header.message_type is not MessageType.method_call:
                continue
            if asked.body == ("end",):
                return
            assert asked.body == (NAME, "Metered") and asked.header.fields[1] == PATH  # HeaderFields.path
            self.asked += 1
            if self.said is None:
                self._bus.send(new_error(asked, "org.freedesktop.DBus.Error.UnknownProperty"))
            else:
                self._bus.send(new_method_return(asked, "v", (self.said,)))

    def end(self) -> None:
        with open_dbus_connection("SYSTEM") as bus:
            bus.send(new_method_call(DBusAddress(PATH, NAME, NAME), "End", "s", ("end",)))
            self._thread.join()
        self._bus.close()


def test_what_networkmanager_says_is_what_counts(bus: None) -> None:
    assert not is_metered(), "nobody says so, and nothing is started to say it"
    manager = Manager()
    try:
        for said, told in ((0, False), (1, True), (2, False), (3, True), (4, False), (1, True)):
            manager.said = ("u", said)
            assert is_metered() is told
        for strange in (None, ("s", "yes"), ("i", 1)):
            manager.said = strange
            assert not is_metered()
        assert manager.asked == 9
    finally:
        manager.end()
    assert not is_metered()


def test_where_there_is_no_bus_nothing_is_metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (f"unix:path={tmp_path / 'none'}", "", "nonsense", "tcp:host=localhost"):
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        if address or not Path("/var/run/dbus/system_bus_socket").exists():
            assert not is_metered()


def test_a_bus_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(metered, "ANSWER_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "bus"))
        silent.listen()
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus'}")
        assert not is_metered()
