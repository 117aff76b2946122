"""What goes on by itself: handoffs that a journal holds, after a start, and those that are late or unheard of."""

from __future__ import annotations

import asyncio
import time

from hhd.base import log
from hhd.base.errors import UserError
from hhd.node import unfinished
from hhd.node.control import ControlService
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.going import DEADLINE_SECONDS, Going, kept, now_ms
from hhd.node.handoff.turns import Turns
from hhd.node.handoff.ways import Ways
from hhd_protocol import handoff
from hhd_protocol.handoff import UNTAKEN, Act, Event, Handoff, Happening, Record, Side, Stage
from hhd_protocol.ids import TransferId

AGAIN_SECONDS = 5.0
"""Without a word and without anything to do here: then what may have been lost is said again."""
LOOK_SECONDS = 1.0
FILES_SECONDS = 20.0
"""Between two looks at what was taken from files."""


class Again:
    """Begun once, after a start; then it looks again and again."""

    def __init__(self, ways: Ways, turns: Turns) -> None:
        self._ways, self._turns = ways, turns
        self._from_files: set[TransferId] = set()
        """Taken by a person, as was seen at the last look."""

    async def recover(self) -> None:
        """Put what the journals hold back into memory, and end what a crash left half-way in folders."""
        try:
            await asyncio.to_thread(unfinished.ended)
        except (UserError, OSError) as error:  # It is met again where it matters.
            log.fault("handoff_unfinished", error)
        for record in await self._ways.store(lambda control: handoff_journal.unfinished(control.store)):
            going = self._turns.goings[record.transfer] = kept(record, self._ways.me)
            going.one = await self._offered_again(going.one)

    def begin(self) -> None:
        """Go on with all that was recovered."""
        for going in list(self._turns.goings.values()):
            self._ways.soon(self._begin_again(going))
        self._ways.soon(self._let_run())

    async def _let_run(self) -> None:
        """Let run on what was given up right before the daemon ended."""
        for record in await self._ways.read(lambda control: handoff_steps.held_by_none(control.store)):
            if record.transfer not in self._turns.goings:
                self._ways.soon(self._turns.acts.resume(kept(record, self._ways.me)))

    async def look_after(self) -> None:
        """Look after what is under way, until it is cancelled."""
        files_at = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if time.monotonic() - files_at >= FILES_SECONDS:
                files_at = time.monotonic()
                self._ways.soon(self._tell_of_files())
            for going in list(self._turns.goings.values()):
                if not going.looked_after:  # A store that is slow is not asked again before it has answered.
                    going.looked_after = True
                    self._ways.soon(self._look_once(going))

    async def _tell_of_files(self) -> None:
        """Have the source hear of what a person took from a file, beside this daemon: seen twice, so that nothing that
        is just ending here is begun anew."""

        def taken(control: ControlService) -> list[Record]:
            return [
                one
                for one in handoff_journal.unfinished(control.store)
                if (one.side, one.stage) == (Side.TARGET, Stage.TAKEN)
                and handoff_steps.is_opened(control.store, one.transfer)
            ]

        try:
            found = {one.transfer: one for one in await self._ways.read(taken)}
        except (UserError, OSError):
            return
        fresh = found.keys() - self._turns.goings.keys()
        known, self._from_files = fresh & self._from_files, fresh
        for transfer in known - self._turns.goings.keys():
            going = self._turns.goings[transfer] = kept(found[transfer], self._ways.me)
            going.opened = True
            await self._turns.due(going)

    async def _offered_again(self, one: Handoff) -> Handoff:
        """A handoff that nobody answered yet, with its offer made anew; as it is where that cannot be."""
        if one.side is Side.TARGET or one.stage is not Stage.OFFERED:
            return one
        session, transfer = one.record.session, one.record.transfer
        try:
            offer = await self._ways.read(
                lambda control: handoff_steps.offer_of(control.store, control.me, session, transfer, None)
            )
        except (UserError, OSError):
            return one
        return handoff.recovered(one.record, me=self._ways.me, offer=offer)

    async def _begin_again(self, going: Going) -> None:
        """Go on with a handoff that a journal holds, after a start."""
        one, transfer = going.one, going.transfer
        if one.stage is Stage.OFFERED and one.offer is None:
            why = "It cannot be offered any more: the session has changed."
            await self._turns.happen(going, Event(what=Happening.FAILED, why=why, at_ms=now_ms()))
            return
        taken = one.side is Side.TARGET and one.stage in (Stage.TAKEN, Stage.ACKNOWLEDGED)
        going.opened = taken and await self._ways.read(lambda control: handoff_steps.is_opened(control.store, transfer))
        if taken and not going.opened:
            self._turns.acts.alone(going, Act.OPEN, self._turns.acts.open(going))
        await self._turns.watch(going)
        await self._turns.due(going)

    async def _look_once(self, going: Going) -> None:
        try:
            await self._look(going)
        finally:
            going.looked_after = False

    async def _look(self, going: Going) -> None:
        now = time.monotonic()
        if going.one.may_be_given_up and going.until and now > going.until:
            why = "Its time was over before it was released."
            await self._turns.happen(going, Event(what=Happening.CANCELLED, why=why, at_ms=now_ms()))
        elif going.one.side is Side.TARGET and going.one.stage in UNTAKEN and now > going.heard + DEADLINE_SECONDS:
            why = "Nothing was heard of the other device for long."
            await self._turns.happen(going, Event(what=Happening.CANCELLED, why=why, at_ms=now_ms()))
        elif not (going.busy or going.turn.locked() or going.one.over) and now > going.heard + AGAIN_SECONDS:
            await self._turns.watch(going)
            await self._turns.due(going)
