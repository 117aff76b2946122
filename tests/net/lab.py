"""A laboratory of network namespaces: two to five hosts on one network, each with daemons and functions of its own.

    @pytest.mark.netns
    def test_something(lab: LabMaker) -> None:            # the fixture `lab` is in tests/net/conftest.py
        with lab("laptop", "desktop") as net:             # joined by veth pairs and a bridge
            laptop, desktop = net["laptop"], net["desktop"]
            desktop.ip4, desktop.ip6                      # 10.77.0.2, fd77::2; both answer at once
            with desktop.daemon() as daemon:              # a real `hhd daemon` with folders of its own; daemon.pid
                desktop.hhd("status", "--json").stdout    # a command of that host, CompletedProcess
                laptop.call(dial, desktop.ip4)            # a Python function in the host's network, in this process
                future = laptop.start(serve)              # the same in the background: a concurrent Future
                process = laptop.popen("nc", ...)         # any program; ended with the lab
            net.cut("laptop"); net.mend("laptop")         # nothing gets through, nobody is told
            net.unplug("laptop"); net.plug("laptop")      # the interface loses its carrier
            net.move("laptop", "10.77.0.77")              # another IPv4 address instead of the one it has
            net.join("laptop", "desktop", number=78)      # a second network between some: 10.78.0.x, fd78::x
            net.block_multicast()                         # mDNS and IPv6's search for neighbours get nowhere
            with net.capture("laptop") as frames: ...     # every frame on its wire, as bytes, whole when the block ends

With `emulated=Emulated(rate_mbit=100, delay_us=5000, loss_percent=0.5)` the hosts are joined by a program in user space
(`emulator.c`, compiled at first use) instead: `net.emulate(...)` changes it on the way, `net.lose("laptop", 3)` loses
the next three frames that this host sends. `unplug`, `join` and `block_multicast` are of the bridge only.

`call` and `start` run in a thread that is in the namespace: a socket stays in the network in which it was made, so an
event loop started there with `asyncio.run` lives on that host. Threads share the process, so what is to be killed must
be a daemon or a program.

Everything has a name with this process's id in it, processes die with the thread that started them, and what a killed
run left is removed by the next one. Namespaces of living processes are never touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest
from tests import compiled

from hhd.cli import run

T = TypeVar("T")
TOP = Path(__file__).parents[2]
PREFIX = "hhdlab"
_HOSTS_MAX = 5
_CLONE_NEWNET = 0x40000000
_IN_MEMORY_BYTES = 2 * 1024**3
"""At most; a few megabytes are used."""
_NUMBERS = itertools.count()
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A line of each host: its rate (0: any), delay one way between two hosts, loss, and queue."""

    rate_mbit: float = 0
    delay_us: float = 0
    loss_percent: float = 0
    queue_ms: float = 100


def missing() -> str | None:
    """What is missing for a lab on this machine, None if nothing is."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root"
    for tool in ("ip", "bridge"):
        if shutil.which(tool) is None:
            return f"needs {tool} (iproute2)"
    probe = f"{PREFIX}-{os.getpid()}-probe{next(_NUMBERS)}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return "needs a kernel that lets us make network namespaces"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


@functools.cache
def emulator() -> str:
    """The compiled emulator; skips the test where there is no compiler or no TAP device."""
    if shutil.which("gcc") is None or not os.path.exists("/dev/net/tun"):
        pytest.skip("needs gcc and /dev/net/tun")
    folder = tempfile.mkdtemp(prefix="hhd-emulator-")
    program = os.path.join(folder, "emulator")
    subprocess.run(["gcc", "-O2", "-o", program, str(Path(__file__).with_name("emulator.c"))], check=True)
    return program


@contextlib.contextmanager
def in_memory(folder: Path) -> Iterator[Path]:
    """A folder that lies in memory, where that can be: nothing in it outlives the block.

    For tests with many kills: a kill loses nothing that was written, so what waits for a disk proves no more.
    """
    options = ["-t", "tmpfs", "-o", f"size={_IN_MEMORY_BYTES},mode=0700", f"{PREFIX}-{os.getpid()}"]
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", *options, str(folder)], capture_output=True).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def warm(host: Host) -> None:
    """Let a host have run the agent before."""
    compiled.warm(host.folder / "cache")


class Host:
    """One host of a lab: a network namespace, and folders of its own for hhd."""

    def __init__(self, net: Net, name: str, index: int, folder: Path) -> None:
        self._net, self.name, self.index = net, name, index
        self.namespace = f"{net.prefix}-{name}"
        self.ip4, self.ip6 = f"10.77.0.{index + 1}", f"fd77::{index + 1}"
        self.folder = folder / name
        self.folder.mkdir()

    @property
    def path(self) -> str:
        """The file that stands for the namespace."""
        return f"/run/netns/{self.namespace}"

    @property
    def environment(self) -> dict[str, str]:
        """What programs of this host get: hhd's folders below `folder`."""
        kinds = ("CONFIG", "DATA", "CACHE", "WORKSPACES")
        own = {f"HHD_{kind}_HOME": str(self.folder / kind.lower()) for kind in kinds}
        kept = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        return {**kept, **own, "HOME": str(self.folder), "HHD_LAB_HOST": self.name}

    def popen(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a program in this host's network; it is killed when the lab ends, or whoever started it."""
        more.setdefault("env", self.environment)
        process = subprocess.Popen([*self._enter(), *words], preexec_fn=_die_with_parent, **more)
        self._net.processes.append(process)
        return process

    def run(self, *words: str, check: bool = True, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run a program to its end and return what it said."""
        command = [*self._enter(), *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{words} on {self.name}: {done.stdout}{done.stderr}"
        return done

    def hhd(self, *words: str, check: bool = True, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run an `hhd` command of this host."""
        return self.run(sys.executable, "-m", "hhd", *words, check=check, timeout=timeout)

    def asked(self, *words: str) -> str:
        """What an `hhd` command of this host prints, run in this process: for what is looked at again and again."""
        said = io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            run(list(words))
        return said.getvalue()

    @contextlib.contextmanager
    def daemon(self, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon on this host; it listens when the block begins, and is ended after it, if it is not yet."""
        with open(self.folder / "daemon.log", "ab") as log:
            process = self.popen(
                sys.executable, "-m", "hhd", "daemon",
                env={**self.environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.wait_for_daemon(process)
        try:
            yield process
        finally:
            self._net.end(process)

    def wait_for_daemon(self, process: subprocess.Popen[bytes], seconds: float = 240) -> None:
        """Wait until a daemon that was started listens on its control socket."""
        from hhd.base.locks import held

        lock = self.folder / "data" / "daemon.lock"
        deadline = time.monotonic() + seconds
        while not (lock.exists() and held(lock) and _answers(lock)):
            assert process.poll() is None, f"the daemon of {self.name} ended: {self.log()}"
            assert time.monotonic() < deadline, f"the daemon of {self.name} does not listen: {self.log()}"
            time.sleep(0.01)  # What is waited for is another process.

    def log(self) -> str:
        """What daemons of this host wrote."""
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def call(self, function: Callable[..., T], *given: Any, timeout: float = 240) -> T:
        """Run a function of this process in the host's network, in a thread, and return what it does."""
        return self.start(function, *given).result(timeout)

    def start(self, function: Callable[..., T], *given: Any) -> Future[T]:
        """Begin to run a function of this process in the host's network."""
        future: Future[T] = Future()

        def work() -> None:
            try:
                enter(self.path)
                future.set_result(function(*given))
            except BaseException as error:  # noqa: BLE001  Whoever asks for the result gets it.
                future.set_exception(error)

        threading.Thread(target=work, name=f"{self.namespace}", daemon=True).start()
        return future

    def _enter(self) -> list[str]:
        return ["nsenter", f"--net={self.path}", "--"]


class Net:
    """Hosts that are joined; see the head of this file."""

    def __init__(self, names: tuple[str, ...], folder: Path, emulated: Emulated | None) -> None:
        assert 1 <= len(names) <= _HOSTS_MAX
        self.prefix = f"{PREFIX}-{os.getpid()}-{next(_NUMBERS)}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._switch = f"{self.prefix}-switch"
        self._namespaces: list[str] = []
        self._emulator: subprocess.Popen[bytes] | None = None
        self.hosts = {name: Host(self, name, index, folder) for index, name in enumerate(names)}
        try:
            self._make(emulated)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def _make(self, emulated: Emulated | None) -> None:
        for host in self.hosts.values():
            self._add(host.namespace)
            _ip(host.namespace, "link set lo up")
        self._add(self._switch)
        if emulated is None:
            self._bridge("lan0", 77, tuple(self.hosts))
        else:
            paths = [host.path for host in self.hosts.values()]
            self._emulator = subprocess.Popen(
                [emulator(), "lan0", *paths],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=_die_with_parent,
            )  # fmt: skip
            self.processes.append(self._emulator)
            assert self._emulator.stdout is not None and self._emulator.stdout.readline() == b"ready\n"
            self.emulate(emulated)
            for host in self.hosts.values():
                self._address(host, "lan0", 77)

    def _bridge(self, name: str, number: int, hosts: tuple[str, ...]) -> None:
        """Join hosts by a bridge in the switch's namespace, each by a pair of virtual cards."""
        _ip(self._switch, f"link add br{number} type bridge mcast_snooping 0 forward_delay 0")
        _ip(self._switch, f"link set br{number} up")
        for one in hosts:
            host = self.hosts[one]
            port = self._port(host, number)
            _ip(self._switch, f"link add {port} type veth peer name {name} netns {host.namespace}")
            _ip(self._switch, f"link set {port} master br{number} up")
            self._address(host, name, number)

    def _address(self, host: Host, device: str, number: int) -> None:
        _ip(host.namespace, f"link set {device} up")
        _ip(host.namespace, f"addr add 10.{number}.0.{host.index + 1}/24 brd + dev {device}")
        _ip(host.namespace, f"addr add fd{number}::{host.index + 1}/64 dev {device} nodad")
        if number == 77:
            _ip(host.namespace, f"route add default dev {device}")

    def _port(self, host: Host, number: int = 77) -> str:
        return f"p{number}-{host.index}"

    # The line

    def cut(self, name: str) -> None:
        """Let nothing through to or from a host; its interface notices nothing."""
        if self._emulator is not None:
            self._command(f"cut {self.hosts[name].index}")
        else:
            _ip(self._switch, f"link set {self._port(self.hosts[name])} nomaster")

    def mend(self, name: str) -> None:
        """Let things through again."""
        if self._emulator is not None:
            self._command(f"mend {self.hosts[name].index}")
        else:
            _ip(self._switch, f"link set {self._port(self.hosts[name])} master br77")

    def unplug(self, name: str) -> None:
        """Take the carrier from a host's interface."""
        _ip(self._switch, f"link set {self._port(self.hosts[name])} down")

    def plug(self, name: str) -> None:
        """Give it back."""
        _ip(self._switch, f"link set {self._port(self.hosts[name])} up")

    def move(self, name: str, ip4: str) -> None:
        """Give a host another IPv4 address; the one it had is gone, and `ip4` says so."""
        host = self.hosts[name]
        _ip(host.namespace, f"addr del {host.ip4}/24 dev lan0")
        _ip(host.namespace, f"addr add {ip4}/24 brd + dev lan0")
        if "default" not in _ip(host.namespace, "route show default"):
            _ip(host.namespace, "route add default dev lan0")
        host.ip4 = ip4

    def join(self, *names: str, number: int = 78) -> None:
        """Join some hosts by one more network, whose interface is called lan1 for 78 and so on."""
        self._bridge(f"lan{number - 77}", number, names)

    def block_multicast(self) -> None:
        """Let no multicast through, as some access points do; IPv6 finds no new neighbours then, IPv4 does."""
        for host in self.hosts.values():
            _run("bridge", "-n", self._switch, "link", "set", "dev", self._port(host), "mcast_flood", "off")

    def emulate(self, line: Emulated) -> None:
        """Change what the emulated line is like."""
        self._command(f"set {line.rate_mbit} {line.delay_us} {line.loss_percent} {line.queue_ms}")

    def lose(self, name: str, count: int) -> None:
        """Lose the next frames that a host sends (emulated)."""
        self._command(f"lose {self.hosts[name].index} {count}")

    def sent(self, name: str) -> tuple[int, int]:
        """How many frames and bytes a host has sent (emulated), or its interface has (bridge)."""
        if self._emulator is not None:
            frames, count = self._command(f"count {self.hosts[name].index}").split()[1:]
            return int(frames), int(count)
        statistics = "cat /sys/class/net/lan0/statistics/tx_packets /sys/class/net/lan0/statistics/tx_bytes"
        said = _run("ip", "netns", "exec", self.hosts[name].namespace, *statistics.split()).split()
        return int(said[0]), int(said[1])

    @contextlib.contextmanager
    def capture(self, name: str) -> Iterator[list[bytes]]:
        """Gather each frame that crosses a host's interface, in either direction."""
        frames: list[bytes] = []
        done = threading.Event()
        with self.hosts[name].call(_packet_socket, "lan0") as wire:

            def gather() -> None:
                while True:
                    try:
                        frames.append(wire.recv(65536))
                    except TimeoutError:
                        if done.is_set():
                            return

            thread = threading.Thread(target=gather, daemon=True)
            thread.start()
            try:
                yield frames
            finally:
                done.set()
                thread.join()

    def _command(self, line: str) -> str:
        emulating = self._emulator
        assert emulating is not None and emulating.stdin is not None and emulating.stdout is not None
        emulating.stdin.write(line.encode() + b"\n")
        emulating.stdin.flush()
        answer = emulating.stdout.readline().decode().strip()
        assert answer.startswith("ok"), f"the emulator says {answer!r} to {line!r}"
        return answer

    # The end

    def end(self, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
        """Tell one of our processes to end, and see to it that it does."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def close(self) -> None:
        """End all processes, and take the namespaces away."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            self.end(process)
        for name in self._namespaces:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self._namespaces.clear()

    def _add(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._namespaces.append(name)


def enter(path: str) -> None:
    """Put the calling thread, and it alone, into the network namespace that `path` stands for."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.setns(fd, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")
    finally:
        os.close(fd)


def sweep() -> None:
    """Remove the namespaces of labs whose process is gone, and their folders in memory."""
    for line in Path("/proc/mounts").read_text().splitlines():
        device, where, *_ = line.split(" ")
        prefix, _, process = device.partition("-")
        if prefix == PREFIX and process.isdigit() and not os.path.exists(f"/proc/{process}"):
            subprocess.run(["umount", "--lazy", where], capture_output=True)
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():
        words = name.split("-")
        if words[0] == PREFIX and len(words) > 2 and words[1].isdigit() and not os.path.exists(f"/proc/{words[1]}"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _answers(lock: Path) -> bool:
    """Whether somebody listens where a daemon's lock says."""
    from hhd.control.place import reachable

    path = os.fsdecode(lock.read_bytes())
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            with reachable(Path(path)) as short:
                probe.connect(short)
        except OSError:
            return False
    return True


def _packet_socket(device: str) -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024 * 1024)
    wire.bind((device, 0))
    wire.settimeout(0.05)
    return wire


def _die_with_parent() -> None:
    """Between fork and exec: whoever started this must not leave it behind."""
    _LIBC.prctl(1, signal.SIGKILL)


def _ip(namespace: str, words: str) -> str:
    return _run("ip", "-n", namespace, *words.split())


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout
