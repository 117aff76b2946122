"""The command `hhd run`: an agent at work in a folder, in the daemon or in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from hhd.app import attending, driving, signals
from hhd.base.errors import UsageError
from hhd.cli import attached, going
from hhd.cli.attached import InDaemon
from hhd.cli.kept import InFile, InStore
from hhd.cli.wakeups import Wakeups

Command = TypeVar("Command", bound=Callable[..., object])

FOLDER = click.option(
    "-C",
    "--folder",
    type=click.Path(path_type=Path, readable=False),
    help="The folder to work in. [default: the current one]",
)
MODEL = click.option("--model", help="A model, or scripted:FILE. [default: name under [model] of config.toml]")


def settling(command: Command) -> Command:
    """The options by which a person says what became of an effect that may have run; read by `going.word`."""
    for option in (
        click.option("--again", is_flag=True, help="Run what may have run again, whatever happened before."),
        click.option("--did-not-run", is_flag=True, help="What may have run did not: run it now."),
        click.option("--ran", metavar="OUTPUT", help="What may have run did run, and said OUTPUT."),
    ):
        command = option(command)
    return command


@click.command("run")
@click.argument("prompt")
@FOLDER
@MODEL
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, readable=False),
    help="Keep the session in this capsule file, and not in the store.",
)
@click.option("--once", is_flag=True, help="End the session where the model ends its turn.")
@click.option("-d", "--detach", is_flag=True, help="Begin it in the background, print its id, and return.")
@click.option("--foreground", is_flag=True, help="In this process, whether a daemon runs or not.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and the conversation nowhere.")
def command(
    prompt: str,
    folder: Path | None,
    model: str | None,
    out: Path | None,
    once: bool,
    detach: bool,
    foreground: bool,
    as_json: bool,
) -> int:
    """Let the agent do what PROMPT says in a folder.

    The session lives in the store of this device at every moment, sealed, and the daemon runs it; at a terminal it is
    started if need be. Ctrl-C pauses it; Ctrl-D, or a closed terminal, leaves it running: hhd attach comes back to it.
    What you type while it works is heard at its next step.

    In this process (with --foreground, with -o, or in a script while no daemon runs) it ends with the command, paused;
    the end of input leaves it waiting.
    """
    insist_on_one_way(detach=detach, foreground=foreground or out is not None)
    if (
        out is None
        and not foreground
        and (status := _in_daemon(prompt, folder, model, once, detach, as_json)) is not None
    ):
        return status
    with signals.stop_on_signals() as stop:
        if out is not None:
            driving.begin_capsule(prompt, out, folder=folder or Path(), once=once)
            return going.go_on(InFile(file=out, module=None, folder=folder, model=model), as_json, stop=stop)
        with driving.workbench() as bench:
            session = bench.create(prompt, folder=folder or Path(), once=once)
            kept = InStore(bench=bench, session=session, folder=folder, model=model)
            return going.go_on(kept, as_json, stop=stop)


def insist_on_one_way(*, detach: bool, foreground: bool) -> None:
    """Raise UsageError where a session is to run in the background and in this process."""
    if detach and foreground:
        raise UsageError("--detach is for sessions that the daemon runs, so not with --foreground or -o.")


def _in_daemon(
    prompt: str, folder: Path | None, model: str | None, once: bool, detach: bool, as_json: bool
) -> int | None:
    """The exit status; None where no daemon runs, and none is to be started."""
    with Wakeups() as wakeups:
        with attending.runs(starts=detach or os.isatty(0)) as runs:
            if runs is None:
                return None
            begun = runs.begin(
                prompt,
                folder=folder or Path(),
                once=once,
                model=attending.model(model),
                environment=attending.environment(),
            )
        kept = InDaemon(session=begun.session, folder=folder, model=model)
        return attached.begun(kept, as_json) if detach else attached.drive(kept, wakeups, as_json=as_json, tail=False)
