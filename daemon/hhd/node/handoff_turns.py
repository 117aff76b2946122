"""The turn of a handoff: what happens is looked up, and its outputs are carried out in order, before the next thing.

Whatever cannot be made durable gives the handoff up, if it still may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hhd.base import log
from hhd.base.errors import UserError
from hhd.node import handoff_steps
from hhd.node.answers.handoff import Moved
from hhd.node.handing_on import BeatenError, MovedError, NotYetError
from hhd.node.handoff_acts import Acts
from hhd.node.handoff_going import Going, now_ms, why_of
from hhd.node.handoff_progress import moved
from hhd.node.handoff_ways import Ways
from hhd.node.refused import short
from hhd.store.errors import BusyError
from hhd_protocol import handoff, live
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import (
    PENDING,
    UNTAKEN,
    Act,
    Do,
    Event,
    Handoff,
    Happening,
    Output,
    Persist,
    Send,
    Side,
    Stage,
    Told,
)
from hhd_protocol.ids import SessionId, TransferId

_TAKEN = (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED)


class Turns:
    """All handoffs that are under way here (`goings`); each has one turn at a time."""

    def __init__(self, ways: Ways) -> None:
        self._ways, self.goings = ways, dict[TransferId, Going]()
        self.acts = Acts(ways, self.happen)
        self.on_change: list[Callable[[SessionId], None]] = []
        """Called after each release or taking of a session: its statements are news for the others."""

    async def happen(self, going: Going, event: Event) -> None:
        """Let something happen, once its turn came."""
        async with going.turn:
            await self._step(going, event)
        if going.one.over or (going.one.stage is Stage.NONE and not going.busy):
            self.goings.pop(going.transfer, None)

    async def _step(self, going: Going, event: Event) -> None:
        if event.what in (Happening.CANCELLED, Happening.FAILED, Happening.ABORT):
            event = await self._news(going) or event  # What is known already comes before what is wanted.
        if event.what is Happening.RELEASE and going.one.stage not in _TAKEN and event.grant is not None:
            await self._take(going, event.grant.raw)
            return
        after, outputs = handoff.handle(going.one, event)
        await self._carry_out(going, after, outputs, event)

    async def _carry_out(self, going: Going, after: Handoff, outputs: list[Output], event: Event) -> None:
        """Carry the outputs out, in order; what cannot be made durable gives the handoff up, if it still may be."""
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
        if after.stage in (Stage.RELEASED, Stage.TAKEN, Stage.SUPERSEDED, Stage.ABORTED):
            for hear in self.on_change:
                hear(going.session)
        if after.stage is Stage.ACKNOWLEDGED and going.paused_at:
            going.pause_ms = int((time.monotonic() - going.paused_at) * 1000)
        if after.side is Side.SOURCE and after.stage in (Stage.RELEASED, Stage.ACKNOWLEDGED):
            name = self._ways.names(going.peer)
            sentence = f"It runs on {name} now." if after.stage is Stage.ACKNOWLEDGED else f"It was handed to {name}."
            way = f"hhd attach {short(going.session)}"
            self._ways.workers.tell(
                going.session, live.State(name="paused", sentence=sentence, ways=(way,), effect="", status=0)
            )
        self._tell(going, moved(going, self._ways.names(going.peer)))

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
            case Act.SIGN:
                await self._sign(going)
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

    async def _sign(self, going: Going) -> None:
        one = going.one
        try:
            after, outputs = await self._ways.store(
                lambda control: handoff_steps.sign(control.store, control.me, one, now_ms())
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
