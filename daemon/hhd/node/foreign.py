"""What a person is shown of a session that was not made here by them, before anything that it asks for is done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hhd.base.text import visible
from hhd.effects.approvals import Question
from hhd.node import programs
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Entry, Journal, State

_STATES = {
    State.ASKED: "not begun yet",
    State.STARTED: "may have run, wholly or in part",
    State.UNCERTAIN: "may have run, wholly or in part",
}


@dataclass(frozen=True, kw_only=True)
class Whence:
    """Where a session says it is from: it proves nothing.

    `kind`: what it is kept as ("capsule", "session"); `label` and `place`: where it is kept. `device` and `folder`: as
    it says, None if it does not say.
    """

    kind: str
    label: str
    place: str
    device: str | None
    folder: str | None
    program: str
    module: Sha256
    journal: Journal


def question_of(whence: Whence, pending: Entry, folder: Path) -> Question:
    """Where a session says it is from, which folder it would work in, what it waits for and would do next."""
    known = programs.builtin_module(whence.module) is not None
    lines = [
        f"{whence.label}: {_line(whence.place)}",
        f"it says it is from: {_line(whence.device) if whence.device is not None else 'it does not say'}",
        f"it says it worked in: {_line(whence.folder) if whence.folder is not None else 'it does not say'}",
        f"program: {_line(whence.program)}, "
        + ("which comes with hhd" if known else f"WHICH DOES NOT COME WITH THIS HHD ({whence.module.hex()[:16]})"),
        f"effects so far: {whence.journal.settled + (whence.journal.live is not None)}",
        f"it would work in: {_line(str(folder))}",
        *described(pending),
    ]
    return Question(title=f"This {whence.kind} was not made here by you. Go on with it?", text="\n".join(lines))


def described(entry: Entry) -> list[str]:
    """A pending effect, whole, in lines that are safe to print."""
    state = _STATES.get(entry.state, "")
    if entry.op == "model":
        return [f"next: a model call with your key, {len(entry.request)} bytes of conversation ({state})"]
    try:
        shown = json.dumps(json.loads(entry.request), ensure_ascii=False, indent=2, sort_keys=True)
    except (ValueError, RecursionError):
        shown = entry.request.decode("utf-8", "surrogateescape")
    return [f"next: {entry.op} ({state}):", *(f"  | {line}" for line in visible(shown).split("\n"))]


def _line(text: str) -> str:
    return visible(text, one_line=True)
