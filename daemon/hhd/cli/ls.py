"""The command `hhd ls`."""

from __future__ import annotations

import click

from hhd.cli import lines


@click.command("ls")
@click.argument("query", default="")
@click.option("--all", "with_archived", is_flag=True, help="Also those that are archived.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(query: str, with_archived: bool, as_json: bool) -> None:
    """List the sessions of this device, newest first.

    With QUERY those only that have it in their title, folder, program, state or device, or whose id begins with it.
    """
    lines.ls(query, with_archived=with_archived, as_json=as_json)
