"""What this process tells the service manager that started it: ready, reloading, stopping, alive.

The protocol is sd_notify(3): one datagram of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names. Where nobody
asked to be told, nothing is said, so the daemon is the same under systemd, launchd and a terminal.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping
from dataclasses import dataclass

_STATUS_CHARS_MAX = 200
"""Of the one line that `systemctl status` shows."""


@dataclass(frozen=True, kw_only=True)
class ServiceManager:
    """Who is told. `address`: of its socket, None where there is none; `watchdog_seconds`: how soon it ends who is
    silent, None where it does not."""

    address: str | None = None
    watchdog_seconds: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether anybody is told."""
        return self.address is not None

    def ready(self, status: str) -> None:
        """The daemon listens, or has reloaded; `status` is one line for a person."""
        self._say("READY=1", _status(status))

    def starts_slowly(self, seconds: int, status: str) -> None:
        """It takes so long until `ready`, which is more than the manager waits by itself."""
        self._say(f"EXTEND_TIMEOUT_USEC={seconds * 1_000_000}", _status(status))

    def reloading(self) -> None:
        """The configuration is being read anew; `ready` follows."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str) -> None:
        """The daemon was told to end and does what it has begun."""
        self._say("STOPPING=1", _status(status))

    def alive(self) -> None:
        """The loop still turns: said at least twice in `watchdog_seconds`."""
        self._say("WATCHDOG=1")

    def _say(self, *lines: str) -> None:
        if self.address is None:
            return
        name = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        # A manager that went away, or takes nothing more, must not end or delay who reports to it.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode("utf-8", "replace"), name)


def from_environment(environ: MutableMapping[str, str] | None = None) -> ServiceManager:
    """Return who is to be told; the variables that say so are taken away, so that no child speaks in our name."""
    env = os.environ if environ is None else environ
    address, microseconds = env.pop("NOTIFY_SOCKET", ""), env.pop("WATCHDOG_USEC", "")
    for_process = env.pop("WATCHDOG_PID", "") or str(os.getpid())
    watched = microseconds.isascii() and microseconds.isdigit() and int(microseconds[:18]) > 0
    return ServiceManager(
        address=address if address[:1] in ("/", "@") and len(address) > 1 else None,
        watchdog_seconds=int(microseconds[:18]) / 1e6 if watched and for_process == str(os.getpid()) else None,
    )


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())[:_STATUS_CHARS_MAX]}"
