"""Tells the person's own programs from commands of a session, which may not ask the daemon: one could approve itself.

The sandbox hides the socket from commands, which is the better answer. Where there is none, who connects is followed
from parent to parent: commands are below the worker that runs them, and stay there whatever they do
(`hhd.node.leftovers`). A command of a session that a terminal runs by itself carries a mark in its environment, or one
above it does. What this cannot see: a command that has another program of the person's ask in its place. `status` says
which of the two holds here.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from hhd.control import peer

ANCESTORS_MAX = 64
"""Of a process: a shell in an editor in a terminal in a session of a login is a dozen."""

MARK = b"HHD=1"
"""In the environment of every command of a session (`hhd.effects.environment`)."""

_ENVIRONMENT_BYTES_MAX = 1024 * 1024


class Ancestry:
    """Judges who connects to the daemon that this process is."""

    def __init__(self) -> None:
        self._own = os.getpid()
        self._marked = _marked(self._own)  # Then everybody around it is, and the mark says nothing.

    def refuses(self, connected: socket.socket) -> str | None:
        """Return why what comes over this connection is refused, as a sentence; None where it is not.

        Where the system does not say who connected, nobody is refused here.
        """
        process, alive = peer.process_of(connected)
        if process is None or process == self._own:
            return None
        above = list(line(process))
        found = self._own in above or (not self._marked and any(_marked(one) for one in above))
        if found or not alive():
            return "Commands of a session may not ask the daemon, so nothing was done."
        return None


def line(process: int) -> Iterator[int]:
    """Yield a process and those above it, as far as each is older than the one below it."""
    born = None
    for _ in range(ANCESTORS_MAX):
        found = _parent(process)
        if found is None or (born is not None and found[1] > born):
            return
        yield process
        above, born = found
        if above in (0, process):
            return
        process = above


def _parent(process: int) -> tuple[int, int] | None:
    """The parent of a process, and when the process began; None if it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[19])


def _marked(process: int) -> bool:
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return MARK in file.read(_ENVIRONMENT_BYTES_MAX).split(b"\0")
    except OSError:
        return False


def said(folder: Path) -> str:
    """Say what keeps commands of sessions from the socket in `folder`, as a sentence for `status`."""
    from hhd.base import config
    from hhd.base.errors import UserError
    from hhd.effects.sandbox import SandboxConfig, detect

    try:
        table = config.load().policy.get("sandbox", {})
        sandbox = detect(SandboxConfig.from_table(table if isinstance(table, dict) else {}))
    except UserError as error:
        return f"What keeps commands of sessions from this socket is not known: {error}"
    if sandbox.program is not None:
        hides = any(folder.resolve().is_relative_to(hidden) for hidden in (*sandbox.hidden, Path("/run"), Path("/tmp")))
        if hides:
            return "Commands of sessions cannot reach this socket: the sandbox hides it."
    reason = sandbox.reason or "the sandbox does not hide it"
    if sys.platform != "linux":
        return f"Commands of sessions can reach this socket, and cannot be told from your own programs: {reason}."
    return (
        f"Commands of sessions can reach this socket ({reason}); what they ask is refused, unless they have another "
        "program of yours ask it."
    )
