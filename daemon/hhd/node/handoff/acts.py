"""What takes long in a handoff: looked for, staged, paused, loaded, begun; each a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from hhd.base import log
from hhd.base.errors import UserError
from hhd.node.handoff import held_back
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.going import Going, now_ms, why_of
from hhd.node.handoff.rehearsal import Rehearsal
from hhd.node.handoff.ways import Ways
from hhd.node.should_run import Note
from hhd.transports.link import LinkError
from hhd_protocol import handoff
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import Act, Begun, Event, Happening, Offer, Side, Stage
from hhd_protocol.ids import TransferId


class Acts:
    """`happen`: what came of an act is let happen, in the turn of its handoff. `goings`: all that are known."""

    def __init__(
        self, ways: Ways, goings: Mapping[TransferId, Going], happen: Callable[[Going, Event], Awaitable[None]]
    ) -> None:
        self._ways, self._goings, self._happen = ways, goings, happen
        self.rehearsal = Rehearsal(ways)

    def alone(self, going: Going, act: Act, doing: Coroutine[Any, Any, None]) -> None:
        """Begin something that takes long; the same, once more, takes the place of what was begun before."""
        before = going.busy.pop(act, None)
        if before is not None and before is not asyncio.current_task() and act not in (Act.OPEN, Act.RESUME):
            before.cancel()

        async def alone() -> None:
            try:
                await doing
            except (UserError, OSError, LinkError, FormatError) as error:
                await self._happen(going, Event(what=Happening.FAILED, why=why_of(error), at_ms=now_ms()))

        def over(task: asyncio.Task[None]) -> None:
            doing.close()  # A task that is cancelled before its first step never comes to what it was to do.
            if going.busy.get(act) is task:
                del going.busy[act]

        task = self._ways.begin(alone())
        if task is None:
            doing.close()
        else:
            going.busy[act] = task
            task.add_done_callback(over)

    async def check(self, going: Going, offer: Offer) -> None:
        """Look whether the session could run here."""
        going.called, going.size_bytes = offer.needs.folder, offer.needs.size_bytes
        try:
            fit = await self._ways.read(
                lambda control: handoff_steps.fit(control.store, control.me, offer.session, offer.needs)
            )
        except (UserError, OSError) as error:
            await self._happen(going, Event(what=Happening.UNFIT, why=why_of(error), at_ms=now_ms()))
            return
        event = Event(what=Happening.FIT, where=fit.where, notes=fit.notes, at_ms=now_ms())
        await self._happen(going, event)
        self.rehearsal.begin(going, offer.head, asked=False)  # Where all of that is here already, most of it is done.

    async def stage(self, going: Going) -> None:
        """Bring the target what it lacks, once."""
        session, head = going.session, going.one.head  # Paused, the session stands where it was found.
        if head is None and going.one.rounds == 0:
            await self._ways.workers.look(session)
        begin = time.monotonic()
        if head is None:
            head = await self._ways.read(lambda control: handoff_steps.main_of(control.store, control.me, session))
        await self._ways.syncing.wait_synced(session, going.peer, None)
        going.staged = head
        took_ms = int((time.monotonic() - begin) * 1000)
        event = handoff.round_over(going.one, took_ms=took_ms, head=head, at_ms=now_ms())
        await self._happen(going, event)

    async def pause(self, going: Going) -> None:
        """Bring the session to rest at the source."""
        session, going.resting = going.session, True
        self._ways.keep_open(going.transfer)
        if not going.paused_at:  # It rests already, where a word was lost since.
            await asyncio.gather(self.rehearsal.ask(going), self._warm(going))
            self._ways.keep_open(going.transfer)
        ran = None
        if session in self._ways.workers.running():
            ran = Note(session, *self._ways.workers.chosen(session))
        if await self._ways.store(lambda control: held_back.hold(control.store, going.transfer, session, ran)):
            going.paused_at = time.monotonic()
        await self._ways.workers.halt(session, soft=not going.one.record.cancel_running)
        head = await self._ways.read(lambda control: handoff_steps.head_of(control.store, control.me, session))
        await self._happen(going, Event(what=Happening.PAUSED, head=head, at_ms=now_ms()))

    async def _warm(self, going: Going) -> None:
        """Have all at hand that is asked of the store in the pause, while the target makes ready."""
        with contextlib.suppress(UserError, OSError):
            await self._ways.read(lambda control: handoff_steps.warm(control.store, control.me, going.session))
            await self._ways.store(lambda control: handoff_steps.warm(control.store, control.me, going.session))

    async def resume(self, going: Going) -> None:
        """Let the session run on at the source, where it ran before it was paused.

        Not where another handoff has it rest by then: that one decides whether it runs on. Nor where a
        person paused it.
        """
        going.resting = False
        if (paused := going.busy.get(Act.PAUSE)) is not None:
            paused.cancel()
        if (staged := going.busy.get(Act.STAGE)) is not None:
            staged.cancel()
        transfer = going.transfer
        if not await self._ways.store(lambda control: transfer in held_back.every(control.store)):
            return
        await self._ways.workers.pause(going.session, soft=True)  # One that is still coming to rest rests first.
        others = [other.transfer for other in self._goings.values() if other.session == going.session and other.resting]
        if others:
            await self._ways.store(lambda control: handoff_steps.held_by(control.store, transfer, others[0]))
            return
        note = await self._ways.store(lambda control: held_back.let_run(control.store, transfer))
        if note is not None:
            with contextlib.suppress(UserError, OSError):
                await self._ways.workers.start(going.session, note.folder, note.model)

    async def load(self, going: Going) -> None:
        """Load what arrived, and compare it with what was named."""
        head = going.one.head
        assert head is not None
        if going.rehearsing is not None:
            await asyncio.wait([going.rehearsing])
        await self.rehearsal.load(going, head)
        await self.rehearsal.insist_on_files(going, head)
        await self._happen(going, Event(what=Happening.LOADED, head=head, at_ms=now_ms()))

    async def open(self, going: Going) -> None:
        """The session is this device's: its files appear, in one step, and then it goes on."""
        session, transfer = going.session, going.transfer
        notes, runs, noted = [], True, False
        await self.rehearsal.wait_for_files(going)
        called, looked, readied = going.called, going.looked, self.rehearsal.taken(going)
        try:
            brought, noted = await self._ways.store(
                lambda control: handoff_steps.bring(
                    control.store, control.me, transfer, session, called, looked, readied
                )
            )
            if brought is not None and brought.instead:
                log.warn("handoff_files_elsewhere", session=session.hex(), transfer=transfer.hex())
                notes.append(f"Its files are in {brought.folder}: {brought.instead}")
            notes += () if brought is None else brought.notes
        except (UserError, OSError) as error:  # It is tried again by who begins it, and told by that.
            log.fault("handoff_without_files", error, session=session.hex(), transfer=transfer.hex())
        # A record of what was begun there would have its process look into it.
        await self.rehearsal.drop(going, readied)
        try:
            await self._ways.workers.start(session, noted=noted)
        except (UserError, OSError) as error:
            log.fault("handoff_not_begun", error, session=session.hex(), transfer=transfer.hex())
            notes.append(f"It does not run: {why_of(error)}")
            runs = False
        going.notes = (*going.notes, *notes)
        begun = Begun(transfer=transfer, session=session, runs=runs, notes=tuple(map(handoff.bounded, notes)))
        await self._ways.send(going.peer, begun)
        going.opened = True
        going.calm.set()
        peer = going.peer
        await self._ways.store(lambda control: handoff_steps.opened(control.store, transfer, session, peer, notes))

    async def clean(self, going: Going) -> None:
        """Close the records, once the session was begun."""
        if going.one.side is Side.TARGET and going.one.stage in (Stage.ABORTED, Stage.SUPERSEDED):
            self._ways.workers.unready(going.session)
        if going.one.side is Side.SOURCE and going.one.stage is Stage.ACKNOWLEDGED:
            await self._ways.calm(going.calm)
        if (opening := going.busy.get(Act.OPEN)) is not None:
            await asyncio.wait([opening])
        if going.readying is not None:
            await asyncio.wait([going.readying])
        await self.rehearsal.drop_files(going)
        await self._happen(going, Event(what=Happening.CLEANED, at_ms=now_ms()))
