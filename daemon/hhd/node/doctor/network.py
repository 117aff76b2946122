"""Looks at the network: whether other devices can find this one, and reach it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from hhd.base import config
from hhd.base.errors import UserError
from hhd.discovery import interfaces
from hhd.discovery.interfaces import Interface
from hhd.node.doctor.finding import Finding, broken, ok, warn
from hhd.transports.sockets import PORT_DEFAULT as PORT

GROUP, GROUP_6 = "224.0.0.251", "ff02::fb"
"""Of multicast DNS (RFC 6762); what is sent here goes to a port of our own, and leaves no machine."""
SECONDS_MAX = 1.0
RULES_BYTES_MAX = 4 * 1024 * 1024


def multicast() -> Finding:
    """Whether what is sent to the group of multicast DNS on an interface is heard on it: joined, sent, received."""
    usable = interfaces.usable()
    if not usable:
        return warn(
            "No interface is up that can multicast, so devices do not find each other here.",
            "Connect to a network; or tell devices of one another: hhd peer add.",
        )
    tried = {(one.name, family): _deaf(one, family) for one in usable for family in _families(one)}
    deaf = {f"{name} over {family}": why for (name, family), why in tried.items() if why}
    if len(deaf) == len(tried):
        where, why = next(iter(deaf.items()))
        return broken(
            f"Multicast does not work on any interface ({where}: {why}).",
            f"Let UDP port 5353 to {GROUP} and {GROUP_6} through the firewall; or tell devices of one another: hhd "
            "peer add.",
        )
    if deaf:
        lost = [one.name for one in usable if all(tried[one.name, family] for family in _families(one))]
        return warn(
            f"Multicast does not work on {', '.join(deaf)}.",
            f"Devices on the network of {', '.join(lost)} are not found."
            if lost
            else "Devices are found by the other one; only those that have no other are not.",
        )
    return ok(f"It works on {', '.join(f'{name} over {family}' for name, family in tried)}.")


def port() -> Finding:
    """Whether the port for links can be had, or is this hhd's already."""
    wanted = _wanted()
    with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", wanted or PORT))
        except OSError as error:
            from hhd.base import locks
            from hhd.base.paths import data_folder
            from hhd.control.address import LOCK_FILE

            if locks.held(data_folder() / LOCK_FILE):
                return ok(f"Port {wanted or PORT} is in use, while a daemon runs.")
            if wanted:
                return warn(
                    f"Port {wanted}, which the configuration wants, cannot be had ({error.strerror}), so other devices "
                    "could not reach this one.",
                    f"Find who has it (ss -ltnp 'sport = :{wanted}'), or set another one as port under [links].",
                )
            return warn(
                f"Port {PORT} cannot be had ({error.strerror}), so another one is taken each time.",
                f"Find who has it (ss -ltnp 'sport = :{PORT}'), if you want rules of a firewall for it.",
            )
    return ok(f"Port {wanted or PORT} can be had.")


def firewall() -> Finding:
    """Whether a firewall of this machine drops what comes in; only root may look at all rules."""
    port = _wanted() or PORT
    for name in ("ufw", "firewalld"):
        if _is_on(name):
            allow = f"sudo ufw allow {port}/tcp" if name == "ufw" else f"sudo firewall-cmd --add-port={port}/tcp"
            return warn(f"{name} is on, and may drop what other devices send.", f"If they do not link: {allow}")
    dropping = _dropping()
    if dropping:
        return warn(
            f"{dropping} drops what comes in unless a rule takes it.",
            f"If devices do not link: let TCP port {port} and UDP port 5353 in.",
        )
    return ok("None was seen that drops what comes in.")


def _wanted() -> int:
    """The port that the person set, 0 where none is, or where the configuration is wrong (which another look says)."""
    try:
        return config.load().links.port
    except UserError:
        return 0


def _families(interface: Interface) -> list[str]:
    """What an interface has addresses of, which discovery announces on."""
    six = [":" in one for one in interface.addresses]
    return [name for name, wanted in (("IPv4", False), ("IPv6", True)) if wanted in six]


def _deaf(interface: Interface, family: str) -> str:
    """Why what is sent to the group on an interface is not heard there; empty where it is."""
    token = os.urandom(16)
    with contextlib.ExitStack() as stack:
        try:
            ears, mouth, group = (_over_4 if family == "IPv4" else _over_6)(interface, stack)
            mouth.sendto(token, (*group[:1], ears.getsockname()[1], *group[1:]))
            end = time.monotonic() + SECONDS_MAX
            while (left := end - time.monotonic()) > 0:
                ears.settimeout(left)
                if ears.recv(64) == token:
                    return ""
        except TimeoutError:
            return "what is sent is not heard"
        except OSError as error:
            return error.strerror or str(error)
    return "what is sent is not heard"


_Made = tuple[socket.socket, socket.socket, tuple[Any, ...]]
"""What hears and what speaks on an interface, and to whom: an address without its port."""


def _over_4(interface: Interface, stack: contextlib.ExitStack) -> _Made:
    address = socket.inet_aton(next(one for one in interface.addresses if ":" not in one))
    ears = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    ears.bind(("", 0))
    membership = struct.pack("4s4s", socket.inet_aton(GROUP), address)
    ears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    mouth = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, address)
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)  # It leaves no machine.
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    return ears, mouth, (GROUP,)


def _over_6(interface: Interface, stack: contextlib.ExitStack) -> _Made:
    number = interface.number
    ears = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    ears.bind(("::", 0))
    membership = struct.pack("@16sI", socket.inet_pton(socket.AF_INET6, GROUP_6), number)
    ears.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
    mouth = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    mouth.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, number)
    mouth.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 0)  # It leaves no machine.
    mouth.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
    return ears, mouth, (GROUP_6, 0, number)


def _is_on(name: str) -> bool:
    if name == "ufw":
        with contextlib.suppress(OSError):
            return "ENABLED=yes" in Path("/etc/ufw/ufw.conf").read_text("utf-8", "replace").split()
        return False
    return Path("/run/firewalld").is_dir() and shutil.which("firewall-cmd") is not None


def _dropping() -> str:
    """The name of what has a chain for input whose policy is to drop; empty where there is none, or nobody says."""
    for name, words in (("nft", ["nft", "list", "chains"]), ("iptables", ["iptables", "-S", "INPUT"])):
        program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=5, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        rules = done.stdout[:RULES_BYTES_MAX].decode("utf-8", "replace")
        if any("hook input" in line and "policy drop" in line for line in rules.splitlines()):
            return name
        if any(line.split() in (["-P", "INPUT", "DROP"], ["-P", "INPUT", "REJECT"]) for line in rules.splitlines()):
            return name
    return ""
