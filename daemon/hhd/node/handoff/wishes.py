"""What a person wants of a handoff, at the source, whoever asks for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator

from hhd.base.errors import RefusedError
from hhd.node.answers.handoff import Moved
from hhd.node.handoff.going import Going
from hhd.node.handoff.progress import uncertain
from hhd.node.handoff.turns import Turns
from hhd.node.handoff.ways import Ways
from hhd.node.refused import short
from hhd_protocol import handoff
from hhd_protocol.handoff import Side, Stage
from hhd_protocol.ids import DeviceId, SessionId, TransferId

REPLY_SECONDS = 15.0
"""After the release, for the target to say that it took it; then who watches is told what to do."""


class Wishes:
    """Wishes that begin a handoff here."""

    def __init__(self, ways: Ways, turns: Turns) -> None:
        self._ways, self._turns = ways, turns

    async def wish(
        self,
        session: SessionId,
        target: DeviceId,
        cancel_running: bool,
        deadline_ms: int,
        transfer: TransferId | None = None,
    ) -> Going:
        """A handoff that is to begin; raises RefusedError where it cannot."""
        self._insist_on_none(session)
        await self._ways.insist_on_link(target)
        chosen = self._ways.workers.chosen(session)[1]
        made = transfer or TransferId(os.urandom(16))
        offer = await self._ways.offer(session, made, chosen, target)
        self._insist_on_none(session)  # Somebody else may have wished meanwhile.
        one = handoff.wished(
            me=self._ways.me, peer=target, offer=offer, cancel_running=cancel_running, deadline_ms=deadline_ms
        )
        going = self._turns.goings[made] = Going(one, until=time.monotonic() + deadline_ms / 1000)
        return going

    def _insist_on_none(self, session: SessionId) -> None:
        for going in self._turns.goings.values():
            if going.session == session and going.one.side is Side.SOURCE and not going.one.over:
                to = self._ways.names(going.peer)
                raise RefusedError(f"A handoff of session {short(session)} to {to} is under way: hhd transfers")

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
