"""Whether a session could run on another device, with nothing moved for it: asked here, or by another device.

The device that has the session asks the one that is meant, with a probe. A person at any other device asks the one that
has it, on a channel of its own (`protocol/spec/handoff.md`, Inquiries): a device that knows nothing of that ends the
channel, and hands nothing over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter

from hhd.base import log
from hhd.base.errors import Exit, RefusedError, UserError
from hhd.base.text import visible
from hhd.node.answers.handoff import Moved
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.going import why_of
from hhd.node.handoff.ways import Ways
from hhd.node.refused import short
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import handoff
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import Admit, Inquire, Probe, RefuseOffer, Stage, Told
from hhd_protocol.ids import DeviceId, SessionId, TransferId
from hhd_protocol.limits import HANDOFF_INQUIRIES_MAX, HANDOFF_INQUIRIES_PEER_MAX

CHANNEL = "inquiry"
PROBE_SECONDS = 20.0
"""For the other device to look whether a session could run there."""
REPLY_SECONDS = PROBE_SECONDS + 5.0
"""For the device that has the session to ask the other one, and to say what it heard."""


class Inquiries:
    """`ready`: set once the journals are read; nothing is answered before."""

    def __init__(self, ways: Ways, ready: asyncio.Event) -> None:
        self._ways, self._ready = ways, ready
        self._probes: dict[TransferId, tuple[DeviceId, asyncio.Future[Admit | RefuseOffer]]] = {}
        self._looked_into = Counter[DeviceId]()

    # Asked here

    async def could_go(self, session: SessionId, owner: DeviceId, target: DeviceId) -> Moved:
        """Say that `session`, which `owner` has, could run on `target`; raises RefusedError where it could not."""
        mine = owner == self._ways.me
        said = await (self._probed(session, target) if mine else self._asked(session, owner, target))
        return Moved(
            transfer=said.transfer.hex(),
            session=session.hex(),
            stage=said.stage,
            sentence=said.sentence,
            notes=said.notes,
            over=True,
            continuity="nothing was sent",
            ownership="this device has it" if mine else f"{self._ways.names(owner)} has it",
        )

    async def _asked(self, session: SessionId, owner: DeviceId, target: DeviceId) -> Told:
        """What the device that has the session says; raises RefusedError with its reason, or why it says nothing."""
        name, shown = self._ways.names(owner), short(session)
        link = await self._ways.peers.coming(owner)
        if link is None:
            raise RefusedError(
                f"{name} has session {shown}, and is not connected, so it cannot be asked; nothing was changed. "
                f"If it does not come back: hhd takeover {shown} --reason TEXT"
            )
        inquire = Inquire(transfer=TransferId(os.urandom(16)), session=session, to=target)
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                said = await self._answer_to(inquire, link)
        except TimeoutError:
            raise RefusedError(f"{name} did not answer; nothing was changed.") from None
        except LinkError:
            raise RefusedError(f"The link to {name} broke before it answered; nothing was changed.") from None
        except FormatError as error:
            log.fault("peer_broke_rules", error, device=device_text(owner), address=link.remote)
            link.cut("the rules were broken")
            raise RefusedError(
                f"What {name} answered is no answer, so its link was cut; nothing was changed."
            ) from None
        if said is None:
            raise RefusedError(
                f"{name} runs an older hhd, which cannot be asked this from here; nothing was changed. Ask there: hhd "
                f"transfer {shown} {self._ways.names(target)} --dry-run"
            )
        if said.status != Exit.DONE:
            words = visible(f"{said.sentence} {said.way}".strip(), one_line=True)
            raise RefusedError(f"{name} says: {words}")
        return said

    @staticmethod
    async def _answer_to(inquire: Inquire, link: Link) -> Told | None:
        """Ask over `link`; None from a device that knows no such question. Raises LinkError, FormatError."""
        channel = await link.open(CHANNEL, urgent=True)
        try:
            # One that knows no such question may have ended the channel before this is said on it.
            with contextlib.suppress(LinkError):
                await channel.send(handoff.encode_message(inquire))
            raw = await channel.receive()
        finally:
            with contextlib.suppress(LinkError):
                await channel.close()
        if raw is None:
            return None
        said = handoff.decode_message(raw)
        if not isinstance(said, Told) or (said.transfer, said.session) != (inquire.transfer, inquire.session):
            raise FormatError("a question was answered with something else than its answer")
        if not said.over or (said.status == Exit.DONE) != (said.stage == Stage.ADMITTED.value):
            raise FormatError("a question was answered with what is not over, or with two minds")
        return said

    # Asked by another device

    async def serve(self, channel: Channel, link: Link) -> None:
        """Answer the one question of a channel. FormatError costs the link."""
        await self._ready.wait()
        raw = await channel.receive()
        if raw is None:
            return
        asked = handoff.decode_message(raw)
        if not isinstance(asked, Inquire):
            raise FormatError("something else than a question came where one is asked")
        await channel.send(handoff.encode_message(await self._answer(link.peer, asked)))

    async def _answer(self, peer: DeviceId, asked: Inquire) -> Told:
        if not self._has_place_for(peer):
            return refused(asked, "It is asked too much of this at once; nothing was changed. Ask again.")
        self._looked_into[peer] += 1
        try:
            await self._ways.read(lambda control: handoff_steps.insist_on_asker(control.store, control.me, peer))
            await self._ways.read(lambda control: handoff_steps.insist_on_target(control.store, control.me, asked.to))
            if asked.to == self._ways.me:
                raise RefusedError("It is here already; nothing was changed.")
            said = await self._probed(asked.session, asked.to)
        except (UserError, OSError, LinkError) as error:
            return refused(asked, why_of(error))
        finally:
            self._looked_into[peer] -= 1
            self._looked_into += Counter()  # Without those that ask nothing now.
        return Told(
            transfer=asked.transfer,
            session=asked.session,
            stage=said.stage,
            sentence=said.sentence,
            notes=said.notes,
            over=True,
        )

    def _has_place_for(self, peer: DeviceId) -> bool:
        """Whether one more question of `peer` is looked into; its first one always is, whatever the others ask."""
        its, all_of_them = self._looked_into[peer], self._looked_into.total()
        return not its or (its < HANDOFF_INQUIRIES_PEER_MAX and all_of_them < HANDOFF_INQUIRIES_MAX)

    # At the device that has the session

    async def _probed(self, session: SessionId, target: DeviceId) -> Told:
        """What `target` says of `session`, which this device has; raises RefusedError where it could not run there."""
        link = await self._ways.insist_on_link(target)
        transfer, chosen = TransferId(os.urandom(16)), self._ways.workers.chosen(session)[1]
        offer = await self._ways.offer(session, transfer, chosen, target)
        name = self._ways.names(target)
        future: asyncio.Future[Admit | RefuseOffer] = asyncio.get_running_loop().create_future()
        self._probes[transfer] = target, future
        gone = asyncio.ensure_future(link.ended())
        try:
            probe = Probe(
                transfer=transfer, session=session, hhd=offer.hhd, token=offer.token, head=offer.head, needs=offer.needs
            )
            await self._ways.send(target, probe)
            await asyncio.wait((future, gone), timeout=PROBE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                how = "is not connected any more" if gone.done() else "did not answer"
                raise RefusedError(f"{name} {how}; nothing was changed.")
            answer = future.result()
        finally:
            gone.cancel()
            del self._probes[transfer]
        if isinstance(answer, RefuseOffer):
            raise RefusedError(f"{answer.why} {answer.way}".strip() + " Nothing was changed.")
        where = f", into {answer.where}" if answer.where else ""
        return Told(
            transfer=transfer,
            session=session,
            stage=Stage.ADMITTED.value,
            sentence=handoff.bounded(f"It could go to {name}{where}."),
            notes=answer.notes,
            over=True,
        )

    def is_of_probe(self, peer: DeviceId, message: Admit | RefuseOffer) -> bool:
        """Whether it answers a probe; then who asked has it."""
        target, future = self._probes.get(message.transfer, (None, None))
        if target != peer or future is None:
            return False
        if not future.done():
            future.set_result(message)
        return True


def refused(asked: Inquire, why: str) -> Told:
    """The answer where it could not go, or this device may not or cannot say."""
    return Told(
        transfer=asked.transfer,
        session=asked.session,
        stage=Stage.NONE.value,
        sentence=handoff.bounded(why),
        over=True,
        status=int(Exit.REFUSED),
    )
