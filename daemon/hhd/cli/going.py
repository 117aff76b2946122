"""Going on with a session from the command line: run it, put its questions to the person, say how it ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import capsules, driving, signals
from hhd.base.errors import RefusedError, RolledBackError, UsageError, UserError
from hhd.base.text import visible
from hhd.cli.capsule_report import advance, failed, show, step_call, went
from hhd.cli.kept import Driven, InFile, Kept

if TYPE_CHECKING:
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
    with signals.stop_on_signals() as stop:
        try:
            report = capsules.run(file, module=module, stop=stop)
        except RolledBackError as error:
            return failed(error, as_json)
        effect = report.capsule.journal.pending
        if effect is None or effect.op not in ANSWERED_HERE:
            if settle is not None:
                raise RefusedError("There is nothing to settle here: the session waits for nothing that was begun.")
            show(report.fields(), went(report), as_json)
            return 0
        kept = InFile(file=file, module=module, folder=folder, model=model, settle=settle)
        return go_on(kept, as_json, stop=stop)


def go_on(kept: Driven, as_json: bool, *, stop: StopFlag) -> int:
    """Drive a session to its end, or to where it waits; say how it ended and return the exit status.

    `stop`: of `signals.stop_on_signals`, which the caller holds, so that no Ctrl-C is lost between what it did and
    this.
    """
    try:
        return _driven(kept, as_json, stop)
    except OSError as error:  # Of what it would say, mostly: a pipe that nobody reads. What it did is kept.
        raise UserError(f"The system said: {error.strerror or error}. {kept.on()}") from error


def _driven(kept: Driven, as_json: bool, stop: StopFlag) -> int:
    from hhd.cli.foreground import Foreground

    face = Foreground(quiet=as_json)
    try:
        ended = kept.go(face, stop)
    except UserError as error:
        face.paper.end_line()
        error.args = (f"{error} {kept.on()}",)
        if isinstance(error, RolledBackError):
            return failed(error, as_json)
        raise
    face.paper.end_line()
    return said(kept, ended, as_json)


def said(kept: Kept, ended: Ended, as_json: bool) -> int:
    """Say how a run ended, and return its exit status."""
    if as_json:
        _show(kept, ended)
    else:
        _tell(ended, kept.over() if ended.end.value == "finished" else kept.on())
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
    ended = driving.answer_one(file, folder=folder or Path(), model=model, face=face)
    face.paper.end_line()
    if ended is None:
        return advance(as_json, lambda: step_call(file, slice_ms, slice_checks, None, module))
    kept = InFile(file=file, module=module, folder=folder, model=model)
    if as_json:
        _show(kept, ended)
    else:
        _tell(ended, kept.on())
    return ended.status


def word(ran: str | None, did_not_run: bool, again: bool) -> tuple[str, str] | None:
    """What the person says of an effect that may have run, None if nothing; raises UsageError for two words."""
    words = [("ran", ran)] if ran is not None else []
    words += [("did-not-run", "")] * did_not_run + [("again", "")] * again
    if len(words) > 1:
        raise UsageError("--ran, --did-not-run and --again exclude one another.")
    return words[0] if words else None


def _show(kept: Kept, ended: Ended) -> None:
    said: dict[str, object] = {"model_calls": ended.spent.calls, "tokens": ended.spent.tokens}
    said |= {"sentence": ended.sentence, "ways": list(ended.ways), "exit": ended.status}
    show({**kept.fields(), "status": ended.end.value, **said}, "", True)


def _tell(ended: Ended, on: str) -> None:
    if ended.spent.calls:
        print(f"hhd: So far {ended.spent}.", file=sys.stderr)
    if words := " ".join(part for part in (visible(ended.sentence), on) if part):
        print(f"hhd: {words}", file=sys.stderr)
    others = [way for way in ended.ways if on != f"Go on with: {way}"]
    for way in others:  # One that is an option of the command just named says so by its dashes.
        print(f"hhd:   {'with' if way.startswith('--') else 'or'} {visible(way, one_line=True)}", file=sys.stderr)
