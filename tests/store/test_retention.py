"""What is thinned, what stays, and that nothing needed is freed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.conftest import ALICE, BOB, SEED, Memory, flat

from hhd.store.check import Check
from hhd.store.errors import ThinnedError
from hhd.store.folders import EACH_MAX, Folders
from hhd.store.line import Line
from hhd.store.retention import DAY_MS, folder_bytes, sweep
from hhd.store.store import Limits, Store
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture, Content, Entry, Kind


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * DAY_MS

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def aged(folder: Path, clock: Clock) -> Store:
    return Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0), now_ms=clock)


def test_heads_fork_points_picked_and_young_turns_stay_and_all_records_do(aged: Store, clock: Clock) -> None:
    family = aged.create_session(ALICE).family
    aged.create_session(BOB, family=family)
    memory, line = Memory(30), Line(aged, ALICE)
    made, pages = [], []
    for step in range(120):
        clock.now += DAY_MS // 2
        made.append(
            line.checkpoint(changed=memory.edit(3), snapshot=memory.snapshot(), turn=step % 4 == 0, logs={"l": b"x\n"})
        )
        pages.append(dict(memory.pages))
    fork = Line(aged, BOB, made[50])
    fork_head = fork.checkpoint(snapshot=memory.snapshot())
    told = sweep(aged, keep_days=10, picked={made[20]}, dry_run=True)
    assert not any(aged.checkpoint(one).thinned for one in made)
    before = aged.database.first("SELECT count(*) FROM objects")
    swept = sweep(aged, keep_days=10, picked={made[20]})
    assert swept == told and swept.thinned and swept.objects
    after = aged.database.first("SELECT count(*) FROM objects")
    assert before is not None and after is not None and before[0] - after[0] == swept.objects  # type: ignore[operator]
    young = {made[step] for step in range(100, 120) if step % 4 == 0}
    kept = {one for one in made if not aged.checkpoint(one).thinned}
    assert kept == {made[119], made[50], made[20]} | young
    for one in kept:
        assert flat(Line(aged, ALICE, one).snapshot()) == pages[made.index(one)]
    assert flat(Line(aged, BOB, fork_head).snapshot()) == memory.pages
    assert aged.checkpoint_ids(ALICE) == made, "a record went"
    assert not Check(aged, read_data=True).run().findings
    with pytest.raises(ThinnedError):
        aged.reader_of(aged.checkpoint(made[1]))
    assert sweep(aged, keep_days=10, picked={made[20]}).thinned == 0
    line = Line(aged, ALICE, made[119])
    line.checkpoint(changed=memory.edit(3), snapshot=memory.snapshot())
    aged.close()


def test_a_running_session_is_left_alone(aged: Store, clock: Clock) -> None:
    aged.create_session(ALICE)
    memory, line = Memory(5), Line(aged, ALICE)
    for _ in range(5):
        line.checkpoint(changed=memory.edit(2), snapshot=memory.snapshot())
    clock.now += 100 * DAY_MS
    with aged.advance(ALICE):
        swept = sweep(aged, keep_days=1)
        assert (swept.thinned, swept.objects, swept.busy) == (0, 0, 1)
        aged.create_session(BOB)
        other, along = Memory(20), Line(aged, BOB)
        for _ in range(3):
            other.pages = {number: other.dice.randbytes(4096) for number in range(20)}
            along.checkpoint(snapshot=other.snapshot())
        aged.log_writer(aged.session(ALICE).family, aged.keep, None).append(b"an import in hand")
        swept = sweep(aged, keep_days=1)
        assert (swept.thinned, swept.busy) == (2, 1) and swept.objects, "what others thinned is freed meanwhile"
        assert not Check(aged, read_data=True).run().findings
        assert Check(aged).run().orphans == 1, "an import in hand was freed"
    assert sweep(aged, keep_days=1).thinned == 4
    aged.close()


def test_removed_sessions_and_unfinished_imports_are_freed(aged: Store) -> None:
    aged.create_session(ALICE)
    family = aged.create_session(BOB).family
    Line(aged, ALICE).checkpoint(snapshot=Memory(9).snapshot())
    head = Line(aged, BOB).checkpoint(snapshot=Memory(2).snapshot())
    digest = aged.modules.put(b"module" * 1000)
    aged.log_writer(family, aged.keep, None).append(b"an import that never ended")
    aged.remove_session(ALICE)
    assert sweep(aged, keep_days=1).objects == 2
    assert aged.modules.get(digest) == b"module" * 1000
    assert flat(Line(aged, BOB, head).snapshot()) == Memory(2).pages
    assert not Check(aged, read_data=True).run().findings
    aged.close()


def test_captures_of_folders_stay_until_newer_ones_push_them_out(aged: Store) -> None:
    def note(folder: str, file: bytes) -> Ref:
        with aged.transaction():
            writer = aged.capture_writer(aged.commons(), None)
            content = Content(size=len(file), pieces=(writer.put(file),))
            entry = Entry(path=b"f", kind=Kind.FILE, mode=0o644, content=content)
            ref = writer.finish(Capture(repository=None, entries=(entry,)))
            Folders(aged).note(Path(folder), aged.commons(), ref)
        return ref

    assert folder_bytes(aged) == (0, 0)
    first, other = note("/work", b"first"), note("/other", b"other")
    sizes = [aged.objects.size(one.name) for one in (first, other)]
    assert folder_bytes(aged) == (2, sum(sizes)) and min(sizes) > 0
    assert sweep(aged, keep_days=0).objects == 0
    for number in range(EACH_MAX):
        note("/work", b"%d" % number)
    assert sweep(aged, keep_days=0).objects == 1
    assert not aged.objects.has(first.name) and aged.objects.has(other.name)
    assert not Check(aged, read_data=True).run().findings
    aged.close()
