"""A handoff under way, as it is told to who watches: its stage, what it did to state and to ownership, what to do."""

from __future__ import annotations

from dataclasses import replace

from hhd.base.errors import Exit
from hhd.node.answers.handoff import Moved
from hhd.node.handoff.going import Going
from hhd.node.handoff.words import ended, sentence_of
from hhd.node.refused import short
from hhd_protocol.handoff import Please, Side, Stage


def moved(going: Going, name: str) -> Moved:
    """How it stands, for who watches; `name`: of the other device.

    At the source it is over for a person once the target has it and has begun with it.
    """
    one = going.one
    gone = one.side is Side.SOURCE and one.stage in (Stage.ACKNOWLEDGED, Stage.CLEANED)
    stage, over = (Stage.ACKNOWLEDGED, going.begun) if gone else (one.stage, one.over)
    continuity, ownership, status, way = ended(one.record, name) if over else ("", "", Exit.DONE, "")
    if going.refused:
        status = Exit.REFUSED
    return Moved(
        transfer=going.transfer.hex(),
        session=going.session.hex(),
        stage=stage.value,
        sentence=sentence_of(one.record, name),
        notes=going.notes,
        over=over,
        status=int(status),
        continuity=continuity,
        ownership=ownership,
        way=going.way or way,
        pause_ms=going.pause_ms,
    )


def uncertain(going: Going, name: str) -> Moved:
    """How it stands, for who watches, when a target says nothing after the release."""
    return Moved(
        transfer=going.transfer.hex(),
        session=going.session.hex(),
        stage=going.one.stage.value,
        sentence=f"It is released, and {name} has not said that it took it; it does by itself, once it is back.",
        over=True,
        status=int(Exit.UNCERTAIN),
        continuity=f"all of it is on {name}, compared by its digests",
        ownership=f"released to {name}; it is no longer this device's",
        way=f"hhd transfers; if {name} is gone: hhd takeover {short(going.session)} --reason TEXT",
    )


def silent(please: Please, owner: str, target: str, released: bool) -> Moved:
    """How it stands, for who asked `owner` for a handoff, when it says nothing more; `released`: it had said that."""
    name = short(please.session)
    return Moved(
        transfer=please.transfer.hex(),
        session=please.session.hex(),
        stage=Stage.RELEASED.value if released else Stage.NONE.value,
        sentence=f"{owner} says nothing more of it.",
        over=True,
        status=int(Exit.UNCERTAIN),
        continuity="what arrived is not known here",
        ownership=f"released to {target}" if released else f"not known here: {owner}, or {target} if it was released",
        way=f"hhd show {name}; or hhd transfers on {owner}",
    )


def quiet(please: Please, last: Moved | None, owner: str, *, linked: bool) -> Moved:
    """For who asked `owner` for a handoff: nothing more is heard of it for some time; `last`: what was said last."""
    how = "has said nothing more for some seconds" if linked else "is not connected any more, so nothing is heard of it"
    return Moved(
        transfer=please.transfer.hex(),
        session=please.session.hex(),
        stage=Stage.NONE.value if last is None else last.stage,
        sentence=f"{owner} {how}; it goes on without this device, and is waited for here.",
    )


def stated(moved: Moved, owner: str, target: str) -> Moved:
    """How it ended, as `owner` said it to who asked for the handoff, with what became of state and ownership."""
    if moved.stage == Stage.ACKNOWLEDGED.value:
        continuity, ownership = f"all of it arrived on {target}, compared by its digests", f"{target} has it"
    elif moved.stage in (Stage.NONE.value, Stage.ABORTED.value):
        continuity, ownership = "nothing was changed", f"{owner} kept it, and goes on with it"
    else:
        return moved
    return replace(moved, continuity=continuity, ownership=ownership)
