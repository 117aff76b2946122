"""What a person wants of a handoff, at the source or at another device."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator

from hhd.base.errors import RefusedError
from hhd.node import handoff_steps
from hhd.node.answers.handoff import Moved
from hhd.node.handoff_going import Going
from hhd.node.handoff_progress import silent, stated, uncertain
from hhd.node.handoff_turns import Turns
from hhd.node.handoff_ways import Ways
from hhd.node.refused import short
from hhd_protocol import handoff
from hhd_protocol.handoff import Please, Side, Stage, Told
from hhd_protocol.ids import DeviceId, SessionId, TransferId

REPLY_SECONDS = 15.0
"""After the release, for the target to say that it took it; then who watches is told what to do."""


class Wishes:
    """Wishes that begin a handoff here, and those that wait for what another device says."""

    def __init__(self, ways: Ways, turns: Turns) -> None:
        self._ways, self._turns = ways, turns
        self._asked: dict[TransferId, asyncio.Queue[Moved]] = {}

    async def wish(
        self,
        session: SessionId,
        target: DeviceId,
        cancel_running: bool,
        deadline_ms: int,
        transfer: TransferId | None = None,
    ) -> Going:
        """A handoff that is to begin; raises RefusedError where it cannot."""
        for going in self._turns.goings.values():
            if going.session == session and going.one.side is Side.SOURCE and not going.one.over:
                to = self._ways.names(going.peer)
                raise RefusedError(f"A handoff of session {short(session)} to {to} is under way: hhd transfers")
        self._ways.insist_on_link(target)
        chosen = self._ways.workers.chosen(session)[1]
        made = transfer or TransferId(os.urandom(16))
        offer = await self._ways.read(
            lambda control: handoff_steps.offer_of(control.store, control.me, session, made, chosen)
        )
        one = handoff.wished(
            me=self._ways.me, peer=target, offer=offer, cancel_running=cancel_running, deadline_ms=deadline_ms
        )
        going = self._turns.goings[made] = Going(one, until=time.monotonic() + deadline_ms / 1000)
        return going

    async def followed(self, going: Going, queue: asyncio.Queue[Moved]) -> AsyncIterator[Moved]:
        """Each step, until it is over here or, released, nothing is heard of the target for long."""
        while True:
            waits = REPLY_SECONDS if going.one.stage is Stage.RELEASED else None
            try:
                async with asyncio.timeout(waits):
                    moved = await queue.get()
            except TimeoutError:
                if going.one.stage is not Stage.RELEASED:
                    continue  # It was taken meanwhile; that it runs there is waited for, too.
                yield uncertain(going, self._ways.names(going.peer))
                return
            yield moved
            if moved.over:
                return

    async def asked_of(
        self, session: SessionId, owner: DeviceId, target: DeviceId, cancel_running: bool, deadline_ms: int
    ) -> AsyncIterator[Moved]:
        """Ask the device that has the session to hand it on, and tell what it says.

        Where that device says nothing more, the last step is uncertain: nobody here knows whether it was released.
        """
        if self._ways.peers.link(owner) is None:
            raise RefusedError(
                f"{self._ways.names(owner)} has session {short(session)}, and is not connected; nothing was changed. "
                f"If it does not come back: hhd takeover {short(session)} --reason TEXT"
            )
        transfer = TransferId(os.urandom(16))
        queue = self._asked[transfer] = asyncio.Queue()
        please = Please(
            transfer=transfer, session=session, to=target, cancel_running=cancel_running, deadline_ms=deadline_ms
        )
        released = False
        try:
            await self._ways.send(owner, please)
            while True:
                waits = REPLY_SECONDS + (0 if released else deadline_ms / 1000)
                async with asyncio.timeout(waits):
                    moved = await queue.get()
                released = released or moved.stage in ("released", "taken", "acknowledged")
                if moved.over:
                    released = True
                    yield stated(moved, self._ways.names(owner), self._ways.names(target))
                    return
                yield moved
        except TimeoutError:
            yield silent(please, self._ways.names(owner), self._ways.names(target), released)
        finally:
            self._asked.pop(transfer, None)
            if not released:
                about = handoff.Abort(transfer=transfer, session=session, why="The person who asked for it left.")
                self._ways.soon(self._ways.send(owner, about))

    def told(self, message: Told) -> None:
        """The device that was asked to hand a session on says how it stands."""
        queue = self._asked.get(message.transfer)
        if queue is not None:
            moved = Moved(
                transfer=message.transfer.hex(),
                session=message.session.hex(),
                stage=message.stage,
                sentence=message.sentence,
                notes=message.notes,
                over=message.over,
                status=message.status if message.status in range(6) else 1,
                way=message.way,
            )
            queue.put_nowait(moved)
