"""The command `hhd transfer`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hhd.app import handoffs, syncing
from hhd.base.errors import Exit, RefusedError, UncertainError, UsageError
from hhd.base.text import visible
from hhd.cli import progress, telling
from hhd.cli.numbers import Fraction
from hhd.cli.telling import JSON, SESSION
from hhd.cli.typed import typed

if TYPE_CHECKING:
    from hhd.node.answers.handoff import Moved

STAGES = ("offered", "admitted", "staged", "ready", "released", "acknowledged")
"""As the bar fills."""


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
    last: Moved | None = None
    asked = handoffs.Transfer(
        session, device, cancel_running=cancel_running, dry_run=dry_run, deadline_ms=int((deadline or 0) * 1000)
    )
    with asked:
        try:
            with progress.beside(syncing.gone_over()) if not as_json else contextlib.nullcontext() as line:
                for moved in asked.steps():
                    last = moved
                    if line is None:
                        telling.as_object(moved)
                    else:
                        line.clear()
                        _tell(moved)
        except KeyboardInterrupt:
            if dry_run:
                raise
            sys.exit(_leave(asked, last, as_json))
    if last is None:
        sys.exit(Exit.UNEXPECTED)
    if last.status:
        sys.exit(last.status)


def _leave(asked: handoffs.Transfer, last: Moved | None, as_json: bool) -> int:
    """Ctrl-C: say whether that undid it, or it goes on without this terminal."""
    try:
        now = asked.leave(last)
    except RefusedError:
        if last is None or last.over:  # It was not begun, or over just before.
            raise KeyboardInterrupt from None
        raise UncertainError("Interrupted. How it stands: hhd transfers") from None
    if as_json:
        telling.as_object(now)
        return now.status if now.over else Exit.UNCERTAIN
    sentence = visible(now.sentence, one_line=True)
    if now.stage == "aborted" and now.over:
        print(f"Given up before it was released: {now.continuity}; {now.ownership}.", file=sys.stderr)
        return now.status
    if now.stage == "released" and not now.over:
        sentence += " Nothing undoes that: it goes on without this terminal, and hhd transfers shows it."
    print(sentence, file=sys.stderr)
    if now.over and now.way:
        print(visible(now.way, one_line=True), file=sys.stderr)
    return now.status if now.over else Exit.UNCERTAIN


def _tell(moved: Moved) -> None:
    at = STAGES.index(moved.stage) + 1 if moved.stage in STAGES else 0
    bar = "#" * at + "." * (len(STAGES) - at)
    print(f"[{bar}] {visible(moved.sentence, one_line=True)}", file=sys.stderr, flush=True)
    for note in moved.notes if moved.stage == "admitted" or moved.over else ():
        print(f"        {visible(note, one_line=True)}", file=sys.stderr, flush=True)
    if not moved.over:
        return
    paused = f" It did not run for {moved.pause_ms} ms." if moved.pause_ms else ""
    telling.lines(
        [
            *([f"state: {visible(moved.continuity, one_line=True)}.{paused}"] if moved.continuity else []),
            *([f"owner: {visible(moved.ownership, one_line=True)}."] if moved.ownership else []),
            *([visible(moved.way, one_line=True)] if moved.way else []),
        ]
    )


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
