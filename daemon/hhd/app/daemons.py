"""The daemon: be it, start it, end it, ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hhd.app import sessions

if TYPE_CHECKING:
    from pathlib import Path

    from hhd.node.answers.status import Status
    from hhd.node.purging import Purge
    from hhd.node.services import Installed


def run(ready: Callable[[], None]) -> None:
    """Be the daemon until it is told to end; `ready` is called once it listens."""
    from hhd.base import notify
    from hhd.node import daemon, overview
    from hhd.node.lanes import Lanes
    from hhd.node.tending import Tending
    from hhd.node.verbs import Verbs
    from hhd.node.workers import Workers

    lanes = Lanes()
    verbs = Verbs(
        opened=sessions.control_here,
        overview=lambda query, with_archived: overview.overview(query, with_archived=with_archived),
        lanes=lanes,
    )
    tending = Tending(manager=notify.from_environment())
    workers = Workers(opened=sessions.control_here, lanes=lanes)

    def listening() -> None:
        ready()
        tending.ready()

    daemon.run(parts=[verbs, workers, tending], ready=listening, lanes=lanes)


def up() -> tuple[Status, bool]:
    """Start the daemon unless one runs; what it says of itself, and whether it was started now."""
    from hhd.base.paths import data_folder
    from hhd.node import services, starting

    return starting.up(sessions.daemon_link, services.of(data_folder()))


def detach() -> None:
    """Let go of the terminal that a daemon was started from."""
    from hhd.node import starting

    starting.detached()


def down() -> bool:
    """End the daemon, and wait until it has ended; False where none runs. A service starts again at the next login."""
    from hhd.base.paths import data_folder
    from hhd.node import services, starting

    return starting.down(sessions.daemon_link, services.of(data_folder()))


def status() -> Status | None:
    """What the daemon says of itself; None where none runs."""
    from hhd.node import starting

    return starting.status(sessions.daemon_link)


def install(*, force: bool) -> Installed:
    """Make the daemon a service of this login, and start it; `force`: whatever the files hold."""
    from hhd.base.paths import data_folder
    from hhd.node import services, starting, units

    if not units.serve(data_folder()):
        starting.down(sessions.daemon_link, None)  # One that runs without a manager holds what the service needs.
    return services.install(force=force)


def uninstall(*, force: bool) -> list[Path]:
    """End the daemon, and take its service away; the files that are gone."""
    from hhd.base.paths import data_folder
    from hhd.node import services, starting

    gone = services.uninstall(force=force)
    starting.down(sessions.daemon_link, services.of(data_folder()))
    return gone


def purge_shown() -> Purge:
    """What `purge` would destroy."""
    from hhd.node import purging

    return purging.shown()


def purge(shown: Purge) -> Purge:
    """Remove what was shown, once no process of ours uses it any more."""
    from hhd.node import purging

    return purging.purge(shown)
