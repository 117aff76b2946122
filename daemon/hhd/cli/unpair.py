"""The command `hhd unpair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hhd.app import devices
from hhd.base.errors import RefusedError, UsageError
from hhd.cli import telling
from hhd.cli.agreeing import agreed
from hhd.cli.options import JSON

if TYPE_CHECKING:
    from hhd.node.answers.group import Unpaired

SESSIONS_SHOWN = 8


@click.command("unpair")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def command(name: str, yes: bool, as_json: bool) -> None:
    """Put the device NAME out of your group: nothing is told it any more, and nothing it says counts from now on.

    What it did until now stays. What it was given it keeps: sessions are sealed under new keys from their next
    checkpoint on.
    """
    if not yes and as_json:
        raise UsageError("With --json nothing is asked; say --yes. Nothing was changed.")
    if not yes:
        meant = devices.meant(name)
        telling.lines([f"{telling.device(meant)} is to be put out of your devices.", f"    its id: {meant.id}"])
        if not agreed("Put it out?", as_json=as_json):
            raise RefusedError("Nobody agreed, so nothing was changed; --yes does it without asking.")
        name = meant.id
    done = devices.unpair(name)
    if as_json:
        telling.as_object(done)
        return
    telling.lines(_lines(done))


def _lines(done: Unpaired) -> list[str]:
    said = [f"{telling.device(done.device)} is put out.", f"    its id: {done.device.id}"]
    if done.sessions:
        shown = ", ".join(telling.brief(one) for one in done.sessions[:SESSIONS_SHOWN])
        more = len(done.sessions) - SESSIONS_SHOWN
        said.append(
            f"{telling.count(len(done.sessions), 'session')} {'was' if len(done.sessions) == 1 else 'were'} there: "
            f"{shown}{f' and {more} more' if more > 0 else ''}. Take over what you want to go on with: "
            "hhd takeover SESSION"
        )
    if done.introduced:
        names = ", ".join(telling.device(one) for one in done.introduced)
        said.append(f"It had added {names}, which stay. Unpair those that are not yours.")
    return said
