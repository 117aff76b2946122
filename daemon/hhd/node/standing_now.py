"""How a session that does not run here is, and what it asks: for one who attaches to it."""

from __future__ import annotations

import contextlib

from hhd.base.errors import Exit, UserError
from hhd.node import listing, naming
from hhd.node.control import ControlService
from hhd.node.listed import Listed, State
from hhd.node.naming import ID_SHOWN
from hhd.node.pair import question_id
from hhd_protocol import live
from hhd_protocol.ids import SessionId


def standing_now(
    control: ControlService, session: SessionId
) -> tuple[live.State, live.Question | live.Listening | None]:
    """Return how `session` is, and what it asks a person, if it waits for one; raises UsageError for none."""
    found = listing.now(naming.session(control.store, session.hex()), control.store)
    return _state(found), _ask(control, found)


def _state(found: Listed) -> live.State:
    shown = found.id.hex()[:ID_SHOWN]
    if found.state is State.PAUSED and found.waiting:  # Its process ended before it made a step.
        found = found._replace(state=State.CUT_OFF)
    name, sentence, way, status = {
        State.RUNNING: ("running", "Another process of yours runs it; what it does is told there.", "", Exit.REFUSED),
        State.WAITING: ("waiting", _waits(found), "", Exit.DONE if found.waiting == "input" else Exit.REFUSED),
        State.PAUSED: ("paused", "It is paused.", f"hhd resume {shown}", Exit.DONE),
        State.CUT_OFF: ("ended", found.waiting or "It was cut off.", f"hhd resume {shown}", Exit.UNEXPECTED),
        State.FINISHED: ("finished", "", "", Exit.DONE),
        State.FAILED: ("ended", "It failed.", f"hhd show {shown}", Exit.UNEXPECTED),
        State.UNCERTAIN: (
            "waiting", "Something it did may have run, and waits for your word.", f"hhd settle {shown}", Exit.UNCERTAIN,
        ),
        State.FENCED: ("ended", "Another device took it over.", f"hhd heads {shown}", Exit.REFUSED),
        State.DAMAGED: ("ended", "It is damaged.", "hhd check", Exit.UNEXPECTED),
    }[found.state]  # fmt: skip
    effect = "input" if found.state is State.WAITING and found.waiting == "input" else ""
    return live.State(name=name, sentence=sentence, ways=(way,) if way else (), effect=effect, status=int(status))


def _waits(found: Listed) -> str:
    return "It waits for your words." if found.waiting == "input" else "It needs your yes before it runs."


def _ask(control: ControlService, found: Listed) -> live.Question | live.Listening | None:
    if found.state is not State.WAITING:
        return None
    if found.waiting == "input":
        return live.Listening(id="input", prompt="", why="next")
    with contextlib.suppress(UserError):  # In use elsewhere, or not to be asked about here: attaching says how it is.
        asked = control.asked(found.id.hex())
        shown = bytes.fromhex(asked.shown)
        return live.Question(id=question_id(asked.effect, shown), pages=asked.pages, shown=shown, always="")
    return None
