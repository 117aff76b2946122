"""Keys of a family: epochs turn, and a member gives them to another device."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED, Memory, flat

from hhd.store.errors import MissingError
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from hhd_protocol.crypto import SealError, public_key
from hhd_protocol.ids import EpochId

OTHER = bytes(32)


def test_a_new_epoch_seals_nothing_anew_and_lists_mix_epochs(store: Store) -> None:
    family = store.create_session(ALICE).family
    memory, line = Memory(10), Line(store, ALICE)
    first = line.checkpoint(snapshot=memory.snapshot())
    before = store.objects.raw(store.checkpoint(first).objects[0])
    with store.transaction():
        store.families.begin_epoch(family, EpochId(b"2" * 32))
    line = Line(store, ALICE, first)
    second = line.checkpoint(changed=memory.edit(2), snapshot=memory.snapshot())
    images = [store.checkpoint(one).payload.image for one in (first, second)]
    assert images[0] is not None and images[1] is not None and images[0].epoch != images[1].epoch
    assert images[1].epoch == b"2" * 32
    assert store.objects.raw(store.checkpoint(first).objects[0]) == before
    assert flat(Line(store, ALICE, second).snapshot()) == memory.pages


def test_another_device_reads_with_the_keys_it_was_given(store: Store, tmp_path: Path) -> None:
    session, memory = store.create_session(ALICE), Memory(6)
    head = Line(store, ALICE).checkpoint(snapshot=memory.snapshot())
    checkpoint = store.checkpoint(head)
    wrapped = store.families.get(session.family).wrapped(public_key(OTHER), SEED, store.random)
    with Store.open(tmp_path / "other", seed=OTHER, limits=Limits(free_bytes_min=0)) as other:
        with pytest.raises(MissingError):
            other.families.get(session.family)
        epoch = store.families.get(session.family).epoch
        with pytest.raises(SealError), other.transaction():
            other.families.accept(wrapped, by_public=public_key(OTHER), seed=OTHER, current=epoch)
        with pytest.raises(MissingError), other.transaction():
            other.families.accept(wrapped[:1], by_public=public_key(SEED), seed=OTHER, current=epoch)
        with other.transaction():
            other.families.accept(wrapped, by_public=public_key(SEED), seed=OTHER, current=epoch)
            other.create_session(ALICE, family=session.family)
            for name in checkpoint.objects:
                raw = store.objects.raw(name)
                assert raw is not None and other.objects.put(raw) == name
            assert other.commit(checkpoint) == head
        assert flat(Line(other, ALICE, head).snapshot()) == memory.pages


def test_keys_are_not_shown(store: Store) -> None:
    family = store.families.get(store.create_session(ALICE).family)
    assert family.page_key.hex() not in repr(family) and "page_key" not in repr(family)


def test_the_family_of_what_belongs_to_no_session_is_made_once_and_anew_only_when_its_keys_are_gone(
    store: Store,
) -> None:
    digest, commons = store.modules.put(b"a module"), store.commons()
    store.make_commons()
    assert store.commons() == commons and store.modules.get(digest) == b"a module"
    with store.transaction():
        store.families.forget(commons)
    store.make_commons()
    assert store.commons() != commons and store.families.holds(store.commons())
