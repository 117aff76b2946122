"""Keys between members: who is given them, who is not, and what a revoked device can open afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.circles import NOW, Owned, devices
from tests.store.conftest import ALICE, Memory, flat

from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol.group.eras import epoch_of
from hhd_protocol.ids import CheckpointId, EpochId


def hand_over(of: Owned, to: Owned) -> None:
    """Give the family's keys, as a link would."""
    family = of.store.family(ALICE)
    wrapped = family.wrapped(to.me.public, of.me.seed, of.store.random)
    with to.store.transaction():
        to.store.families.accept(wrapped, by_public=of.me.public, seed=to.me.seed, current=family.epoch)


def copied(of: Store, to: Store, checkpoint: CheckpointId) -> CheckpointId:
    """Bring a checkpoint and its objects over."""
    with to.transaction():
        to.create_session(ALICE, family=of.session(ALICE).family)
        for name in of.checkpoint(checkpoint).objects:
            raw = of.objects.raw(name)
            assert raw is not None
            to.objects.put(raw)
        return to.commit(of.checkpoint(checkpoint))


def test_a_revoked_device_cannot_open_what_is_sealed_afterwards_and_another_member_can(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        laptop.store.create_session(ALICE)
        memory, line = Memory(6), Line(laptop.store, ALICE)
        first = line.checkpoint(snapshot=memory.snapshot(), logs={"transcript": b"one\n"})
        hand_over(laptop, desktop)
        copied(laptop.store, desktop.store, first)
        assert flat(Line(desktop.store, ALICE, first).snapshot()) == memory.pages, "until then it can"
        second = line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), logs={"transcript": b"two\n"})
        copied(laptop.store, desktop.store, second)
        assert flat(Line(desktop.store, ALICE, second).snapshot()) == memory.pages

        laptop.group.revoke(desktop.me.id, NOW)
        third = line.checkpoint(changed=memory.edit(2), snapshot=memory.snapshot(), logs={"transcript": b"three\n"})
        copied(laptop.store, desktop.store, third)
        with pytest.raises(MissingError, match="key of epoch"):
            Line(desktop.store, ALICE, third).snapshot()
        found = laptop.store.checkpoint(third).payload
        old = laptop.store.checkpoint(second).payload
        assert found.image is not None and old.image is not None and found.image.epoch != old.image.epoch
        assert found.logs["transcript"].epoch == found.image.epoch
        assert found.image.epoch not in desktop.store.families.get(desktop.store.session(ALICE).family).epochs

        hand_over(laptop, tower)
        for one in (first, second, third):
            copied(laptop.store, tower.store, one)
        assert flat(Line(tower.store, ALICE, third).snapshot()) == memory.pages
        assert tower.store.reader_of(tower.store.checkpoint(third)) is not None


def test_a_new_epoch_begins_once_and_holds_for_all_that_follows(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        family = laptop.store.create_session(ALICE).family
        memory, line = Memory(3), Line(laptop.store, ALICE)
        line.checkpoint(snapshot=memory.snapshot())
        epochs = [laptop.store.families.get(family).epoch]
        for revoked in (desktop, tower):
            laptop.group.revoke(revoked.me.id, NOW)
            for _ in range(3):
                line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot())
            epochs.append(laptop.store.families.get(family).epoch)
        assert len(set(epochs)) == 3 and set(laptop.store.families.get(family).epochs) == set(epochs)


def test_a_checkpoint_that_failed_loses_no_key(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        family = laptop.store.create_session(ALICE).family
        memory, line = Memory(3), Line(laptop.store, ALICE)
        line.checkpoint(snapshot=memory.snapshot())
        laptop.group.revoke(desktop.me.id, NOW)

        def fails(_: object) -> bytes:
            raise RuntimeError("the power went")

        with pytest.raises(RuntimeError):
            line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), sign=fails)
        assert len(laptop.store.families.get(family).epochs) == 1
        made = line.checkpoint(snapshot=memory.snapshot())
    with devices(tmp_path, "laptop") as (laptop,):
        assert len(laptop.store.families.get(family).epochs) == 2
        assert flat(Line(laptop.store, ALICE, made).snapshot()) == memory.pages


def test_who_was_put_out_does_not_choose_what_is_sealed_under_afterwards(tmp_path: Path) -> None:
    """It knows all records, so it can say which epoch another device is about to begin, and leave a key for it."""
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        family = laptop.store.create_session(ALICE).family
        page_key, store = laptop.store.families.get(family).page_key, laptop.store
        laptop.group.revoke(desktop.me.id, NOW)
        era = store.group.era()
        assert era is not None
        own, old, theirs = (
            epoch_of(era, laptop.me.id, family),
            EpochId(b"old" * 10 + b"!!"),
            b"known to the thief".ljust(32),
        )
        with store.transaction():
            found = store.families.learn(family, page_key, {own: theirs, old: theirs}, own, by_full=False)
        assert found.epochs[old] == theirs and own not in found.epochs, "what it sealed before goes on to be read"
        line = Line(store, ALICE)
        line.checkpoint(snapshot=Memory(6).snapshot())
        now = store.families.get(family)
        assert now.epoch == own and now.epochs[own] != theirs
        with store.transaction():
            found = store.families.learn(
                family, page_key, {EpochId(b"n" * 32): theirs}, EpochId(b"?" * 32), by_full=True
            )
        assert found.epoch == own, "an epoch without its key is not sealed under"


def test_a_store_that_forgot_an_epoch_says_so(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop") as (laptop,), pytest.raises((MissingError, DamagedStoreError)):
        laptop.store.families.get(laptop.store.create_session(ALICE).family).key(EpochId(bytes(32)))
