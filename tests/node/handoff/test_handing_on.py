"""The door of TAKEN: a release whose head is not complete here is not taken yet, and is once the rest came."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.two import Device, brought, devices

from hhd.base.errors import RefusedError
from hhd.node import here, listing, sessions
from hhd.node.handoff import handing_on
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff.handing_on import NotYetError
from hhd.store.checkpoints import refs_of
from hhd_protocol import lineage
from hhd_protocol.handoff import Grant, Record, Side, Stage
from hhd_protocol.ids import CheckpointId, EpochId, SessionId, StatementId, TransferId

pytestmark = needs_agent


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    script = [GLOB, says(call("bash", command="echo one"))]
    with devices(tmp_path, script, "laptop", "desktop", "tower", rules={"allow": []}) as made:
        yield made


@pytest.fixture
def asking(three: list[Device]) -> SessionId:
    session = three[0].create()
    three[0].go_here(session)
    return session


def released(source: Device, target: Device, session: SessionId) -> Grant:
    """The release of a session, that only `source` has."""
    transfer = TransferId(os.urandom(16))
    return handing_on.release(
        source.store, source.me, session, to=target.me.id, transfer=transfer, head=None, then=lambda _: None
    )


def statements_came(source: Device, target: Device, session: SessionId, *, but: set[StatementId]) -> None:
    """The family's keys and all statements of a session are at `target`, without those of `but`, and no content."""
    family = source.store.family(session)
    keys = family.wrapped(target.me.public, source.me.seed, source.store.random)
    with target.store.transaction():
        target.store.families.accept(
            keys, by_public=source.me.public, seed=target.me.seed, current=EpochId(family.epoch)
        )
        target.store.create_session(session, family=family.id)
        for signed in source.store.statements.all(session):
            if signed.id not in but:
                target.store.statements.add(session, signed.raw)


def objects_came(source: Device, target: Device, head: CheckpointId, *, but: int) -> None:
    """The objects of a checkpoint are at `target`, without the last ones, and without the checkpoint itself."""
    checkpoint = source.store.checkpoint(head)
    names = [ref.name for ref in source.store.reader_of(checkpoint).needs(refs_of(checkpoint))]
    assert len(names) > but
    with target.store.transaction():
        for name in names[: len(names) - but]:
            raw = source.store.objects.raw(name)
            assert raw is not None
            target.store.objects.put(raw)


def take(target: Device, grant: Grant) -> None:
    def journal(taken: Grant) -> None:
        assert taken.transfer is not None
        handoff_journal.keep(
            target.store,
            Record(
                side=Side.TARGET,
                stage=Stage.TAKEN,
                transfer=taken.transfer,
                session=taken.session,
                peer=taken.by,
                release=taken.raw,
                at_ms=target.store.now_ms(),
            ),
        )

    handing_on.take(target.store, target.me, grant.raw, then=journal)


def state(target: Device, grant: Grant) -> tuple[object, ...]:
    """All of a session that taking it would change."""
    store, session = target.store, grant.session
    assert grant.transfer is not None
    view = sessions.view(store, target.me, session)
    return (
        store.statements.listed(session),
        store.checkpoint_ids(session),
        None if view.token is None else view.token.id,
        view.owner,
        handoff_journal.records(store, grant.transfer),
        here.noted(store, session),
        listing.get(store, session),
    )


def not_yet(target: Device, grant: Grant, why: str) -> None:
    """The release is not taken now, however often it is asked, and nothing is written."""
    before = state(target, grant)
    for _ in range(2):
        with pytest.raises(RefusedError) as refused:
            take(target, grant)
        assert type(refused.value) is NotYetError, refused.value
        assert why in str(refused.value)
        assert state(target, grant) == before
    assert sessions.view(target.store, target.me, grant.session).owner != target.me.id


def taken(target: Device, grant: Grant) -> None:
    """The release is taken now."""
    take(target, grant)
    assert grant.transfer is not None
    assert sessions.view(target.store, target.me, grant.session).owner == target.me.id
    assert [one.stage for one in handoff_journal.records(target.store, grant.transfer)] == [Stage.TAKEN]
    listed = listing.get(target.store, grant.session)
    assert listed is not None and listed.owner == target.me.id


def test_a_release_whose_checkpoint_has_not_come_is_not_taken_before_it_has(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three
    grant = released(laptop, desktop, asking)
    assert grant.head is not None
    statements_came(laptop, desktop, asking, but={grant.head, lineage.decode(grant.raw).id})
    not_yet(desktop, grant, "not come yet")
    brought(laptop, desktop, asking)
    taken(desktop, grant)


@pytest.mark.parametrize("lacking", ["all", "one"])
def test_a_release_whose_content_is_not_whole_is_not_taken_before_it_is(
    three: list[Device], asking: SessionId, lacking: str
) -> None:
    laptop, desktop, _ = three
    grant = released(laptop, desktop, asking)
    assert grant.head is not None
    statements_came(laptop, desktop, asking, but={lineage.decode(grant.raw).id})
    if lacking == "one":
        objects_came(laptop, desktop, grant.head, but=1)
    not_yet(desktop, grant, "The checkpoint that the release names has not come yet.")
    brought(laptop, desktop, asking)
    taken(desktop, grant)


def test_a_release_is_not_taken_before_the_record_before_it_has_come(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, tower = three
    brought(laptop, desktop, asking)
    brought(laptop, tower, asking)
    first = released(laptop, desktop, asking)
    take(desktop, first)
    grant = released(desktop, tower, asking)
    not_yet(tower, grant, "The records before the release have not come yet.")
    tower.store.statements.add(asking, first.raw)
    taken(tower, grant)


def test_the_same_release_is_refused_on_a_third_device_and_taken_on_the_one_that_it_names(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, tower = three
    grant = released(laptop, desktop, asking)
    for other in desktop, tower:
        brought(laptop, other, asking)
    before = state(tower, grant)
    with pytest.raises(RefusedError, match=r"This release is for device .*, and this is .*; nothing was changed"):
        take(tower, grant)
    assert state(tower, grant) == before
    taken(desktop, grant)
