"""The turn of a handoff: what happens is looked up, and its outputs are carried out in order, before the next thing.

Whatever cannot be made durable gives the handoff up, if it still may be.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from hhd.base import log
from hhd.base.errors import UserError
from hhd.node.answers.handoff import Moved
from hhd.node.control import ControlService
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import notes as handoff_notes
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.acts import Acts
from hhd.node.handoff.going import Going, now_ms, why_of
from hhd.node.handoff.handing_on import BeatenError, MovedError, NotYetError
from hhd.node.handoff.progress import moved
from hhd.node.handoff.ways import Ways
from hhd.node.refused import short
from hhd.store.errors import BusyError
from hhd_protocol import handoff, live
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import (
    PENDING,
    UNTAKEN,
    Act,
    Begun,
    Do,
    Event,
    Handoff,
    Happening,
    Output,
    Persist,
    Record,
    Send,
    Side,
    Stage,
    Told,
)
from hhd_protocol.ids import DeviceId, SessionId, TransferId

BEGIN_SECONDS = 15.0
"""For a target that took a session to say that it runs there; then who watches is told without."""
TAKEN = (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED)


class Turns:
    """All handoffs that are under way here (`goings`); each has one turn at a time."""

    def __init__(self, ways: Ways) -> None:
        self._ways, self.goings = ways, dict[TransferId, Going]()
        self.acts = Acts(ways, self.goings, self.happen)
        self._leaving: dict[TransferId, Going] = {}
        """Taken by their targets, which have not said yet that they run there."""
        self.on_stage: list[Callable[[SessionId], None]] = []
        """Called with the session at each stage that its handoff came to; at once, so what hears it does little."""
        self.on_change: list[Callable[[SessionId], None]] = []
        """Called after each release or taking of a session: its statements are news for the others."""

    async def happen(self, going: Going, event: Event) -> None:
        """Let something happen, once its turn came."""
        try:
            async with going.turn:
                await self._step(going, event)
        finally:
            if going.one.over or (going.one.stage is Stage.NONE and not going.busy):
                self.goings.pop(going.transfer, None)
                self._ways.let_go(going.transfer)

    async def _step(self, going: Going, event: Event) -> None:
        if event.what in (Happening.CANCELLED, Happening.FAILED, Happening.ABORT):
            event = await self._news(going) or event  # What is known already comes before what is wanted.
        if event.what is Happening.RELEASE and going.one.stage not in TAKEN and event.grant is not None:
            await self._take(going, event.grant.raw)
            return
        after, outputs = handoff.handle(going.one, event)
        await self._carry_out(going, after, outputs, event)

    async def _carry_out(self, going: Going, after: Handoff, outputs: list[Output], event: Event) -> None:
        """Carry the outputs out, in order; what cannot be made durable gives the handoff up, if it still may be."""
        match outputs:
            case [Persist(record=ready), Do(act=Act.SIGN)]:  # Nobody hears of the one before the other.
                await self._sign(going, after, ready)
                return
        for output in outputs:
            if isinstance(output, Persist):
                record = output.record
                try:
                    await self._ways.store(lambda control: handoff_steps.persist(control.store, record, event))  # noqa: B023
                except (UserError, OSError, FormatError) as error:
                    log.fault("handoff_not_kept", error)
                    if event.what not in (Happening.FAILED, Happening.BEATEN) and going.one.may_be_given_up:
                        await self._step(going, Event(what=Happening.FAILED, why=why_of(error), at_ms=now_ms()))
                    return
                self._now(going, after)
        going.one = after
        await self._rest_of(going, outputs)

    async def _rest_of(self, going: Going, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Send(message=message):
                    await self._ways.send(going.peer, message)
                case Do(act=act, why=why):
                    await self._do(going, act, why)

    def _now(self, going: Going, after: Handoff) -> None:
        """The handoff has come to a stage, durably: who watches is told."""
        changed = after.stage is not going.one.stage
        going.one, going.heard = after, time.monotonic()
        if not changed:
            return
        log.note(
            "handoff",
            session=going.session.hex(),
            transfer=going.transfer.hex(),
            device=device_text(going.peer)[:19],
            state=f"{after.side.value}.{after.stage.value}",
        )
        for hear in self.on_stage:
            hear(going.session)
        if after.side is Side.SOURCE and after.stage is Stage.OFFERED:
            self._ways.workers.look_ahead(going.session)  # While the target finds out whether it could go there.
        if after.stage in (Stage.RELEASED, Stage.TAKEN, Stage.SUPERSEDED, Stage.ABORTED):
            self._ways.soon(self._spread(going))
        if after.side is Side.SOURCE and after.stage in (Stage.RELEASED, Stage.ACKNOWLEDGED):
            name = self._ways.names(going.peer)
            sentence = f"It runs on {name} now." if after.stage is Stage.ACKNOWLEDGED else f"It was handed to {name}."
            way = f"hhd attach {short(going.session)}"
            self._ways.workers.tell(
                going.session, live.State(name="paused", sentence=sentence, ways=(way,), effect="", status=0)
            )
        if after.side is Side.TARGET or after.stage not in (Stage.ACKNOWLEDGED, Stage.CLEANED):
            self._tell(going, moved(going, self._ways.names(going.peer)))
        elif after.stage is Stage.ACKNOWLEDGED:
            self._leaves(going)

    async def _spread(self, going: Going) -> None:
        """Have the others hear of the release: the two that it is for know, and have something else to do first."""
        if going.one.stage in (Stage.RELEASED, Stage.TAKEN):
            await self._ways.calm(going.calm)
        for hear in self.on_change:
            hear(going.session)

    def _leaves(self, going: Going) -> None:
        """It was taken: who watches is told once it runs there, or after some seconds in which nobody says so."""
        if not going.watching and going.asker is None:
            going.calm.set()
            return
        self._leaving[going.transfer] = going

        async def late() -> None:
            await asyncio.sleep(BEGIN_SECONDS)
            self._left(going, f"{self._ways.names(going.peer)} has not said yet that it runs.")

        self._ways.soon(late())

    async def begun(self, peer: DeviceId, message: Begun) -> None:
        """The target of a handoff says that what it took runs there, or why not."""
        going = self._leaving.get(message.transfer)
        if going is not None and (going.peer, going.session) == (peer, message.session):
            if going.paused_at and message.runs:
                going.pause_ms = max(1, int((time.monotonic() - going.paused_at) * 1000))
            self._left(going, *message.notes)
        await self._keep_notes(peer, message)  # Waited for: who says it on and on has one kept at a time.

    def _left(self, going: Going, *notes: str) -> None:
        if self._leaving.pop(going.transfer, None) is None:
            return
        going.notes, going.begun = (*going.notes, *notes), True
        going.calm.set()
        self._tell(going, moved(going, self._ways.names(going.peer)))

    async def _keep_notes(self, peer: DeviceId, message: Begun) -> None:
        """Keep what a target says for who looks later; it is not in the way of who watches now."""

        def keep(control: ControlService) -> None:
            record = handoff_journal.last(control.store, message.transfer)
            if record is not None and (record.side, record.peer, record.session) == (
                Side.SOURCE, peer, message.session,
            ):  # fmt: skip
                handoff_notes.keep(control.store, record.transfer, record.session, peer, message.notes)

        with contextlib.suppress(UserError, OSError):
            await self._ways.store(keep)

    def _tell(self, going: Going, step: Moved) -> None:
        for queue in going.watching:
            queue.put_nowait(step)
        if going.asker is not None:
            said = Told(
                transfer=going.transfer,
                session=going.session,
                stage=step.stage,
                sentence=step.sentence,
                way=step.way,
                over=step.over,
                status=step.status,
                notes=tuple(map(handoff.bounded, step.notes)) if step.over else (),
            )
            self._ways.soon(self._ways.send(going.asker, said))

    async def _take(self, going: Going, raw: bytes) -> None:
        one = going.one
        try:
            after, outputs = await self._ways.store(
                lambda control: handoff_steps.take(control.store, control.me, one, raw, now_ms())
            )
        except NotYetError:
            return  # It is said again, and looked at again when something came.
        except BeatenError as error:
            if one.stage is not Stage.NONE:
                await self._step(going, Event(what=Happening.BEATEN, why=str(error), at_ms=now_ms()))
            return
        except (UserError, OSError) as error:
            log.fault("handoff_not_taken", error)
            return
        self._now(going, after)
        await self._rest_of(going, outputs)

    async def _do(self, going: Going, act: Act, why: str) -> None:
        match act:
            case Act.STAGE:
                self.acts.alone(going, act, self.acts.stage(going))
            case Act.PAUSE:
                self.acts.alone(going, act, self.acts.pause(going))
            case Act.RESUME:
                self.acts.alone(going, act, self.acts.resume(going))
            case Act.LOAD:
                self.acts.alone(going, act, self.acts.load(going))
            case Act.OPEN:
                self.acts.alone(going, act, self.acts.open(going))
            case Act.CLEAN:
                self.acts.alone(going, act, self.acts.clean(going))

    async def _sign(self, going: Going, one: Handoff, ready: Record) -> None:
        """Sign the release of the handoff `one`, with the record `ready` of the stage that this makes it come to."""
        try:
            after, outputs = await self._ways.store(
                lambda control: handoff_steps.sign(control.store, control.me, one, now_ms(), ready)
            )
        except MovedError:
            self.acts.alone(going, Act.PAUSE, self.acts.pause(going))
            return
        except BusyError as error:
            await self._step(going, Event(what=Happening.FAILED, why=str(error), at_ms=now_ms()))
            return
        except (UserError, OSError) as error:
            await self._step(going, Event(what=Happening.FAILED, why=why_of(error), at_ms=now_ms()))
            return
        self._now(going, one)
        self._now(going, after)
        await self._rest_of(going, outputs)

    async def _news(self, going: Going) -> Event | None:
        one = going.one
        try:
            return await self._ways.read(lambda control: handoff_steps.news(control.store, control.me, one, now_ms()))
        except (UserError, OSError):
            return None

    async def watch(self, going: Going) -> None:
        """Look whether statements known here decide it."""
        event = await self._news(going)
        if event is not None:
            await self.happen(going, event)

    async def due(self, going: Going) -> None:
        """Say again what may have been lost, where there is a link for it."""
        if going.one.over or (going.one.stage in (*PENDING, *UNTAKEN) and self._ways.peers.link(going.peer) is None):
            return
        going.heard = time.monotonic()
        await self.happen(going, Event(what=Happening.DUE, at_ms=now_ms()))
