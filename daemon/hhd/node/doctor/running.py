"""Looks at the daemon itself: whether it answers, is this hhd's, and is started and kept as a service."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from hhd.base import locks
from hhd.base.errors import UserError
from hhd.base.paths import data_folder
from hhd.base.release import RELEASE
from hhd.control.address import LOCK_FILE
from hhd.control.client import Connection
from hhd.node import services, starting, units
from hhd.node.answers.clocks import Clock
from hhd.node.answers.health import Health
from hhd.node.asking import Asking
from hhd.node.doctor.finding import Finding, broken, ok, warn

Link = Callable[[], Connection | None]


def daemon(link: Link) -> Finding:
    """Whether a daemon runs and answers, and is of this release."""
    held = locks.held(data_folder() / LOCK_FILE)
    try:
        found = starting.status(link) if held else None
    except starting.SilentError as error:
        return broken(str(error), "End its process, then: hhd up")
    except UserError as error:
        return broken(str(error), "Run: hhd restart")
    if found is None:
        return ok("None runs; commands do what they do by themselves. hhd up starts one.")
    if found.hhd != RELEASE:
        return warn(f"The daemon that runs is hhd {found.hhd}, and this is {RELEASE}.", "Run: hhd restart")
    connection = link()
    if connection is None:
        return broken("The daemon ended just now.", "Run: hhd logs")
    with connection:
        health = Asking(connection).ask("health", Health, changes=False)
    if health.notes:
        return warn(" ".join(health.notes), "See hhd status and hhd logs.")
    return ok(f"It answers (process {found.process}).")


def clocks(link: Link) -> Finding:
    """Whether the clocks of the devices that are linked now show the same time as the one here."""
    connection = link()
    if connection is None:
        return ok("No daemon runs, so other devices are not asked what time it is.")
    with connection:
        found = Asking(connection).ask("clocks", list[Clock], changes=False)
    compared = {one.name or one.device[:9]: one.ahead_ms for one in found if one.ahead_ms is not None}
    apart = {name: ahead for name, ahead in compared.items() if abs(ahead) > CLOCK_APART_MS}
    if apart:
        from hhd.node.relay.homes import span

        said = [f"{name}'s clock is {span(abs(ahead))} {_to_here(ahead)} this one." for name, ahead in apart.items()]
        return warn(
            " ".join(said),
            "Set the one that is wrong, as by: sudo timedatectl set-ntp true. No order rests on clocks, but ages that "
            "are shown do.",
        )
    if not compared:
        return ok("No other device is linked that says what time it is.")
    return ok(f"Within {CLOCK_APART_MS // 1000} seconds of this one: {', '.join(compared)}.")


CLOCK_APART_MS = 10_000
"""What a device without a time service drifts in some weeks; one with it is within a second."""


def _to_here(ahead_ms: int) -> str:
    return "ahead of" if ahead_ms > 0 else "behind"


def service(_: Link) -> Finding:
    """Whether the daemon is a service, with files as this hhd writes them, and a manager to act on them."""
    there = units.installed()
    if not there:
        return ok("It is none; hhd up --install makes it one, started at each login.")
    if not units.serve(data_folder()):
        return ok("The service that is installed is of another data folder.")
    with contextlib.suppress(UserError):
        stale = [unit.path.name for unit in units.units() if units.read(unit.path) != unit.text]
        if stale:
            return warn(f"Not as this hhd writes them: {', '.join(stale)}.", "Run: hhd up --install")
    manager = services.Manager()
    if manager.missing:
        return warn(f"It is installed, but {manager.missing}.", "hhd up starts the daemon without a service manager.")
    return ok("It is installed, and started at each login.")


def linger(_: Link) -> Finding:
    """Whether a daemon that is a service outlives the last logout."""
    if not units.installed():
        return ok("No service is installed, so nothing ends with a logout.")
    lingers = services.Manager().lingers()
    if lingers is None:
        return ok("This system does not say; the daemon may end with your last logout.")
    if not lingers:
        return warn("The daemon ends with your last logout.", f"To keep it running: loginctl enable-linger {_user()}")
    return ok("The daemon outlives your last logout.")


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name
