"""The command `hhd paths`."""

from __future__ import annotations

import json

import click

from hhd.app import stores
from hhd.base.text import visible


@click.command("paths")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Say where hhd keeps things on this device."""
    found = stores.paths()
    if as_json:
        print(json.dumps({name: str(path) for name, path in found.items()}))
        return
    width = max(map(len, found))
    for name, path in found.items():
        print(f"{name:<{width}}  {visible(str(path), one_line=True)}")
