"""Workers that wait at their shut gates, each for a session that another device is about to hand over.

A spare has its session's program loaded and put to the memory that is named, and compared; nothing of it has run. It is
told to begin once the session is this device's, or ended: nothing else comes of it, and none stays for long.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from hhd.base.errors import RefusedError
from hhd.node import pair
from hhd.node.forks import Forks, Worker
from hhd_protocol.ids import CheckpointId, SessionId, StatementId

SPARE_SECONDS = 60.0
"""A handoff whose session was rehearsed is released within seconds, or not at all."""

SPARES_MAX = 4
"""At a time: each has the memory of its program twice. Sessions beyond that are loaded when they begin."""

READY_SECONDS = 30.0
"""To load and compare a program: one of the largest takes a few."""


@dataclass(eq=False)
class _Spare:
    worker: Worker
    head: CheckpointId
    ready: asyncio.Future[pair.Prepared]
    end: asyncio.TimerHandle


class Spares:
    """All of one daemon; used by the loop's thread."""

    def __init__(self, forks: Forks) -> None:
        self._forks = forks
        self._spares: dict[SessionId, _Spare] = {}

    async def ready(self, order: pair.Prepare, *, with_model: bool) -> bool:
        """Have a worker wait for a session; False where there are too many already.

        Raises RefusedError where its program does not load, or is not as it was, OSError where nothing can be forked.
        """
        session, head = SessionId(StatementId(order.session)), CheckpointId(StatementId(order.head))
        spare = self._spares.get(session)
        if spare is None or spare.head != head:
            self.drop(session)
            if len(self._spares) >= SPARES_MAX:
                return False
            worker = await self._forks.fork(with_model=with_model)
            loop = asyncio.get_running_loop()
            spare = _Spare(worker, head, loop.create_future(), loop.call_later(SPARE_SECONDS, self.drop, session))
            self._spares[session] = spare
            worker.on_message = lambda message: self._heard(session, worker, message)
            worker.on_end = lambda: self._gone(session, worker)
            worker.say(order)
        try:
            async with asyncio.timeout(READY_SECONDS):
                prepared = await asyncio.shield(spare.ready)
        except TimeoutError:
            self.drop(session)
            return False
        if prepared.problem:
            self.drop(session)
            raise RefusedError(prepared.problem)
        return True

    async def once(self, order: pair.Recapture) -> pair.Recaptured:
        """Have a worker do what is said, and end; raises RefusedError with what it says, OSError."""
        worker = await self._forks.fork(with_model=False)
        done: asyncio.Future[pair.Recaptured | None] = asyncio.get_running_loop().create_future()

        def heard(message: pair.FromWorker | None) -> None:
            if not done.done() and (message is None or isinstance(message, pair.Recaptured)):
                done.set_result(message)

        worker.on_message, worker.on_end = heard, lambda: heard(None)
        worker.say(order)
        try:
            said = await done
        finally:
            worker.close()
        if said is None or said.problem:
            raise RefusedError("Its process ended without a word." if said is None else said.problem)
        return said

    def take(self, session: SessionId) -> Worker | None:
        """The worker that waits for a session and is ready, now the caller's; None where none is."""
        spare = self._spares.get(session)
        if spare is None or not spare.ready.done() or spare.ready.exception() or spare.ready.result().problem:
            self.drop(session)
            return None
        del self._spares[session]
        spare.end.cancel()
        return spare.worker

    def drop(self, session: SessionId) -> None:
        """End the worker that waits for a session, if one does."""
        spare = self._spares.pop(session, None)
        if spare is None:
            return
        spare.end.cancel()
        self._fail(spare)
        spare.worker.close()

    def _heard(self, session: SessionId, worker: Worker, message: pair.FromWorker) -> None:
        spare = self._spares.get(session)
        if spare is not None and spare.worker is worker and isinstance(message, pair.Prepared):
            with contextlib.suppress(asyncio.InvalidStateError):
                spare.ready.set_result(message)

    def _gone(self, session: SessionId, worker: Worker) -> None:
        spare = self._spares.get(session)
        if spare is not None and spare.worker is worker:
            del self._spares[session]
            spare.end.cancel()
            self._fail(spare)

    def _fail(self, spare: _Spare) -> None:
        if not spare.ready.done():
            spare.ready.set_exception(RefusedError("The process that was to wait for the session ended."))
            spare.ready.exception()  # Perhaps nobody waits for it.
