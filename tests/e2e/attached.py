"""A daemon of its own for a test, sessions that run in it, and terminals attached to them, without any terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.lab import ALLOW, Device

from hhd.base.locks import held
from hhd.control.client import Connection, connect
from hhd.node.asking import Asking
from hhd.node.runs import Runs
from hhd_protocol import live

E = TypeVar("E")
SECONDS = float(os.environ.get("HHD_TEST_SECONDS", "240"))
"""For anything to happen: a bound for a test that would hang, on a machine that does much else."""


@dataclass(kw_only=True)
class Daemon:
    """The daemon of one `device`, a process that was started here; `before` is Python that runs in it first."""

    device: Device
    before: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def data(self) -> Path:
        return Path(self.device.environ["HHD_DATA_HOME"])

    def up(self) -> Daemon:
        code = f"{self.before}\nimport sys; from hhd.cli import run; sys.exit(run(['daemon']))"
        log = open(self.device.home / "daemon.log", "ab")  # noqa: SIM115
        with log:
            self.process = subprocess.Popen(
                [*self.device.python, "-c", code], cwd="/", env=self.device.environ, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        until(lambda: self._connected() is not None)
        return self

    def _connected(self) -> Connection | None:
        assert self.process.poll() is None, self.log()
        try:
            path = (self.data / "daemon.lock").read_bytes()
        except FileNotFoundError:
            return None
        found = connect(Path(os.fsdecode(path)), hhd="1") if path else None
        if found is not None:
            found.ask("status", {})
            self._first = found
        return found

    def link(self) -> Connection:
        found = connect(Path(os.fsdecode((self.data / "daemon.lock").read_bytes())), hhd="1")
        assert found is not None
        return found

    @property
    def runs(self) -> Runs:
        return Runs(self.link())

    @property
    def asking(self) -> Asking:
        return Asking(self.link())

    def attach(self, session: str, *, position: int | None = 0, by: str = "") -> Attached:
        return Attached(self, session, position, by)

    def log(self) -> str:
        return (self.device.home / "daemon.log").read_text()

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(SECONDS)

    def down(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(SECONDS)
        assert not held(self.data / "daemon.lock")

    def workers(self) -> list[int]:
        """The processes of sessions that run."""
        return [worker for zygote in children(self.process.pid) for worker in children(zygote)]


def children(process: int) -> list[int]:
    from hhd.node.leftovers import children

    return children(process)


class Attached:
    """One terminal: everything it hears is in `heard`."""

    def __init__(self, daemon: Daemon, session: str, position: int | None, by: str) -> None:
        self.heard: list[live.Event] = []
        self.ended: BaseException | None = None
        self.over = False
        """Nothing more comes."""
        self._some = threading.Condition()
        self._link = daemon.link()
        self._events = Runs(self._link).attach(session, position=position, by=by)
        self.heard.append(next(self._events))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for event in self._events:
                with self._some:
                    self.heard.append(event)
                    self._some.notify_all()
        except BaseException as error:  # noqa: BLE001  What ended it is looked at by the test.
            self.ended = error
        with self._some:
            self.over = True
            self._some.notify_all()

    def until(self, kind: type[E], holds: Callable[[E], object] = lambda _: True, *, since: int = 0) -> E:
        """Return the first event of a kind, at or after place `since`, of which something holds."""
        end = time.monotonic() + SECONDS
        with self._some:
            at = since
            while True:
                for event in self.heard[at:]:
                    if isinstance(event, kind) and holds(event):
                        return event
                at = len(self.heard)
                left = end - time.monotonic()
                assert left > 0, self.heard
                if at == len(self.heard):
                    self._some.wait(left)

    def state(self, name: str, *, since: int = 0) -> live.State:
        return self.until(live.State, lambda one: one.name == name, since=since)

    @property
    def place(self) -> int:
        return len(self.heard)

    @property
    def transcript(self) -> bytes:
        """What it heard of the transcript; every piece has to follow the one before."""
        whole, at = b"", None
        for event in self.heard:
            if isinstance(event, live.Emitted):
                assert at is None or event.position == at, "a gap, or something twice"
                whole, at = whole + event.piece, event.position + len(event.piece)
        return whole

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.heard if isinstance(event, kind)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._link._socket.shutdown(2)


def until(holds: Callable[[], Any]) -> Any:
    """Wait until something holds, and return it; looks take half of the time at most."""
    now = time.monotonic()
    end = now + SECONDS
    while not (found := holds()):
        looked, now = now, time.monotonic()
        assert now < end, "it never came to hold"
        time.sleep(max(0.01, now - looked))
        now = time.monotonic()
    return found


@contextlib.contextmanager
def daemon(
    home: Path, *, config: str = ALLOW, before: str = "", environ: dict[str, str] | None = None
) -> Iterator[Daemon]:
    """A daemon with its device, ended afterwards."""
    one = Daemon(device=Device(home=home, config=config, environ=environ or {}), before=before)
    one.up()
    try:
        yield one
    finally:
        one.down()


PYTHON = sys.executable
