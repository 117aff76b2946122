"""The command `hhd transfer`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hhd.app import handoffs
from hhd.base.errors import UsageError
from hhd.cli import handing, progress, telling
from hhd.cli.numbers import Fraction
from hhd.cli.options import JSON, SESSION
from hhd.cli.typed import typed


@click.command("transfer")
@SESSION
@click.argument("device")
@click.option("--cancel-running", is_flag=True, help="Cancel the effect that runs, instead of waiting for its end.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it could run there; nothing moves.")
@click.option(
    "--deadline",
    type=Fraction(min=1, max=7 * 86_400),
    metavar="SECONDS",
    help="Give it up if it is not released by then.  [default: 600]",
)
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Into a file, for a device that is never online together with this one; it takes it with: hhd receive FILE.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@JSON
def command(
    session: str,
    device: str,
    cancel_running: bool,
    dry_run: bool,
    deadline: float | None,
    file: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Hand SESSION on to DEVICE ("here": this one), where it goes on: same state, same conversation, same files.

    From any of your devices. It is asked first whether it can run there; then its state is brought there while it runs,
    it is paused, released, and goes on. Ctrl-C before it is released gives it up, and it goes on where it was; after
    that it only leaves, and `hhd transfers` shows how it stands.
    """
    if file is not None:
        if cancel_running or dry_run or deadline is not None:
            raise UsageError("With --to there is nobody to ask or to wait for; leave the other options out.")
        _to_file(session, device, file, force, as_json)
        return
    if force:
        raise UsageError("--force goes with --to: it says that FILE may be replaced.")
    status = handing.hand(
        session, device, cancel_running=cancel_running, dry_run=dry_run, deadline_seconds=deadline, as_json=as_json
    )
    if status:
        sys.exit(status)


def _to_file(session: str, device: str, file: Path, force: bool, as_json: bool) -> None:
    with progress.counting(silent=as_json):
        made, size = handoffs.release_to_file(session, device, file, force=force)
    if as_json:
        fields = {name: one for name, one in telling.fields(made).items() if name != "parts"}
        telling.as_object(fields, file=str(file), bytes=size)
        return
    again = "" if made.fresh else " once more, with the same release"
    telling.lines(
        [
            f"{typed(file)}: {telling.title(made.title)}  {telling.brief(made.session)} for {telling.device(made.to)}, "
            f"{size:,} bytes, written{again}",
            "It is no longer this device's. There: hhd receive FILE",
            f"If it is never taken: hhd takeover {telling.brief(made.session)} --reason TEXT",
        ]
    )
