"""The daemon as a service of the system: installed, started, stopped, removed, by systemd or launchd.

Everything is asked of `systemctl --user` or `launchctl`; where neither answers (a container, a login without a
manager), the files are written all the same, and the daemon is started as without them. All of it may be repeated.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hhd.base.errors import RefusedError, UserError
from hhd.base.text import visible
from hhd.node import units

SECONDS_MAX = 90.0
"""For one word to the manager: it waits for a start (60 s in the unit), or for a stop (45 s)."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What became of an installation, in sentences for the person."""

    written: list[Path]
    started: bool
    told: list[str] = field(default_factory=list)


class Manager:
    """The service manager of this login; `missing`: why there is none to speak to, empty where there is."""

    def __init__(self, *, system: str = sys.platform) -> None:
        self.system = system
        self.missing = self._missing()

    @property
    def is_systemd(self) -> bool:
        """Whether it is systemd."""
        return self.system != "darwin"

    def listens(self) -> bool:
        """Whether the manager holds the daemon's socket, and starts a daemon when somebody connects."""
        said = self._say("is-active", units.SOCKET) if self.is_systemd else None
        return said is not None and said.stdout.strip() == b"active"

    def enable(self) -> None:
        """Start the daemon now and at each login; raises UserError with what the manager said."""
        if self.is_systemd:
            self._insist("daemon-reload")
            self._insist("enable", "--now", units.SOCKET, units.SERVICE)
            return
        self._say("bootout", f"{_domain()}/dev.hhd.daemon")  # One that an older file began; none is no fault.
        self._insist("bootstrap", _domain(), str(units.agents_folder() / units.AGENT))

    def start(self) -> None:
        """Start the daemon, and its socket."""
        if self.is_systemd:
            self._insist("start", units.SOCKET, units.SERVICE)
        else:
            self._say("bootstrap", _domain(), str(units.agents_folder() / units.AGENT))
            self._insist("kickstart", f"{_domain()}/dev.hhd.daemon")

    def stop(self) -> None:
        """Stop both, until the next login or `start`."""
        if self.is_systemd:
            self._insist("stop", units.SOCKET, units.SERVICE)
        else:
            self._insist("bootout", f"{_domain()}/dev.hhd.daemon")

    def restart(self) -> None:
        """End the daemon and start it anew; its socket stays, so who asks meanwhile waits."""
        if self.is_systemd:
            self._insist("restart", units.SERVICE)
        else:
            self._insist("kickstart", "-k", f"{_domain()}/dev.hhd.daemon")

    def disable(self) -> None:
        """Stop both, and start neither at the next login."""
        if self.is_systemd:
            self._insist("disable", "--now", units.SOCKET, units.SERVICE)
        else:
            self._say("bootout", f"{_domain()}/dev.hhd.daemon")

    def forget(self) -> None:
        """Let the manager notice that the files are gone."""
        if self.is_systemd:
            self._say("daemon-reload")

    def lingers(self) -> bool | None:
        """Whether the daemon outlives the last logout; None where that is not known."""
        if not self.is_systemd:
            return None
        said = _run(["loginctl", "show-user", _user(), "--property=Linger", "--value"], seconds=5)
        if said is not None and said.returncode == 0 and said.stdout.strip() in (b"yes", b"no"):
            return said.stdout.strip() == b"yes"
        marks = Path("/var/lib/systemd/linger")  # As logind keeps it; it says nothing of who never logged in.
        return (marks / _user()).exists() if marks.is_dir() else None

    def _missing(self) -> str:
        name = "systemctl" if self.is_systemd else "launchctl"
        if shutil.which(name) is None:
            return f"there is no {name} here"
        said = self._say("show", "--property=Version") if self.is_systemd else self._say("print", _domain())
        if said is not None and said.returncode == 0:
            return ""
        return f"{name} does not reach a manager of this login ({_reason(said)})"

    def _insist(self, *words: str) -> None:
        said = self._say(*words)
        if said is None or said.returncode:
            name = "systemctl --user" if self.is_systemd else "launchctl"
            raise UserError(f"{name} {' '.join(words)} failed: {_reason(said)}. hhd logs says more, if it began.")

    def _say(self, *words: str) -> subprocess.CompletedProcess[bytes] | None:
        begin = ["systemctl", "--user", "--no-ask-password"] if self.is_systemd else ["launchctl"]
        return _run([*begin, *words], seconds=SECONDS_MAX)


def of(data: Path) -> Manager | None:
    """Return the manager that starts and stops the daemon of the folder `data`; None where that is left to us."""
    if not units.serve(data):
        return None
    manager = Manager()
    return None if manager.missing else manager


def insist_on_place(data: Path) -> None:
    """Raise RefusedError where the manager holds the socket of the daemon for `data`, and did not start this process.

    A socket of our own in its place would leave the manager with one that nobody reaches.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        manager = of(data)
        if manager is not None and manager.listens():
            raise RefusedError("The service manager holds the daemon's socket; hhd up lets it start the daemon.")


def install(*, force: bool, manager: Manager | None = None) -> Installed:
    """Write the unit files and let the manager start the daemon, now and at each login.

    Raises RefusedError, with nothing changed, where a file was edited, or none can be made.
    """
    manager = manager or Manager()
    written = units.write(units.units(system=manager.system), force=force)
    told = [f"Written: {path}" for path in written] or ["The unit files are as they should be."]
    if manager.missing:
        told.append(f"No service manager starts it: {manager.missing}. It will, once there is one.")
        return Installed(written=written, started=False, told=told)
    manager.enable()
    if written:
        manager.restart()  # One that runs already runs with what the files said before.
    told.append("The daemon runs now, and is started at each login.")
    if manager.lingers() is False:
        told.append(f"It ends with your last logout. To keep it running then: loginctl enable-linger {_user()}")
    return Installed(written=written, started=True, told=told)


def uninstall(*, force: bool, manager: Manager | None = None) -> list[Path]:
    """Stop the daemon and take its unit files away; none is no fault. Raises RefusedError, with nothing changed."""
    manager = manager or Manager()
    there = units.installed(system=manager.system)
    if not there:
        return []
    edited = [one for one in there if not force and not units.is_ours(units.read(one) or "")]
    if edited:
        raise RefusedError(f"{edited[0]} is not as hhd wrote it; nothing was changed. With --force it is removed.")
    if not manager.missing:
        manager.disable()
    gone = units.remove(force=force, system=manager.system)
    manager.forget()
    return gone


def _run(words: Iterable[str], *, seconds: float) -> subprocess.CompletedProcess[bytes] | None:
    """Run a program of the system to its end; None where there is none, or it takes too long."""
    try:
        return subprocess.run(
            list(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False,
            env={**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def _reason(said: subprocess.CompletedProcess[bytes] | None) -> str:
    if said is None:
        return "it did not answer"
    lines = (said.stderr or said.stdout).decode("utf-8", "replace").strip().splitlines()
    return visible(lines[-1][:300], one_line=True).rstrip(".") if lines else f"exit status {said.returncode}"


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _domain() -> str:
    return f"gui/{os.geteuid()}"
