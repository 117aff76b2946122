"""The command `hhd ls`."""

from __future__ import annotations

import click

from hhd.cli import lines


@click.command("ls")
@click.argument("query", default="")
@click.option("--all", "with_archived", is_flag=True, help="Also those that are archived.")
@click.option("--devices", "by_device", is_flag=True, help="A column a device: how far each of them is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(query: str, with_archived: bool, by_device: bool, as_json: bool) -> None:
    """List the sessions of this device, newest first.

    With QUERY those only that have it in their title, folder, program, state or device, or whose id begins with it.
    NEWEST says which of your devices have all of a session, as far as they said, then who lacks how many checkpoints.
    """
    lines.ls(query, with_archived=with_archived, by_device=by_device, as_json=as_json)
