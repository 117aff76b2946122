"""Sessions of the store worked at in the foreground: begun, gone on with, told about; the store is open meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hhd.effects.confine import Workspace
from hhd.identity.key import Identity
from hhd.node import head_facts, here, listed_step, naming, opening, programs, sessions, start, turning
from hhd.node import store as door
from hhd.node.capsules import STATUS, effect_fields
from hhd.node.ended import Ended, Settle
from hhd.node.face import Face
from hhd.node.lineages import lineage_of
from hhd.node.members import members
from hhd.node.moment import Moment
from hhd.node.nudging import Nudge
from hhd.runtime.outcomes import StopFlag
from hhd.store.store import Store
from hhd_protocol.ids import SessionId


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """The store of this device, `me`, open."""

    store: Store
    me: Identity

    def create(self, prompt: str, *, folder: Path, once: bool) -> SessionId:
        """Make a session of the agent with `prompt`, which this device owns; `folder` is noted here.

        Raises RefusedError, with nothing made, where `folder` cannot be worked in.
        """
        with Workspace(folder):  # What cannot be worked in is refused before anything is made.
            pass
        args = programs.encode_args(start.arguments(prompt, once=once))
        return sessions.create(self.store, self.me, program="agent", args=args, folder=folder.resolve())

    def folder(self, session: SessionId) -> Path | None:
        """Return where a session last was at work on this device, None if nowhere."""
        noted = here.noted(self.store, session)
        return None if noted is None else noted.folder

    def named(self, name: str) -> SessionId:
        """Return the session that a person means by `name`; raises UsageError, RefusedError."""
        return naming.session(self.store, name).id

    def turn_to(self, session: SessionId, head: str) -> None:
        """Take a session, to go on from the head that a person means; raises UsageError, RefusedError, BusyError."""
        lineage = lineage_of(self.store, session, members(self.store, self.me))
        chosen = naming.head(lineage.heads, head, head_facts.of(self.store, session).names(lineage.tips))
        turning.turn_to(self.store, self.me, session, chosen, f"to go on from head {chosen.hex()[: naming.ID_SHOWN]}")

    def go_on(
        self,
        session: SessionId,
        *,
        folder: Path | None,
        model: str | None,
        face: Face,
        stop: StopFlag,
        settle: tuple[str, str] | None = None,
    ) -> Ended:
        """Drive a session until it ends, waits or is interrupted, in `folder` or where it last was at work here.

        `settle`: what a person says of an effect that may have run (ran, did-not-run, again), and its output.
        """
        word = None if settle is None else Settle(how=settle[0], output=settle[1])
        with opening.stored(
            self.store, self.me, session, folder=folder, model=model, face=face, stop=stop, settle=word
        ) as run:
            listed_step.begun(self.store, session)
            nudge, keeper = Nudge(session), run.session.keeper
            run.session.on_saved = lambda: nudge.stepped(intent=keeper.intended)
            try:
                return run.go()
            finally:
                nudge.close()

    def fields(self, session: SessionId) -> dict[str, object]:
        """What the JSON object of a run says of a session."""
        main = sessions.view(self.store, self.me, session).main
        found: dict[str, object] = {"session": session.hex()}
        if main is None:
            return found
        standing = Moment(self.store, naming.checkpoint(self.store, session, main.hex())).standing
        return found | {
            "status": STATUS[standing.at],
            "effect": effect_fields(standing.journal),
            "checks_total": standing.checks,
            "steps": standing.steps,
            "transcript_bytes": standing.transcript_bytes,
            "program": standing.program,
        }


@contextlib.contextmanager
def opened() -> Iterator[Workbench]:
    """The store, opened; made now if there never was one."""
    me = door.identity()
    with Store.open(door.store_folder(), seed=me.seed, limits=door.limits()) as store:
        yield Workbench(store=store, me=me)
