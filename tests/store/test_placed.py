"""Places that grow from image to image are those that a reading from nothing finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.conftest import ALICE, Memory

from hhd.store import image_writer, openings
from hhd.store.errors import DamagedStoreError
from hhd.store.line import Line
from hhd.store.openings import Openings
from hhd.store.placed import Placed
from hhd.store.store import Store
from hhd_protocol.objects import Ref


def line_of(store: Store, steps: int) -> list[Ref]:
    """A line with pages edited, rewritten, new and gone, over several eras; the image of each step."""
    store.create_session(ALICE)
    memory, line, images = Memory(40), Line(store, ALICE), []
    for step in range(steps):
        changed = memory.edit(4) if step % 3 else memory.rewrite(3)
        if step % 7 == 0:
            memory.pages[1000 + step] = memory.text()
        if step % 11 == 0:
            del memory.pages[max(memory.pages)]
        if step % 5 == 0:  # The same content at two places is given by an older object.
            memory.pages[500 + step % 15] = memory.pages[min(memory.pages)]
            changed = sorted({*changed, 500 + step % 15})
        line.checkpoint(snapshot=memory.snapshot(), changed=changed)
        image = line.payload.image
        assert image is not None
        images.append(image)
    return images


def test_places_that_grow_are_those_of_a_reading_from_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_writer, "ERA_STEPS_MIN", 12)
    images = line_of(store, 60)
    family = store.session(ALICE).family
    grown, plain = store.reader(family, Openings()), store.reader(family)
    for image in (*images, images[0], *images[::-7]):
        assert dict(grown.placed(image)) == plain.places(image)[0] == dict(plain.placed(image))


def test_the_next_image_opens_its_own_object_and_no_more_of_its_chain(store: Store) -> None:
    images = line_of(store, 30)
    reader, placed = store.reader(store.session(ALICE).family), Placed()
    opened: list[Ref] = []

    def counted(ref: Ref) -> object:
        opened.append(ref)
        return reader.open(ref)

    placed.of(images[-2], counted)  # type: ignore[arg-type]
    assert len(opened) > 20
    opened.clear()
    placed.of(images[-1], counted)  # type: ignore[arg-type]
    assert opened[0] == images[-1] and images[-2] not in opened and len(opened) < 4


def test_no_more_is_kept_than_is_bounded_and_what_is_not_kept_is_found_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hhd.store.placed.PLACES_MAX", 100)
    images = line_of(store, 20)
    reader, placed = store.reader(store.session(ALICE).family), Placed()
    for image in (*images, *images):
        assert dict(placed.of(image, reader.open)) == reader.places(image)[0]
    assert placed._count <= 100 and len(placed._kept) == 2


def test_what_was_decoded_is_counted_and_let_go_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    images = line_of(store, 20)
    kept = Openings()
    reader = store.reader(store.session(ALICE).family, kept)
    for image in images:
        reader.image(image)
        kept.trim()
        assert kept._size == sum(len(frame) for one in kept._kept.values() for frame in one.frames.values()) > 0
    monkeypatch.setattr(openings, "FRAMES_BYTES_MAX", 50 * 4096)
    kept.trim()
    assert kept._size == sum(len(frame) for one in kept._kept.values() for frame in one.frames.values()) <= 50 * 4096


def test_a_base_that_has_a_base_is_refused_also_where_it_was_decoded_before(store: Store) -> None:
    images = line_of(store, 20)
    reader = store.reader(store.session(ALICE).family, Openings())
    based = [image for image in images if reader.open(image).head.bases]
    deep, other = next(
        (one, before)
        for one in based
        for before in based
        if before != one and set(reader.open(one).head.pages) & set(reader.open(before).head.pages)
    )
    reader.own_pages(other)  # It is decoded, so nothing of it is wanted again.
    opened = reader.open(deep)
    page = next(iter(set(opened.head.pages) & set(reader.open(other).head.pages)))
    refs = [*opened.head.refs, other]
    bases = [
        len(refs) if number == page else base for number, base in zip(opened.head.pages, opened.head.bases, strict=True)
    ]
    opened.head, opened.frames = replace(opened.head, refs=refs, bases=bases), {}
    with pytest.raises(DamagedStoreError, match="a base has a base of its own"):
        reader.own_pages(deep)
