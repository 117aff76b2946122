"""`systemctl --user` as far as hhd needs it: starts and stops what the unit files say, for tests on machines without.

Called as a program in a folder that is first on the PATH: the folder of `STATE` keeps what runs, and `calls`, a line
for each call. The service gets a bare environment, a socket by LISTEN_FDS and a notify socket, as systemd gives them.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HANDED = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""A program that hands the descriptor it is told of to the command behind it, as systemd does."""

STATE = Path(os.environ.get("HHD_TEST_MANAGER", "/nonexistent"))
RUNTIME = STATE / "runtime"
UNITS = Path(os.environ.get("XDG_CONFIG_HOME", "/nonexistent")) / "systemd/user"


def unit(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equal, value = line.partition("=")
        if equal and not line.startswith("#"):
            found.setdefault(key, []).append(value.replace("%t", str(RUNTIME)).replace("%%", "%"))
    return found


def state() -> dict[str, object]:
    try:
        return json.loads((STATE / "state").read_text())
    except FileNotFoundError:
        return {}


def alive(pid: object) -> bool:
    try:
        return isinstance(pid, int) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def start() -> int:
    if alive(state().get("pid")):
        return 0
    service, path = unit("hhd.service"), Path(unit("hhd.socket")["ListenStream"][0])
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    os.chmod(path, 0o600)
    listener.listen(256)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    (STATE / "notify").unlink(missing_ok=True)
    notify.bind(str(STATE / "notify"))
    notify.settimeout(240)
    environment = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(RUNTIME)}
    environment |= dict(pair.split("=", 1) for value in service.get("Environment", []) for pair in shlex.split(value))
    environment |= {"NOTIFY_SOCKET": str(STATE / "notify"), "LISTEN_FDS": "1", "WATCHDOG_USEC": "60000000"}
    words = shlex.split(service["ExecStart"][0].removeprefix(":"))
    process = subprocess.Popen(
        [sys.executable, "-c", HANDED, str(listener.fileno()), *words],
        env=environment, pass_fds=(listener.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    (STATE / "state").write_text(json.dumps({"pid": process.pid, "path": str(path)}))
    said = b""
    while b"READY=1" not in said:
        if process.poll() is not None:
            print("Job for hhd.service failed.", file=sys.stderr)
            return 1
        notify.settimeout(1)
        try:
            said = notify.recv(4096)
        except TimeoutError:
            continue
    return 0


def stop() -> int:
    pid = state().get("pid")
    if isinstance(pid, int) and alive(pid):
        os.kill(pid, signal.SIGTERM)
        while alive(pid):
            time.sleep(0.01)
    if "path" in state():
        Path(str(state()["path"])).unlink(missing_ok=True)
    return 0


def main(words: list[str]) -> int:
    with open(STATE / "calls", "a") as calls:
        calls.write(" ".join(words) + "\n")
    words = [word for word in words if not word.startswith("--") or word == "--now"]
    match words[:2]:
        case ["enable", "--now"] | ["start", _]:
            return start()
        case ["disable", "--now"] | ["stop", _]:
            return stop()
        case ["restart", _]:
            return stop() or start()
        case ["is-active", _]:
            print("active" if alive(state().get("pid")) else "inactive")
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
