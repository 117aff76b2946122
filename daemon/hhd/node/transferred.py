"""Handoffs in words: how far each came, what that means for state and for ownership, and what to do next."""

from __future__ import annotations

from hhd.node import asked_notes, listing
from hhd.node.answers.transferred import Transferred
from hhd.node.asked_notes import AskedNote
from hhd.node.devices import Devices
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import notes as handoff_notes
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.words import GONE, REMOVED
from hhd.node.refused import short
from hhd.store.store import Store
from hhd_protocol.crypto import device_text
from hhd_protocol.handoff import OVER, Record, Side, Stage
from hhd_protocol.ids import DeviceId

_CONTINUITY = {
    (Side.SOURCE, Stage.OFFERED): "nothing was sent for it yet",
    (Side.SOURCE, Stage.ADMITTED): "its state is on the way",
    (Side.SOURCE, Stage.STAGED): "the last of its state is on the way",
    (Side.SOURCE, Stage.READY): "all of it is there, compared by its digests",
    (Side.SOURCE, Stage.RELEASED): "all of it is in the checkpoint that the release names",
    (Side.TARGET, Stage.ADMITTED): "its state is on the way",
    (Side.TARGET, Stage.READY): "all of it is here, compared by its digests",
    (Side.TARGET, Stage.TAKEN): "all of it is here, compared by its digests",
}


def listed(store: Store, devices: Devices) -> list[Transferred]:
    """Return every handoff that this device knows of, newest first, and the last ones that it only asked for."""
    had_part = [told(store, devices, record) for record in handoff_journal.every(store)]
    known = {one.transfer for one in had_part}
    asked = [said(store, devices, note) for note in asked_notes.every(store) if note.transfer.hex() not in known]
    return sorted((*asked, *had_part), key=lambda one: -one.at_ms) if asked else had_part


def said(store: Store, devices: Devices, note: AskedNote) -> Transferred:
    """Say what was said last of a handoff between two other devices that was asked for here."""
    entry = listing.get(store, note.session)
    owner, target = _named(devices, note.owner), _named(devices, note.target)
    continuity, ownership = "what arrived is not known here", f"{owner} had it when it was last heard of"
    match note.stage:
        case Stage.NONE.value | Stage.ABORTED.value if note.over:
            continuity, ownership = "nothing was changed", f"{owner} kept it"
        case Stage.RELEASED.value:
            ownership = f"released to {target}"
        case Stage.ACKNOWLEDGED.value:
            continuity, ownership = "all of it arrived, compared by its digests", f"{target} has it"
    return Transferred(
        transfer=note.transfer.hex(),
        session=note.session.hex(),
        title="" if entry is None else entry.title,
        peer=devices.shown(note.target),
        outgoing=False,
        stage="asked for" if note.stage == Stage.NONE.value else note.stage,
        over=note.over,
        continuity=continuity,
        ownership=ownership,
        why=note.sentence,
        way=""
        if note.over
        else f"that is what {owner} said last; more: hhd transfers there, hhd show {short(note.session)}",
        at_ms=note.at_ms,
        asked_of=devices.shown(note.owner),
    )


def _named(devices: Devices, device: DeviceId) -> str:
    return devices.named(device) or f"device {device_text(device)[:9]}"


def told(store: Store, devices: Devices, record: Record) -> Transferred:
    """Say how the handoff of `record` stands."""
    entry = listing.get(store, record.session)
    peer = _named(devices, record.peer)
    return Transferred(
        transfer=record.transfer.hex(),
        session=record.session.hex(),
        title="" if entry is None else entry.title,
        peer=devices.shown(record.peer),
        outgoing=record.side is Side.SOURCE,
        stage=record.stage.value,
        over=record.stage in OVER,
        continuity=_CONTINUITY.get((record.side, record.stage), _over(record)),
        ownership=_ownership(record, peer),
        why=record.why,
        way=_way(record, peer, begun=handoff_steps.is_opened(store, record.transfer)),
        at_ms=record.at_ms,
        notes=handoff_notes.of(store, record.transfer),
    )


def _over(record: Record) -> str:
    match record.stage:
        case Stage.ABORTED:
            return "nothing was changed"
        case Stage.SUPERSEDED:
            return GONE[0] if record.why == REMOVED else "what was done on either side is kept as a head"
    return "all of it arrived, compared by its digests"


def _ownership(record: Record, peer: str) -> str:
    outgoing = record.side is Side.SOURCE
    match record.stage:
        case Stage.RELEASED:
            return f"released to {peer}, which has not said that it took it; it is no longer this device's"
        case Stage.TAKEN | Stage.ACKNOWLEDGED | Stage.CLEANED:
            return f"{peer} has it" if outgoing else "this device has it"
        case Stage.ABORTED:
            return "this device kept it" if outgoing else f"{peer} kept it"
        case Stage.SUPERSEDED if record.why == REMOVED:
            return GONE[1]
        case Stage.SUPERSEDED:
            return (
                "this device had taken it before its store was put back"
                if record.denied
                else "who a newer record names"
            )
    return "this device has it" if outgoing else f"{peer} has it"


def _way(record: Record, peer: str, *, begun: bool) -> str:
    """What to do next: something for each that is open, for one that is over only where there is.

    `begun`: what was taken is here, files and all, and a daemon has done what it does by itself; what came in a file is
    begun by nobody but a person.
    """
    name = short(record.session)
    match record.side, record.stage:
        case Side.SOURCE, Stage.OFFERED:
            return f"nothing to do: {peer} is being asked, and it goes on here meanwhile"
        case Side.SOURCE, Stage.ADMITTED | Stage.STAGED:
            return f"nothing to do: it goes on by itself while {peer} is linked, and is given up once its time is over"
        case Side.SOURCE, Stage.READY:
            return f"nothing to do: it is released to {peer} now, or goes on here"
        case Side.SOURCE, Stage.RELEASED:
            way = f"hhd takeover {name} --reason TEXT"
            return f"it goes on once {peer} is back, or takes its file; if that never is: {way}"
        case Side.TARGET, Stage.ADMITTED | Stage.READY:
            return f"nothing to do: {peer} sends the rest and hands it on, or keeps it"
        case Side.TARGET, Stage.TAKEN if begun:
            return f"if it does not run here: hhd resume {name}; {peer} hears that it came once it is linked"
        case Side.TARGET, Stage.TAKEN:
            return f"it goes on here by itself; if it does not: hhd resume {name}"
        case _, Stage.ACKNOWLEDGED:
            return "nothing to do: the handoff is being closed"
        case _, Stage.SUPERSEDED if record.why == REMOVED:
            return ""
        case _, Stage.SUPERSEDED:
            return f"hhd takeover {name} --reason TEXT" if record.denied else f"hhd heads {name}"
        case Side.SOURCE, Stage.ABORTED:
            return f"if it does not run: hhd resume {name}"
    return ""
