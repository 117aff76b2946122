"""A removed session stays removed; what the removing device did not know stays, and is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest
from tests.node import lines
from tests.node.circles import identity
from tests.node.lines import DESKTOP, Apart, apart, device, made, service, turn

from hhd.base.errors import RefusedError
from hhd.node import registry, removal
from hhd.node import store as door
from hhd.node.handoff import journal as handoff_journal
from hhd.store.check import Check
from hhd.store.errors import BusyError
from hhd.store.freshness import Fresh, Reached
from hhd.store.locks import Lock
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import IntentBody, TombstoneBody
from hhd_protocol.handoff import Record, Side, Stage
from hhd_protocol.ids import Incarnation, SessionId, Sha256, TransferId
from hhd_protocol.lineage import Signed


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lines.grouped(monkeypatch, removal)
    with door.opened() as opened:
        yield opened
        assert Check(opened, read_data=True).run().findings == []


@pytest.fixture
def both(store: Store) -> Apart:
    return apart(store, [turn(2)], [turn(2), turn(3)])


def tombstone(store: Store, both: Apart) -> Signed:
    (found,) = store.statements.tombstones(both.made.id)
    return found


def test_removing_here_leaves_no_tombstone_and_nothing_else(store: Store, both: Apart) -> None:
    other = made(store, "another", [turn(1)])
    verbs = service(store)
    shown = verbs.removal("the parser")
    assert sorted(shown.heads) == sorted([both.here.hex(), both.there.hex()]) and shown.checkpoints == 5
    assert verbs.remove(shown) == shown
    assert store.sessions() == [other.id] and store.statements.tombstones(both.made.id) == []
    assert store.checkpoint_ids(both.made.id) == []
    with pytest.raises(RefusedError, match="no session"):
        verbs.removal("the parser")


def test_it_is_said_first_what_no_other_device_has(store: Store, both: Apart) -> None:
    verbs = service(store)
    assert verbs.removal("the parser").warnings == (), "there is no other device to have it"
    store.freshness.note_devices({device(DESKTOP): "", identity("tower").id: ""})
    (none,) = verbs.removal("the parser").warnings
    assert none == "No other device has anything of it, as far as they said."
    count = store.checkpoints_count(both.made.id)
    for had, words in ((count - 1, "its last checkpoint"), (count - 2, "its last 2 checkpoints")):
        store.freshness.put(both.made.id, Fresh(0, {0: Reached(had), 1: Reached(1)}))
        assert verbs.removal("the parser").warnings == (f"No other device has {words}, as far as they said.",)
    assert verbs.removal("the parser", everywhere=True).warnings == (), "then it is to be nowhere"
    store.freshness.put(both.made.id, Fresh(0, {0: Reached(0), 1: Reached(count)}))
    assert verbs.removal("the parser").warnings == ()


def test_at_a_source_that_released_it_is_said_what_its_copy_is_for(store: Store, both: Apart) -> None:
    verbs = service(store)
    given = {"transfer": TransferId(bytes(16)), "session": both.made.id, "peer": device(DESKTOP), "side": Side.SOURCE}
    released = Record(**given, stage=Stage.RELEASED, head=both.here, release=b"r")
    with mock.patch.object(handoff_journal, "unfinished", lambda _: [released]):
        (warning,) = verbs.removal("the parser").warnings
    assert "released to desktop, which has not said that it took it" in warning and "hhd takeover" in warning
    taken = Record(**given | {"side": Side.TARGET}, stage=Stage.TAKEN, head=both.here, release=b"r")
    with mock.patch.object(handoff_journal, "unfinished", lambda _: [taken]):
        assert verbs.removal("the parser").warnings == ()


def test_removing_here_leaves_the_wish_to_have_no_copy_until_it_is_taken_back(store: Store, both: Apart) -> None:
    other, verbs, shared = made(store, "another", [turn(1)]), service(store), registry.opened(store)
    shown = verbs.removal("the parser")
    with pytest.raises(RefusedError):
        verbs.remove(replace(shown, heads=()))
    assert shared.follows(both.made.id, store.device) is None, "nothing was removed, so nothing is wished"
    verbs.remove(shown)
    assert shared.follows(both.made.id, store.device) is False
    assert shared.follows(both.made.id, lines.device(DESKTOP)) is None, "other devices keep their copies"
    assert shared.follows(other.id, store.device) is None
    shared.wish(both.made.id, store.device, True)
    assert registry.opened(store).follows(both.made.id, store.device) is True


def test_removing_everywhere_is_no_wish_of_one_device(store: Store, both: Apart) -> None:
    service(store).remove(service(store).removal("the parser", everywhere=True))
    assert registry.opened(store).follows(both.made.id, store.device) is None


def test_removing_everywhere_is_signed_and_names_what_was_known(store: Store, both: Apart) -> None:
    verbs, record = service(store), both.made.tip_record
    ids = store.checkpoint_ids(both.made.id)
    tip = store.statements.tip(both.made.id, store.device)
    verbs.remove(verbs.removal("the parser", everywhere=True))
    body = tombstone(store, both).body
    assert isinstance(body, TombstoneBody) and tip is not None
    assert lineage.verify(tombstone(store, both), both.made.me.public)
    assert body.after == tip.id and body.seq == tip.body.seq + 1
    assert set(body.heads) == {both.here, both.there} and (body.record, body.number) == (record.id, 3)
    assert set(body.covers) == {id[:8] for id in ids}
    assert store.statements.removed() == [both.made.id]


def test_what_comes_late_brings_nothing_back(store: Store, both: Apart) -> None:
    verbs = service(store)
    old = [one.raw for one in store.statements.all(both.made.id)]
    verbs.remove(verbs.removal("the parser", everywhere=True))
    for raw in old:
        store.statements.add(both.made.id, raw)
    assert store.sessions() == []
    with pytest.raises(RefusedError, match="no session"):
        verbs.heads(both.made.id.hex())


def test_a_device_with_newer_work_keeps_it_and_shows_that_it_was_removed(store: Store, both: Apart) -> None:
    verbs, work = service(store), both.made
    covered = [id[:8] for id in store.checkpoint_ids(work.id)]
    body = TombstoneBody(
        **work.chain(lines.DESKTOP),
        record=work.tip_record.id,
        number=3,
        heads=tuple(sorted([both.here, both.there])),
        covers=tuple(sorted(covered)),
    )
    theirs = lineage.sign(body, DESKTOP)
    newer = work.work([turn(9)], on=both.here, token=work.tip_record)
    assert not verbs.heads("the parser").removed
    store.statements.add(work.id, theirs.raw)
    heads = verbs.heads("the parser")
    assert heads.removed and newer.hex() in [head.id for head in heads.heads]
    assert [one.device.name for one in verbs.log("the parser") if one.kind == "tombstone"] == ["desktop"]
    verbs.remove(verbs.removal("the parser", everywhere=True))
    assert store.sessions() == [] and len(store.statements.tombstones(work.id)) == 2


def test_what_changed_since_it_was_shown_is_not_removed(store: Store, both: Apart) -> None:
    verbs = service(store)
    shown = verbs.removal("the parser")
    both.made.work([turn(9)], on=both.here, token=both.made.tip_record)
    with pytest.raises(RefusedError, match="changed since"):
        verbs.remove(shown)
    with pytest.raises(RefusedError, match="changed since"):
        verbs.remove(replace(verbs.removal("the parser"), heads=()))
    assert verbs.remove(verbs.removal("the parser")) and store.sessions() == []


def test_what_came_in_just_before_it_is_removed_is_looked_at_too(
    store: Store, both: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs, advance = service(store), store.advance
    shown = verbs.removal("the parser", everywhere=True)

    def others_first(session: SessionId) -> Lock:
        both.made.work([turn(9)], on=both.here, token=both.made.tip_record)
        return advance(session)

    with monkeypatch.context() as patched:
        patched.setattr(store, "advance", others_first)
        with pytest.raises(RefusedError, match="changed since"):
            verbs.remove(shown)
    assert store.sessions() == [both.made.id] and store.statements.tombstones(both.made.id) == []
    verbs.remove(verbs.removal("the parser", everywhere=True))
    assert store.sessions() == []


def test_a_tombstone_follows_what_a_rolled_back_store_was_given_back(store: Store, both: Apart) -> None:
    """Else the chain forks, and others take this device for one that may have forgotten more."""
    work, verbs = both.made, service(store)
    tip = store.statements.tip(work.id, store.device)
    chain = {**work.chain(work.me.seed), "incarnation": Incarnation(bytes(16))}
    lost = lineage.sign(
        IntentBody(**chain, token=work.id, position=0, op="tool", request=Sha256(bytes(32))), work.me.seed
    )
    store.statements.add(work.id, lost.raw)
    assert store.statements.tip(work.id, store.device) == tip
    verbs.remove(verbs.removal("the parser", everywhere=True))
    assert (tombstone(store, both).body.after, tombstone(store, both).body.seq) == (lost.id, lost.body.seq + 1)


def test_what_another_process_advances_is_not_removed(store: Store, both: Apart) -> None:
    verbs = service(store)
    lock = store.advance(both.made.id)
    try:
        with pytest.raises(BusyError):
            verbs.remove(verbs.removal("the parser", everywhere=True))
        assert store.sessions() == [both.made.id] and store.statements.tombstones(both.made.id) == []
    finally:
        lock.release()
    verbs.remove(verbs.removal("the parser"))
