"""What the commands on capsules print: one line for a person, or one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import capsules
from hhd.base.errors import Exit, RefusedError, RolledBackError
from hhd.base.text import visible, visible_bytes
from hhd.cli.typed import typed
from hhd_protocol.limits import EFFECT_BYTES_MAX

if TYPE_CHECKING:
    from hhd.node.capsules import Report
    from hhd.node.sealed_file import SealedReport

SLICE_MS = 100
"""The slice of a step that names none."""
SHOWN_BYTES = 400
"""How much of a waiting request `info` shows."""


def advance(as_json: bool, act: Callable[[], Report]) -> int:
    """Do `act` and print what came of it; return the exit status."""
    try:
        report = act()
    except RolledBackError as error:
        return failed(error, as_json)
    show(report.fields(), went(report), as_json)
    return int(Exit.DONE)


def failed(error: RolledBackError, as_json: bool) -> int:
    """Say that the program failed; return the exit status."""
    if not as_json:
        raise error
    import json

    nothing = dict.fromkeys(("effect", "dirty_pages", "capsule_bytes", "wall_ms"))
    print(json.dumps({"status": "failed", **nothing, "error": str(error), "exit": int(error.exit)}))
    print(f"hhd: {visible(str(error))}", file=sys.stderr)
    return int(error.exit)


def step_call(
    file: Path, slice_ms: float | None, slice_checks: int | None, reply_file: Path | None, module: Path | None
) -> Report:
    """Make the step that the words of a command line ask for."""
    if slice_ms is None and slice_checks is None:
        slice_ms = SLICE_MS
    reply = None if reply_file is None else _reply(reply_file)
    return capsules.step(file, milliseconds=slice_ms, checks=slice_checks, reply=reply, module=module)


def show(fields: dict[str, object], line: str, as_json: bool) -> None:
    """Print the one JSON object, or the line for a person."""
    if as_json:
        import json

        line = json.dumps(fields)
    print(line)


def went(report: Report) -> str:
    """One line on what a step or a run did."""
    name, effect = typed(report.path), report.capsule.journal.pending
    done = f"{report.checks:,} checks in {report.wall_ms:,.0f} ms, {report.dirty_pages:,} pages changed"
    if effect is not None:
        return f"{name}: waiting for {effect.op} (effect {effect.index}) after {done}; see hhd capsule info {name}"
    if report.status == "finished":
        return f"{name}: finished after {report.capsule.checks:,} checks; see hhd capsule transcript {name}"
    return f"{name}: interrupted after {done}, {report.capsule_bytes:,} bytes; go on with: hhd capsule run {name}"


def described(report: Report) -> Iterator[str]:
    """The lines of `info`."""
    value, effect = report.capsule, report.capsule.journal.pending
    embedded = "inside" if value.module.packed is not None else "left out"
    yield f"{typed(report.path)}: a capsule of {visible(value.program, one_line=True)}, {report.status}"
    yield f"  run so far   {value.checks:,} checks, {value.steps:,} {'step' if value.steps == 1 else 'steps'}"
    if value.execution is not None:
        yield f"  memory       {value.execution.memory_bytes:,} bytes, {report.dirty_pages:,} pages changed"
    yield f"  transcript   {len(value.transcript):,} bytes"
    yield f"  file         {report.capsule_bytes:,} bytes, not encrypted"
    yield f"  module       {value.module.digest.hex()[:16]}, {value.module.length:,} bytes, {embedded}"
    yield f"  effects      {value.journal.settled:,} settled"
    if effect is not None:
        shown = visible_bytes(effect.request[:SHOWN_BYTES]).replace("\n", " ")
        more = "" if len(effect.request) <= SHOWN_BYTES else f" ... ({len(effect.request):,} bytes)"
        yield f"  waits for    {effect.op} (effect {effect.index}, {effect.state.name.lower()}): {shown}{more}"
    if value.origin is not None:
        yield f"  says it is   from {visible(value.origin.device, one_line=True)}, session {value.origin.session.hex()}"
    if value.path_hint is not None:
        yield f"  says it ran  in {visible(value.path_hint, one_line=True)} (shown only, never used)"
    yield f"  content      {value.content_digest().hex()}"
    yield f"  line         {value.line.hex()}"


def described_seal(seal: SealedReport) -> Iterator[str]:
    """The lines of `info` on a sealed capsule."""
    yield f"{typed(seal.path)} {seal.sentence}"
    yield f"  file         {seal.capsule_bytes:,} bytes, sealed"
    if seal.to is None:
        yield f"  passphrase   {seal.operations} passes over {seal.memory_bytes:,} bytes to try one"


def _reply(path: Path) -> bytes:
    """The bytes of a reply file (which may be a pipe), at most as long as a reply may be."""
    try:
        with open(path, "rb") as file:
            raw = file.read(EFFECT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RefusedError(f"The reply file {path} cannot be read ({reason}); nothing was changed.") from None
    return raw
