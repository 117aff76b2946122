"""The command `hhd run`: an agent at work in a folder, in the foreground."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from hhd.app import driving, signals
from hhd.cli import going
from hhd.cli.kept import InFile, InStore

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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and the conversation nowhere.")
def command(prompt: str, folder: Path | None, model: str | None, out: Path | None, once: bool, as_json: bool) -> int:
    """Let the agent do what PROMPT says in a folder.

    The session lives in the store of this device at every moment, sealed; hhd resume goes on with it. Ctrl-C pauses it;
    what you type while it works is heard at its next step; the end of input (Ctrl-D) leaves it waiting.
    """
    with signals.stop_on_signals() as stop:
        if out is not None:
            driving.begin_capsule(prompt, out, folder=folder or Path(), once=once)
            return going.go_on(InFile(file=out, module=None, folder=folder, model=model), as_json, stop=stop)
        with driving.workbench() as bench:
            session = bench.create(prompt, folder=folder or Path(), once=once)
            kept = InStore(bench=bench, session=session, folder=folder, model=model)
            return going.go_on(kept, as_json, stop=stop)
