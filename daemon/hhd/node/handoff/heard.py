"""What the other members say of handoffs: taken into the turn of the handoff it is of, or answered at once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from hhd.base import log
from hhd.base.errors import Exit, RefusedError, RolledBackError, UserError
from hhd.node.control import ControlService
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.asked import LEFT, Askings
from hhd.node.handoff.going import DEADLINE_SECONDS, Going, kept, now_ms, why_of
from hhd.node.handoff.handing_on import grant_of, verified
from hhd.node.handoff.inquiries import Inquiries
from hhd.node.handoff.turns import TAKEN, Turns
from hhd.node.handoff.ways import Ways
from hhd.node.handoff.wishes import Wishes
from hhd.transports.link import Channel, Link
from hhd_protocol import handoff, lineage
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import (
    UNTAKEN,
    Act,
    Admit,
    Already,
    AnyAside,
    AnyMessage,
    Aside,
    Begun,
    Event,
    Grant,
    Happening,
    Inquire,
    Offer,
    Please,
    Probe,
    RefuseOffer,
    Rehearse,
    Rehearsed,
    ReleaseTo,
    Side,
    Stage,
    Told,
    Took,
)
from hhd_protocol.ids import DeviceId, TransferId
from hhd_protocol.limits import (
    HANDOFF_CHECKED_MAX,
    HANDOFF_DEADLINE_MS_MAX,
    HANDOFF_OFFERED_MAX,
    HANDOFF_PLEASED_MAX,
)

if TYPE_CHECKING:
    from hhd.node.handoff.admission import Fit


class Heard:
    """`ready`: set once the journals are read; nothing is heard before."""

    def __init__(
        self,
        ways: Ways,
        turns: Turns,
        *,
        wishes: Wishes,
        askings: Askings,
        inquiries: Inquiries,
        ready: asyncio.Event,
    ) -> None:
        self._ways, self._turns, self._ready = ways, turns, ready
        self._wishes, self._askings, self._inquiries = wishes, askings, inquiries
        self.asked: dict[TransferId, DeviceId] = {}
        """Asked for by other devices, and not begun yet; those of which who asked has left are taken out."""
        self._crowded = set[DeviceId]()
        """Devices that offer more than is kept of one; it is noted once, until they have room again."""

    async def serve(self, channel: Channel, link: Link) -> None:
        """Serve a channel of a member, once the journals are read."""
        await self._ready.wait()
        while (raw := await channel.receive()) is not None:
            await self._heard(link.peer, handoff.decode_message(raw))

    async def linked(self, link: Link) -> None:
        """A member is there again: what may have been lost is said again."""
        await self._ready.wait()
        for going in list(self._turns.goings.values()):
            if going.peer == link.peer and not going.one.over:
                self._ways.soon(self._turns.due(going))

    async def _heard(self, peer: DeviceId, message: AnyMessage | AnyAside) -> None:
        """Take what a member says. FormatError costs the link."""
        if isinstance(message, Aside):
            await self._heard_aside(peer, message)
            return
        if isinstance(message, Admit | RefuseOffer) and self._inquiries.is_of_probe(peer, message):
            return
        if isinstance(message, handoff.Abort) and self.asked.get(message.transfer) == peer:
            del self.asked[message.transfer]
            return
        going = await self._of(peer, message)
        if going is None:
            return
        grant = await self._grant(going, message) if isinstance(message, ReleaseTo | Took | Already) else None
        going.heard = time.monotonic()
        if isinstance(message, Admit):
            going.notes = message.notes
        event = handoff.event_of(message, grant=grant, at_ms=now_ms())
        if isinstance(message, handoff.Abort) and going.asker == peer:  # A wish of who asked; the target hears of it.
            event = Event(what=Happening.CANCELLED, why=message.why, at_ms=now_ms())
        if isinstance(message, RefuseOffer):
            going.way, going.refused = message.way, True
        if isinstance(message, Offer) and going.one.stage is Stage.NONE:
            if not await self._has_room(going, message):
                return
            self._turns.acts.alone(going, Act.CHECK, self._turns.acts.check(going, message))
            return
        await self._turns.happen(going, event)

    async def _has_room(self, going: Going, offer: Offer) -> bool:
        """Whether one more offer of a device is looked into, once others of it are; else that device is told why not.

        So nothing that one member says makes this device keep more than so much, in memory or on disk.
        """
        peer, goings = going.peer, self._turns.goings

        def theirs() -> list[Going]:
            return [one for one in goings.values() if one.peer == peer and one.one.side is Side.TARGET]

        if sum(one.one.stage in (Stage.NONE, *UNTAKEN) for one in theirs() if one is not going) >= HANDOFF_OFFERED_MAX:
            if not going.busy:
                goings.pop(going.transfer, None)
            if peer not in self._crowded:
                self._crowded.add(peer)
                log.warn("handoffs_too_many", device=device_text(peer)[:19], count=HANDOFF_OFFERED_MAX)
            why = (
                f"{HANDOFF_OFFERED_MAX} sessions of that device are on their way there already, and none was released."
            )
            await self._ways.send(
                peer,
                RefuseOffer(
                    transfer=offer.transfer, session=offer.session, why=why, way="Try again when one of them is over."
                ),
            )
            return False
        self._crowded.discard(peer)
        while len(busy := [one.busy[Act.CHECK] for one in theirs() if Act.CHECK in one.busy]) >= HANDOFF_CHECKED_MAX:
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def _grant(self, going: Going, message: ReleaseTo | Took | Already) -> Grant:
        """The release in a message, its signature looked at. FormatError costs the link.

        It was looked at before where it is the very one that this device signed or took; and it is once more, in the
        transaction, where it is to be taken now.
        """
        raw, one = message.statement, going.one
        to_take = isinstance(message, ReleaseTo) and one.side is Side.TARGET and one.stage not in TAKEN
        if to_take or raw == one.record.release:
            return grant_of(lineage.decode(raw))
        return await self._ways.read(lambda control: verified(control.store, control.me, raw))

    async def _of(self, peer: DeviceId, message: AnyMessage) -> Going | None:
        """The handoff that a message is of; None where it is another device's, or nothing is known of it."""
        going = self._turns.goings.get(message.transfer)
        if going is None:
            record = await self._ways.read(lambda control: handoff_journal.last(control.store, message.transfer))
            if record is not None:
                going = kept(record, self._ways.me)
            elif isinstance(message, handoff.Abort | handoff.Superseded):
                return None
            else:
                going = Going(
                    handoff.unknown(
                        me=self._ways.me,
                        side=handoff.side_of(message),
                        peer=peer,
                        transfer=message.transfer,
                        session=message.session,
                    )
                )
            going = self._turns.goings.setdefault(message.transfer, going)
        if (going.peer, going.session) != (peer, message.session):
            if going.asker == peer and going.session == message.session and isinstance(message, handoff.Abort):
                return going  # Who asked for it gives it up.
            return None
        return going

    async def _heard_aside(self, peer: DeviceId, message: AnyAside) -> None:
        match message:
            case Probe():
                await self._probed_by(peer, message)
            case Inquire():
                raise FormatError("a question came on the channel of handoffs, and has one of its own")
            case Please() if sum(one == peer for one in self.asked.values()) >= HANDOFF_PLEASED_MAX:
                why = f"{HANDOFF_PLEASED_MAX} sessions are asked for at once already; nothing was changed. Ask again."
                await self._ways.send(peer, _not_done(message, why))
            case Please():
                self.asked[message.transfer] = peer
                self._ways.soon(self._asked_by(peer, message))
            case Told():
                self._askings.told(peer, message)
            case Rehearsed():
                self._turns.acts.rehearsal.answered(message)
            case Begun():
                await self._turns.begun(peer, message)
            case Rehearse(session=session, head=head):
                going = self._turns.goings.get(message.transfer)
                if going is not None and (going.peer, going.session) == (peer, session):
                    self._turns.acts.rehearsal.begin(going, head, asked=True)

    async def _probed_by(self, peer: DeviceId, probe: Probe) -> None:
        """Another device wants to know whether a session could come here."""

        def looked(control: ControlService) -> Fit:
            handoff_steps.insist_on_asker(control.store, control.me, peer)
            return handoff_steps.fit_closely(control.store, control.me, probe.session, probe.needs)

        said: Admit | RefuseOffer
        try:
            fit = await self._ways.read(looked)
            said = Admit(transfer=probe.transfer, session=probe.session, where=fit.where, notes=fit.notes)
        except (UserError, OSError) as error:
            said = RefuseOffer(transfer=probe.transfer, session=probe.session, why=why_of(error))
        await self._ways.send(peer, said)

    async def _asked_by(self, peer: DeviceId, please: Please) -> None:
        """Another device of this person wants a session that this one has at the device `to`."""

        def allowed(control: ControlService) -> None:
            handoff_steps.insist_on_asker(control.store, control.me, peer)
            handoff_steps.insist_on_target(control.store, control.me, please.to)

        try:
            await self._ways.store(allowed)
            if please.to == self._ways.me:
                raise RefusedError("It is here already; nothing was changed.")
            deadline_ms = min(please.deadline_ms or int(DEADLINE_SECONDS * 1000), HANDOFF_DEADLINE_MS_MAX)
            if please.transfer in self._turns.goings:
                raise RefusedError("That handoff is under way already; nothing was changed.")
            going = await self._wishes.wish(
                please.session, please.to, please.cancel_running, deadline_ms, please.transfer
            )
            if please.transfer not in self.asked:
                del self._turns.goings[please.transfer]
                raise RolledBackError(f"Given up: {LEFT}")
        except (UserError, OSError) as error:
            left = isinstance(error, RolledBackError)
            await self._ways.send(peer, _not_done(please, why_of(error), left=left))
            return
        finally:
            self.asked.pop(please.transfer, None)
        going.asker = peer
        await self._turns.happen(going, Event(what=Happening.WISHED, at_ms=now_ms()))


def _not_done(please: Please, why: str, *, left: bool = False) -> Told:
    """The word to who asked for a session that does not move; `left`: since who asked left."""
    return Told(
        transfer=please.transfer,
        session=please.session,
        stage=(Stage.ABORTED if left else Stage.NONE).value,
        sentence=handoff.bounded(why),
        over=True,
        status=int(Exit.ROLLED_BACK if left else Exit.REFUSED),
    )
