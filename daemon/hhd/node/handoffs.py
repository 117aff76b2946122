"""Handoffs of sessions between this device and others: a part of the daemon that carries `hhd_protocol.handoff` out.

Each handoff has one turn at a time: what happens is looked up, and its outputs are carried out in order, before the
next thing happens. What takes long (staging, pausing, loading) is a task of its own, and what comes of it happens in
turn. Whatever fails before the release gives the handoff up, and the session goes on where it was; after it only the
target acts. A daemon that starts goes on with what its journals say.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hhd.base import log
from hhd.base.errors import Exit, RefusedError, UserError
from hhd.node import handoff_journal, handoff_steps, naming
from hhd.node.answers.handoff import Moved
from hhd.node.control import ControlService
from hhd.node.handing_on import BeatenError, MovedError, NotYetError, verified
from hhd.node.handoff_ports import Peering, Running, Syncing
from hhd.node.handoff_words import ended, sentence_of
from hhd.node.lanes import Lanes
from hhd.node.refused import short
from hhd.node.service import Verb
from hhd.store.errors import BusyError
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import handoff, live
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import (
    PENDING,
    UNTAKEN,
    Act,
    Admit,
    Already,
    AnyAside,
    AnyMessage,
    Do,
    Event,
    Handoff,
    Happening,
    Offer,
    Output,
    Persist,
    Please,
    Probe,
    RefuseOffer,
    ReleaseTo,
    Send,
    Side,
    Stage,
    Told,
    Took,
)
from hhd_protocol.ids import DeviceId, SessionId, TransferId
from hhd_protocol.limits import HANDOFF_DEADLINE_MS_MAX

CHANNEL = "handoff"

DEADLINE_SECONDS = 600.0
"""Until a handoff that is not released yet is given up, unless a person said otherwise."""
REPLY_SECONDS = 15.0
"""After the release, for the target to say that it took it; then who watches is told what to do."""
AGAIN_SECONDS = 5.0
"""Without a word and without anything to do here: then what may have been lost is said again."""
LOOK_SECONDS = 1.0
PROBE_SECONDS = 20.0
"""For the other device to look whether a session could run there."""

Open = Callable[[], AbstractContextManager[ControlService]]
T = TypeVar("T")
_TAKEN = (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED)


@dataclass(eq=False)
class _Going:
    """One handoff in memory. `busy`: what is being done for it; `watching`: who is told each step."""

    one: Handoff
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    busy: dict[Act, asyncio.Task[None]] = field(default_factory=dict)
    watching: set[asyncio.Queue[Moved]] = field(default_factory=set)
    asker: DeviceId | None = None
    ran: tuple[Path | None, str | None] | None = None
    """The folder and model that it ran with here, if it did, before it was paused."""
    until: float = 0.0
    heard: float = field(default_factory=time.monotonic)
    paused_at: float = 0.0
    pause_ms: int = 0
    notes: tuple[str, ...] = ()
    called: str = ""
    """What its folder is called at the source."""
    way: str = ""
    refused: bool = False

    @property
    def peer(self) -> DeviceId:
        return self.one.record.peer

    @property
    def session(self) -> SessionId:
        return self.one.record.session

    @property
    def transfer(self) -> TransferId:
        return self.one.record.transfer


class Handoffs:
    """A part of the daemon (`hhd.node.service.Part`); all its methods are for the loop's thread."""

    def __init__(
        self,
        *,
        me: DeviceId,
        opened: Open,
        lanes: Lanes,
        peers: Peering,
        syncing: Syncing,
        workers: Running,
    ) -> None:
        self._me, self._opened, self._lanes = me, opened, lanes
        self._peers, self._syncing, self._workers = peers, syncing, workers
        self._called: dict[DeviceId, str] = {}
        self._goings: dict[TransferId, _Going] = {}
        self._channels: dict[Link, Channel] = {}
        self._sending: dict[DeviceId, asyncio.Lock] = {}
        self._probes: dict[TransferId, asyncio.Future[Admit | RefuseOffer]] = {}
        self._asked: dict[TransferId, asyncio.Queue[Moved]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._ready = asyncio.Event()
        self.on_change: list[Callable[[SessionId], None]] = []
        """Called after each release or taking of a session: its statements are news for the others."""
        peers.serve(CHANNEL, self._serve)
        peers.on_linked(self._linked)

    # As a part

    def verbs(self) -> dict[str, Verb]:
        """What can be asked: a handoff, from any device, told step by step; and giving one up."""
        return {
            "transfer": Verb(self.transfer, changes=True),
            "transfer_abort": Verb(self.transfer_abort, changes=True),
        }

    async def run(self) -> None:
        """Go on with what the journals say, and look after what is under way."""
        async with asyncio.TaskGroup() as self._tasks:
            await self._read(self._learn_names)
            for record in await self._store(lambda control: handoff_journal.unfinished(control.store)):
                going = self._goings[record.transfer] = self._again(record)
                going.one = await self._offered_again(going.one)
            self._ready.set()
            for going in list(self._goings.values()):
                self._soon(self._begin_again(going))
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for going in list(self._goings.values()):
                    self._soon(self._look(going))

    async def stop(self) -> None:
        """Nothing has to come to rest: each stage is durable."""

    def learned(self, session: SessionId) -> None:
        """Statements of a session came: they may decide a handoff."""
        for going in self._goings.values():
            if going.session == session and self._tasks is not None:
                self._soon(self._watch(going))

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
        there. `deadline_ms`: until it is given up, 0 for ten minutes. Who leaves before the release gives it up.
        Raises RefusedError, with nothing changed.
        """
        await self._ready.wait()
        deadline_ms = min(deadline_ms or int(DEADLINE_SECONDS * 1000), HANDOFF_DEADLINE_MS_MAX)
        session, target, owner = await self._read(lambda control: self._meant(control, name, to))
        if owner == target:
            raise RefusedError(f"Session {short(session)} is there already; nothing was changed.")
        if dry_run:
            yield await self._probe(session, owner, target)
            return
        if owner != self._me:
            async for moved in self._asked_of(session, owner, target, cancel_running, deadline_ms):
                yield moved
            return
        going = await self._wish(session, target, cancel_running, deadline_ms)
        queue: asyncio.Queue[Moved] = asyncio.Queue()
        going.watching.add(queue)
        try:
            self._soon(self._happen(going, Event(what=Happening.WISHED, at_ms=_now_ms())))
            async for moved in self._told(going, queue):
                yield moved
        finally:
            going.watching.discard(queue)
            if going.one.may_be_given_up:
                why = "The person who asked for it left before it was released."
                self._soon(self._happen(going, Event(what=Happening.CANCELLED, why=why, at_ms=_now_ms())))

    async def transfer_abort(self, name: str) -> Moved:
        """Give up the handoff of the session `name`; raises RefusedError where there is none, or it is released."""
        session = (await self._store(lambda control: naming.session(control.store, name))).id
        for going in self._goings.values():
            if going.session == session and not going.one.over:
                event = Event(what=Happening.CANCELLED, why="A person gave it up.", at_ms=_now_ms())
                await self._happen(going, event)
                if going.one.stage is Stage.ABORTED:
                    return self._moved(going)
                raise RefusedError(
                    f"Session {short(session)} is released already, and nobody can undo that. If the other device "
                    f"never takes it: hhd takeover {short(session)} --reason TEXT"
                )
        raise RefusedError(f"No handoff of session {short(session)} is under way.")

    def _meant(self, control: ControlService, name: str, to: str) -> tuple[SessionId, DeviceId, DeviceId]:
        self._learn_names(control)
        session = naming.session(control.store, name).id
        target = control.me.id if to == "here" else handoff_steps.device_named(control.store, control.me, to)
        handoff_steps.insist_on_target(control.store, control.me, target)
        return session, target, handoff_steps.owner_of(control.store, control.me, session)

    async def _wish(
        self,
        session: SessionId,
        target: DeviceId,
        cancel_running: bool,
        deadline_ms: int,
        transfer: TransferId | None = None,
    ) -> _Going:
        """A handoff that is to begin; raises RefusedError where it cannot."""
        for going in self._goings.values():
            if going.session == session and going.one.side is Side.SOURCE and not going.one.over:
                to = self._names(going.peer)
                raise RefusedError(f"A handoff of session {short(session)} to {to} is under way: hhd transfers")
        self._insist_on_link(target)
        chosen = self._workers.chosen(session)[1]
        made = transfer or TransferId(os.urandom(16))
        offer = await self._read(
            lambda control: handoff_steps.offer_of(control.store, control.me, session, made, chosen)
        )
        one = handoff.wished(
            me=self._me, peer=target, offer=offer, cancel_running=cancel_running, deadline_ms=deadline_ms
        )
        going = self._goings[made] = _Going(one, until=time.monotonic() + deadline_ms / 1000)
        return going

    def _insist_on_link(self, device: DeviceId) -> Link:
        link = self._peers.link(device)
        if link is None:
            raise RefusedError(
                f"{self._names(device)} is not connected now; nothing was changed. For devices that are never online "
                "together: hhd transfer SESSION DEVICE --to FILE"
            )
        return link

    async def _told(self, going: _Going, queue: asyncio.Queue[Moved]) -> AsyncIterator[Moved]:
        """Each step, until it is over here or, released, nothing is heard of the target for long."""
        while True:
            waits = REPLY_SECONDS if going.one.stage is Stage.RELEASED else None
            try:
                async with asyncio.timeout(waits):
                    moved = await queue.get()
            except TimeoutError:
                yield self._uncertain(going)
                return
            yield moved
            if moved.over:
                return

    async def _asked_of(
        self, session: SessionId, owner: DeviceId, target: DeviceId, cancel_running: bool, deadline_ms: int
    ) -> AsyncIterator[Moved]:
        """Ask the device that has the session to hand it on, and tell what it says."""
        self._insist_on_link(owner)
        transfer = TransferId(os.urandom(16))
        queue = self._asked[transfer] = asyncio.Queue()
        please = Please(
            transfer=transfer, session=session, to=target, cancel_running=cancel_running, deadline_ms=deadline_ms
        )
        released = False
        try:
            await self._send(owner, please)
            while True:
                async with asyncio.timeout(deadline_ms / 1000 + REPLY_SECONDS):
                    moved = await queue.get()
                released = released or moved.stage in ("released", "taken", "acknowledged")
                yield moved
                if moved.over:
                    released = True
                    return
        except TimeoutError:
            raise RefusedError(f"{self._names(owner)} says nothing more; see hhd transfers there.") from None
        finally:
            self._asked.pop(transfer, None)
            if not released:
                about = handoff.Abort(transfer=transfer, session=session, why="The person who asked for it left.")
                self._soon(self._send(owner, about))

    async def _probe(self, session: SessionId, owner: DeviceId, target: DeviceId) -> Moved:
        if owner != self._me:
            raise RefusedError("Ask that on the device that has the session; nothing was changed.")
        self._insist_on_link(target)
        transfer, chosen = TransferId(os.urandom(16)), self._workers.chosen(session)[1]
        offer = await self._read(
            lambda control: handoff_steps.offer_of(control.store, control.me, session, transfer, chosen)
        )
        future = self._probes[transfer] = asyncio.get_running_loop().create_future()
        try:
            probe = Probe(
                transfer=transfer, session=session, hhd=offer.hhd, token=offer.token, head=offer.head, needs=offer.needs
            )
            await self._send(target, probe)
            async with asyncio.timeout(PROBE_SECONDS):
                answer = await future
        except TimeoutError:
            raise RefusedError(f"{self._names(target)} did not answer; nothing was changed.") from None
        finally:
            del self._probes[transfer]
        if isinstance(answer, RefuseOffer):
            raise RefusedError(f"{answer.why} {answer.way}".strip() + " Nothing was changed.")
        return Moved(
            transfer=transfer.hex(),
            session=session.hex(),
            stage="admitted",
            sentence=f"It could go to {self._names(target)}" + (f", into {answer.where}" if answer.where else "") + ".",
            notes=answer.notes,
            over=True,
            continuity="nothing was sent",
            ownership="this device has it",
        )

    # What the others say

    async def _serve(self, channel: Channel, link: Link) -> None:
        await self._ready.wait()
        while (raw := await channel.receive()) is not None:
            await self._heard(link.peer, handoff.decode_message(raw))

    async def _linked(self, link: Link) -> None:
        await self._ready.wait()
        for going in list(self._goings.values()):
            if going.peer == link.peer and not going.one.over:
                self._soon(self._due(going))

    async def _heard(self, peer: DeviceId, message: AnyMessage | AnyAside) -> None:
        """Take what a member says. FormatError costs the link."""
        if isinstance(message, Probe | Please | Told):
            await self._heard_aside(peer, message)
            return
        if isinstance(message, Admit | RefuseOffer) and (future := self._probes.get(message.transfer)) is not None:
            if not future.done():
                future.set_result(message)
            return
        grant = None
        if isinstance(message, ReleaseTo | Took | Already):
            raw = message.statement
            grant = await self._read(lambda control: verified(control.store, control.me, raw))
        going = await self._of(peer, message)
        if going is None:
            return
        going.heard = time.monotonic()
        if isinstance(message, Admit):
            going.notes = message.notes
        event = handoff.event_of(message, grant=grant, at_ms=_now_ms())
        if isinstance(message, RefuseOffer):
            going.way, going.refused = message.way, True
        if isinstance(message, Offer) and going.one.stage is Stage.NONE:
            self._do_alone(going, Act.CHECK, self._check(going, message))
            return
        await self._happen(going, event)

    async def _of(self, peer: DeviceId, message: AnyMessage) -> _Going | None:
        """The handoff that a message is of; None where it is another device's, or nothing is known of it."""
        going = self._goings.get(message.transfer)
        if going is None:
            record = await self._read(lambda control: handoff_journal.last(control.store, message.transfer))
            if record is not None:
                going = self._again(record)
            elif isinstance(message, handoff.Abort | handoff.Superseded):
                return None
            else:
                going = _Going(
                    handoff.unknown(
                        me=self._me,
                        side=handoff.side_of(message),
                        peer=peer,
                        transfer=message.transfer,
                        session=message.session,
                    )
                )
            going = self._goings.setdefault(message.transfer, going)
        if (going.peer, going.session) != (peer, message.session):
            if going.asker == peer and going.session == message.session and isinstance(message, handoff.Abort):
                return going  # Who asked for it gives it up.
            return None
        return going

    async def _heard_aside(self, peer: DeviceId, message: AnyAside) -> None:
        match message:
            case Probe(needs=needs):
                try:
                    fit = await self._read(
                        lambda control: handoff_steps.fit(control.store, control.me, message.session, needs)
                    )
                except (UserError, OSError) as error:
                    why = _why(error)
                    await self._send(peer, RefuseOffer(transfer=message.transfer, session=message.session, why=why))
                    return
                answer = Admit(transfer=message.transfer, session=message.session, where=fit.where, notes=fit.notes)
                await self._send(peer, answer)
            case Please():
                self._soon(self._asked_by(peer, message))
            case Told():
                queue = self._asked.get(message.transfer)
                if queue is not None:
                    moved = Moved(
                        transfer=message.transfer.hex(),
                        session=message.session.hex(),
                        stage=message.stage,
                        sentence=message.sentence,
                        over=message.over,
                        status=message.status if message.status in range(6) else 1,
                        way=message.way,
                    )
                    queue.put_nowait(moved)

    async def _asked_by(self, peer: DeviceId, please: Please) -> None:
        """Another device of this person wants a session that this one has at the device `to`."""

        def allowed(control: ControlService) -> None:
            handoff_steps.insist_on_target(control.store, control.me, please.to)

        try:
            await self._store(allowed)
            if please.to == self._me:
                raise RefusedError("It is here already; nothing was changed.")
            deadline_ms = min(please.deadline_ms or int(DEADLINE_SECONDS * 1000), HANDOFF_DEADLINE_MS_MAX)
            going = await self._wish(please.session, please.to, please.cancel_running, deadline_ms, please.transfer)
        except (UserError, OSError) as error:
            said = Told(
                transfer=please.transfer,
                session=please.session,
                stage=Stage.NONE.value,
                sentence=_why(error),
                over=True,
                status=int(Exit.REFUSED),
            )
            await self._send(peer, said)
            return
        going.asker = peer
        await self._happen(going, Event(what=Happening.WISHED, at_ms=_now_ms()))

    # The turn of a handoff

    async def _happen(self, going: _Going, event: Event) -> None:
        """Let something happen, once its turn came."""
        async with going.turn:
            await self._step(going, event)
        if going.one.over or (going.one.stage is Stage.NONE and not going.busy):
            self._goings.pop(going.transfer, None)

    async def _step(self, going: _Going, event: Event) -> None:
        if event.what in (Happening.CANCELLED, Happening.FAILED, Happening.ABORT):
            event = await self._news(going) or event  # What is known already comes before what is wanted.
        if event.what is Happening.RELEASE and going.one.stage not in _TAKEN and event.grant is not None:
            await self._take(going, event.grant.raw)
            return
        after, outputs = handoff.handle(going.one, event)
        await self._carry_out(going, after, outputs, event)

    async def _carry_out(self, going: _Going, after: Handoff, outputs: list[Output], event: Event) -> None:
        """Carry the outputs out, in order; what cannot be made durable gives the handoff up, if it still may be."""
        for output in outputs:
            if isinstance(output, Persist):
                record = output.record
                try:
                    await self._store(lambda control: handoff_steps.persist(control.store, record, event))  # noqa: B023
                except (UserError, OSError, FormatError) as error:
                    log.fault("handoff_not_kept", error)
                    if event.what not in (Happening.FAILED, Happening.BEATEN) and going.one.may_be_given_up:
                        await self._step(going, Event(what=Happening.FAILED, why=_why(error), at_ms=_now_ms()))
                    return
                self._now(going, after)
        going.one = after
        await self._rest_of(going, outputs)

    async def _rest_of(self, going: _Going, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Send(message=message):
                    await self._send(going.peer, message)
                case Do(act=act, why=why):
                    await self._do(going, act, why)

    def _now(self, going: _Going, after: Handoff) -> None:
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
        if after.stage in (Stage.RELEASED, Stage.TAKEN, Stage.SUPERSEDED):
            for hear in self.on_change:
                hear(going.session)
        if after.stage is Stage.ACKNOWLEDGED and going.paused_at:
            going.pause_ms = int((time.monotonic() - going.paused_at) * 1000)
        if after.side is Side.SOURCE and after.stage in (Stage.RELEASED, Stage.ACKNOWLEDGED):
            name = self._names(going.peer)
            sentence = f"It runs on {name} now." if after.stage is Stage.ACKNOWLEDGED else f"It was handed to {name}."
            way = f"hhd attach {short(going.session)}"
            self._workers.tell(
                going.session, live.State(name="paused", sentence=sentence, ways=(way,), effect="", status=0)
            )
        self._tell(going, self._moved(going))

    def _tell(self, going: _Going, moved: Moved) -> None:
        for queue in going.watching:
            queue.put_nowait(moved)
        if going.asker is not None:
            said = Told(
                transfer=going.transfer,
                session=going.session,
                stage=moved.stage,
                sentence=moved.sentence,
                way=moved.way,
                over=moved.over,
                status=moved.status,
            )
            self._soon(self._send(going.asker, said))

    def _moved(self, going: _Going) -> Moved:
        """How it stands, for who watches: at the source it is over for a person once the target has it."""
        one, name = going.one, self._names(going.peer)
        stage, over = one.stage, one.over or (one.side is Side.SOURCE and one.stage is Stage.ACKNOWLEDGED)
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

    def _uncertain(self, going: _Going) -> Moved:
        name = self._names(going.peer)
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

    async def _take(self, going: _Going, raw: bytes) -> None:
        one = going.one
        try:
            after, outputs = await self._store(
                lambda control: handoff_steps.take(control.store, control.me, one, raw, _now_ms())
            )
        except NotYetError:
            return  # It is said again, and looked at again when something came.
        except BeatenError as error:
            if one.stage is not Stage.NONE:
                await self._step(going, Event(what=Happening.BEATEN, why=str(error), at_ms=_now_ms()))
            return
        except (UserError, OSError) as error:
            log.fault("handoff_not_taken", error)
            return
        self._now(going, after)
        await self._rest_of(going, outputs)

    async def _do(self, going: _Going, act: Act, why: str) -> None:
        match act:
            case Act.SIGN:
                await self._sign(going)
            case Act.STAGE:
                self._do_alone(going, act, self._stage(going))
            case Act.PAUSE:
                self._do_alone(going, act, self._pause(going))
            case Act.RESUME:
                self._do_alone(going, act, self._resume(going))
            case Act.LOAD:
                self._do_alone(going, act, self._load(going))
            case Act.OPEN:
                self._do_alone(going, act, self._open(going))
            case Act.CLEAN:
                self._do_alone(going, act, self._clean(going))

    async def _sign(self, going: _Going) -> None:
        one = going.one
        try:
            after, outputs = await self._store(
                lambda control: handoff_steps.sign(control.store, control.me, one, _now_ms())
            )
        except MovedError:
            self._do_alone(going, Act.PAUSE, self._pause(going))
            return
        except BusyError as error:
            await self._step(going, Event(what=Happening.FAILED, why=str(error), at_ms=_now_ms()))
            return
        except (UserError, OSError) as error:
            await self._step(going, Event(what=Happening.FAILED, why=_why(error), at_ms=_now_ms()))
            return
        self._now(going, after)
        await self._rest_of(going, outputs)

    # What takes long

    def _do_alone(self, going: _Going, act: Act, doing: Coroutine[Any, Any, None]) -> None:
        """Begin something that takes long; the same, once more, takes the place of what was begun before."""
        before = going.busy.pop(act, None)
        if before is not None and before is not asyncio.current_task() and act not in (Act.OPEN, Act.RESUME):
            before.cancel()

        async def alone() -> None:
            try:
                await doing
            except (UserError, OSError, LinkError, FormatError) as error:
                await self._happen(going, Event(what=Happening.FAILED, why=_why(error), at_ms=_now_ms()))
            finally:
                if going.busy.get(act) is asyncio.current_task():
                    del going.busy[act]

        act_alone = alone()
        try:
            assert self._tasks is not None
            going.busy[act] = self._tasks.create_task(act_alone)
        except RuntimeError:  # The daemon ends.
            act_alone.close()
            doing.close()

    async def _check(self, going: _Going, offer: Offer) -> None:
        going.called = offer.needs.folder
        try:
            fit = await self._read(
                lambda control: handoff_steps.fit(control.store, control.me, offer.session, offer.needs)
            )
        except (UserError, OSError) as error:
            await self._happen(going, Event(what=Happening.UNFIT, why=_why(error), at_ms=_now_ms()))
            return
        event = Event(what=Happening.FIT, where=fit.where, notes=fit.notes, at_ms=_now_ms())
        await self._happen(going, event)

    async def _stage(self, going: _Going) -> None:
        """Bring the target what it lacks, once."""
        session, begin, wanted = going.session, time.monotonic(), going.one.head
        head = wanted  # Paused, the session stands where it was found.
        if head is None:
            head = await self._read(lambda control: handoff_steps.main_of(control.store, control.me, session))
        await self._syncing.wait_synced(session, going.peer, None)
        took_ms = int((time.monotonic() - begin) * 1000)
        event = handoff.round_over(going.one, took_ms=took_ms, head=head, at_ms=_now_ms())
        await self._happen(going, event)

    async def _pause(self, going: _Going) -> None:
        session = going.session
        if session in self._workers.running():
            going.ran = self._workers.chosen(session)
        going.paused_at = time.monotonic()
        await self._workers.pause(session, soft=not going.one.record.cancel_running)
        head = await self._store(lambda control: handoff_steps.head_of(control.store, control.me, session))
        await self._happen(going, Event(what=Happening.PAUSED, head=head, at_ms=_now_ms()))

    async def _resume(self, going: _Going) -> None:
        if (paused := going.busy.get(Act.PAUSE)) is not None:
            paused.cancel()
        if (staged := going.busy.get(Act.STAGE)) is not None:
            staged.cancel()
        ran, going.ran = going.ran, None
        if ran is None:
            return
        await self._workers.pause(going.session, soft=True)  # One that is still coming to rest rests first.
        with contextlib.suppress(UserError, OSError):
            await self._workers.start(going.session, *ran)

    async def _load(self, going: _Going) -> None:
        session, head = going.session, going.one.head
        assert head is not None
        await self._read(lambda control: handoff_steps.load(control.store, session, head))
        await self._happen(going, Event(what=Happening.LOADED, head=head, at_ms=_now_ms()))

    async def _open(self, going: _Going) -> None:
        """The session is this device's: its files appear, in one step, and then it goes on."""
        session, transfer = going.session, going.transfer
        notes = []
        try:
            brought = await self._store(
                lambda control: handoff_steps.bring(control.store, control.me, session, going.called)
            )
            if brought is not None and brought.instead:
                notes.append(f"Its files are in {brought.folder}: {brought.instead}")
        except (UserError, OSError) as error:
            notes.append(f"Its files did not appear: {_why(error)}")
        try:
            await self._workers.start(session)
        except (UserError, OSError) as error:
            notes.append(f"It does not run: {_why(error)}")
        going.notes = (*going.notes, *notes)
        await self._store(lambda control: handoff_steps.opened(control.store, transfer))

    async def _clean(self, going: _Going) -> None:
        if (opening := going.busy.get(Act.OPEN)) is not None:
            await asyncio.wait([opening])
        await self._happen(going, Event(what=Happening.CLEANED, at_ms=_now_ms()))

    # By itself

    def _again(self, record: handoff.Record) -> _Going:
        until = time.monotonic() + (record.deadline_ms / 1000 or DEADLINE_SECONDS)
        return _Going(handoff.recovered(record, me=self._me), until=until)

    async def _offered_again(self, one: Handoff) -> Handoff:
        """A handoff that nobody answered yet, with its offer made anew; as it is where that cannot be."""
        if one.side is Side.TARGET or one.stage is not Stage.OFFERED:
            return one
        session, transfer = one.record.session, one.record.transfer
        try:
            offer = await self._read(
                lambda control: handoff_steps.offer_of(control.store, control.me, session, transfer, None)
            )
        except (UserError, OSError):
            return one
        return handoff.recovered(one.record, me=self._me, offer=offer)

    async def _begin_again(self, going: _Going) -> None:
        """Go on with a handoff that a journal holds, after a start."""
        one, transfer = going.one, going.transfer
        if one.stage is Stage.OFFERED and one.offer is None:
            why = "It cannot be offered any more: the session has changed."
            await self._happen(going, Event(what=Happening.FAILED, why=why, at_ms=_now_ms()))
            return
        taken = one.side is Side.TARGET and one.stage in (Stage.TAKEN, Stage.ACKNOWLEDGED)
        if taken and not await self._read(lambda control: handoff_steps.is_opened(control.store, transfer)):
            self._do_alone(going, Act.OPEN, self._open(going))
        await self._watch(going)
        await self._due(going)

    async def _look(self, going: _Going) -> None:
        now = time.monotonic()
        if going.one.may_be_given_up and going.until and now > going.until:
            why = "Its time was over before it was released."
            await self._happen(going, Event(what=Happening.CANCELLED, why=why, at_ms=_now_ms()))
        elif going.one.side is Side.TARGET and going.one.stage in UNTAKEN and now > going.heard + DEADLINE_SECONDS:
            why = "Nothing was heard of the other device for long."
            await self._happen(going, Event(what=Happening.CANCELLED, why=why, at_ms=_now_ms()))
        elif not (going.busy or going.turn.locked() or going.one.over) and now > going.heard + AGAIN_SECONDS:
            await self._watch(going)
            await self._due(going)

    async def _due(self, going: _Going) -> None:
        if going.one.over or (going.one.stage in (*PENDING, *UNTAKEN) and self._peers.link(going.peer) is None):
            return
        going.heard = time.monotonic()
        await self._happen(going, Event(what=Happening.DUE, at_ms=_now_ms()))

    async def _watch(self, going: _Going) -> None:
        event = await self._news(going)
        if event is not None:
            await self._happen(going, event)

    async def _news(self, going: _Going) -> Event | None:
        one = going.one
        try:
            return await self._read(lambda control: handoff_steps.news(control.store, control.me, one, _now_ms()))
        except (UserError, OSError):
            return None

    # Ways

    def _names(self, device: DeviceId) -> str:
        return self._called.get(device) or device_text(device)[:19]

    def _learn_names(self, control: ControlService) -> None:
        devices = handoff_steps.devices_of(control.store, control.me)
        self._called = {device: devices.named(device) for device, _ in devices.all()}

    async def _send(self, peer: DeviceId, message: AnyMessage | AnyAside) -> None:
        """Say something to a device, if there is a link; it is said again when it was lost."""
        link = self._peers.link(peer)
        if link is None:
            return
        async with self._sending.setdefault(peer, asyncio.Lock()):
            try:
                channel = self._channels.get(link)
                if channel is None:
                    channel = await link.open(CHANNEL, urgent=True)
                    self._channels = {one: kept for one, kept in self._channels.items() if one.error is None}
                    self._channels[link] = channel
                await channel.send(handoff.encode_message(message))
            except LinkError:
                self._channels.pop(link, None)

    def _soon(self, doing: Coroutine[Any, Any, None]) -> None:
        guarded = self._guarded(doing)
        try:
            assert self._tasks is not None
            self._tasks.create_task(guarded)
        except RuntimeError:  # The daemon ends; what is durable is gone on with when one starts.
            guarded.close()
            doing.close()

    async def _guarded(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except (UserError, OSError, LinkError, FormatError) as error:
            log.fault("handoff", error)

    async def _read(self, act: Callable[[ControlService], T]) -> T:
        """Look into the store."""

        def opened() -> T:
            with self._opened() as control:
                return act(control)

        return await self._lanes.looking.do(opened)

    async def _store(self, act: Callable[[ControlService], T]) -> T:
        """Do something with the store that changes it, or that must not lie before a change."""

        def opened() -> T:
            with self._opened() as control:
                return act(control)

        return await self._lanes.changing.do(opened)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"The system said: {error.strerror or error}."
    return str(error) or "Something failed."
