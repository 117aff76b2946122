"""A handoff that a person wants here, of a session that another device has: that one is asked, and says how it goes.

What it said is kept for `hhd transfers` (`asked_notes`). Nothing rests on it: the two devices of the handoff know.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from hhd.base.errors import RefusedError, UserError
from hhd.node import asked_notes
from hhd.node.answers.handoff import Moved
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff import wishes as handoff_wishes
from hhd.node.handoff.going import now_ms
from hhd.node.handoff.progress import quiet, silent, stated
from hhd.node.handoff.ways import Ways
from hhd.node.refused import short
from hhd_protocol import handoff
from hhd_protocol.handoff import Please, Stage, Told
from hhd_protocol.ids import DeviceId, SessionId, TransferId

QUIET_SECONDS = 5.0
"""Without a word of a device that is not connected, until it is said that nothing is heard; of one that is, twice."""
LEAVE_SECONDS = 5.0
"""For the device that has the session to say that it gave it up, to who leaves."""
WAITING_MAX = 64
"""Words that are not told yet: a handoff has seven."""
LEFT = "The person who asked for it left."
_GONE = frozenset(stage.value for stage in (Stage.RELEASED, Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED))


@dataclass(eq=False)
class Asked:
    """One that was asked for. `last`: what was said of it last, `heard`: set whenever something is."""

    please: Please
    owner: DeviceId
    last: Moved | None = None
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    queue: asyncio.Queue[Moved] = field(default_factory=lambda: asyncio.Queue(WAITING_MAX))
    keeping: bool = False
    """What is known of it is about to be kept, the last of it."""
    known_released: bool = False
    """Records that came another way say that it is."""

    @property
    def over(self) -> bool:
        return self.last is not None and self.last.over

    @property
    def released(self) -> bool:
        return self.known_released or (self.last is not None and self.last.stage in _GONE)


class Askings:
    """All that were asked for here and are not over."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._open: dict[TransferId, Asked] = {}

    async def follow(
        self, session: SessionId, owner: DeviceId, target: DeviceId, cancel_running: bool, deadline_ms: int
    ) -> AsyncIterator[Moved]:
        """Ask the device that has the session to hand it on, and tell what it says.

        Where that device says nothing more, the last step is uncertain: nobody here knows whether it was released.
        """
        if await self._ways.peers.coming(owner) is None:
            raise RefusedError(
                f"{self._ways.names(owner)} has session {short(session)}, and is not connected; nothing was changed. "
                f"If it does not come back: hhd takeover {short(session)} --reason TEXT"
            )
        please = Please(
            transfer=TransferId(os.urandom(16)),
            session=session,
            to=target,
            cancel_running=cancel_running,
            deadline_ms=deadline_ms,
        )
        asked = self._open[please.transfer] = Asked(please, owner)
        self._keep(asked)
        try:
            await self._ways.send(owner, please)
            async for moved in self._heard(asked, deadline_ms / 1000):
                yield moved
        finally:
            self._open.pop(please.transfer, None)
            if not asked.over and not asked.released:
                self._ways.soon(self._give_up(asked))

    async def _heard(self, asked: Asked, deadline: float) -> AsyncIterator[Moved]:
        clock = asyncio.get_running_loop().time
        since = clock()
        said: bool | None = None
        """Whether it was linked when silence was told last, None where it was not yet: a link that is lost is news."""
        while not asked.over or not asked.queue.empty():
            until = since + handoff_wishes.REPLY_SECONDS + (0 if asked.released else deadline)
            try:
                async with asyncio.timeout(max(0.0, min(until - clock(), QUIET_SECONDS))):
                    moved = await asked.queue.get()
            except TimeoutError:
                linked = self._ways.peers.link(asked.owner) is not None
                if (said is not False) if not linked else (said is None and clock() - since >= 2 * QUIET_SECONDS):
                    said = linked
                    yield quiet(asked.please, asked.last, self._ways.names(asked.owner), linked=linked)
                if clock() >= until:
                    yield self._silent(asked)
                    return
                if not asked.released and await self._is_released(asked):
                    asked.known_released, since = True, clock()
                continue
            since, said = clock(), None
            yield self._stated(asked, moved) if moved.over else moved

    async def _is_released(self, asked: Asked) -> bool:
        """Whether records that came another way, from a third device or after the link was back, say so."""
        session, transfer = asked.please.session, asked.please.transfer
        with contextlib.suppress(UserError, OSError):
            return await self._ways.read(
                lambda control: handoff_steps.is_released(control.store, control.me, session, transfer)
            )
        return False

    def told(self, peer: DeviceId, message: Told) -> None:
        """The device that was asked to hand a session on says how it stands."""
        asked = self._open.get(message.transfer)
        if asked is None or (asked.owner, asked.please.session) != (peer, message.session) or asked.over:
            return
        asked.last = Moved(
            transfer=message.transfer.hex(),
            session=message.session.hex(),
            stage=message.stage,
            sentence=message.sentence,
            notes=message.notes,
            over=message.over,
            status=message.status if message.status in range(6) else 1,
            way=message.way,
        )
        if asked.queue.full():
            asked.queue.get_nowait()
        asked.queue.put_nowait(asked.last)
        asked.heard.set()
        self._keep(asked)

    async def leave(self, session: SessionId, transfer: str) -> Moved | None:
        """Give up what was asked for here, if it may be; say how it stands then, None where nothing was asked for.

        `transfer`: that one alone, in hex; "": whichever is of the session.
        """
        found = [one for one in self._open.values() if one.please.session == session]
        asked = next((one for one in found if transfer in ("", one.please.transfer.hex())), None)
        if asked is None:
            return None
        if not asked.over and not asked.released and self._ways.peers.link(asked.owner) is not None:
            await self._give_up(asked)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    while not asked.over and not asked.released:
                        asked.heard.clear()
                        await asked.heard.wait()
        if asked.last is None or not (asked.over or asked.released):
            return self._silent(asked)
        return self._stated(asked, asked.last) if asked.over else asked.last

    async def _give_up(self, asked: Asked) -> None:
        about = handoff.Abort(transfer=asked.please.transfer, session=asked.please.session, why=LEFT)
        await self._ways.send(asked.owner, about)

    def _stated(self, asked: Asked, moved: Moved) -> Moved:
        return stated(moved, self._ways.names(asked.owner), self._ways.names(asked.please.to))

    def _silent(self, asked: Asked) -> Moved:
        names = self._ways.names
        return silent(asked.please, names(asked.owner), names(asked.please.to), asked.released)

    def _keep(self, asked: Asked) -> None:
        """Keep what is known of it for who looks later; who watches does not wait for that, and much costs no more."""
        if asked.keeping:
            return
        asked.keeping = True

        async def keep() -> None:
            asked.keeping = False
            await self._ways.store(
                lambda control: asked_notes.keep(control.store, asked.please, asked.owner, asked.last, now_ms())
            )

        self._ways.soon(keep())
