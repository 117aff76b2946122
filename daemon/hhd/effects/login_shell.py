"""The environment that a login of this person would have: what commands get where no terminal handed one over.

A service manager starts the daemon with next to nothing, not even the PATH of a login. The person's own shell knows
better, so it is asked, once: it reads its profile as for a login and prints what came of that. A profile may print
anything, hang, or be broken, so what it says is bounded in time and size, found behind a mark nobody can guess, and
where nothing comes of it that is said, and commands get what the daemon has.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from hhd.base import log

SECONDS_MAX = 5.0
"""A profile that takes longer hangs, or asks something: nobody is there to answer."""
BYTES_MAX = 1024 * 1024
"""The kernel gives a program two, with its arguments."""
VARIABLES_MAX = 4096
_LOOK_MS = 20
"""How often to look whether the shell has ended."""

_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_OTHER_WORDS = frozenset({"csh", "tcsh", "nu", "xonsh", "elvish"})
"""Shells that have no `-l -c`; /bin/sh reads at least /etc/profile and ~/.profile."""
_NONE = frozenset({"nologin", "false", "true", "sync"})


class LoginShell:
    """The login shell of this user, asked when it is first needed; `forget` lets it be asked again."""

    def __init__(self, shell: str | None = None, *, seconds_max: float = SECONDS_MAX) -> None:
        self._shell, self._seconds_max = shell, seconds_max
        self._lock = threading.Lock()
        self._known: Mapping[str, str] | None = None
        self._asked = False
        self.failed = ""
        """Why nothing came of it, in a sentence; empty where something did, or nobody asked."""

    def environment(self) -> Mapping[str, str] | None:
        """Return what a login would have, None where the shell does not say; waits `SECONDS_MAX` at most."""
        with self._lock:
            if not self._asked:
                self._known, self._asked = self._ask(), True
                if self.failed:
                    log.warn("login_shell_failed", why=self.failed)
            return self._known

    def forget(self) -> None:
        """The next who asks asks the shell."""
        with self._lock:
            self._known, self._asked, self.failed = None, False, ""

    def _ask(self) -> Mapping[str, str] | None:
        account = pwd.getpwuid(os.geteuid())
        shell = self._shell or account.pw_shell or "/bin/sh"
        name = Path(shell).name
        if name in _NONE:
            self.failed = "This user has no login shell."
            return None
        words = "/bin/sh" if name in _OTHER_WORDS else shell
        mark = os.urandom(16).hex()
        home = os.environ.get("HOME") or account.pw_dir
        begun = {"HOME": home, "USER": account.pw_name, "LOGNAME": account.pw_name, "SHELL": shell, "PATH": _PATH}
        begun |= {key: one for key in ("LANG", "TZ") if (one := os.environ.get(key))}
        try:
            said = _said([words, "-l", "-c", f"echo {mark}; exec /usr/bin/env -0"], {**begun, "TERM": "dumb"}, home,
                         self._seconds_max)  # fmt: skip
        except OSError:
            self.failed = "The login shell could not be started."
            return None
        if said is None:
            self.failed = "The login shell did not end in time, or said too much."
            return None
        found = _variables(said.rpartition(f"{mark}\n".encode())[2]) if f"{mark}\n".encode() in said else None
        if not found or "PATH" not in found:
            self.failed = "The login shell did not say what environment a login has."
            return None
        return found


def _said(words: list[str], environment: dict[str, str], home: str, seconds: float) -> bytes | None:
    """What a program prints in the time and bytes it has, None where they are not enough; nothing of it is left."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        cwd=home if os.path.isdir(home) else "/", start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    end, raw, over = time.monotonic() + seconds, bytearray(), False
    try:
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN | select.POLLHUP)
        while len(raw) <= BYTES_MAX and time.monotonic() < end:
            ended = process.poll() is not None  # A program in the background may hold the pipe open for ever.
            if not poll.poll(0 if ended else _LOOK_MS):
                if ended:
                    over = True
                    break
                continue
            piece = os.read(process.stdout.fileno(), 64 * 1024)
            raw += piece
            if not piece:
                over = True
                break
        return bytes(raw) if over and len(raw) <= BYTES_MAX else None
    finally:
        process.stdout.close()
        with contextlib.suppress(OSError):  # What a profile started in the background too.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _variables(raw: bytes) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for entry in raw.split(b"\0")[:VARIABLES_MAX]:
        name, equal, value = entry.partition(b"=")
        if equal and _NAME.fullmatch(name):
            found[name.decode("ascii")] = os.fsdecode(value)
    return found
