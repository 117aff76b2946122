"""The laboratory does what its head says: else what is tried in it says nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import time

import pytest
from tests.net.conftest import LabMaker
from tests.net.lab import Emulated, Net

pytestmark = pytest.mark.netns


def listening(host: str) -> socket.socket:
    own = socket.create_server((host, 4000), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    own.settimeout(240)
    return own


def connected(host: str, seconds: float = 240) -> socket.socket:
    return socket.create_connection((host, 4000), timeout=seconds)


def pair(net: Net, host: str) -> tuple[socket.socket, socket.socket]:
    """A connection from laptop to desktop."""
    with net["desktop"].call(listening, host) as listener:
        here = net["laptop"].call(connected, host)
        return here, listener.accept()[0]


def gets_through(here: socket.socket, there: socket.socket, seconds: float = 0.3) -> bool:
    here.settimeout(240)
    there.settimeout(seconds)
    here.sendall(b"x")
    try:
        return there.recv(1) == b"x"
    except TimeoutError:
        return False


@pytest.mark.parametrize("emulated", [None, Emulated(delay_us=1000)])
def test_hosts_reach_each_other_by_both_protocols_until_cut_and_again_once_mended(
    lab: LabMaker, emulated: Emulated | None
) -> None:
    with lab("laptop", "desktop", emulated=emulated) as net:
        with pytest.raises(ConnectionRefusedError):
            net["laptop"].call(connected, net["desktop"].ip4)
        for host in (net["desktop"].ip4, net["desktop"].ip6):
            here, there = pair(net, host)
            with here, there:
                assert gets_through(here, there, 240)
                net.cut("desktop")
                assert not gets_through(here, there)
                net.mend("desktop")
                there.settimeout(240)
                assert there.recv(1) == b"x"


def test_an_address_can_change_and_a_network_be_added(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "phone") as net:
        net.move("desktop", "10.77.0.99")
        here, there = pair(net, "10.77.0.99")
        with here, there:
            assert gets_through(here, there, 240)
        net.join("laptop", "desktop")
        here, there = pair(net, "10.78.0.2")
        with here, there:
            assert gets_through(here, there, 240)
            assert here.getsockname()[0] == "10.78.0.1"


def test_an_unplugged_interface_has_no_carrier(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        state = lambda: net["laptop"].run("ip", "-br", "link", "show", "lan0").stdout  # noqa: E731
        assert "LOWER_UP" in state()
        net.unplug("laptop")
        assert "LOWER_UP" not in state()
        net.plug("laptop")
        assert "LOWER_UP" in state()


def multicast(net: Net, seconds: float) -> bool:
    """Whether what one host sends to a group comes to the other."""

    def receiver() -> socket.socket:
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.bind(("", 5353))
        group = socket.inet_aton("224.0.0.251") + socket.inet_aton(net["desktop"].ip4)
        own.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        own.settimeout(seconds)
        return own

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(net["laptop"].ip4))
            own.sendto(b"who is there", ("224.0.0.251", 5353))

    with net["desktop"].call(receiver) as own:
        net["laptop"].call(send)
        try:
            return own.recv(100) == b"who is there"
        except TimeoutError:
            return False


def test_multicast_gets_through_until_it_is_blocked(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        assert multicast(net, 240)
        net.block_multicast()
        assert not multicast(net, 0.5)
        here, there = pair(net, net["desktop"].ip4)
        with here, there:
            assert gets_through(here, there, 240)


@pytest.mark.parametrize("emulated", [None, Emulated()])
def test_a_capture_holds_what_crossed_the_wire(lab: LabMaker, emulated: Emulated | None) -> None:
    with lab("laptop", "desktop", emulated=emulated) as net:
        here, there = pair(net, net["desktop"].ip4)
        with here, there, net.capture("laptop") as frames:
            for near, far, phrase in ((here, there, b"to the desktop"), (there, here, b"to the laptop")):
                near.sendall(phrase)
                far.settimeout(240)
                assert far.recv(100) == phrase
        everything = b"".join(frames)
        assert b"to the desktop" in everything and b"to the laptop" in everything


def test_the_emulated_line_has_its_delay_and_loses_what_it_is_told_to(lab: LabMaker) -> None:
    with lab("laptop", "desktop", emulated=Emulated(delay_us=20_000)) as net:
        here, there = pair(net, net["desktop"].ip4)
        with here, there:
            here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begin = time.monotonic()
            assert gets_through(here, there, 240) and gets_through(there, here, 240)
            assert time.monotonic() - begin >= 0.04
            before = net.sent("laptop")[0]
            net.lose("laptop", 1)
            begin = time.monotonic()
            assert gets_through(here, there, 240)
            assert time.monotonic() - begin >= 0.2 - 0.02 and net.sent("laptop")[0] >= before + 2  # Sent again.


def test_a_daemon_runs_in_each_host_with_folders_of_its_own(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net, net["laptop"].daemon() as one, net["desktop"].daemon() as other:
        said = [net[name].hhd("status", "--json").stdout for name in ("laptop", "desktop")]
        assert str(one.pid) in said[0] and str(other.pid) in said[1]
        assert os.readlink(f"/proc/{one.pid}/ns/net") != os.readlink(f"/proc/{other.pid}/ns/net")


def test_nothing_is_left_of_a_lab(lab: LabMaker) -> None:
    with lab("laptop", "desktop", emulated=Emulated()) as net:
        process = net["laptop"].popen("sleep", "1000")
        assert any(name.startswith(net.prefix) for name in os.listdir("/run/netns"))
    assert process.poll() is not None
    assert not any(name.startswith(net.prefix) for name in os.listdir("/run/netns"))
    assert (
        subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.find(net.prefix) < 0
    )
