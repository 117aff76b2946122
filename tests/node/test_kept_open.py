"""A store that is kept open for some things in a row shows whatever others write, and is nobody's afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.node.circles import NOW, identity

from hhd.node.control import ControlService
from hhd.node.group import Membership
from hhd.node.kept_open import KeptOpen
from hhd.node.lanes import Lane
from hhd.node.members import members
from hhd.store.errors import BusyError
from hhd.store.store import Store
from hhd_protocol.ids import EpochId
from hhd_protocol.statements import Role


class Counted:
    """A store of alice's laptop, opened as a daemon does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.me, self.count, self.open = folder, identity("laptop"), 0, 0
        self.lane = Lane("test")
        self.kept = KeptOpen(self.opened, self.lane)

    @contextmanager
    def opened(self) -> Iterator[ControlService]:
        with Store.open(self.folder, seed=self.me.seed) as store:
            self.count, self.open = self.count + 1, self.open + 1
            try:
                yield ControlService(store=store, me=self.me)
            finally:
                self.open -= 1

    def idle(self) -> bool:
        """Whether nobody has it open: a repair could begin."""
        try:
            Store.open(self.folder, seed=self.me.seed, exclusive=True).close()
        except BusyError:
            return False
        return True


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    found = Counted(tmp_path / "store")
    with found.opened():
        pass
    found.count = 0
    yield found
    found.lane.close()


def _members(control: ControlService) -> int:
    return len(members(control.store, control.me))


def test_it_is_opened_anew_for_each_thing_and_once_while_it_is_kept(counted: Counted) -> None:
    async def go() -> None:
        for _ in range(2):
            await counted.kept.do(_members)
        assert (counted.count, counted.open) == (2, 0) and counted.idle()
        counted.kept.keep()
        counted.kept.keep()
        for _ in range(3):
            await counted.kept.do(_members)
        assert (counted.count, counted.open) == (3, 1) and not counted.idle()
        counted.kept.let_go()
        await counted.kept.do(_members)
        assert (counted.count, counted.open) == (3, 1), "it is kept for somebody else"
        counted.kept.let_go()
        await counted.lane.do(lambda: None)
        assert counted.open == 0 and counted.idle()

    asyncio.run(go())


def test_what_another_process_writes_is_seen_by_one_that_is_kept(counted: Counted) -> None:
    async def go() -> None:
        counted.kept.keep()
        assert await counted.kept.do(_members) == 1
        with Store.open(counted.folder, seed=counted.me.seed) as other:
            group = Membership(other, counted.me)
            group.found("laptop", NOW)
            group.add(identity("desktop").public, "desktop", Role.FULL, NOW)
        assert await counted.kept.do(_members) == 2 and counted.count == 1

    asyncio.run(go())


def test_keys_that_another_process_takes_in_are_seen_by_one_that_is_kept(counted: Counted) -> None:
    with Store.open(counted.folder, seed=counted.me.seed) as other, other.transaction():
        family = other.families.create(EpochId(bytes(32))).id

    def epochs(control: ControlService) -> int:
        return len(control.store.families.get(family).epochs)

    async def go() -> None:
        counted.kept.keep()
        assert await counted.kept.do(epochs) == 1
        with Store.open(counted.folder, seed=counted.me.seed) as other:
            other.families.begin_epoch(family, EpochId(bytes([1]) * 32))
        assert await counted.kept.do(epochs) == 2 and counted.count == 1

    asyncio.run(go())


def test_after_a_failure_the_next_thing_finds_it_opened_anew(counted: Counted) -> None:
    def fail(control: ControlService) -> None:
        raise OSError("the disk")

    async def go() -> None:
        counted.kept.keep()
        await counted.kept.do(_members)
        with pytest.raises(OSError, match="the disk"):
            await counted.kept.do(fail)
        assert counted.open == 0 and counted.idle()
        assert await counted.kept.do(_members) == 1 and counted.count == 2

    asyncio.run(go())


def test_the_end_of_the_lane_closes_it(counted: Counted) -> None:
    async def go() -> None:
        counted.kept.keep()
        await counted.kept.do(_members)

    asyncio.run(go())
    assert not counted.idle()
    counted.lane.close()
    assert counted.idle()
    counted.kept.let_go()
