"""Looks at the programs and services around hhd: the sandbox, git, logind, the model, other clients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from hhd.base import config
from hhd.base.errors import UserError
from hhd.base.text import short
from hhd.effects.environment import for_commands
from hhd.effects.sandbox import SandboxConfig, detect
from hhd.node.doctor.finding import Finding, broken, ok, warn

SECONDS_MAX = 8.0
"""For a program to say its version: clients are started by an interpreter of their own."""

CLIENTS = {"claude": "2.1.332", "codex": "0.171.0", "pi": "1.6.0"}
"""The newest release of each client that our readers and writers are held against (`tests/clients`)."""


def sandbox() -> Finding:
    """Whether commands of sessions run in a sandbox, found by running one."""
    try:
        table = config.load().policy.get("sandbox", {})
        chosen = SandboxConfig.from_table(table if isinstance(table, dict) else {})
    except UserError as error:
        return broken(str(error), f"Correct {config.path()}.")
    found = detect(chosen)
    if found.program is not None:
        return ok("Commands run in a sandbox (bubblewrap).")
    says = f"Commands run without a sandbox, as you: {found.reason}."
    fix = "Install bubblewrap: sudo apt install bubblewrap, or sudo dnf install bubblewrap."
    if chosen.use == "off":
        fix = 'Remove use = "off" under [policy.sandbox], unless you mean it.'
    elif sys.platform != "linux":
        fix = "Let sessions ask you before each command: [policy] ask, and no allow."
    elif "not installed" not in found.reason:
        fix = (
            "Allow user namespaces for bwrap; on Ubuntu an AppArmor profile does, and in a container its options: "
            "hhd policy says what holds meanwhile."
        )
    if found.required:
        return broken(f"The configuration requires a sandbox, and there is none: {found.reason}.", fix)
    return warn(says, fix)


def separation() -> Finding:
    """Whether commands of sessions can reach the daemon's socket, and so approve themselves."""
    from hhd.base.paths import data_folder
    from hhd.control import address, place
    from hhd.node import ancestry

    socket = address.said(data_folder()) or place.socket_path(data_folder())
    says = ancestry.said(socket.parent)
    if says.startswith("Commands of sessions cannot reach"):
        return ok(says)
    return warn(says, "With a sandbox they cannot; see sandbox above.")


def git() -> Finding:
    """Whether git is there, by which working folders are captured."""
    said = _version("git")
    if said is None:
        return broken("git is not installed, so working folders are not captured.", "Install git.")
    return ok(f"git {said}.") if said else warn("git does not say its version.", "Run: git --version")


def sleep() -> Finding:
    """Whether logind answers, by which a sleep can be held off until a session is handed over."""
    if sys.platform != "linux":
        return ok("Left to the system.")
    program = shutil.which("systemd-inhibit")
    if program is not None:
        done = _run([program, "--list", "--no-pager", "--no-legend"])
        if done is not None and done.returncode == 0:
            return ok("logind answers: a sleep can wait for a handoff.")
    return warn(
        "logind does not answer here, so a sleep waits for nothing: a handoff is finished after it.",
        "Nothing has to be done on a machine that does not sleep; else install systemd-logind and dbus.",
    )


def model() -> Finding:
    """Whether there is a key for the model, by the name of where it is; it is never shown."""
    try:
        chosen = config.load().model
    except UserError as error:  # A key that others can read, say: then none is used.
        return broken(str(error), f"Correct {config.path()}.")
    try:
        if chosen.name.startswith("scripted:"):
            return ok("Replies come from a script.")
        chosen.credential()
    except UserError as error:
        return warn(str(error), "Sessions that are begun now wait until there is one; see hhd config.")
    file = config.path()
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    name = next((one for one in names if os.environ.get(one)), None)
    if chosen.api_key or chosen.auth_token:
        return ok(f"{chosen.name}: the key is in {file}, which only you read.")
    return warn(
        f"{chosen.name}: the key is in {name}, of this terminal only.",
        f"After a restart the daemon has none; put it under [model] in {file}, mode 0600, with base_url.",
    )


def clients() -> Finding:
    """Which clients are here whose sessions hhd reads, and whether they are newer than what it was held against."""
    with ThreadPoolExecutor(len(CLIENTS)) as many:
        found = dict(zip(CLIENTS, many.map(_version, CLIENTS), strict=True))
    here = [f"{name} {version or '?'}" for name, version in found.items() if version is not None]
    newer = [
        f"{name} {version}" for name, version in found.items() if version and _parts(version) > _parts(CLIENTS[name])
    ]
    silent = [name for name, version in found.items() if version == ""]
    if newer:
        known = ", ".join(f"{name} {version}" for name, version in CLIENTS.items())
        return warn(
            f"Newer than what this hhd was held against ({known}): {', '.join(newer)}.",
            "Their sessions are read as far as they are known; look for a newer hhd if one is not.",
        )
    if silent:
        return warn(f"They do not say their version: {', '.join(silent)}.", f"Run: {silent[0]} --version")
    return ok(f"{', '.join(here)}." if here else "None is installed.")


def _version(name: str) -> str | None:
    """What a program says is its version, empty where it says none; None where it is not there."""
    program = shutil.which(name)
    if program is None:
        return None
    done = _run([program, "--version"])
    found = None if done is None or done.returncode else re.search(rb"\d{1,9}(\.\d{1,9}){1,3}", done.stdout[:4096])
    return "" if found is None else short(found.group().decode(), 40)


def _run(words: list[str]) -> subprocess.CompletedProcess[bytes] | None:
    """Run a program with the environment that commands get: no key is its business. None where it does not end."""
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS_MAX,
            check=False, cwd="/", env=for_commands(os.environ, walled=False),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
