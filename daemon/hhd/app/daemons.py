"""The daemon: be it, start it, end it, ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from hhd.app import devices, handoffs, peering, relaying, sessions, syncing

if TYPE_CHECKING:
    from pathlib import Path

    from hhd.node.answers.health import Health, Reloaded
    from hhd.node.answers.status import Status
    from hhd.node.logs import Line
    from hhd.node.purging import Purge
    from hhd.node.services import Installed

T = TypeVar("T")


def run(ready: Callable[[], None]) -> None:
    """Be the daemon until it is told to end; `ready` is called once it listens."""
    import gc

    gc.disable()  # What is imported stays: to look through it again and again took a sixth of a start.
    try:
        _run(ready)
    finally:
        gc.enable()


def _run(ready: Callable[[], None]) -> None:
    """As `run`, with a collector that does not look at what a daemon starts with."""
    import gc

    from hhd.base import log, log_bridge, notify
    from hhd.base.errors import UserError
    from hhd.base.paths import data_folder
    from hhd.effects.login_shell import LoginShell
    from hhd.node import ancestry, beginning, daemon, logs, overview, services, starting, this_device
    from hhd.node.ancestry import Ancestry
    from hhd.node.clocks import Clocks
    from hhd.node.grouping import Grouping
    from hhd.node.lanes import Lanes
    from hhd.node.service import Part
    from hhd.node.tending import Tending
    from hhd.node.verbs import Verbs
    from hhd.node.workers import Workers

    lanes = Lanes()
    services.insist_on_place(data_folder())
    log_bridge.build()
    manager = notify.from_environment()
    tending = Tending(manager=manager, kept=log.to(logs.log_folder()))
    workers = Workers(opened=sessions.control_here, lanes=lanes)
    verbs = Verbs(
        opened=sessions.control_here,
        overview=lambda query, with_archived, exact: overview.overview(
            query, with_archived=with_archived, exact=exact, at_work=workers.at_work
        ),
        lanes=lanes,
    )
    tending.noted.append(lambda: [workers.trouble] if workers.trouble else [])
    shell = LoginShell()
    workers.environment_for = lambda _: shell.environment()
    tending.reloaded.append(shell.forget)
    tending.noted.append(lambda: [f"{shell.failed} Commands get what the daemon has."] if shell.failed else [])
    grouping = Grouping(opened=devices.here, lanes=lanes)
    parts: list[Part] = [verbs, workers, tending, grouping]
    looking: list[Callable[[], None]] = [workers.look_for_removed]
    lacking = ""
    try:
        peers, meeting, sharing = peering.parts(this_device.identity())
    except UserError as error:  # Everything that needs no key goes on.
        lacking = f"Other devices are not linked. {error}"
        tending.noted.append(lambda: (lacking,))
    else:
        syncs = syncing.part(this_device.identity(), peers, workers)
        syncs.wished.append(sharing.look)
        parts += [peers, meeting, sharing, syncs, Clocks(peers)]
        handing = handoffs.part(workers, peers, syncs, this_device.identity().id, lanes)
        syncs.fenced.append(handing.learned)
        peers.roll.on_change(handing.regrouped)
        parts.append(handing)
        relays = relaying.part(workers, peers, syncs, handing)
        parts.append(relays)
        verbs.elsewhere = relays
        looking += [sharing.look, relays.look_again, syncs.look_soon]
        tending.noted.append(lambda: [syncs.trouble] if syncs.trouble else [])
        grouping.changed.append(peers.roll.refresh)
        tending.noted.append(peers.says)
        tending.reloaded.append(peers.settings_changed)
    tending.known = frozenset(name for part in parts for name in part.verbs()) | {"status", "down"}

    changing = frozenset(name for part in parts for name, verb in part.verbs().items() if verb.changes)

    def ended(verb: str, how: str, seconds: float, error: Exception | None) -> None:
        tending.ended(verb, how, seconds, error)
        if verb in changing:
            for look in looking:
                look()

    def listening() -> None:
        gc.freeze()
        gc.enable()
        ready()
        if manager.is_there:  # From now on all is said to the log, where it is bounded, and has nothing of sessions.
            starting.detached()
        tending.ready()

    with logs.life():
        beginning.prepare(manager)
        daemon.run(
            parts=parts,
            ready=listening,
            lanes=lanes,
            says=lambda folder: (ancestry.said(folder), *tending.says()),
            ended=ended,
            refuses=Ancestry().refuses,
            lacking=lacking,
        )


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


def log_lines(count: int) -> list[Line]:
    """The last lines of the daemon's log."""
    from hhd.node import logs

    return logs.last(count)


def log_lines_as_they_come(count: int, wait: Callable[[], bool]) -> Iterator[Line]:
    """The last lines of the daemon's log, and those that come, until `wait` returns False."""
    from hhd.node import logs

    return logs.follow(count, wait)


def measures() -> str:
    """What is measured of the daemon, as Prometheus reads it; raises RefusedError where none runs."""
    return _asking("metrics", str)


def health() -> Health:
    """How the daemon is; raises RefusedError where none runs."""
    from hhd.node.answers.health import Health

    return _asking("health", Health)


def reload() -> Reloaded:
    """Let the daemon read the configuration anew; raises RefusedError for a bad one, or where no daemon runs."""
    from hhd.node.answers.health import Reloaded

    return _asking("reload", Reloaded, changes=True)


def restart() -> tuple[Status, bool]:
    """End the daemon, in order, and start it anew; what it says of itself, and whether one ran before."""
    from hhd.base.paths import data_folder
    from hhd.node import services, starting

    return starting.restart(sessions.daemon_link, services.of(data_folder()))


def _asking(verb: str, wanted: type[T], *, changes: bool = False) -> T:
    from hhd.base.errors import RefusedError
    from hhd.node.asking import Asking

    link = sessions.daemon_wanted()
    if link is None:
        raise RefusedError("No daemon runs here; hhd up starts one.")
    with link:
        return Asking(link).ask(verb, wanted, changes=changes)
