"""A daemon that stops where it is, like a process that gets SIGSTOP, the moment a handoff has come to a stage.

    python -m tests.net.halting daemon             # instead of `python -m hhd daemon`

The stage is durable then, and nothing more was done for it: no message of it was sent. Which stage, and the how many-th
time a handoff comes to it, says the file ORDER in the device's data folder (`place`, `order`); the daemon answers with
the file HALTED before it stops, and stops once. The product is as it is; only here, in this process, its notice of a
stage is wrapped, and it waits less.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hhd_protocol.handoff import Handoff, Side, Stage

if TYPE_CHECKING:
    from tests.net.lab import Host

ORDER, HALTED = "halt-at", "halted-at"
TOP = Path(__file__).parents[2]


def place(side: Side, stage: Stage) -> str:
    """A stage at one side, as the two files name it."""
    return f"{side.value} {stage.value}"


def order(data: Path, where: str, *, time: int = 1) -> None:
    """Let the daemon whose data is in `data` stop when it comes to `where` the `time`-th time from now on."""
    (data / HALTED).unlink(missing_ok=True)
    written = data / f"{ORDER}.new"
    written.write_text(f"{where} {time}")
    written.rename(data / ORDER)


def called_off(data: Path) -> None:
    """Let it not stop."""
    (data / ORDER).unlink(missing_ok=True)
    (data / HALTED).unlink(missing_ok=True)


def up(host: Host) -> subprocess.Popen[bytes]:
    """Start a daemon of `host` that stops at a stage when it is told to; it listens when this returns."""
    with open(host.folder / "daemon.log", "ab") as log:
        process = host.popen(
            sys.executable, "-m", "tests.net.halting", "daemon",
            env={**host.environment, "PYTHONPATH": str(TOP)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    host.wait_for_daemon(process)
    return process


def kill(daemon: subprocess.Popen[bytes], *, alone: bool = False) -> None:
    """SIGKILL of a daemon, and, unless it is to be `alone`, of all that it started."""
    for pid in [daemon.pid, *(() if alone else below(daemon.pid))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    daemon.wait()


def stopped(daemon: subprocess.Popen[bytes]) -> bool:
    """Whether it stopped, as a debugger would see it."""
    return Path(f"/proc/{daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def ended(telling: subprocess.Popen[bytes]) -> str:
    """What a command said up to now, and its status: it is ended for that if it goes on."""
    status = telling.poll()
    telling.kill()
    said, complained = telling.communicate()
    return f"{status}: {said.decode(errors='replace')}{complained.decode(errors='replace')}"


def below(pid: int) -> list[int]:
    """All processes below one."""
    found = list[int]()
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [each for one in tasks.read_text().split() for each in (int(one), *below(int(one)))]
    return found


class _Order:
    """What the file ORDER says, and how often that has come to pass."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._written, self._seen = 0, 0

    def came_to(self, where: str) -> None:
        """A handoff came to a stage: stop, where that is what was ordered."""
        file = self._data / ORDER
        try:
            written, (*ordered, time) = file.stat().st_mtime_ns, file.read_text().split(" ")
        except FileNotFoundError:
            return
        if " ".join(ordered) != where:
            return
        self._seen = self._seen + 1 if written == self._written else 1
        self._written = written
        if self._seen == int(time):
            file.rename(self._data / HALTED)
            os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    """`hhd`, whose handoffs stop."""
    from hhd import __main__
    from hhd.node import dialling
    from hhd.node.handoff import again as handoff_again
    from hhd.node.handoff import turns as handoff_turns
    from hhd.node.handoff import wishes as handoff_wishes
    from hhd.node.handoff.going import Going

    came, ordered = handoff_turns.Turns._now, _Order(Path(os.environ["HHD_DATA_HOME"]))

    def now(turns: handoff_turns.Turns, going: Going, after: Handoff) -> None:
        changed = after.stage is not going.one.stage
        came(turns, going, after)
        if changed:
            ordered.came_to(place(after.side, after.stage))

    handoff_turns.Turns._now = now  # type: ignore[method-assign]
    dialling.STABLE_SECONDS = 0.0  # A line that is cut in every test is not one that flaps.
    handoff_wishes.REPLY_SECONDS, handoff_again.AGAIN_SECONDS = 3.0, 1.0
    handoff_turns.BEGIN_SECONDS = 3.0
    __main__.main()


if __name__ == "__main__":
    main()
