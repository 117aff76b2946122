"""The command `hhd logs`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from hhd.app import daemons
from hhd.base.text import visible
from hhd.cli import telling

if TYPE_CHECKING:
    from hhd.node.logs import Line

LOOK_SECONDS = 0.25
LINES_DEFAULT = 50


@click.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("-n", "newest", type=click.IntRange(min=0), default=LINES_DEFAULT, help="So many of the last lines.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as it stands: one JSON object.")
def command(follow: bool, newest: int, as_json: bool) -> None:
    """Show what the daemon noted: events and numbers, nothing of what sessions say."""
    if not follow:
        telling.lines(_shown(line, as_json) for line in daemons.log_lines(newest))
        return
    try:
        for line in daemons.log_lines_as_they_come(newest, _wait):
            telling.lines([_shown(line, as_json)])
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _wait() -> bool:
    time.sleep(LOOK_SECONDS)
    return True


def _shown(line: Line, as_json: bool) -> str:
    if as_json or not line.event:
        return visible(line.raw, one_line=True)
    fields = "".join(f"  {name}={value!r}" if " " in value else f"  {name}={value}" for name, value in line.fields)
    level = "" if line.level == "info" else f"{line.level}: "
    return visible(f"{line.at}  {level}{line.event}{fields}", one_line=True)
