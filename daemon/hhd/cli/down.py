"""The command `hhd down`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from hhd.app import daemons
from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.agreeing import agreed
from hhd.cli.options import JSON

if TYPE_CHECKING:
    from hhd.node.purging import Purge


@click.command("down")
@click.option("--uninstall", is_flag=True, help="Take its service away too; sessions stay.")
@click.option(
    "--purge", is_flag=True, help="With --uninstall: remove all that hhd keeps here, after showing and asking."
)
@click.option("--force", is_flag=True, help="With --uninstall: remove unit files that somebody edited.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask.")
@JSON
def command(uninstall: bool, purge: bool, force: bool, yes: bool, as_json: bool) -> None:
    """End the daemon: what it has begun it finishes. Commands then do what they do by themselves."""
    if (purge or force) and not uninstall:
        raise UsageError("--purge and --force go with --uninstall.")
    if yes and not purge:
        raise UsageError("--yes goes with --purge.")
    if not uninstall:
        ended = daemons.down()
        if as_json:
            telling.lines([json.dumps({"ended": ended})])
            return
        telling.lines(["The daemon has ended." if ended else "No daemon runs here."])
        return
    shown = _agreed_on(yes, as_json) if purge else None  # Asked first: who says no keeps the service too.
    gone = daemons.uninstall(force=force)
    if shown is not None:
        daemons.purge(shown)
    if as_json:
        removed = [str(one) for one in shown.paths] if shown is not None else []
        telling.lines([json.dumps({"uninstalled": [str(one) for one in gone], "removed": removed})])
        return
    told = [f"Removed: {_line(one)}" for one in gone] or ["No service of hhd was installed."]
    if shown is not None:
        told.append("Everything that was listed is removed.")
    telling.lines([*told, "The daemon has ended."])


def _agreed_on(yes: bool, as_json: bool) -> Purge:
    """Show what goes, and ask; raises RefusedError where nobody says yes."""
    shown = daemons.purge_shown()
    if not as_json:
        telling.lines(_would(shown))
    if shown.paths and not yes and not agreed("Remove all of it?", as_json=as_json):
        raise RefusedError("Nobody agreed, so nothing was changed; --yes removes without asking.")
    return shown


def _would(shown: Purge) -> list[str]:
    if not shown.paths:
        return ["hhd keeps nothing here."]
    told = [f"To be removed for good ({shown.bytes:,} bytes):", *(f"  {_line(one)}" for one in shown.paths)]
    if shown.device:
        told.append(
            f"With it the key of this device ({_line(shown.device)}): your other devices will not know it again."
        )
    told += [f"Stays: {_line(one)}" for one in shown.left]
    return told


def _line(text: object) -> str:
    return visible(str(text), one_line=True)
