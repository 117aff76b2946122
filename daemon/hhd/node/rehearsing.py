"""What a worker makes ready before the session that it is to run is this device's: program, memory, walls, store.

The program is loaded (compiled, if it never was here), put to the memory that the head names, and that is read back and
compared; nothing of it runs.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

from hhd.base import config
from hhd.base.errors import RefusedError, UserError
from hhd.node import opening, pair, sessions, workbench
from hhd.node.moment import Moment
from hhd.node.run import Here
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Limits
from hhd.store.store import Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.ids import CheckpointId, SessionId, StatementId


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The store, open, and what this device brings to a session."""

    bench: workbench.Workbench
    here: Here


def prepared(end: pair.End, wish: pair.Prepare, kept: contextlib.ExitStack) -> Prepared | None:
    """Make ready and say so; None, with that said, where it cannot be. What is opened ends with `kept`."""
    try:
        if wish.config is not None:
            config.hold(wish.config)
        with ThreadPoolExecutor(1) as beside:
            found = beside.submit(opening.here_with, wish.model)  # It waits for a program that tries the walls.
            bench = kept.enter_context(workbench.opened())
            insist_on_program(bench.store, CheckpointId(StatementId(wish.head)))
            sessions.view(bench.store, bench.me, SessionId(StatementId(wish.session)))  # It loads whatever that takes.
            here = found.result()
    except UserError as error:
        end.say(pair.Prepared(problem=str(error)))
        return None
    end.say(pair.Prepared())
    return Prepared(bench=bench, here=here)


def insist_on_program(store: Store, head: CheckpointId) -> None:
    """Raise UserError unless the program of a session loads here and takes the memory that it has at `head`."""
    moment = Moment(store, head)
    standing, snapshot = moment.standing, moment.snapshot
    module = Module.load(store.modules.get(standing.module))
    limits = Limits(memory_bytes=standing.limits.memory_bytes, transcript_bytes=standing.limits.transcript_bytes)
    if snapshot is None:
        Guest.start(module, args=standing.args, limits=limits)
        return
    guest = Guest.resume(module, snapshot, args=standing.args, limits=limits)
    if _told_apart(guest.snapshot()) != _told_apart(snapshot):
        raise RefusedError("The session's memory is not the same once it is loaded here.")


def _told_apart(snapshot: Snapshot) -> tuple[object, ...]:
    """What tells one memory from another: its size, the globals, a digest of the pages that are not the program's own.

    Pages that are as the program has them may be named or not: they are left out.
    """
    known = sha256(repr(list(snapshot.page_numbers)).encode())
    for piece in snapshot.pages:
        known.update(piece)
    return snapshot.memory_bytes, dict(snapshot.globals), known.digest()
