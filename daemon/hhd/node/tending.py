"""The part of the daemon that looks after the daemon: how it is, what it reads anew, what its manager hears."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping

from hhd.base import config, log
from hhd.base.errors import UserError
from hhd.base.log import Log
from hhd.base.notify import ServiceManager
from hhd.base.paths import data_folder
from hhd.base.release import RELEASE
from hhd.node import metrics
from hhd.node.answers.health import Health, Reloaded
from hhd.node.metrics import Metric
from hhd.node.service import Verb

DISK_FREE_BYTES_LOW = 512 * 1024 * 1024
"""Of the disk of the data: four times what the store leaves free by default."""

_APPLIES = "It holds from now on, for what begins now; sessions that run keep what they began with."
_AT_START = {
    "store": ("free_bytes_min", "bytes_max"),
    "identity": ("keyring",),
    "sync": ("session_bytes_max", "spare_battery", "spare_metered"),
}
"""What the daemon, or a part of it, uses as it was when it started."""


class Tending:
    """`manager`: who started this process, and is told when it is ready, alive and ending; `kept`: the daemon's log.

    Other parts may say how they are: `measured` by numbers, `noted` by sentences for the person.
    """

    def __init__(self, *, manager: ServiceManager, kept: Log | None = None) -> None:
        self._manager, self._log = manager, kept
        self._since = time.time()
        self._refused = ""
        self._reloads = 0
        self.known: frozenset[str] = frozenset()
        """All verbs of the daemon."""
        self.asked = metrics.Asked()
        self.reloaded: list[Callable[[], None]] = []
        """Called when the configuration was read anew."""
        self.measured: list[Callable[[], Iterable[Metric]]] = []
        self.noted: list[Callable[[], Iterable[str]]] = []

    def ready(self) -> None:
        """The daemon listens."""
        with contextlib.suppress(ValueError, RuntimeError):  # Only where signals are: in the main thread.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hung_up)
        log.note("started", release=RELEASE, process=os.getpid())
        self._manager.ready("Listening.")

    # As `hhd.node.service.Part`

    def verbs(self) -> Mapping[str, Verb]:
        """What is asked of the daemon as such."""
        return {
            "health": Verb(self.health, changes=False),
            "metrics": Verb(self.metrics, changes=False),
            "reload": Verb(self.reload, changes=True),
        }

    async def run(self) -> None:
        """Say that the loop turns, three times as often as the service manager wants to hear it."""
        while (seconds := self._manager.watchdog_seconds) is not None:
            self._manager.alive()
            await asyncio.sleep(seconds / 3)

    async def stop(self) -> None:
        """The daemon ends what it has begun."""
        log.note("stopping")
        self._manager.stopping("Ending what was begun.")

    # Verbs

    async def health(self) -> Health:
        """How the daemon is."""
        notes = tuple(self._notes())
        return Health(
            state="warn" if notes else "ok",
            notes=notes,
            hhd=RELEASE,
            process=os.getpid(),
            since_ms=int(self._since * 1000),
        )

    async def metrics(self) -> str:
        """All measures, in the text format of Prometheus."""
        begun = time.monotonic()
        await asyncio.sleep(0)
        turn = time.monotonic() - begun
        found = [
            Metric(name="hhd_info", kind="gauge", meaning="Which hhd this is.", samples=(({"release": RELEASE}, 1),)),
            metrics.gauge("hhd_healthy", "1 where there is nothing to look at.", not list(self._notes())),
            metrics.gauge("hhd_loop_turn_seconds", "How long the event loop took for one turn just now.", turn),
            metrics.counter("hhd_config_reloads_total", "Times the configuration was read anew.", self._reloads),
            metrics.gauge(
                "hhd_config_refused", "1 where the file was refused and the old one holds.", bool(self._refused)
            ),
            metrics.gauge("hhd_log_lines_lost", "Lines that could not be written.", self._log.lost if self._log else 0),
            *metrics.of_process(self._since),
            *metrics.of_disk(data_folder()),
            *self.asked.metrics(),
        ]
        return metrics.text([*found, *(one for source in self.measured for one in source())])

    async def reload(self) -> Reloaded:
        """Read the configuration anew; raises RefusedError for a bad one, and the old one holds."""
        before = config.load()
        self._reload()
        later = ", ".join(_changed_at_start(before, config.load()))
        return Reloaded(applies=f"{_APPLIES} After hhd restart only: what is new of {later}." if later else _APPLIES)

    def _reload(self) -> None:
        self._manager.reloading()
        try:
            config.hold()
            self._refused = ""
            self._reloads += 1
            for hear in self.reloaded:
                hear()
            log.note("config_reloaded")
        except UserError as error:
            self._refused = str(error)
            log.warn("config_refused")
            raise type(error)(f"{error} The daemon goes on with the configuration it had.") from error
        finally:
            self._manager.ready("The configuration was refused; the old one holds." if self._refused else "Listening.")

    def _hung_up(self) -> None:
        with contextlib.suppress(UserError):  # It is in the log, and `status` says it.
            self._reload()

    def says(self) -> tuple[str, ...]:
        """Sentences for `hhd status`."""
        return tuple(self._notes())

    def _notes(self) -> Iterable[str]:
        if self._refused:
            yield f"{self._refused} The daemon goes on with the configuration it had."
        if self._log is not None and self._log.lost:
            yield f"{self._log.lost} lines of the log could not be written; hhd doctor says more."
        with contextlib.suppress(OSError):
            found = os.statvfs(data_folder())
            if (free := found.f_bavail * found.f_frsize) < DISK_FREE_BYTES_LOW:
                yield f"{free >> 20} MiB are left on the disk of {data_folder()}; hhd gc frees what nothing needs."
        for source in self.noted:
            yield from source()

    def ended(self, verb: str, how: str, seconds: float, error: Exception | None) -> None:
        """Something that was asked is over (`hhd.control.server.Server`): count it; a fault of ours is noted."""
        known = verb if verb in self.known else "unknown"  # What a client says is no label.
        self.asked.count(known, how, seconds)
        if error is not None:
            log.fault("request_failed", error, verb=known)


def _changed_at_start(before: config.Config, after: config.Config) -> list[str]:
    """What is set otherwise now, and used only by a daemon that starts."""
    return [
        f"[{table}] {key}"
        for table, keys in _AT_START.items()
        for key in keys
        if getattr(getattr(before, table), key) != getattr(getattr(after, table), key)
    ]
