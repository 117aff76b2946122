"""How a session rests whose process has ended: as it said itself, or as it was seen to end."""

from __future__ import annotations

import asyncio
import os
import signal

from hhd.base.errors import Exit, UserError, error_of
from hhd.node import pair
from hhd.node.forks import Worker
from hhd.node.going import Going
from hhd.node.naming import ID_SHOWN
from hhd.store.errors import BusyError
from hhd_protocol import live

ALONE = (
    "None of your other devices has answered since this one woke, so nothing more was begun; it goes on by itself once "
    "those that are linked have, and at once if you resume it here."
)

BUSY = "Another process held the store for too long, so it was not gone on with; that is tried again by itself."


def state(name: str, sentence: str = "", ways: tuple[str, ...] = (), *, status: int = 0) -> live.State:
    """Return a state that no effect belongs to."""
    return live.State(name=name, sentence=sentence, ways=ways, effect="", status=int(status))


async def silent(going: Going, worker: Worker) -> live.State:
    """Return how a session is whose process ended without a word."""
    for _ in range(50):  # The word of how it ended comes by another way, and may come a little later.
        if going.cause or worker.status is not None:
            break
        await asyncio.sleep(0.01)
    why = going.cause or f"Its process ended without a word ({_ended_by(worker.status)})."
    sentence = f"{why} Every step that was done is kept; what was being done may have to be settled."
    return state("ended", sentence, (f"hhd resume {going.session.hex()[:ID_SHOWN]}",), status=Exit.UNEXPECTED)


def hindered(error: Exception) -> str:
    """Return why a session that should run could not be begun."""
    if isinstance(error, BusyError):
        return BUSY
    why = f"The system said: {error.strerror or error}." if isinstance(error, OSError) else error
    return f"It was not gone on with, which is tried again by itself: {why}"


def told(over: pair.Over, *, goes_on: bool) -> live.State:
    """Return how a session is whose process said how it ended; `goes_on`: the next daemon starts it again."""
    sentence, name = over.sentence, {"interrupted": "paused", "failed": "ended"}.get(over.end, over.end)
    if over.end == "busy":
        return state("waiting", BUSY, over.ways, status=over.status)
    if over.end == "alone":
        return state("waiting", ALONE, over.ways, status=over.status)
    if goes_on:
        sentence = "Paused, since the daemon ends; it goes on when the daemon starts again."
    return live.State(name=name, sentence=sentence, ways=over.ways, effect=over.effect, status=over.status)


def error(over: pair.Over) -> UserError:
    """Return what its process said as the error of who wanted it to run."""
    return error_of(Exit(over.status) if over.status in range(1, 6) else Exit.UNEXPECTED, over.sentence or "It ended.")


def _ended_by(status: int | None) -> str:
    if status is None:
        return "nobody said how"
    if os.WIFSIGNALED(status):
        return f"by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"with status {os.waitstatus_to_exitcode(status)}"
