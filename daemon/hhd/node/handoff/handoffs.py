"""Handoffs of sessions between this device and others: a part of the daemon that carries `hhd_protocol.handoff` out.

Each handoff has one turn at a time: what happens is looked up, and its outputs are carried out in order, before the
next thing happens. What takes long (staging, pausing, loading) is a task of its own, and what comes of it happens in
turn. Whatever fails before the release gives the handoff up, and the session goes on where it was; after it only the
target acts. A daemon that starts goes on with what its journals say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from hhd.base.errors import RefusedError
from hhd.node import naming
from hhd.node.answers.handoff import Moved
from hhd.node.control import ControlService
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.again import Again
from hhd.node.handoff.asked import Askings
from hhd.node.handoff.going import DEADLINE_SECONDS, kept, now_ms
from hhd.node.handoff.heard import Heard
from hhd.node.handoff.inquiries import CHANNEL as INQUIRY
from hhd.node.handoff.inquiries import Inquiries
from hhd.node.handoff.progress import moved
from hhd.node.handoff.turns import Turns
from hhd.node.handoff.ways import CHANNEL, Ways
from hhd.node.handoff.wishes import Wishes
from hhd.node.refused import short
from hhd.node.service import Verb
from hhd_protocol.handoff import Event, Happening, Side
from hhd_protocol.ids import DeviceId, SessionId, TransferId
from hhd_protocol.limits import HANDOFF_DEADLINE_MS_MAX


class Handoffs:
    """A part of the daemon (`hhd.node.service.Part`); all its methods are for the loop's thread."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._ready = asyncio.Event()
        self.turns = Turns(self._ways)
        self._wishes = Wishes(self._ways, self.turns)
        self._again = Again(self._ways, self.turns)
        self.on_change, self.on_stage = self.turns.on_change, self.turns.on_stage
        self._inquiries = Inquiries(self._ways, self._ready)
        self._askings = Askings(self._ways)
        self._heard = heard = Heard(
            self._ways,
            self.turns,
            wishes=self._wishes,
            askings=self._askings,
            inquiries=self._inquiries,
            ready=self._ready,
        )
        ways.peers.serve(CHANNEL, heard.serve)
        ways.peers.serve(INQUIRY, self._inquiries.serve)
        ways.peers.on_linked(heard.linked)

    # As a part

    def verbs(self) -> dict[str, Verb]:
        """What can be asked: a handoff, from any device, told step by step; and giving one up."""
        return {
            "transfer": Verb(self.transfer, changes=True),
            "transfer_abort": Verb(self.transfer_abort, changes=True),
        }

    async def run(self) -> None:
        """Go on with what the journals say, and look after what is under way."""
        async with asyncio.TaskGroup() as self._ways.tasks:
            await self._ways.read(self._ways.learn_names)
            await self._again.recover()
            self._ready.set()
            self._again.begin()
            await self._again.look_after()

    async def stop(self) -> None:
        """Nothing has to come to rest: each stage is durable. What was prepared goes."""
        for going in list(self.turns.goings.values()):
            await self.turns.acts.rehearsal.drop_files(going)

    def learned(self, session: SessionId) -> None:
        """Statements of a session came: they may decide a handoff."""
        for going in self.turns.goings.values():
            if going.session == session and self._ways.tasks is not None:
                self._ways.soon(self.turns.watch(going))

    def regrouped(self) -> None:
        """Who is a member changed: a device that was put out is handed nothing."""
        for going in self.turns.goings.values():
            if self._ways.tasks is not None:
                self._ways.soon(self.turns.watch(going))

    def moving(self, session: SessionId) -> str | None:
        """The name of the device that a session of this one is being handed to; "": it came, and is about to begin
        here. None where it stays as it is."""
        for going in self.turns.goings.values():
            if going.session != session or going.one.over or going.opened:
                continue
            return self._ways.names(going.peer) if going.one.side is Side.SOURCE else ""
        return None

    # Verbs

    async def transfer(
        self,
        name: str,
        to: str,
        cancel_running: bool = False,
        dry_run: bool = False,
        deadline_ms: int = 0,
    ) -> AsyncIterator[Moved]:
        """Hand the session `name` to the device `to` ("here": this one), from whichever device has it; tell each step.

        `cancel_running`: an effect that runs is cancelled, not waited for. `dry_run`: only ask whether it could run
        there, and move nothing. `deadline_ms`: until it is given up, 0 for ten minutes. Who leaves before the release
        gives it up. Raises RefusedError, with nothing changed.
        """
        await self._ready.wait()
        deadline_ms = min(deadline_ms or int(DEADLINE_SECONDS * 1000), HANDOFF_DEADLINE_MS_MAX)
        session, target, owner = await self._ways.read(lambda control: self._meant(control, name, to))
        if owner == target:
            raise RefusedError(f"Session {short(session)} is there already; nothing was changed.")
        if dry_run:
            yield await self._inquiries.could_go(session, owner, target)
            return
        if owner != self._ways.me:
            async for step in self._askings.follow(session, owner, target, cancel_running, deadline_ms):
                yield step
            return
        going = await self._wishes.wish(session, target, cancel_running, deadline_ms)
        queue: asyncio.Queue[Moved] = asyncio.Queue()
        going.watching.add(queue)
        try:
            self._ways.soon(self.turns.happen(going, Event(what=Happening.WISHED, at_ms=now_ms())))
            async for step in self._wishes.followed(going, queue):
                yield step
        finally:
            going.watching.discard(queue)
            if going.one.may_be_given_up:
                why = "The person who asked for it left before it was released."
                self._ways.soon(self.turns.happen(going, Event(what=Happening.CANCELLED, why=why, at_ms=now_ms())))

    async def transfer_abort(self, name: str, transfer: str = "") -> Moved:
        """Give up the handoff of the session `name`, unless it is released; say how it stands then.

        `transfer`: that one alone, in hex. It may have been asked for here, of another device. Raises RefusedError
        where there is none.
        """
        await self._ready.wait()
        session = (await self._ways.store(lambda control: naming.session(control.store, name))).id
        asked = await self._askings.leave(session, transfer)
        if asked is not None:
            return asked
        for going in list(self.turns.goings.values()):
            if going.session == session and not going.one.over and transfer in ("", going.transfer.hex()):
                event = Event(what=Happening.CANCELLED, why="A person gave it up.", at_ms=now_ms())
                await self.turns.happen(going, event)
                return moved(going, self._ways.names(going.peer))
        record = None
        if (known := _transfer(transfer)) is not None:
            record = await self._ways.read(lambda control: handoff_journal.last(control.store, known))
        if record is None or record.session != session:
            raise RefusedError(f"No handoff of session {short(session)} is under way.")
        return moved(kept(record, self._ways.me), self._ways.names(record.peer))

    def _meant(self, control: ControlService, name: str, to: str) -> tuple[SessionId, DeviceId, DeviceId]:
        self._ways.learn_names(control)
        session = naming.session(control.store, name).id
        target = control.me.id if to == "here" else handoff_steps.device_named(control.store, control.me, to)
        handoff_steps.insist_on_target(control.store, control.me, target)
        return session, target, handoff_steps.owner_of(control.store, control.me, session)


def _transfer(name: str) -> TransferId | None:
    """The handoff that has `name` as its whole id in hex; None where that is the id of none."""
    try:
        raw = bytes.fromhex(name)
    except ValueError:
        return None
    return TransferId(raw) if len(raw) == len(TransferId(bytes(16))) else None
