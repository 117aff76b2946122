"""What a person is shown of a capsule that was not made here by them, before anything that it asks for is done."""

from __future__ import annotations

import json
from pathlib import Path

from hhd.base.text import visible
from hhd.effects.approvals import Question
from hhd.node import programs
from hhd_protocol.capsule import Capsule
from hhd_protocol.journal import Entry, State

_STATES = {
    State.ASKED: "not begun yet",
    State.STARTED: "begun and perhaps done, wholly or in part",
    State.UNCERTAIN: "begun and perhaps done, wholly or in part",
}


def whence(path: Path, capsule: Capsule, pending: Entry, folder: Path) -> Question:
    """Where `capsule` says it is from, which folder it would work in, what it waits for and would do next."""
    origin = capsule.origin
    known = programs.builtin_module(capsule.module.digest) is not None
    lines = [
        f"file: {_line(str(path))}",
        f"it says it is from: {_line(origin.device) if origin else 'it does not say'}",
        f"it says it worked in: {_line(capsule.path_hint) if capsule.path_hint else 'it does not say'}",
        f"program: {_line(capsule.program)}, "
        + (
            "which comes with hhd"
            if known
            else f"WHICH DOES NOT COME WITH THIS HHD ({capsule.module.digest.hex()[:16]})"
        ),
        f"effects so far: {capsule.journal.settled + (capsule.journal.live is not None)}",
        f"it would work in: {_line(str(folder))}",
        *described(pending),
    ]
    return Question(title="This capsule was not made here by you. Go on with it?", text="\n".join(lines))


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
