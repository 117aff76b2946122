"""The daemon: be it, start it, end it, ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hhd.app import sessions

if TYPE_CHECKING:
    from hhd.node.answers.status import Status


def run(ready: Callable[[], None]) -> None:
    """Be the daemon until it is told to end; `ready` is called once it listens."""
    from hhd.node import daemon, overview
    from hhd.node.lanes import Lanes
    from hhd.node.verbs import Verbs

    lanes = Lanes()
    verbs = Verbs(
        opened=sessions.control_here,
        overview=lambda query, with_archived: overview.overview(query, with_archived=with_archived),
        lanes=lanes,
    )
    daemon.run(parts=[verbs], ready=ready, lanes=lanes)


def up() -> tuple[Status, bool]:
    """Start the daemon unless one runs; what it says of itself, and whether it was started now."""
    from hhd.node import starting

    return starting.up(sessions.daemon_link)


def detach() -> None:
    """Let go of the terminal that a daemon was started from."""
    from hhd.node import starting

    starting.detached()


def down() -> bool:
    """End the daemon, and wait until it has ended; False where none runs."""
    from hhd.node import starting

    return starting.down(sessions.daemon_link)


def status() -> Status | None:
    """What the daemon says of itself; None where none runs."""
    from hhd.node import starting

    return starting.status(sessions.daemon_link)
