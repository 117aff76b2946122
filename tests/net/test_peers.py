"""Two daemons on one network find each other and stay linked through what networks do: real mDNS, real TLS."""

from __future__ import annotations

import json
import socket
import time

import pytest
from tests.net.clocks import Clock
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import around, both_linked, linked, noted, pair, peers, until

pytestmark = pytest.mark.netns

DAY = 86400


def address(host: Host, other: str) -> str:
    return peers(host)[other].address.rpartition(":")[0]


def port_set(host: Host, port: int) -> None:
    """A person sets where a host listens, and lets the daemon that runs read it."""
    (host.folder / "config").mkdir(exist_ok=True)
    (host.folder / "config/config.toml").write_text(f"[links]\nport = {port}\n")
    assert "read anew" in host.hhd("restart", "--config").stdout
    until(lambda: {one.rpartition(":")[2] for one in around(host).listening} == {str(port)})


def answers(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=240).close()
    except ConnectionRefusedError:
        return False
    return True


def test_two_that_are_paired_stay_linked_through_what_networks_do(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        with laptop.daemon() as process, desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            assert "desktop: linked at" in laptop.hhd("peer", "list").stdout

            net.unplug("laptop")
            until(lambda: not linked(laptop))  # It looks at its link at once, and finds it dead.
            net.plug("laptop")
            until(lambda: both_linked(laptop, desktop))

            net.move("laptop", "10.77.0.77")
            until(lambda: both_linked(laptop, desktop) and address(desktop, "laptop") != "10.77.0.1")

            net.join("laptop", "desktop", number=78)
            net.unplug("laptop")
            until(lambda: both_linked(laptop, desktop) and "78" in address(laptop, "desktop"))
            net.plug("laptop")
            assert both_linked(laptop, desktop)

            port_set(laptop, 17555)
            until(lambda: both_linked(laptop, desktop))
            assert [desktop.call(answers, laptop.ip4, port) for port in (17555, 17470)] == [True, False]
            told = laptop.hhd("status", "--json").stdout
            assert json.loads(told)["process"] == process.pid  # Nothing was started anew.


@pytest.mark.long
def test_clocks_that_jump_cut_no_link_and_a_sleep_does_not_for_long(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        clock = Clock(laptop)
        with desktop.daemon():
            with laptop.daemon(**clock.environment):
                until(lambda: both_linked(laptop, desktop))
                port = peers(laptop)["desktop"].address
                for seconds in (DAY, -2 * DAY):
                    clock.jump(seconds)
                    time.sleep(1.0)  # It looks at its clocks twice a second.
                    assert both_linked(laptop, desktop) and peers(laptop)["desktop"].address == port
                clock.sleep(DAY)
                until(lambda: bool(noted(laptop, "woke")))
                until(lambda: both_linked(laptop, desktop))
                net.cut("desktop")
                clock.sleep(60)  # Awake again, where nobody is.
                until(lambda: not linked(laptop))
                net.mend("desktop")
                until(lambda: both_linked(laptop, desktop))
            clock.jump(100 * 365 * DAY)
            with laptop.daemon(**clock.environment):  # A handshake with a date of the next century.
                until(lambda: both_linked(laptop, desktop))


@pytest.mark.long
def test_bridges_of_containers_that_have_one_address_on_both_keep_nobody_apart(lab: LabMaker) -> None:
    """Who dials what the other announces of it comes to itself."""

    def contained(host: Host) -> None:
        for words in (
            "link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0",
            "link add veth1 type veth peer name in1",
            "link set veth1 master docker0", "link set in1 up", "link set veth1 up", "link set docker0 up",
        ):  # fmt: skip
            host.run("ip", *words.split())

    def at_home(one: Host, other: Host) -> bool:
        return address(one, other.name).startswith(("10.77.", "[fd77:"))

    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        contained(laptop)
        contained(desktop)
        with laptop.daemon(), desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            for host in (laptop, desktop):
                assert host.call(answers, "172.17.0.1", 17470), "its own daemon is what is there"
            assert at_home(laptop, desktop) and at_home(desktop, laptop)


@pytest.mark.long
def test_daemons_that_are_killed_and_started_in_any_order_are_linked_again(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        hosts = [net["laptop"], net["desktop"]]
        pair(net, "laptop", "desktop")
        for first, second in (hosts, hosts[::-1]):
            with first.daemon() as one, second.daemon() as other:
                until(lambda: both_linked(*hosts))
                one.kill()
                one.wait()
                until(lambda: not linked(second))  # noqa: B023
                with first.daemon():
                    until(lambda: both_linked(*hosts))
                other.kill()
                other.wait()


def test_where_multicast_does_not_reach_a_fixed_address_does_and_is_remembered(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        net.block_multicast()
        with desktop.daemon():
            with laptop.daemon():
                assert not linked(laptop) and not linked(desktop)
                laptop.hhd("peer", "add", desktop.ip4)
                until(lambda: both_linked(laptop, desktop))
                # A fixed address is dialled only while somebody is missing, and noted as the one who was found there.
                assert [one.name for one in around(laptop).fixed] == ["desktop"]
                said = laptop.hhd("peer", "remove", desktop.ip4).stdout
                assert "fixed" not in said and both_linked(laptop, desktop)
            with laptop.daemon():
                until(lambda: both_linked(laptop, desktop))  # Where it was linked last is remembered.


@pytest.mark.long
def test_an_announcement_names_nobody_and_links_carry_nothing_that_can_be_read(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        with net.capture("laptop") as frames, laptop.daemon(), desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            ids = [peers(laptop)["desktop"].id, peers(desktop)["laptop"].id]
        whole = b"\n".join(frames)
        assert b"\x04_hhd\x04_tcp" in whole  # What they said was heard.
        for secret in (b"laptop", b"desktop", *(one.encode() for one in ids), *(one[:9].encode() for one in ids)):
            assert secret not in whole
