"""What a line stores comes back, from any checkpoint, by our reader and by the plain one of the spec."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.protocol.reference_images import Reference
from tests.store.conftest import ALICE, BOB, SEED, Memory, flat

from hhd.store import image_writer
from hhd.store.errors import MissingError, ThinnedError
from hhd.store.line import Line
from hhd.store.reading import Reader
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId, ObjectName
from hhd_protocol.objects import object_name


def plain_reader(store: Store, family: bytes) -> Reference:
    """Return a reader that follows the spec page, over all objects of `store`."""
    keys = store.families.get(family)  # type: ignore[arg-type]
    raws = [raw for (raw,) in store.database.each("SELECT sealed FROM objects")]
    objects: dict[ObjectName, bytes] = {object_name(raw): raw for raw in raws if isinstance(raw, bytes)}
    return Reference(objects, keys.epochs, keys.page_key)


def test_every_checkpoint_of_a_line_comes_back(store: Store) -> None:
    session = store.create_session(ALICE)
    memory, line = Memory(40), Line(store, ALICE)
    kept: dict[CheckpointId, dict[int, bytes]] = {}
    for step in range(200):
        changed = memory.edit(4) if step % 3 else memory.rewrite(3)
        if step % 17 == 0:
            memory.pages[1000 + step] = memory.text()
        if step % 23 == 0:
            del memory.pages[max(memory.pages)]
        line.checkpoint(snapshot=memory.snapshot(), changed=changed)
        kept[line.head or CheckpointId(b"")] = dict(memory.pages)
    reader = plain_reader(store, session.family)
    for i, (head, pages) in enumerate(kept.items()):
        snapshot = Line(store, ALICE, head).snapshot()
        assert flat(snapshot) == pages
        assert snapshot.globals == {"g0": len(pages), "stack": 2**63} and snapshot.asyncify_stack_bytes == 96
        if i % 40 == 39:
            image = store.checkpoint(head).payload.image
            assert image is not None and reader.image(image) == pages


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.booleans())
def test_any_history_comes_back_with_eras_and_lists_in_small(
    tmp_path_factory: pytest.TempPathFactory, seed: int, told: bool
) -> None:
    dice = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_writer, "ERA_STEPS_MIN", dice.choice((2, 5, 1000)))
        patch.setattr(image_writer, "LIST_STEPS_MIN", dice.choice((1, 3)))
        patch.setattr(image_writer, "LIST_STEPS_MAX", dice.choice((3, 6)))
        patch.setattr(image_writer, "IMAGE_OBJECT_PAGES_MAX", dice.choice((7, 16384)))
        patch.setattr(image_writer, "KEY_OBJECT_PAGES", dice.choice((7, 2048)))
        patch.setattr(image_writer, "SOURCE_PAGES_MIN", dice.choice((2, 20)))
        patch.setattr(image_writer, "KEY_SHARE_EDITED", dice.choice((0.7, 5.0)))
        folder = tmp_path_factory.mktemp("store")
        with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
            session = store.create_session(ALICE)
            memory, line, kept = Memory(dice.choice((0, 1, 9, 30)), seed), Line(store, ALICE), {}
            for _ in range(14):
                changed = memory.edit(dice.randrange(6)) + memory.rewrite(dice.randrange(6))
                if dice.random() < 0.3:
                    changed.append(dice.randrange(60))
                    memory.pages[changed[-1]] = memory.text()
                if dice.random() < 0.3 and memory.pages:
                    del memory.pages[dice.choice(sorted(memory.pages))]
                if dice.random() < 0.3 and len(memory.pages) > 2:
                    one, two = dice.sample(sorted(memory.pages), 2)
                    memory.pages[one] = memory.pages[two]
                    changed.append(one)
                if dice.random() < 0.2:
                    line = Line(store, ALICE, line.head)
                head = line.checkpoint(snapshot=memory.snapshot(), changed=sorted(changed) if told else None)
                kept[head] = dict(memory.pages)
            reader = plain_reader(store, session.family)
            for head, pages in kept.items():
                assert flat(Line(store, ALICE, head).snapshot()) == pages
                image = store.checkpoint(head).payload.image
                assert image is not None and reader.image(image) == pages
                needed = store.reader(session.family).needs([image])
                only = {ref.name: reader.objects[ref.name] for ref in needed}
                again = Reader(store.families.get(session.family), lambda ref, only=only: only.get(ref.name))
                found = again.image(image)
                assert [bytes(page) for page in found.pages] == [pages[number] for number in found.numbers]


def test_a_line_that_is_gone_on_with_tells_a_key_of_several_objects_from_steps(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_writer, "KEY_OBJECT_PAGES", 30)
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
        store.create_session(ALICE)
        memory, line = Memory(100), Line(store, ALICE)
        head = line.checkpoint(snapshot=memory.snapshot())
        assert len(store.checkpoint(head).objects) == 4, "the pages of the dictionary, and 84 others"
        for _ in range(3):
            line.checkpoint(snapshot=memory.snapshot(), changed=memory.edit(4))
        assert line._images is not None and line._images._era is not None
        again = Line(store, ALICE, line.head)
        for one in (line, again):
            one.checkpoint(snapshot=memory.snapshot(), changed=[])
        assert again._images is not None and again._images._era is not None
        before, now = line._images._era, again._images._era
        assert (now.source, now.dictionary) == (before.source, before.dictionary)
        assert 0 < now.steps <= before.steps == 4, "those that still have a page of their own"
        assert now.stored <= before.stored < store.objects.size(store.checkpoint(head).objects[1])


def test_a_fork_shares_what_it_has_in_common(store: Store) -> None:
    family = store.create_session(ALICE).family
    store.create_session(BOB, family=family)
    memory, line = Memory(50), Line(store, ALICE)
    line.checkpoint(snapshot=memory.snapshot())
    before = sum(1 for _ in store.objects.numbers())
    fork = Line(store, BOB, line.head)
    fork.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot())
    assert sum(1 for _ in store.objects.numbers()) <= before + 1
    assert flat(fork.snapshot()) == memory.pages
    assert store.heads(ALICE) == [line.head] and store.heads(BOB) == [fork.head]


def test_logs_grow_and_come_back_beside_an_image(store: Store) -> None:
    session = store.create_session(ALICE)
    memory, line, texts = Memory(5), Line(store, ALICE), {"claude": b"", "codex": b""}
    for step in range(150):
        new = {
            name: b'{"name":"%s","step":%d}\n' % (name.encode(), step) for name in texts if step % 3 or name == "codex"
        }
        texts |= {name: texts[name] + text for name, text in new.items()}
        line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), logs=new)
        if step == 70:
            line = Line(store, ALICE, line.head)
    assert line.head is not None
    payload = store.checkpoint(line.head).payload
    reader, plain = store.reader(session.family), plain_reader(store, session.family)
    for name, text in texts.items():
        assert b"".join(reader.log(payload.logs[name])) == text == plain.log(payload.logs[name])
        assert b"".join(reader.log(payload.logs[name], 1000)) == text[1000:]
        assert reader.log_size(payload.logs[name]) == len(text)
    assert flat(line.snapshot()) == memory.pages


def test_the_caller_may_reuse_its_buffer(store: Store) -> None:
    store.create_session(ALICE)
    memory, line = Memory(8), Line(store, ALICE)
    buffer = bytearray(8 * 4096)  # One memory, as a guest's: each step changes it in place.
    kept = []
    for step in range(14):
        changed = memory.edit(3)
        if step == 1:  # Not behind bases: these become the bases of later edits.
            changed = sorted(memory.pages)
            memory.pages = {number: memory.dice.randbytes(4096) for number in memory.pages}
        buffer[:] = b"".join(memory.pages.values())
        snapshot = memory.snapshot()
        object.__setattr__(snapshot, "pages", [memoryview(buffer)])
        kept.append((line.checkpoint(snapshot=snapshot, changed=changed), dict(memory.pages)))
    for head, pages in kept:
        assert flat(Line(store, ALICE, head).snapshot()) == pages


def test_a_module_is_stored_once_per_hash(store: Store) -> None:
    module = random.Random(1).randbytes(3_000_000)
    digest = store.modules.put(module)
    used = sum(1 for _ in store.objects.numbers())
    assert store.modules.put(module) == digest and store.modules.all() == [digest]
    assert sum(1 for _ in store.objects.numbers()) == used
    assert store.modules.get(digest) == module


def test_a_store_that_was_closed_gives_back_the_same(folder: Path) -> None:
    memory = Memory(12)
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
        store.create_session(ALICE)
        head = Line(store, ALICE).checkpoint(snapshot=memory.snapshot(), turn=True, journal=7, workspace=b"w")
        assert store.incarnation
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as again:
        assert again.sessions() == [ALICE] and again.checkpoint_ids(ALICE) == [head]
        assert flat(Line(again, ALICE, head).snapshot()) == memory.pages
        kept = again.checkpoint(head)
        assert (kept.journal, kept.workspace, kept.turn, kept.id) == (7, b"w", True, head)
        assert again.incarnation != store.incarnation


def test_what_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(MissingError):
        store.session(ALICE)
    store.create_session(ALICE)
    with pytest.raises(MissingError):
        store.checkpoint(CheckpointId(bytes(32)))
    head = Line(store, ALICE).checkpoint(snapshot=Memory(3).snapshot())
    store.thin(head)
    assert store.checkpoint(head).thinned and store.checkpoint(head).id == head
    with pytest.raises(ThinnedError):
        store.reader_of(store.checkpoint(head))


def test_a_removed_session_takes_its_keys_unless_a_fork_has_them(store: Store) -> None:
    family = store.create_session(ALICE).family
    store.create_session(BOB, family=family)
    head = Line(store, ALICE).checkpoint(snapshot=Memory(3).snapshot())
    store.rows.append("journal", ALICE, b"asked")
    store.remove_session(ALICE, tables=["journal"])
    assert store.sessions() == [BOB] and store.rows.length("journal", ALICE) == 0
    with pytest.raises(MissingError):
        store.checkpoint(head)
    assert store.families.get(family).id == family
    store.remove_session(BOB)
    with pytest.raises(MissingError):
        store.families.get(family)
