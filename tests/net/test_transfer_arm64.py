"""A session with a pending test command goes from a daemon on emulated ARM64 to one on x86-64 and back, over a link.

The command runs once, where it lands, the next turn goes on, and nobody asks the model anything on the way.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.arm64 import root
from tests.e2e.lab import needs_agent
from tests.loopback.messages_api import Service, call, message, serve, text
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import around, both_linked, pair, until

from hhd.app import sessions as doors
from hhd.base.errors import UserError

pytestmark = [pytest.mark.long, pytest.mark.arm64, pytest.mark.netns, needs_agent]

SECONDS = 900.0
"""An emulated daemon starts in some ten seconds of processor time."""
CONFIG = '[model]\nname = "claude-test"\nallow_plain_http = true\n[policy]\nallow = []\n'
TEST = message(call("bash", command="echo x >> runs; echo all tests pass"), reason="tool_use")


class Place:
    """A host with a service of its own for its model, which counts what it is asked."""

    def __init__(self, host: Host, service: Service, *, emulated: bool) -> None:
        self.host, self.service = host, service
        keys = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        self.environment = {**host.environment, **keys}
        self._python = root.python() if emulated else [sys.executable]
        if emulated:
            emulating = root.environment()
            kept = {name: emulating[name] for name in ("HHD_ARM64_PATH", "HHD_CACHE_HOME")}
            self._daemon_environment = {**self.environment, **kept}
        else:
            self._daemon_environment = self.environment
        config = host.folder / "config"
        config.mkdir()
        (config / "config.toml").write_text(CONFIG)
        os.chmod(config / "config.toml", 0o600)

    @contextlib.contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        with open(self.host.folder / "daemon.log", "ab") as log:
            process = self.host.popen(
                *self._python, "-m", "hhd", "daemon",
                env=self._daemon_environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.host.wait_for_daemon(process, SECONDS)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(SECONDS)

    def typed(self, *words: str, status: int = 0) -> str:
        """A command of that host; what it asks of the daemon, the daemon does."""
        process = self.host.popen(
            sys.executable, "-m", "hhd", *words,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        said, complained = process.communicate(timeout=SECONDS)
        assert process.returncode == status, said + complained
        return said.decode()

    def shown(self, session: str) -> Any:
        with contextlib.suppress(UserError), self._doors() as control:
            return control.show(session)
        return None

    @contextlib.contextmanager
    def _doors(self) -> Iterator[Any]:
        with mock.patch.dict(os.environ, self.environment, clear=True), doors.control() as control:
            yield control

    def asks(self, session: str) -> bool:
        """Whether it runs there, and waits for a yes to its command."""
        found = self.shown(session)
        return found is not None and found.owner.here and found.waiting == "approval of bash"

    def says(self, session: str) -> bytes:
        with self._doors() as control:
            return b"".join(control.transcript(session))


def test_a_pending_test_command_goes_to_the_other_processor_and_back_by_daemons_and_runs_once(lab: LabMaker) -> None:
    root.need()
    steps = [TEST, message(text("They pass.")), message(text("Once more."))]
    with lab("laptop", "desktop") as net, contextlib.ExitStack() as after:
        services = {}
        for name in net.hosts:
            service = services[name] = serve(steps)
            net[name].call(service.__enter__)  # So that it listens on that host's loopback interface.
            after.callback(service.__exit__)
        laptop = Place(net["laptop"], services["laptop"], emulated=True)
        desktop = Place(net["desktop"], services["desktop"], emulated=False)
        pair(net, "laptop", "desktop")
        with laptop.daemon() as emulated, desktop.daemon():
            assert "qemu-aarch64" in os.readlink(f"/proc/{emulated.pid}/exe")
            until(lambda: bool(around(net["desktop"]).listening), SECONDS)
            port = around(net["desktop"]).listening[0].rpartition(":")[2]
            laptop.typed(
                "peer", "add", f"{net['desktop'].ip4}:{port}"
            )  # Emulated, a process cannot join the multicast group.
            until(lambda: _linked(net["laptop"], net["desktop"]), SECONDS)
            _there_and_back(laptop, desktop)


def _linked(one: Host, other: Host) -> bool:
    """Whether they are; an emulated daemon that is busy with its start may be slow to answer."""
    try:
        return both_linked(one, other)
    except UserError:
        return False


def _there_and_back(laptop: Place, desktop: Place) -> None:
    repo = laptop.host.folder / "repo"
    repo.mkdir()
    session = json.loads(laptop.typed("run", "Run the tests.", "-C", str(repo), "--detach", "--json"))["session"]
    until(lambda: laptop.asks(session), SECONDS)
    assert [len(place.service.requests) for place in (laptop, desktop)] == [1, 0], "the positive control: they count"
    assert "aarch64" in json.dumps(laptop.service.requests[0].body), "the agent was told where it runs"
    for source, target in ((laptop, desktop), (desktop, laptop)):
        steps = source.typed("transfer", session, target.host.name, "--json").splitlines()
        assert json.loads(steps[-1])["status"] == 0
        until(lambda: target.asks(session), SECONDS)  # noqa: B023
        folder = Path(target.shown(session).folder)
        assert not (folder / "runs").exists()
    assert [len(place.service.requests) for place in (laptop, desktop)] == [1, 0], "nobody is asked on the way"
    asked = dict[str, Any]()

    def asks() -> bool:
        """Not while its process, just begun, is on its way to the question."""
        asked.update(json.loads(laptop.typed("approve", session, "--json", status=3)))
        return "shown" in asked

    until(asks, SECONDS)
    laptop.typed("approve", session, "--shown", asked["shown"])
    laptop.typed("resume", session, "--detach")
    until(lambda: b"They pass." in laptop.says(session), SECONDS)
    assert (repo / "runs").read_text() == "x\n"
    assert not list((desktop.host.folder / "workspaces").rglob("runs")), "once, where it landed"
    laptop.typed("send", session, "And now?")
    until(lambda: b"Once more." in laptop.says(session), SECONDS)
    assert [len(place.service.requests) for place in (laptop, desktop)] == [3, 0]
    assert (repo / "runs").read_text() == "x\n"


if sys.platform != "linux":
    pytest.skip("needs qemu-user", allow_module_level=True)
