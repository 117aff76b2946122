"""The rehearsal of a handoff: what the target makes ready while the session still runs at the source.

The source asks for it when the rounds have brought nearly all, and pauses once it hears that it is done. Nothing of it
is in a journal, and no stage depends on it: what was not rehearsed is done later, when the session stands still.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from hhd.base import log
from hhd.base.errors import RefusedError, UserError
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.going import Going, why_of
from hhd.node.handoff.ways import Ways
from hhd.node.looked import FRESH_SECONDS
from hhd.workspace.errors import NotOurs
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import UNTAKEN, Act, Rehearse, Rehearsed, Side
from hhd_protocol.ids import CheckpointId, TransferId
from hhd_protocol.limits import HANDOFF_NEAR_MS

if TYPE_CHECKING:
    from hhd.node.readied import Readied

ASK_SECONDS = 30.0
"""For the target to make ready, while the session runs on: a first checkout of a large repository takes as long."""


ANSWERS_MAX = 8
"""Owed to one handoff at a time: a source asks once or twice, and who asks on and on has it kept in no memory."""


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
        """Make ready for a run from `head`, beside everything else; `asked`: the source waits to hear of it.

        Asked once more for the same, because a word was lost or it takes long, it goes on with what it does.
        """
        if going.one.side is not Side.TARGET or going.one.stage not in UNTAKEN or going.answers_owed >= ANSWERS_MAX:
            return
        going.rehearsing = self._ways.begin(self._loaded(going, head, going.rehearsing, asked))
        if going.readying is None or (asked and going.readying_for != head):
            going.readying_for = head if asked else None
            going.readying = self._ways.begin(self._files(going, going.readying_for, going.readying))
        if asked:
            self._ways.keep_open(going.transfer)
            going.answers_owed += 1
            self._ways.soon(self._say(going, head, [one for one in (going.rehearsing, going.readying) if one]))

    async def _say(self, going: Going, head: CheckpointId, doing: list[asyncio.Task[None]]) -> None:
        try:
            if doing:
                await asyncio.wait(doing)
            await self._ways.send(going.peer, Rehearsed(transfer=going.transfer, session=going.session, head=head))
        finally:
            going.answers_owed -= 1

    async def _loaded(self, going: Going, head: CheckpointId, before: asyncio.Task[None] | None, asked: bool) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self.load(going, head)
            if asked:  # The pause is near: what it asks the store for is at hand then.
                session = going.session
                await self._ways.store(lambda control: handoff_steps.warm(control.store, control.me, session))
        except (UserError, OSError, FormatError) as error:  # It is met again, and told, when it counts.
            if asked:
                self._fault(going, error)

    def _fault(self, going: Going, error: Exception) -> None:
        log.fault("handoff_rehearsal", error, session=going.session.hex(), transfer=going.transfer.hex())

    async def load(self, going: Going, head: CheckpointId) -> None:
        """Read all of `head`, and have its program loaded; raises UserError where either is not as it should be."""
        if going.loaded == head:
            return
        session = going.session
        program = await self._ways.read(lambda control: handoff_steps.load(control.store, session, head))
        if going.program != program:
            await self._ways.workers.ready(session, head)
        going.loaded, going.program = head, program

    async def _files(self, going: Going, head: CheckpointId | None, before: asyncio.Task[None] | None) -> None:
        """See what is in the folder that its files are to appear in, and prepare those of `head` there.

        Not before the source asks (None): the session runs on, and its head is another one by the time it comes.
        """
        session, called = going.session, going.called
        if before is not None:
            await asyncio.wait([before])
        try:
            if going.looked is None or not going.looked.is_fresh:
                going.looked = await self._ways.read(
                    lambda control: handoff_steps.look(control.store, control.me, session, called)
                )
            if head is None:
                return
            going.unready = None
            await self.drop_files(going)
            going.readied = await self._ways.read(
                lambda control: handoff_steps.ready(control.store, control.me, session, head, called, going.looked)
            )
            asyncio.get_running_loop().call_later(FRESH_SECONDS, self._stale, going, going.readied)
        except NotOurs:  # Ordinary: a person's files are there, and its own will appear in a folder of ours.
            log.note("handoff_folder_left_alone", session=session.hex(), transfer=going.transfer.hex())
        except (UserError, OSError, FormatError) as error:  # It is tried again before the session is released.
            if head is not None:
                going.unready = error
                self._fault(going, error)

    async def insist_on_files(self, going: Going, head: CheckpointId) -> None:
        """Where files could not be prepared, try it once more with those of `head`; where those of another head were,
        see that there is still room. Raises RefusedError: while it may still be given up, a full disk there is no
        reason to leave a device where its files are whole."""
        if going.readying is not None and not going.readying.done():
            return  # A first checkout of a large repository: the release does not wait for it.
        if going.unready is None:
            if going.readied is None or going.readying_for != head:
                session, size = going.session, going.size_bytes
                await self._ways.read(lambda control: handoff_steps.insist_on_disk(control.store, session, size))
            return
        going.readying_for = head
        going.readying = self._ways.begin(self._files(going, head, going.readying))
        if going.readying is not None:
            await asyncio.wait([going.readying])
        if going.unready is not None:
            raise RefusedError(f"Its files cannot appear there: {why_of(going.unready)}")

    def _stale(self, going: Going, readied: Readied | None) -> None:
        if readied is not None and going.readied is readied and Act.OPEN not in going.busy:
            self._ways.soon(self.drop_files(going))

    async def wait_for_files(self, going: Going) -> None:
        """Wait for files that are being prepared, if they are those of the head that is released."""
        if going.readying is not None and going.readying_for == going.one.head:
            await asyncio.wait([going.readying])

    def taken(self, going: Going) -> Readied | None:
        """Return files that were prepared, now the caller's to drop: nobody else may while they are switched to."""
        readied, going.readied = going.readied, None
        return readied

    async def drop_files(self, going: Going) -> None:
        """Leave nothing of files that were prepared, unless somebody has taken them."""
        await self.drop(going, self.taken(going))

    async def drop(self, going: Going, readied: Readied | None) -> None:
        """Leave nothing of what was prepared."""
        if readied is None:
            return
        try:
            await asyncio.to_thread(readied.drop)
        except UserError as error:  # The next start does it.
            log.fault("handoff_files", error, session=going.session.hex(), transfer=going.transfer.hex())
