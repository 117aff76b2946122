"""What a revoked device signs later grants nothing, and what it signed before counts on; real statements in stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.circles import NOW, Owned, devices
from tests.node.lines import Made, turn

from hhd.node.doors import Doors
from hhd.node.lineages import Lineage, lineage_of
from hhd.node.members import members
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CreateBody
from hhd_protocol.holding import Why
from hhd_protocol.ids import CheckpointId, FamilyId, StatementId


def begun(laptop: Owned) -> Made:
    """A session of the laptop."""
    body = CreateBody(
        session=None,
        by=laptop.me.id,
        after=None,
        seq=0,
        incarnation=laptop.store.incarnation,
        at_ms=NOW,
        family=FamilyId(bytes(16)),
    )
    create = lineage.sign(body, laptop.me.seed)
    laptop.store.create_session(create.session)
    laptop.store.statements.add(create.session, create.raw)
    return Made(store=laptop.store, me=laptop.me, id=create.session, create=create, tips={laptop.me.id: create})


def meaning(of: Owned, made: Made) -> Lineage:
    return lineage_of(of.store, made.id, members(of.store, of.me))


def told(made: Made, store: Store) -> None:
    """Bring all statements of a session to another store, as a peer would."""
    create = made.create
    if create.session not in store.sessions():
        store.create_session(create.session)
    for signed in made.store.statements.all(made.id):
        store.statements.add(made.id, signed.raw)


def head(made: Made) -> CheckpointId:
    return made.store.heads(made.id)[0]


@pytest.mark.parametrize("first", ["revoked", "taken over"])
def test_a_takeover_by_a_revoked_device_grants_nothing_unless_it_came_before(tmp_path: Path, first: str) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        made = begun(laptop)
        made.work([turn(1)], on=None)
        if first == "revoked":
            laptop.group.revoke(desktop.me.id, NOW)
            made.takeover(head(made), prev=made.create, by=desktop.me.seed)
        else:
            made.takeover(head(made), prev=made.create, by=desktop.me.seed)
            laptop.group.revoke(desktop.me.id, NOW)
        view = meaning(laptop, made).view
        assert view.revoked == {desktop.me.id}
        assert view.owner == (laptop.me.id if first == "revoked" else desktop.me.id)
        assert view.owner_revoked is (first == "taken over")
        assert bool(view.sealed) is (first == "revoked")


def test_work_of_a_revoked_device_is_kept_sealed_and_work_from_before_is_a_head(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        made = begun(laptop)
        fork = made.work([turn(1)], on=None)
        theirs = made.takeover(fork, prev=made.create, by=desktop.me.seed)
        before = made.work([turn(2)], on=fork, token=theirs, by=desktop.me.seed)
        done = laptop.group.revoke(desktop.me.id, NOW)
        assert done.owned == (made.id,)
        after = made.work([turn(3)], on=before, token=theirs, by=desktop.me.seed)
        found = meaning(laptop, made)
        assert found.heads == [before] and after in found.view.sealed
        ours = made.takeover(before, prev=theirs)
        view = meaning(laptop, made).view
        assert view.owner == laptop.me.id and view.token is not None and view.token.id == ours.id
        assert not view.owner_revoked and view.main == before


def test_cut_offs_of_two_members_unite_in_what_counts(tmp_path: Path) -> None:
    """The tower saw one checkpoint more of the desktop than the laptop when each put it out, apart."""
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        made = begun(laptop)
        fork = made.work([turn(1)], on=None)
        theirs = made.takeover(fork, prev=made.create, by=desktop.me.seed)
        laptop.group.revoke(desktop.me.id, NOW)
        more = made.work([turn(2)], on=fork, token=theirs, by=desktop.me.seed)
        assert more in meaning(laptop, made).view.sealed
        told(made, tower.store)
        tower.group.revoke(desktop.me.id, NOW)
        laptop.hears(tower)
        tower.hears(laptop)
        for one in (laptop, tower):
            view = meaning(one, made).view
            assert more not in view.sealed and more in view.heads and view.owner == desktop.me.id


def test_a_device_that_is_out_is_told_so_by_its_doors_and_one_that_is_added_again_takes_over(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        made = begun(desktop)  # The desktop's own session.
        made.work([turn(1)], on=None)
        doors = Doors(desktop.store, desktop.me, made.id)
        assert doors.may_append() is None
        told(made, laptop.store)
        laptop.group.revoke(desktop.me.id, NOW)
        out = made.work([turn(2)], on=head(made))
        desktop.hears(laptop)
        doors.look()
        refusal = doors.may_append()
        assert refusal is not None and refusal.why is Why.REVOKED, "it noticed without being opened anew"

        laptop.adds(desktop)
        doors.look()
        assert desktop.group.group is not None
        live = desktop.group.group.devices[desktop.me.id].live
        assert live is not None and doors.part.after == live.id, "its chain begins anew at the membership"
        assert doors.seq > made.tip().body.seq, "its numbers go on"
        view = meaning(desktop, made).view
        assert out in view.sealed and view.revoked == frozenset()
        refusal = doors.may_append()
        assert refusal is not None and refusal.why is Why.ADDED_AGAIN
        anew = lineage.TakeoverBody(
            session=made.id,
            by=desktop.me.id,
            after=StatementId(live.id),
            seq=doors.seq,
            incarnation=desktop.store.incarnation,
            at_ms=NOW,
            prev=made.create.id,
            number=2,
            head=view.main,
            reason="it is back",
        )
        signed = lineage.sign(anew, desktop.me.seed)
        desktop.store.statements.add(made.id, signed.raw)
        doors = Doors(desktop.store, desktop.me, made.id)
        assert doors.may_append() is None and doors.part.after == signed.id
        told(made, laptop.store)
        for one in (laptop, desktop):
            view = meaning(one, made).view
            assert view.owner == desktop.me.id and view.token is not None and view.token.id == signed.id
            assert view.rolled_back == frozenset()


def test_what_was_signed_while_out_cannot_be_put_into_the_new_chain(tmp_path: Path) -> None:
    """A thief with the key signed a chain of its own from the start; it does not begin at the membership."""
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        made = begun(laptop)
        made.work([turn(1)], on=None)
        laptop.group.revoke(desktop.me.id, NOW)
        stolen = made.takeover(head(made), prev=made.create, by=desktop.me.seed)
        laptop.adds(desktop)
        view = meaning(laptop, made).view
        assert view.owner == laptop.me.id and stolen.id in view.sealed
        more = made.takeover(head(made), prev=made.create, by=desktop.me.seed)
        assert more.id in meaning(laptop, made).view.sealed, "what follows it is sealed as well"
