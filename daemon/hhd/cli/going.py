"""Going on with a session from the command line: run it, put its questions to the person, say how it ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hhd import app
from hhd.base.errors import RefusedError, RolledBackError, UserError
from hhd.base.text import visible
from hhd.cli.capsule_report import advance, failed, show, step_call, typed, went

if TYPE_CHECKING:
    from hhd.cli.foreground import Foreground
    from hhd.node.ended import Ended
    from hhd.runtime.outcomes import StopFlag

ANSWERED_HERE = frozenset({"model", "tool", "input", "machine"})
"""The effects that hhd answers itself; a program that asks for another waits for `--reply-file`."""


def run(
    file: Path,
    module: Path | None,
    folder: Path | None,
    model: str | None,
    as_json: bool,
    settle: tuple[str, str] | None = None,
) -> int:
    """`hhd capsule run`: a program that asks for nothing needs no folder and no model, so these come second."""
    with app.stop_on_signals() as stop:
        try:
            report = app.capsule_run(file, module=module, stop=stop)
        except RolledBackError as error:
            return failed(error, as_json)
        effect = report.capsule.journal.pending
        if effect is None or effect.op not in ANSWERED_HERE:
            if settle is not None:
                raise RefusedError("There is nothing to settle here: the session waits for nothing that was begun.")
            show(report.fields(), went(report), as_json)
            return 0
        return go_on(file, module, folder, model, as_json, settle, stop=stop)


def go_on(
    file: Path,
    module: Path | None,
    folder: Path | None,
    model: str | None,
    as_json: bool,
    settle: tuple[str, str] | None = None,
    *,
    stop: StopFlag,
) -> int:
    """Drive a session to its end, or to where it waits; say how it ended and return the exit status.

    `settle`: the person's word on an effect that may have run (`hhd.app.run_on`). `stop`: of `hhd.app.stop_on_signals`,
    which the caller holds, so that no Ctrl-C is lost between what it did and this.
    """
    try:
        return _driven(file, module, folder, model, as_json, settle, stop)
    except OSError as error:  # Of what it would say, mostly: a pipe that nobody reads. What it did is in its file.
        raise UserError(f"The system said: {error.strerror or error}. {how_to_go_on(file, folder, model)}") from error


def _driven(
    file: Path,
    module: Path | None,
    folder: Path | None,
    model: str | None,
    as_json: bool,
    settle: tuple[str, str] | None,
    stop: StopFlag,
) -> int:
    from hhd.cli.foreground import Foreground

    face = Foreground(quiet=as_json)
    try:
        ended = app.run_on(
            file, folder=folder or Path(), model=model, face=face, stop=stop, module=module, settle=settle
        )
    except UserError as error:
        face.paper.end_line()
        error.args = (f"{error} {how_to_go_on(file, folder, model)}",)
        if isinstance(error, RolledBackError):
            return failed(error, as_json)
        raise
    on = "" if ended.end.value == "finished" else how_to_go_on(file, folder, model)
    if as_json:
        _show(file, ended)
    else:
        _tell(ended, on, face)
    return ended.status


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
    """`hhd capsule step`; with a folder or a model it also answers the effect that waits, one at most."""
    if (folder is None and model is None) or reply_file is not None:
        return advance(as_json, lambda: step_call(file, slice_ms, slice_checks, reply_file, module))
    from hhd.cli.foreground import Foreground

    face = Foreground(quiet=as_json)
    ended = app.answer_one(file, folder=folder or Path(), model=model, face=face)
    face.paper.end_line()
    if ended is None:
        return advance(as_json, lambda: step_call(file, slice_ms, slice_checks, None, module))
    if as_json:
        _show(file, ended)
    else:
        _tell(ended, how_to_go_on(file, folder, model), face)
    return ended.status


def how_to_go_on(file: Path, folder: Path | None, model: str | None) -> str:
    """The command that goes on with a session, as a sentence."""
    import shlex

    words = f"hhd capsule run {typed(file)}"
    words += f" -C {typed(folder)}" if folder is not None else ""
    words += f" --model {shlex.quote(visible(model, one_line=True))}" if model is not None else ""
    return f"Go on with: {words}"


def _show(file: Path, ended: Ended) -> None:
    said: dict[str, object] = {"model_calls": ended.spent.calls, "tokens": ended.spent.tokens}
    said |= {"sentence": ended.sentence, "ways": list(ended.ways), "capsule": str(file), "exit": ended.status}
    show({**app.capsule_info(file).fields(), "status": ended.end.value, **said}, "", True)


def _tell(ended: Ended, on: str, face: Foreground) -> None:
    face.paper.end_line()
    if ended.spent.calls:
        print(f"hhd: So far {ended.spent}.", file=sys.stderr)
    if words := " ".join(part for part in (visible(ended.sentence), on) if part):
        print(f"hhd: {words}", file=sys.stderr)
    for way in ended.ways:  # One that is an option of the command just named says so by its dashes.
        print(f"hhd:   {'with' if way.startswith('--') else 'or'} {visible(way, one_line=True)}", file=sys.stderr)
