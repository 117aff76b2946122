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

from hhd.discovery import interfaces
from hhd.discovery.interfaces import Interface
from hhd.node.doctor.finding import Finding, broken, ok, warn
from hhd.transports.sockets import PORT_DEFAULT as PORT

GROUP = "224.0.0.251"
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
    deaf = {one.name: why for one in usable if (why := _deaf(one))}
    if len(deaf) == len(usable):
        name, why = next(iter(deaf.items()))
        return broken(
            f"Multicast does not work on any interface ({name}: {why}).",
            "Let UDP port 5353 to 224.0.0.251 through the firewall; or tell devices of one another: hhd peer add.",
        )
    if deaf:
        return warn(f"Multicast does not work on {', '.join(deaf)}.", "Devices on those networks are not found.")
    return ok(f"It works on {', '.join(one.name for one in usable)}.")


def port() -> Finding:
    """Whether the port for links can be had, or is this hhd's already."""
    with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", PORT))
        except OSError as error:
            from hhd.base import locks
            from hhd.base.paths import data_folder
            from hhd.control.address import LOCK_FILE

            if locks.held(data_folder() / LOCK_FILE):
                return ok(f"Port {PORT} is in use, while a daemon runs.")
            return warn(
                f"Port {PORT} cannot be had ({error.strerror}), so another one is taken each time.",
                f"Find who has it (ss -ltnp 'sport = :{PORT}'), if you want rules of a firewall for it.",
            )
    return ok(f"Port {PORT} can be had.")


def firewall() -> Finding:
    """Whether a firewall of this machine drops what comes in; only root may look at all rules."""
    for name in ("ufw", "firewalld"):
        if _is_on(name):
            allow = f"sudo ufw allow {PORT}/tcp" if name == "ufw" else f"sudo firewall-cmd --add-port={PORT}/tcp"
            return warn(f"{name} is on, and may drop what other devices send.", f"If they do not link: {allow}")
    dropping = _dropping()
    if dropping:
        return warn(
            f"{dropping} drops what comes in unless a rule takes it.",
            f"If devices do not link: let TCP port {PORT} and UDP port 5353 in.",
        )
    return ok("None was seen that drops what comes in.")


def _deaf(interface: Interface) -> str:
    """Why what is sent to the group on an interface is not heard there; empty where it is."""
    address = next((one for one in interface.addresses if ":" not in one), None)
    if address is None:
        return ""  # Of IPv6 alone: joined by discovery itself, which says what came of it.
    token = os.urandom(16)
    with contextlib.ExitStack() as stack:
        try:
            ears = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            ears.bind(("", 0))
            membership = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton(address))
            ears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            mouth = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
            mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)  # It leaves no machine.
            mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            mouth.sendto(token, (GROUP, ears.getsockname()[1]))
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
