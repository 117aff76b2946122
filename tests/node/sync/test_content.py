"""Large content that came is looked at once, beside the thread that writes it, and its log is folded later."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Work, person, same
from tests.store.conftest import Memory, flat

from hhd.node.sync import arrivals as syncing_arrivals
from hhd.node.sync import content as syncing_content
from hhd.node.sync import held as syncing_held
from hhd.node.sync.content import looked_at
from hhd.store.check import Check
from hhd.store.layout import FILE
from hhd.store.line import Line
from hhd.store.log_writer import LogWriter
from hhd.store.reading import Reader
from hhd_protocol.ids import ObjectName, PageId, SessionId
from hhd_protocol.images import decode_head, encode_head
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.objects import Ref, SealedObject, object_name, seal_object

PAGES = 512
"""2 MiB that do not shrink. Sixteen of them lie in an object of their own, as a dictionary for what comes later."""


def begun(alice: Person) -> tuple[SessionId, Work]:
    """A session with so much memory, on its way to the desktop."""
    session = alice.create("laptop")
    memory = Memory(0)
    memory.pages = {number: os.urandom(PAGE_BYTES) for number in range(PAGES)}
    work = Work(alice, "laptop", session, memory)
    work.step(list(memory.pages), said=b"some words")
    return session, work


def image_of(alice: Person, session: SessionId) -> tuple[ObjectName, bytes]:
    """The large object that the laptop has of it."""
    store = alice["laptop"].store
    named = [name for one in store.checkpoint_ids(session) for name in store.checkpoint(one).objects]
    raw = max((store.objects.raw(name) or b"" for name in named), key=len)
    assert len(raw) > syncing_content.BESIDE_BYTES
    return object_name(raw), raw


def test_a_large_object_is_looked_at_once_and_not_read_again_and_what_comes_of_it_is_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Ref] = []
    own_pages = Reader.own_pages

    def counted(reader: Reader, ref: Ref) -> object:
        looked.append(ref)
        return own_pages(reader, ref)

    monkeypatch.setattr(Reader, "own_pages", counted)
    monkeypatch.setattr(syncing_arrivals, "FLUSH_BYTES", 1)  # It is kept before what else it needs is here.
    with person(tmp_path, "laptop", "desktop") as alice:
        session, work = begun(alice)
        name, _ = image_of(alice, session)
        looked.clear()
        read: list[ObjectName] = []
        objects = type(alice["desktop"].engine.store.objects)
        raw_of = objects.raw

        def reads(self: object, name: ObjectName) -> bytes | None:
            if self is alice["desktop"].engine.store.objects:
                read.append(name)
            return raw_of(self, name)  # type: ignore[arg-type]

        monkeypatch.setattr(objects, "raw", reads)
        alice.link("laptop", "desktop")
        assert alice.pump()
        assert [ref.name for ref in looked].count(name) == 1 and name not in read
        assert not alice["desktop"].engine._held.content._looked, "what was looked at is let go of"
        same(alice, session, "laptop", "desktop")
        head = alice["desktop"].store.checkpoint_ids(session)[-1]
        assert flat(Line(alice["desktop"].store, session, head).snapshot()) == work.memory.pages
        assert not Check(alice["desktop"].store).run().findings


def test_what_cannot_be_said_of_an_object_alone_is_not_said(tmp_path: Path) -> None:
    with person(tmp_path, "laptop") as alice:
        session, work = begun(alice)
        store = alice["laptop"].store
        family = store.family(session)
        name, raw = image_of(alice, session)
        found = looked_at(name, raw, family)
        assert found is not None and found[0] == Ref(name=name, epoch=family.epoch)
        assert len(found[1].pages) == PAGES - 16
        key = family.key(family.epoch)
        sealed = SealedObject(raw)
        segments = [sealed.segment(key, number) for number in range(sealed.count)]
        head = decode_head(segments[0])
        damaged = {
            "another id": [encode_head(replace(head, pages_id=PageId(bytes(32)))), *segments[1:]],
            "other pages": [segments[0], segments[1][:-9] + bytes(9), *segments[2:]],
            "no body": segments[:1],
            "no head": segments[1:],
        }
        for what, wrong in damaged.items():
            made = seal_object(key, os.urandom(24), wrong)
            assert looked_at(object_name(made), made, family) is None, what
        stranger = seal_object(os.urandom(32), os.urandom(24), segments)
        assert looked_at(object_name(stranger), stranger, family) is None
        assert looked_at(ObjectName(bytes(32)), b"\0" * 99, family) is None
        written: list[tuple[Ref, bytes]] = []
        LogWriter(family, lambda *one: written.append(one), os.urandom, reader=store.reader(family.id)).append(b"log")
        assert looked_at(written[0][0].name, written[0][1], family) is None
        made_later = store.checkpoint(work.step(work.memory.edit(9))).payload.image
        assert made_later is not None
        later = store.objects.raw(made_later.name)
        assert later is not None and store.reader(family.id).head(made_later).bases  # type: ignore[union-attr]
        assert looked_at(made_later.name, later, family) is None, "its pages stand behind others"


@pytest.mark.parametrize("most", [syncing_held.UNFOLDED_BYTES_MAX, 1])
def test_the_log_is_folded_after_a_sender_heard_of_it_and_does_not_grow_past_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(syncing_held, "UNFOLDED_BYTES_MAX", most)
    monkeypatch.setattr(syncing_held, "UNFOLDED_BYTES", PAGES * PAGE_BYTES)
    monkeypatch.setattr(syncing_content, "BESIDE_BYTES", 1)
    with person(tmp_path, "laptop", "desktop") as alice:
        rest = alice["desktop"].store  # A second one that has it open, so that no close folds it.
        session, work = begun(alice)
        work.memory.pages |= {PAGES + number: os.urandom(PAGE_BYTES) for number in range(3 * PAGES)}
        work.step(list(work.memory.pages))
        alice.link("laptop", "desktop")
        assert alice.pump()
        work.step([1])
        assert alice.pump()
        engine, file = alice["desktop"].engine, rest.folder / FILE
        assert engine.freshness.waits
        engine.note_freshness()  # Nor does this fold it, which nobody waits for.
        assert rest.freshness.of(session).reached
        small = file.stat().st_size < PAGES * PAGE_BYTES
        assert small == engine.folds_due == (most > 1)
        engine.fold()
        assert file.stat().st_size > 4 * PAGES * PAGE_BYTES and not engine.folds_due
        same(alice, session, "laptop", "desktop")
