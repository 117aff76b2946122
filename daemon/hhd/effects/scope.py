"""A place of its own for a command, in the books of systemd: outside of the unit of the daemon that started it.

Within the unit, a command that eats memory would count against the daemon, and the end of the unit would kill it at
once, in the middle of what it does. `systemd-run --user --scope` moves itself into a new scope and then becomes the
command: it stays the same process, a child of ours, so all by which it is watched and ended holds as without.
Only where this process is in a service of the user manager: from a terminal a command is already in no unit of ours.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

UNIT = "hhd.service"
PROBE_SECONDS_MAX = 10.0

_NEEDED = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""By which `systemd-run` finds the manager; commands do not get them."""

_numbers = itertools.count(1)


class Scope:
    """Runs commands in scopes of their own by `program`; None: where they are."""

    def __init__(self, program: str | None = None, manager: Mapping[str, str] | None = None) -> None:
        self._program, self._manager = program, dict(manager or {})

    @property
    def is_there(self) -> bool:
        """Whether commands get one."""
        return self._program is not None

    def wrap(self, words: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the words that run `words` in a scope, and what environment they need to give it `environment`."""
        if self._program is None:
            return list(words), dict(environment)
        # The manager's address is for systemd-run alone; what a command has of these names itself is kept.
        away = [word for name in self._manager if name not in environment for word in ("-u", name)]
        kept = [f"{name}={environment[name]}" for name in self._manager if name in environment]
        unit = f"hhd-command-{os.getpid()}-{next(_numbers)}.scope"
        begin = [self._program, "--user", "--scope", "--quiet", "--collect", f"--unit={unit}", "--"]
        return [*begin, "/usr/bin/env", *away, *kept, *words], {**environment, **self._manager}


@functools.cache
def detect() -> Scope:
    """Find whether commands need a scope of their own, and get one, by making one."""
    return _detected(Path("/proc/self/cgroup"), os.environ)


def _detected(cgroup: Path, environ: Mapping[str, str]) -> Scope:
    program = shutil.which("systemd-run") if _in_unit(cgroup) else None
    if program is None:
        return Scope()
    scope = Scope(program, {name: environ[name] for name in _NEEDED if environ.get(name)})
    words, around = scope.wrap(["/bin/sh", "-c", "exit 17"], {"PATH": os.defpath})
    try:
        done = subprocess.run(
            words, env=around, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Scope()
    return scope if done.returncode == 17 else Scope()


def _in_unit(cgroup: Path) -> bool:
    """Whether this process is in the daemon's unit; never where the system keeps no such books."""
    try:
        return any(UNIT in line.rpartition(":")[2].split("/") for line in cgroup.read_text("ascii", "replace").split())
    except OSError:
        return False
