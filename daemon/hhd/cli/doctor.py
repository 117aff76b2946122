"""The command `hhd doctor`."""

from __future__ import annotations

import json
import sys

import click

from hhd.app import doctors
from hhd.base.errors import Exit
from hhd.base.text import visible
from hhd.cli.lines import write
from hhd.cli.options import JSON

_MARKS = {"ok": "ok", "warn": "look", "broken": "BROKEN"}


@click.command("doctor")
@JSON
def command(as_json: bool) -> int:
    """Look at what may keep hhd from working here, and say how to mend it.

    Exit status 0: nothing is broken; 3: something is.
    """
    found = []
    for name, one in doctors.findings():
        found.append((name, one))
        if not as_json:
            fix = f"\n{'':8}{'':15}{visible(one.fix, one_line=True)}" if one.fix else ""
            write(f"{_MARKS[one.state]:8}{name:15}{visible(one.says, one_line=True)}{fix}\n")
            sys.stdout.flush()  # Some looks take a second.
    broken = [name for name, one in found if one.state == "broken"]
    status = Exit.REFUSED if broken else Exit.DONE
    if as_json:
        looks = [{"name": name, "state": one.state, "says": one.says, "fix": one.fix} for name, one in found]
        write(json.dumps({"broken": len(broken), "checks": looks}) + "\n")
    elif broken:
        write(f"Broken: {', '.join(broken)}.\n")
    return status
