"""Keys between members: who is given them, who is not, and what a revoked device can open afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.circles import NOW, Owned, devices
from tests.store.conftest import ALICE, Memory, flat

from hhd.base.errors import RefusedError
from hhd.node import keys
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol.crypto import SealError
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, EpochId
from hhd_protocol.statements import Role


def hand_over(of: Owned, to: Owned) -> None:
    """Give the family's keys, as a link would."""
    family = of.store.session(ALICE).family
    keys.accept(to.store, to.me, of.me.id, keys.of_family(of.store, of.me, family, to.me.id))


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


def test_keys_are_given_by_full_members_to_full_members_only(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "phone", "disk", "stranger", "desktop") as made:
        laptop, phone, disk, stranger, desktop = made
        family = laptop.store.create_session(ALICE).family
        laptop.adds(phone, Role.CONTROLLER)
        laptop.adds(disk, Role.STORE_ONLY)
        laptop.adds(desktop)
        for other in (phone, disk, stranger):
            with pytest.raises(RefusedError):
                keys.of_family(laptop.store, laptop.me, family, other.me.id)
            with pytest.raises(RefusedError):
                keys.of_shared(laptop.store, laptop.me, other.me.id)
        given = keys.of_family(laptop.store, laptop.me, family, desktop.me.id)
        for other in (phone, stranger):
            with pytest.raises(RefusedError):
                keys.accept(desktop.store, desktop.me, other.me.id, given)
        assert keys.accept(desktop.store, desktop.me, laptop.me.id, given).id == family
        laptop.group.revoke(desktop.me.id, NOW)
        with pytest.raises(RefusedError):
            keys.of_family(laptop.store, laptop.me, family, desktop.me.id)


def test_keys_that_are_not_what_they_say_are_refused(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        desktop.hears(laptop)
        family = laptop.store.create_session(ALICE).family
        given = keys.of_family(laptop.store, laptop.me, family, desktop.me.id)
        for_tower = keys.of_family(laptop.store, laptop.me, family, tower.me.id)
        bad = [
            keys.FamilyKeys(family=family, epoch=given.epoch, wrapped=()),
            keys.FamilyKeys(family=family, epoch=given.epoch, wrapped=(b"junk",)),
            keys.FamilyKeys(family=family, epoch=given.epoch, wrapped=for_tower.wrapped),
            keys.FamilyKeys(family=keys.SHARED, epoch=given.epoch, wrapped=given.wrapped),
            keys.FamilyKeys(family=family, epoch=given.epoch, wrapped=(given.wrapped[0][:-1] + b"x",)),
        ]
        for one in bad:
            with pytest.raises(FormatError):
                keys.accept(desktop.store, desktop.me, laptop.me.id, one)
        with pytest.raises(SealError):
            keys.accept(desktop.store, desktop.me, tower.me.id, given)
        with pytest.raises(MissingError):
            keys.accept(
                desktop.store,
                desktop.me,
                laptop.me.id,
                keys.FamilyKeys(family=family, epoch=EpochId(b"?" * 32), wrapped=given.wrapped),
            )
        assert not desktop.store.families.holds(family)
        keys.accept(desktop.store, desktop.me, laptop.me.id, given)
        assert desktop.store.families.get(family) == laptop.store.families.get(family)


def test_the_shared_document_is_sealed_anew_under_the_key_that_was_given(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        for piece in (b"one", b"two"):
            with desktop.store.transaction():
                desktop.store.shared.append(piece, b"mark")
        given = keys.of_shared(laptop.store, laptop.me, desktop.me.id)
        assert keys.accept_shared(desktop.store, desktop.me, laptop.me.id, given)
        assert not keys.accept_shared(desktop.store, desktop.me, laptop.me.id, given), "it is that one already"
        assert desktop.store.shared.key() == laptop.store.shared.key()
        assert desktop.store.shared.pieces() == ([b"one", b"two"], 0) and desktop.store.shared.mark() == b"mark"
        with pytest.raises(SealError):
            keys.accept_shared(desktop.store, desktop.me, laptop.me.id, given[:-1] + bytes([given[-1] ^ 1]))


def test_a_store_that_forgot_an_epoch_says_so(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop") as (laptop,), pytest.raises((MissingError, DamagedStoreError)):
        laptop.store.families.get(laptop.store.create_session(ALICE).family).key(EpochId(bytes(32)))
