"""The commands `hhd capsule ...`: one human line each, or one JSON object with `--json`."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import click

from hhd.app import capsules
from hhd.base.errors import UsageError
from hhd.base.text import visible_parts
from hhd.cli import going
from hhd.cli.capsule_report import SLICE_MS, described, described_seal, show
from hhd.cli.numbers import Fraction
from hhd.cli.run import FOLDER, MODEL, settling
from hhd.cli.typed import typed

_FILE = click.argument("file", type=click.Path(path_type=Path, readable=False))
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_MODULE = click.option(
    "--module",
    type=click.Path(path_type=Path, readable=False),
    help="The module of a capsule made with --without-module.",
)


@click.group("capsule")
def command() -> None:
    """Make, step, run and look at capsules: one session in one file."""


@command.command("new")
@click.argument("program")
@click.option("-o", "--out", type=click.Path(path_type=Path, readable=False), required=True, help="The file to make.")
@click.option("--arg", "args", multiple=True, metavar="K=V", help="An argument of the program; repeat for more.")
@click.option("--without-module", is_flag=True, help="Leave the program itself out of the file.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@_JSON
def new(program: str, out: Path, args: tuple[str, ...], without_module: bool, force: bool, as_json: bool) -> None:
    """Make a capsule of PROGRAM: spin, agent, or the path of a .wasm file."""
    report = capsules.new(program, out, args=_pairs(args), embed=not without_module, force=force)
    line = f"{typed(out)}: {report.capsule.program}, not begun yet; go on with: hhd capsule run {typed(out)}"
    show(report.fields(), line, as_json)


@command.command("step")
@_FILE
@click.option("--slice-ms", type=Fraction(min=0), help=f"Run for about this long. [default: {SLICE_MS}]")
@click.option("--slice-checks", type=click.IntRange(min=1), help="Run for exactly this many interrupt checks.")
@click.option(
    "--reply-file",
    type=click.Path(path_type=Path, readable=False),
    help="Answer the waiting effect with this file's bytes.",
)
@_MODULE
@FOLDER
@MODEL
@_JSON
def step(
    file: Path,
    slice_ms: float | None,
    slice_checks: int | None,
    reply_file: Path | None,
    module: Path | None,
    folder: Path | None,
    model: str | None,
    as_json: bool,
) -> int:
    """Advance FILE by one slice: restore, run, be interrupted, save.

    With -C or --model the effect it waits for is answered first: by the model, the tools of the folder, or you.
    """
    if slice_ms is not None and not math.isfinite(slice_ms):
        raise UsageError("--slice-ms takes a number of milliseconds.")
    return going.step(file, slice_ms, slice_checks, reply_file, module, folder, model, as_json)


@command.command("run")
@_FILE
@_MODULE
@FOLDER
@MODEL
@settling
@_JSON
def run(
    file: Path,
    module: Path | None,
    folder: Path | None,
    model: str | None,
    ran: str | None,
    did_not_run: bool,
    again: bool,
    as_json: bool,
) -> int:
    """Advance FILE until it is finished or waits for you; Ctrl-C pauses it.

    What it asks for is answered here: by the model, by the tools of the folder, by you. A capsule never chooses the
    folder, and one that was not made here by you does nothing before you agreed.
    """
    return going.run(file, module, folder, model, as_json, settle=going.word(ran, did_not_run, again))


@command.command("info")
@_FILE
@_JSON
def info(file: Path, as_json: bool) -> None:
    """Say what is in FILE."""
    if (seal := capsules.seal(file)) is not None:
        show(seal.fields(), "\n".join(described_seal(seal)), as_json)
        return
    report = capsules.info(file)
    fields = report.fields()
    if as_json:
        value = report.capsule
        origin = value.origin
        fields |= {
            "module": value.module.digest.hex(),
            "module_embedded": value.module.packed is not None,
            "memory_bytes": value.execution.memory_bytes if value.execution else 0,
            "effects_settled": value.journal.settled,
            "path": value.path_hint,
            "origin": None
            if origin is None
            else {"session": origin.session.hex(), "checkpoint": origin.checkpoint.hex(), "device": origin.device},
        }
    show(fields, "\n".join(described(report)), as_json)


@command.command("transcript")
@_FILE
def transcript(file: Path) -> None:
    """Print what the program in FILE said: its very bytes, control characters made visible on a terminal."""
    parts = capsules.transcript(file)
    if sys.stdout.isatty():
        for text in visible_parts(parts):
            sys.stdout.write(text)
    else:
        for part in parts:
            sys.stdout.buffer.write(part)
    sys.stdout.flush()


@command.command("show")
@_FILE
@click.option("--full", is_flag=True, help="Show outputs and summaries whole.")
def conversation(file: Path, full: bool) -> None:
    """Render the conversation in FILE."""
    from hhd.cli.conversation import Conversation, events
    from hhd.cli.paint import Paper

    rendered = Conversation(paper=Paper.of(sys.stdout), whole=full)
    for line in events(capsules.transcript(file)):
        rendered.show(line)


@command.command("fork")
@_FILE
@click.argument("new", type=click.Path(path_type=Path, readable=False))
@_JSON
def fork(file: Path, new: Path, as_json: bool) -> None:
    """Copy FILE to NEW, which must not exist; both go on by themselves from here."""
    report = capsules.fork(file, new)
    show(report.fields(), f"{typed(new)}: a copy of {typed(file)}; each goes its own way from here", as_json)


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise UsageError(f"--arg takes KEY=VALUE, and {each} is not of that form.")
        if key in pairs:
            raise UsageError(f"--arg names {key} twice.")
        pairs[key] = value
    return pairs
