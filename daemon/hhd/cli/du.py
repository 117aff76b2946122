"""The command `hhd du`."""

from __future__ import annotations

import dataclasses
import json

import click

from hhd.app import stores


@click.command("du")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Say what uses how much of the store; content that forks share counts for each of them."""
    used = stores.usage()
    if as_json:
        print(json.dumps(dataclasses.asdict(used)))
        return
    for one in used.sessions:
        thinned = f", {one.thinned} thinned" if one.thinned else ""
        print(f"{one.bytes:>14,}  {one.session[:16]}  {one.checkpoints} checkpoints{thinned}")
    if used.originals:
        print(f"{used.originals_bytes:>14,}  {used.originals} originals of native sessions")
    if used.captures:
        print(f"{used.captures_bytes:>14,}  captures of folders: {used.captures}")
    print(f"{used.file_bytes:>14,}  the whole file, {used.free_bytes:,} of it free, {used.modules} modules")
