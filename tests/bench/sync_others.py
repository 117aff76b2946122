"""The same change carried by rsync and by Syncthing, where they are installed: lines to hold our sync beside.

A file of 8 MiB in which 200 bytes of each of 20 pages are written anew, between two hosts of a lab. rsync goes to a
daemon of its own, compares by blocks and syncs the file to the disk (`--fsync`). Of Syncthing two instances know each
other by address alone (no discovery, no relays, no reports), and the sender is told at once to look at the file.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.bench.harness import percentile, report
from tests.net.lab import Host

PAGES, CHANGED, PAGE_BYTES = 2048, 20, 4096
RSYNC_TIMES, SYNCTHING_TIMES = 20, 12
SECONDS_MAX = 60
PORT, API_PORT, KEY = 22000, 8384, "bench"


class Changing:
    """The file that changes."""

    def __init__(self, path: Path) -> None:
        self.path, self._dice = path, random.Random(7)
        path.write_bytes(self._dice.randbytes(PAGES * PAGE_BYTES))

    def change(self) -> None:
        with self.path.open("r+b") as file:
            for page in self._dice.sample(range(PAGES), CHANGED):
                file.seek(page * PAGE_BYTES + self._dice.randrange(PAGE_BYTES - 200))
                file.write(self._dice.randbytes(200))
            os.fsync(file.fileno())


def measure(laptop: Host, desktop: Host, folder: Path, line: str, command: str) -> None:
    """Print what each of the two takes on a line; what is not installed is named and left out."""
    for name, act in (("rsync", _rsync), ("syncthing", _syncthing)):
        if shutil.which(name) is None:
            print(f"{name} is not installed: no line of it", file=sys.stderr)
            continue
        times, sizes = act(laptop, desktop, folder / name)
        report(
            f"{name}: the same change, {line}", command, "warm", n=len(times),
            median_ms=round(statistics.median(times), 1), p99_ms=round(percentile(times, 0.99), 1),
            bytes=round(statistics.median(sizes)),
        )  # fmt: skip


def _folders(folder: Path) -> tuple[Path, Path]:
    found = folder / "laptop", folder / "desktop"
    for one in found:
        one.mkdir(parents=True)
    return found


def _rsync(laptop: Host, desktop: Host, folder: Path) -> tuple[list[float], list[int]]:
    here, there = _folders(folder)
    config = folder / "rsyncd.conf"
    config.write_text(f"reverse lookup = no\nuse chroot = no\n[to]\npath = {there}\nread only = no\nuid = 0\ngid = 0\n")
    daemon = desktop.popen("rsync", "--daemon", "--no-detach", f"--config={config}", "--port=8730")
    changing = Changing(here / "image")
    command = [
        "rsync",
        "-t",
        "--ignore-times",
        "--inplace",
        "--no-whole-file",
        "--fsync",
        "--stats",
        str(changing.path),
    ]
    command.append(f"rsync://{desktop.ip4}:8730/to/")
    times, sizes = [], []
    try:
        for number in range(RSYNC_TIMES + 2):
            changing.change()
            for _ in range(50):
                begin = time.perf_counter()
                run = laptop.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                said = run.communicate(timeout=SECONDS_MAX)[0]
                if run.returncode == 0:
                    break
                time.sleep(0.1)  # Its daemon is not there yet.
            assert run.returncode == 0
            if number >= 2:
                times.append((time.perf_counter() - begin) * 1000)
                sizes.append(sum(_number(said, f"Total bytes {way}") for way in ("sent", "received")))
        assert (there / "image").read_bytes() == changing.path.read_bytes()
    finally:
        daemon.terminate()
        daemon.wait(10)
    return times, sizes


def _number(text: str, name: str) -> int:
    found = re.search(rf"{name}: ([\d,]+)", text)
    assert found is not None, text
    return int(found[1].replace(",", ""))


class _Instance:
    """One Syncthing, with what it keeps in `home`."""

    def __init__(self, host: Host, home: Path, shared: Path) -> None:
        self.host, self.home, self.shared = host, home, shared
        run = {"check": True, "capture_output": True, "text": True}
        subprocess.run(["syncthing", "generate", f"--home={home}", "--no-default-folder"], **run)  # type: ignore[call-overload]
        said = subprocess.run(["syncthing", f"--home={home}", "--device-id"], **run)  # type: ignore[call-overload]
        self.id = said.stdout.strip()

    def begin(self, other: _Instance) -> subprocess.Popen[bytes]:
        (self.shared / ".stfolder").mkdir(exist_ok=True)
        devices = "".join(
            f'<device id="{one.id}" name="{one.host.name}" compression="metadata">'
            f"<address>tcp://{one.host.ip4}:{PORT}</address></device>"
            for one in (self, other)
        )
        (self.home / "config.xml").write_text(
            '<configuration version="36">'
            f'<folder id="image" path="{self.shared}" type="sendreceive" rescanIntervalS="0" fsWatcherEnabled="false">'
            f'<device id="{self.id}"/><device id="{other.id}"/><filesystemType>basic</filesystemType></folder>{devices}'
            f'<gui enabled="true"><address>127.0.0.1:{API_PORT}</address><apikey>{KEY}</apikey></gui>'
            f"<options><listenAddress>tcp://0.0.0.0:{PORT}</listenAddress>"
            "<globalAnnounceEnabled>false</globalAnnounceEnabled><localAnnounceEnabled>false</localAnnounceEnabled>"
            "<relaysEnabled>false</relaysEnabled><natEnabled>false</natEnabled><urAccepted>-1</urAccepted>"
            "<crashReportingEnabled>false</crashReportingEnabled><autoUpgradeIntervalH>0</autoUpgradeIntervalH>"
            "<startBrowser>false</startBrowser><reconnectionIntervalS>1</reconnectionIntervalS>"
            "<stunKeepaliveStartS>0</stunKeepaliveStartS></options></configuration>"
        )
        return self.host.popen(
            "syncthing", "serve", f"--home={self.home}", "--no-browser", "--no-upgrade", "--no-restart",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, method: str, path: str) -> dict[str, dict[str, int]]:
        return self.host.call(_asked, method, path)  # type: ignore[no-any-return]


def _asked(method: str, path: str) -> object:
    request = urllib.request.Request(
        f"http://127.0.0.1:{API_PORT}/rest/{path}", method=method, headers={"X-API-Key": KEY}
    )
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        raw = answer.read()
    return json.loads(raw) if raw else None


def _syncthing(laptop: Host, desktop: Host, folder: Path) -> tuple[list[float], list[int]]:
    shared = _folders(folder)
    pair = [
        _Instance(host, folder / f"home-{host.name}", one) for host, one in zip((laptop, desktop), shared, strict=True)
    ]
    processes = [one.begin(other) for one, other in (pair, pair[::-1])]
    times, sizes = [], []
    try:
        _until(lambda: _works(pair[0]))
        changing, there = Changing(shared[0] / "image"), shared[1] / "image"
        for number in range(SYNCTHING_TIMES + 2):
            if number:
                changing.change()
            total = pair[0].ask("GET", "system/connections")["total"]
            before = total["inBytesTotal"] + total["outBytesTotal"]
            begin = time.perf_counter()
            pair[0].ask("POST", "db/scan?folder=image&sub=image")
            _until(lambda: _changed_ns(there) == _changed_ns(changing.path))
            took = (time.perf_counter() - begin) * 1000
            total = pair[0].ask("GET", "system/connections")["total"]
            if number >= 2:
                times.append(took)
                sizes.append(total["inBytesTotal"] + total["outBytesTotal"] - before)
        assert there.read_bytes() == changing.path.read_bytes()
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)
    return times, sizes


def _changed_ns(path: Path) -> int | None:
    """When a file changed last; None while it is not there, as in the moment in which another one takes its place."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _works(one: _Instance) -> bool:
    try:
        connections = one.ask("GET", "system/connections")["connections"]
    except OSError:
        return False
    return any(known["connected"] for known in connections.values())  # type: ignore[index]


def _until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not there():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.0005)
