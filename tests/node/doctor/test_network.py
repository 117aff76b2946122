"""Looks at the network: each says so when what it looks at is broken."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hhd.discovery.interfaces import Interface
from hhd.node.doctor import network
from hhd.node.doctor.finding import State

LOOPBACK = Interface("lo", 1, ("127.0.0.1",))


def test_multicast_that_is_heard_is_well_and_one_that_is_not_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Interface("gone0", 99, ("192.0.2.1",))  # An address that no interface has.
    for usable, state in (
        ((LOOPBACK,), State.OK), ((), State.WARN), ((nobody,), State.BROKEN), ((LOOPBACK, nobody), State.WARN),
    ):  # fmt: skip
        monkeypatch.setattr(network.interfaces, "usable", lambda usable=usable: usable)
        found = network.multicast()
        assert found.state is state and (found.fix != "") is (state is not State.OK), found


def test_what_is_sent_and_never_heard_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.interfaces, "usable", lambda: (LOOPBACK,))
    monkeypatch.setattr(network, "SECONDS_MAX", 0.05)
    monkeypatch.setattr(network.socket, "socket", Silent)
    assert "not heard" in network.multicast().says


class Silent(socket.socket):
    """What is sent by it never arrives."""

    def sendto(self, *_: object) -> int:  # type: ignore[override]
        return 16


@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_interface_that_is_down_is_found_deaf_and_so_is_one_without_ipv6(tmp_path: Path) -> None:
    """In a network of its own, with a real cable."""
    code = (
        "import socket; from hhd.discovery.interfaces import Interface; from hhd.node.doctor import network\n"
        "one = Interface('v0', socket.if_nametoindex('v0'), ('10.9.8.7', 'fd00::7'))\n"
        "network.interfaces.usable = lambda: (one,)\n"
        "print(network.multicast().state, *(family for family in ('IPv4', 'IPv6') if network._deaf(one, family)))"
    )
    (tmp_path / "look.py").write_text(code)
    made = "ip link add v0 type veth peer name v1 && ip addr add 10.9.8.7/24 dev v0"
    up = f"{made} && ip link set v0 up && ip link set v1 up && ip addr add fd00::7/64 dev v0 nodad"
    for more, state in (
        ("true", "ok"),
        ("echo 1 > /proc/sys/net/ipv6/conf/v0/disable_ipv6", "warn IPv6"),
        ("ip addr del 10.9.8.7/24 dev v0", "warn IPv4"),
        ("ip link set v0 down", "broken IPv4 IPv6"),
    ):
        script = f"{up} && {more} && {sys.executable} {tmp_path}/look.py"
        done = subprocess.run(["unshare", "-n", "sh", "-c", script], capture_output=True, text=True, timeout=240)
        if done.returncode:
            pytest.skip(f"needs network namespaces: {done.stderr[-200:]}")
        assert done.stdout.strip() == state


def test_a_port_that_another_program_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as other:
        other.bind(("", 0))
        other.listen()
        monkeypatch.setattr(network, "PORT", other.getsockname()[1])
        found = network.port()
        assert found.state is State.WARN and "another one is taken" in found.says
    assert network.port().state is State.OK


def test_the_port_that_a_person_set_is_the_one_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HHD_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HHD_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(network, "_is_on", lambda name: name == "ufw")
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        (tmp_path / "config.toml").write_text(f"format = 1\n[links]\nport = {port}\n")
        found = network.port()
        assert found.state is State.WARN and f"Port {port}, which the configuration wants" in found.says
        assert f"ufw allow {port}/tcp" in network.firewall().fix
    assert network.port().says == f"Port {port} can be had."
    (tmp_path / "config.toml").write_text("format = 1\n[links]\nport = none\n")
    assert str(network.PORT) in network.port().says and str(network.PORT) in network.firewall().fix


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("nft", "table inet f {\n\tchain in {\n\t\ttype filter hook input priority 0; policy drop;\n\t}\n}"),
        ("iptables", "-P INPUT DROP"),
    ],
)
def test_a_firewall_that_drops_what_comes_in(
    name: str, rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho '{rules}'\n")
    program.chmod(0o755)
    found = network.firewall()
    assert found.state is State.WARN and name in found.says and str(network.PORT) in found.fix
    program.write_text(f"#!/bin/sh\necho '{rules.replace('drop', 'accept').replace('DROP', 'ACCEPT')}'\n")
    assert name not in network.firewall().says
    program.write_text("#!/bin/sh\nexit 1\n")  # Nobody but root is told.
    assert name not in network.firewall().says


def test_a_firewall_of_the_distribution_that_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_is_on", lambda name: name == "ufw")
    found = network.firewall()
    assert found.state is State.WARN and "sudo ufw allow" in found.fix
