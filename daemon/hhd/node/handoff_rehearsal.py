"""The rehearsal of a handoff: what the target makes ready while the session still runs at the source.

The source asks for it when the rounds have brought nearly all, and pauses once it hears that it is done. Nothing of it
is in a journal, and no stage depends on it: what was not rehearsed is done later, when the session stands still.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from hhd.base import log
from hhd.base.errors import UserError
from hhd.node import handoff_steps
from hhd.node.handoff_going import Going
from hhd.node.handoff_ways import Ways
from hhd.node.looked import FRESH_SECONDS
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import UNTAKEN, Act, Rehearse, Rehearsed, Side
from hhd_protocol.ids import CheckpointId, TransferId
from hhd_protocol.limits import HANDOFF_NEAR_MS

if TYPE_CHECKING:
    from hhd.node.readied import Readied

ASK_SECONDS = 5.0
"""For the target to make ready: a first checkout of a large repository takes longer, and is then done in the pause."""


class Rehearsal:
    """At the source `ask`, at the target `begin`."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._asked: dict[TransferId, asyncio.Event] = {}

    # At the source

    async def ask(self, going: Going) -> None:
        """Have the target make ready for where the rounds came to; return once it has, or after some seconds."""
        if going.staged is None or self._ways.peers.link(going.peer) is None:
            return
        begin, answered = time.monotonic(), self._asked.setdefault(going.transfer, asyncio.Event())
        try:
            message = Rehearse(transfer=going.transfer, session=going.session, head=going.staged)
            await self._ways.send(going.peer, message)
            async with asyncio.timeout(ASK_SECONDS):
                await answered.wait()
        except TimeoutError:
            log.note("handoff_not_rehearsed", session=going.session.hex(), transfer=going.transfer.hex())
        finally:
            self._asked.pop(going.transfer, None)
        if time.monotonic() - begin > HANDOFF_NEAR_MS / 1000:  # Much may have been done meanwhile.
            await self._ways.syncing.wait_synced(going.session, going.peer, None)

    def answered(self, message: Rehearsed) -> None:
        """The target has made ready."""
        if (waiting := self._asked.get(message.transfer)) is not None:
            waiting.set()

    # At the target

    def begin(self, going: Going, head: CheckpointId, *, asked: bool) -> None:
        """Make ready for a run from `head`, beside everything else; `asked`: the source waits to hear of it."""
        if going.one.side is Side.TARGET and going.one.stage in UNTAKEN:
            before, going.rehearsing = going.rehearsing, None
            going.rehearsing = self._ways.begin(self._rehearsed(going, head, before, asked))

    async def _rehearsed(
        self, going: Going, head: CheckpointId, before: asyncio.Task[None] | None, asked: bool
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await asyncio.gather(self.load(going, head), self._files(going, head, asked))
        except (UserError, OSError, FormatError) as error:  # It is met again, and told, when it counts.
            if asked:
                log.fault("handoff_rehearsal", error, session=going.session.hex(), transfer=going.transfer.hex())
        if asked:
            done = Rehearsed(transfer=going.transfer, session=going.session, head=head)
            await self._ways.send(going.peer, done)

    async def load(self, going: Going, head: CheckpointId) -> None:
        """Read all of `head`, and have its program loaded; raises UserError where either is not as it should be."""
        if going.loaded == head:
            return
        session = going.session
        program = await self._ways.read(lambda control: handoff_steps.load(control.store, session, head))
        if going.program != program:
            await self._ways.workers.ready(session, head)
        going.loaded, going.program = head, program

    async def _files(self, going: Going, head: CheckpointId, asked: bool) -> None:
        """See what is in the folder that its files are to appear in; `asked`: and prepare them there."""
        session, called = going.session, going.called
        if going.looked is None:
            going.looked = await self._ways.read(
                lambda control: handoff_steps.look(control.store, control.me, session, called)
            )
        if not asked:
            return  # The session runs on: its head is another one by the time it comes.
        await self.drop_files(going)
        looked = going.looked
        going.readied = await self._ways.read(
            lambda control: handoff_steps.ready(control.store, control.me, session, head, called, looked)
        )
        if going.one.stage in UNTAKEN:
            asyncio.get_running_loop().call_later(FRESH_SECONDS, self._stale, going, going.readied)
        else:
            await self.drop_files(going)

    def _stale(self, going: Going, readied: Readied | None) -> None:
        if readied is not None and going.readied is readied and Act.OPEN not in going.busy:
            self._ways.soon(self.drop_files(going))

    async def drop_files(self, going: Going) -> None:
        """Leave nothing of files that were prepared."""
        readied, going.readied = going.readied, None
        if readied is None:
            return
        try:
            await asyncio.to_thread(readied.drop)
        except UserError as error:  # The next start does it.
            log.fault("handoff_files", error, session=going.session.hex(), transfer=going.transfer.hex())
