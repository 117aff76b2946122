"""An image that begins an era goes as the difference to the one before, and is the same object everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.node.sync.wired import Person, Work, person
from tests.store.conftest import Memory, flat

from hhd.node.sync import recipes as sync_recipes
from hhd.store import image_writer
from hhd.store.check import Check
from hhd.store.errors import MissingError
from hhd.store.line import Line
from hhd_protocol.ids import CheckpointId, DeviceId, ObjectName, SessionId
from hhd_protocol.objects import object_name
from hhd_protocol.sync import decode_message, encode_message, recipe
from hhd_protocol.sync.messages import Hello, Part, Rebuild, Statements


def begun(alice: Person, session: SessionId, step: CheckpointId) -> list[ObjectName]:
    """The objects of a step that stand alone, if it begins an era."""
    store = alice["laptop"].store
    made = store.checkpoint(step)
    assert made.payload.image is not None
    head = store.reader(store.session(session).family).open(made.payload.image).head
    return list(made.objects) if head.parent is None and not head.bases else []


def eras(alice: Person, work: Work, steps: int) -> dict[CheckpointId, tuple[int, int]]:
    """Work for so many steps; of each that begins an era return how many bytes went over, and how many it is."""
    found: dict[CheckpointId, tuple[int, int]] = {}
    for _ in range(steps):
        alice.seen.clear()
        made = work.step(work.memory.edit(5))
        assert alice.pump()
        if names := begun(alice, work.session, made):
            store = alice["laptop"].store
            found[made] = sum(map(len, alice.seen)), sum(store.objects.size(name) for name in names)
    return found


def test_an_era_costs_what_changed_and_is_byte_equal_at_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_writer, "ERA_STEPS_MIN", 6)
    monkeypatch.setattr(image_writer, "KEY_SHARE_REWRITTEN", 1e9)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(600))
        alice.link("laptop", "desktop")
        work.step(list(work.memory.pages))
        assert alice.pump()
        found = eras(alice, work, 15)
        assert len(found) == 2
        for made, (went_over, size) in found.items():
            assert size > 200_000 and went_over < 4_000, "few pages changed"
            names = begun(alice, session, made)
            assert len(names) == 2, "the dictionary's pages lie in an object of their own"
            for name in names:
                raw = alice["desktop"].store.objects.raw(name)
                assert raw is not None and raw == alice["laptop"].store.objects.raw(name) and object_name(raw) == name
        made = alice["laptop"].store.checkpoint_ids(session)[-1]
        assert flat(Line(alice["desktop"].store, session, made).snapshot()) == work.memory.pages
        assert not Check(alice["desktop"].store).run().findings


@pytest.mark.parametrize("share, recipes", [(1.2, True), (0.8, False)])
def test_an_image_of_several_objects_goes_as_recipes_or_whole_as_it_is_small_or_large_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, recipes: bool
) -> None:
    monkeypatch.setattr(image_writer, "ERA_STEPS_MIN", 6)
    monkeypatch.setattr(image_writer, "KEY_SHARE_REWRITTEN", 1e9)
    monkeypatch.setattr(image_writer, "KEY_OBJECT_PAGES", 200)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(600))
        alice.link("laptop", "desktop")
        first = work.step(list(work.memory.pages))
        assert alice.pump()
        store = alice["laptop"].store
        size = sum(store.objects.size(name) for name in store.checkpoint(first).objects)
        monkeypatch.setattr(sync_recipes, "ERA_BYTES_MAX", int(share * size))
        found = eras(alice, work, 9)
        assert len(found) == 1
        for made, (went_over, size) in found.items():
            names = begun(alice, session, made)
            assert len(names) == 4 and (went_over < 10_000 if recipes else went_over > size)
            assert all(alice["desktop"].store.objects.raw(name) == store.objects.raw(name) for name in names)


def test_a_device_that_does_not_know_recipes_of_the_image_before_gets_the_objects_and_keeps_its_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_writer, "ERA_STEPS_MIN", 6)
    monkeypatch.setattr(image_writer, "KEY_SHARE_REWRITTEN", 1e9)
    for version in (1, 2):
        with person(tmp_path / str(version), "laptop", "desktop") as alice:
            put, given = alice._put, set[ObjectName]()

            def said(
                source: DeviceId, target: DeviceId, raw: bytes,
                *, alice: Person = alice, put: Any = put, given: set[ObjectName] = given, version: int = version,
            ) -> None:  # fmt: skip
                message = decode_message(raw)
                if isinstance(message, Rebuild):
                    given.add(message.name)
                if isinstance(message, Hello) and source == alice["desktop"].id:
                    raw = encode_message(replace(message, version=version))
                put(source, target, raw)

            monkeypatch.setattr(alice, "_put", said)
            session = alice.create("laptop")
            work = Work(alice, "laptop", session, Memory(600))
            alice.link("laptop", "desktop")
            work.step(list(work.memory.pages))
            assert alice.pump()
            names = {name for made in eras(alice, work, 9) for name in begun(alice, session, made)}
            assert len(names) == 2 and (names <= given if version == 2 else not names & given)
            assert all(alice["desktop"].store.objects.raw(name) for name in names)
            assert not alice["desktop"].cuts and not alice["laptop"].cuts


def test_a_list_written_anew_costs_little_and_is_byte_equal_at_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_writer, "LIST_STEPS_MIN", 7)
    monkeypatch.setattr(image_writer, "LIST_STEPS_MAX", 7)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(1500))
        alice.link("laptop", "desktop")
        work.step(list(work.memory.pages))
        assert alice.pump()
        store, found = alice["laptop"].store, 0
        reader = store.reader(store.session(session).family)
        for step in range(16):
            few = range(20) if step % 2 else range(100 + 20 * step, 120 + 20 * step)
            rewrite(work.memory, few)
            alice.seen.clear()
            made = store.checkpoint(work.step(list(few)))
            assert alice.pump() and made.payload.image is not None
            head = reader.open(made.payload.image).head
            if head.parent is None and head.bases:
                found += 1
                assert len(head.given) == 1480 and store.objects.size(made.payload.image.name) > 6_000
                assert sum(map(len, alice.seen)) < 6_000, "20 pages of which 200 bytes are new"
            for name in made.objects:
                assert store.objects.raw(name) == alice["desktop"].store.objects.raw(name)
        assert found == 2
        assert flat(Line(alice["desktop"].store, session, made.id).snapshot()) == work.memory.pages
        assert not Check(alice["desktop"].store).run().findings


def test_nothing_is_decoded_for_a_recipe_where_no_page_is_nearer_to_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(400))
        alice.link("laptop", "desktop")
        work.step(list(work.memory.pages))
        assert alice.pump()
        made: list[int] = []
        make = recipe.make
        monkeypatch.setattr(recipe, "make", lambda *given, **more: made.append(1) or make(*given, **more))
        for at in range(0, 200, 20):  # Each page once: its base is what the parent has.
            rewrite(work.memory, range(at, at + 20))
            work.step(list(range(at, at + 20)))
            assert alice.pump()
        assert not made
        for _ in range(6):  # The same again and again: the parent is nearer than the base.
            rewrite(work.memory, range(20))
            work.step(list(range(20)))
            assert alice.pump()
        assert made


def rewrite(memory: Memory, numbers: range) -> None:
    """Change a twentieth of each page."""
    for number in numbers:
        at = memory.dice.randrange(3800)
        memory.pages[number] = memory.pages[number][:at] + memory.dice.randbytes(200) + memory.pages[number][at + 200 :]


def test_an_era_goes_whole_where_the_peer_cannot_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_writer, "ERA_STEPS_MIN", 6)
    monkeypatch.setattr(image_writer, "KEY_SHARE_REWRITTEN", 1e9)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(200))
        alice.link("laptop", "desktop")
        work.step(list(work.memory.pages))
        assert alice.pump()

        def lost(*_: object) -> None:
            raise MissingError("what came before is gone here")

        monkeypatch.setattr(alice["desktop"].engine.recipes, "_pages_in", lost)
        found = eras(alice, work, 8)
        assert len(found) == 1
        kinds = {type(decode_message(raw)) for raw in alice.seen}
        assert Statements in kinds and Rebuild not in kinds, "from then on it is sent whole ones"
        assert Part in kinds or all(size > 50_000 for _, size in found.values())
        made = alice["laptop"].store.checkpoint_ids(session)[-1]
        assert flat(Line(alice["desktop"].store, session, made).snapshot()) == work.memory.pages


def test_an_era_is_sent_as_it_is_to_who_lacks_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_writer, "ERA_STEPS_MIN", 6)
    monkeypatch.setattr(image_writer, "KEY_SHARE_REWRITTEN", 1e9)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(200))
        for _ in range(9):
            made = work.step(work.memory.edit(5))
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert flat(Line(alice["desktop"].store, session, made).snapshot()) == work.memory.pages
        assert not alice["laptop"].cuts and not alice["desktop"].cuts
