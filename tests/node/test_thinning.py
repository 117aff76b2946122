"""What `hhd gc` leaves of sessions: records, heads, where sessions and lines parted, what a person picked."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.node import lines
from tests.node.lines import Made, made, service, turn
from tests.workspace.by_hand import repository

import hhd.store.captures
from hhd.node import registry, workspaces
from hhd.node import store as door
from hhd.store.check import Check
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CreateBody, Origin
from hhd_protocol.ids import CheckpointId, FamilyId, Incarnation, SessionId, StatementId


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    folder = Path(os.environ["HHD_CONFIG_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text("[store]\nfree_bytes_min = 0\nkeep_days = 0\n")
    lines.grouped(monkeypatch)
    with door.opened() as opened:
        yield opened


def forked(one: Made, checkpoint: CheckpointId) -> None:
    """Another session that began from `checkpoint`, as `hhd fork` makes it."""
    body = CreateBody(
        session=None,
        by=one.me.id,
        after=None,
        seq=0,
        incarnation=Incarnation(bytes(16)),
        at_ms=1_800_000_000_000,
        family=FamilyId(bytes(16)),
        origin=Origin(session=one.id, checkpoint=checkpoint),
    )
    signed = lineage.sign(body, one.me.seed)
    one.store.create_session(signed.session, family=one.store.session(one.id).family)
    one.store.statements.add(signed.session, signed.raw)


def thinned(one: Made) -> list[bool]:
    return [one.store.checkpoint(id).thinned for id in one.store.checkpoint_ids(one.id)]


def test_records_stay_and_so_does_the_content_of_heads_of_where_forks_began_and_of_what_was_picked(
    store: Store,
) -> None:
    one = made(store, says=[turn(n) for n in range(1, 7)])
    ids = store.checkpoint_ids(one.id)
    before = store.statements.all(one.id)
    forked(one, ids[2])
    registry.opened(store).pick(one.id, ids[4])
    told, _ = door.collect(dry_run=True)
    assert told.thinned == 3 and not any(thinned(one))
    swept, _ = door.collect(dry_run=False)
    assert swept.thinned == 3
    assert thinned(one) == [True, True, False, True, False, False]
    assert store.statements.all(one.id) == before
    logged = {entry.id: entry.thinned for entry in service(store).log("the parser") if entry.id in map(bytes.hex, ids)}
    assert logged == {id.hex(): gone for id, gone in zip(ids, thinned(one), strict=True)}
    assert not Check(store, read_data=True).run().findings


def test_what_two_heads_parted_from_stays(store: Store) -> None:
    both = lines.apart(store, [turn(2), turn(3)], [turn(2), turn(3)])
    door.collect(dry_run=False)
    kept = {id for id in store.checkpoint_ids(both.made.id) if not store.checkpoint(id).thinned}
    assert kept == {both.fork, both.here, both.there}


def test_nothing_of_a_capture_that_is_being_taken_is_freed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = repository(tmp_path / "source")
    for number in range(4):
        (source / f"large{number}").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr(hhd.store.captures, "OBJECT_BYTES", 1 << 20)
    real: Callable[..., object] = workspaces.capture

    def swept_meanwhile(*given: object, **named: object) -> object:
        made = real(*given, **named)
        door.collect(dry_run=False)
        return made

    monkeypatch.setattr(workspaces, "capture", swept_meanwhile)
    with workspaces.opened() as verbs:
        kept = verbs.capture(source)
        monkeypatch.undo()
        assert not Check(store, read_data=True).run().findings
        assert verbs.apply(kept.capture, tmp_path / "again").folder == str(tmp_path / "again")
    assert (tmp_path / "again" / "large3").read_bytes() == (source / "large3").read_bytes()


def test_more_sessions_than_a_process_may_have_files_are_swept(store: Store) -> None:
    with store.transaction():
        for _ in range(150):
            store.create_session(SessionId(StatementId(os.urandom(32))))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # What other tests of this process have open counts, too; each session's own lock would need one more.
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 100, hard))
    try:
        assert door.collect(dry_run=False)[0].busy == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
