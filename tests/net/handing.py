"""Devices of one person in namespaces that hand sessions to one another, asked in this process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import mock

import pytest
from tests.e2e.lab import call, says, script, text
from tests.net import lab as laboratory
from tests.net.lab import Host, Net
from tests.net.paired import at, pair

from hhd.app import attending
from hhd.app import sessions as doors
from hhd.base.errors import RefusedError, UserError
from hhd.node import here, sessions, store
from hhd.node.doors import Doors
from hhd.node.runs import Runs
from hhd_protocol.handoff import TABLE, Act, Side, Stage
from hhd_protocol.ids import SessionId, StatementId

T = TypeVar("T")
COUNTED = "echo x >> runs; echo one"
"""A command that leaves something that can be counted."""
PLACES = tuple(
    (side, stage)
    for side in Side
    for stage in Stage
    if stage not in (Stage.NONE, Stage.ABORTED, Stage.SUPERSEDED)
    and any(row.side is side and row.to is stage and Act.PERSIST in row.does for row in TABLE)
)
"""Every stage of either side that a handoff comes to on its way; those in which it is given up come of the others."""


@dataclass
class Devices:
    """Daemons of the program MODULE on the hosts of a net."""

    MODULE: ClassVar[str]
    net: Net
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    begun: int = 0

    @property
    def hosts(self) -> list[Host]:
        return list(self.net.hosts.values())

    def up(self, host: Host) -> None:
        with open(host.folder / "daemon.log", "ab") as log:
            process = self.daemons[host.name] = host.popen(
                sys.executable, "-m", self.MODULE, "daemon",
                env={**host.environment, "PYTHONPATH": str(laboratory.TOP)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        host.wait_for_daemon(process)

    def verbs(self, host: Host, act: Callable[[Any], T]) -> T:
        """A command of that host, asked in this process."""
        with mock.patch.dict(os.environ, host.environment, clear=True), doors.control() as control:
            return act(control)

    # What a person does

    def begin(self, host: Host) -> SessionId:
        """A session of that host, in a folder of its own."""
        self.begun += 1
        folder = host.folder / f"repo{self.begun}"
        folder.mkdir()
        with self._runs(host) as runs:
            return SessionId(bytes.fromhex(runs.begin("go", folder=folder, environment={}).session))

    def go_on(self, host: Host, session: SessionId) -> None:
        with self._runs(host) as runs:
            runs.go_on(session.hex(), environment={})

    def says_yes(self, host: Host, session: SessionId) -> bool:
        """Say yes to what it asks; False where it asks nothing."""
        name = session.hex()
        try:
            asked = self.verbs(host, lambda control: control.asked(name))
            self.verbs(host, lambda control: control.decide(name, shown=asked.shown, agreed=True))
        except RefusedError:
            return False
        return True

    def settle(self, host: Host, session: SessionId) -> None:
        """Say in all honesty whether its command ran."""
        how = "ran" if self.ran(session) else "did-not-run"
        self.verbs(host, lambda control: control.settle(session.hex(), None, how=how, output="one"))

    @contextlib.contextmanager
    def _runs(self, host: Host) -> Iterator[Runs]:
        with mock.patch.dict(os.environ, host.environment, clear=True), attending.runs(starts=False) as runs:
            assert runs is not None
            yield runs

    # How it stands

    def asks(self, host: Host, session: SessionId) -> bool:
        """Whether it waits for a yes to its command there."""
        with contextlib.suppress(UserError):
            return bool(self.verbs(host, lambda control: control.show(session.hex())).waiting == "approval of bash")
        return False

    def over(self, host: Host) -> bool:
        """Whether no handoff is under way there."""
        return all(one.over for one in self.verbs(host, lambda control: control.transfers()))

    def may(self, host: Host, session: SessionId) -> bool:
        """Whether this device may go on with it."""
        with at(host) as me, store.opened(me) as opened, opened.snapshot():
            return session in opened.sessions() and Doors(opened, me, session).may_append() is None

    def heads(self, host: Host, session: SessionId) -> frozenset[StatementId]:
        """Its heads there, none while nothing of it came."""
        with at(host) as me, store.opened(me) as opened, opened.snapshot():
            return frozenset(sessions.view(opened, me, session).heads if session in opened.sessions() else ())

    def transcript(self, host: Host, session: SessionId) -> bytes:
        """What it said, without what its machine was found to be like: that differs with whose terminal began it."""
        whole = self.verbs(host, lambda control: b"".join(control.transcript(session.hex())))
        return b"".join(line for line in whole.splitlines(True) if not line.startswith(b'{"event":"machine"'))

    def has(self, host: Host, session: SessionId, words: bytes) -> bool:
        """Whether this device has a session with these words; False also while what was said last is on its way."""
        with contextlib.suppress(UserError):
            return words in self.transcript(host, session)
        return False

    def finished(self, host: Host, session: SessionId) -> bool:
        """Whether it has come to its end, as far as this device has it."""
        return self.has(host, session, b"Done.")

    def ran(self, session: SessionId) -> list[str]:
        """What its command left, at each place where it ran."""
        found = set[Path]()
        for host in self.hosts:
            with at(host) as me, store.opened(me) as opened:
                if session in opened.sessions() and (noted := here.noted(opened, session)) is not None and noted.folder:
                    found.add(noted.folder / "runs")
        return [path.read_text() for path in sorted(found) if path.exists()]


def made(folder: Path, allowed: Mapping[str, str], command: str = COUNTED) -> Net:
    """The net of hosts that are one person's devices, each with the tools that need no yes there; skips the test.

    Sessions look around, run `command`, and come to their end.
    """
    if (why := laboratory.missing()) is not None:
        pytest.skip(why)
    laboratory.sweep()
    replies = [says(call("glob", pattern="*")), says(call("bash", command=command)), says(text("Done."))]
    net = Net(tuple(allowed), folder, None)
    try:
        for name, tools in allowed.items():
            host = net[name]
            laboratory.warm(host)
            model = script(host.folder / "script.jsonl", replies)
            (host.folder / "config").mkdir()
            config = host.folder / "config" / "config.toml"
            config.write_text(f'[model]\nname = "{model}"\n[policy]\nallow = [{tools}]\n')
            config.chmod(0o600)
        pair(net, *allowed)
    except BaseException:
        net.close()
        raise
    return net
