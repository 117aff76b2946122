"""The command `hhd rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hhd.app import sessions
from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.agreeing import agreed
from hhd.cli.options import JSON, SESSION

if TYPE_CHECKING:
    from hhd.node.answers.removal import Removal


@click.command("rm")
@SESSION
@click.option(
    "--everywhere", is_flag=True, help="On your other devices too, when they hear of it; it never comes back."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def command(session: str, everywhere: bool, yes: bool, as_json: bool) -> None:
    """Remove SESSION from this device; says what that destroys, and asks.

    With --everywhere, a device that has newer work of it keeps that and shows it.
    """
    with sessions.control() as control:
        shown = control.removal(session, everywhere=everywhere)
        if not as_json:
            telling.lines(_would(shown))
        if not yes and not agreed("Remove it?", as_json=as_json):
            raise RefusedError("Nobody agreed, so nothing was removed; --yes removes without asking.")
        done = control.remove(shown)
    if as_json:
        telling.as_object(done)
        return
    telling.lines([f"{telling.brief(done.session)} is removed; hhd gc frees what nothing else needs."])


def _would(shown: Removal) -> list[str]:
    where = "from this device and, when they hear of it, your others" if shown.everywhere else "from this device"
    heads = ", ".join(telling.brief(head) for head in shown.heads[: telling.FILES_SHOWN])
    more = f" and {len(shown.heads) - telling.FILES_SHOWN} more" if len(shown.heads) > telling.FILES_SHOWN else ""
    return [
        f"{telling.title(shown.title)}  {telling.brief(shown.session)}: to be removed {where}",
        f"  {telling.count(shown.checkpoints, 'checkpoint')}, {telling.count(shown.turns, 'turn')}, "
        f"{shown.bytes:,} bytes; {telling.count(len(shown.heads), 'head')}: {heads}{more}",
        *(f"  {visible(warning, one_line=True)}" for warning in shown.warnings),
    ]
