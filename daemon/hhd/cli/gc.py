"""The command `hhd gc`."""

from __future__ import annotations

import json

import click

from hhd.app import stores


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(dry_run: bool, as_json: bool) -> None:
    """Thin old checkpoints and free what nothing needs.

    Heads, fork points, picked checkpoints and the turn borders of the last store.keep_days days keep their content; all
    records stay.
    """
    swept, shrunk = stores.gc(dry_run=dry_run)
    if as_json:
        print(
            json.dumps(
                {
                    "dry_run": dry_run,
                    "thinned": swept.thinned,
                    "objects": swept.objects,
                    "bytes": swept.bytes,
                    "busy_sessions": swept.busy,
                    "file_shrunk_by": shrunk,
                }
            )
        )
        return
    would = "would be " if dry_run else ""
    print(f"{swept.thinned} checkpoints {would}thinned, {swept.objects} objects ({swept.bytes} bytes) {would}freed.")
    if swept.busy:
        print(f"{swept.busy} sessions are running: they were left alone. Run it again later.")
    if shrunk > 0:
        print(f"The file is {shrunk} bytes smaller.")
