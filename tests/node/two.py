"""Two devices of one group in one process, and what a session has on one of them brought to the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.node.driven import Person
from tests.node.stored import Laptop

from hhd.effects.confine import Workspace
from hhd.node import here, sessions
from hhd.node.captures import Captures
from hhd.node.control import ControlService
from hhd.node.ended import End, Ended
from hhd.node.group import Membership
from hhd.node.run import Run
from hhd.node.sessions import StoredSession
from hhd.node.words import Words
from hhd.store.check import Check
from hhd.store.checkpoints import refs_of
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.ids import CheckpointId, EpochId, SessionId
from hhd_protocol.statements import Role

NOW = 1_764_000_000_000


class Device(Laptop):
    """A device whose sessions capture their folder, as a command has it."""

    def go_here(self, session: SessionId, person: Person | None = None, folder: Path | None = None) -> Ended:
        """Go on with a session in the folder where it works here."""
        noted = here.noted(self.store, session)
        where = folder or (self.repo if noted is None or noted.folder is None else noted.folder)
        with Workspace(where) as workspace, StoredSession(self.store, self.me, session) as one:
            one.keeper.owner.folder = workspace.folder
            one.keeper.captures = Captures(
                self.store, session, workspace.folder, last=one.keeper.workspace, say=lambda _: None
            )
            run = Run(session=one, here=self.here(), workspace=workspace, face=person or Person())
            words, pending = Words(store=self.store, session=session), one.standing.journal.pending
            if pending is not None:
                run.settlement = words.settlement(pending)
            return run.go()

    @property
    def control(self) -> ControlService:
        return ControlService(store=self.store, me=self.me)

    @property
    def group(self) -> Membership:
        return Membership(self.store, self.me)

    def main(self, session: SessionId) -> CheckpointId:
        found = sessions.view(self.store, self.me, session).main
        assert found is not None
        return CheckpointId(found)


@contextmanager
def devices(
    folder: Path, script: list[Any], *names: str, rules: dict[str, object] | None = None
) -> Iterator[list[Device]]:
    """Devices of one group; at the end each store holds together."""
    made = [Device(folder=folder / name, script=script) for name in names]
    for one in made:
        if rules is not None:
            one.rules = rules
    first = made[0]
    first.group.found(names[0], NOW)
    for name, other in zip(names[1:], made[1:], strict=True):
        first.group.add(other.me.public, name, Role.FULL, NOW)
        root = first.store.group.root()
        assert root is not None
        other.group.join(first.group.records(), root, NOW)
        first.group.take(other.group.records())
    for other in made[1:]:
        other.group.take(first.group.records())
    try:
        yield made
        for one in made:
            assert Check(one.store, read_data=True).run().findings == []
    finally:
        for one in made:
            one.store.close()


def waits_for_a_yes(device: Device) -> SessionId:
    """A session that waits for a yes to its script's second call, a command, in a folder with one file."""
    (device.repo / "notes").write_text(f"of the {device.folder.name}\n")
    session = device.create()
    assert device.go_here(session).end is End.WAITING
    return session


def brought(source: Device, target: Device, session: SessionId) -> None:
    """What `sync` does: all that `source` has of a session becomes durable at `target`, in one transaction."""
    family = source.store.family(session)
    keys = family.wrapped(target.me.public, source.me.seed, source.store.random)
    statements = source.store.statements.all(session)
    here_ids = set(source.store.checkpoint_ids(session))
    there = target.store
    with there.transaction():
        there.families.accept(keys, by_public=source.me.public, seed=target.me.seed, current=EpochId(family.epoch))
        there.create_session(session, family=family.id)
        for signed in statements:
            if not (isinstance(signed.body, CheckpointBody) and signed.id in here_ids):
                there.statements.add(session, signed.raw)
        known = set(there.checkpoint_ids(session))
        for id in source.store.checkpoint_ids(session):
            if id in known:
                continue
            checkpoint = source.store.checkpoint(id)
            for ref in source.store.reader_of(checkpoint).needs(refs_of(checkpoint)):
                raw = source.store.objects.raw(ref.name)
                assert raw is not None
                there.objects.put(raw)
            digest = checkpoint.payload.module
            if digest is not None and digest not in there.modules.all():
                there.modules.put(source.store.modules.get(digest))
            there.commit(checkpoint)
