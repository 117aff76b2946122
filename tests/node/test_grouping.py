"""The verbs on devices as the daemon serves them: what they change is told in it before they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.node.circles import devices, identity

from hhd.base.errors import RefusedError
from hhd.node.answers.group import Gathering, Unpaired
from hhd.node.group_verbs import GroupVerbs, host_name
from hhd.node.grouping import Grouping
from hhd.node.lanes import Lanes
from hhd.node.service import Table
from hhd.store.store import Store
from hhd_protocol import mapping
from hhd_protocol.crypto import device_text


def test_who_is_unpaired_is_told_of_before_the_answer_and_nobody_when_nothing_changed(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
    me, told = identity("laptop"), []

    @contextmanager
    def opened() -> Iterator[GroupVerbs]:
        with Store.open(tmp_path / "laptop", seed=me.seed) as store:
            yield GroupVerbs(store=store, me=me)

    async def run() -> None:
        lanes = Lanes()
        part = Grouping(opened=opened, lanes=lanes)

        async def changed() -> None:
            told.append("changed")

        part.changed.append(changed)
        table = Table(part.verbs())
        try:
            found = mapping.from_value(Gathering, await table.do("devices", {}))  # type: ignore[misc]
            assert [one.name for one in found.members] == ["laptop", "desktop"] and told == []
            with pytest.raises(RefusedError):
                await table.do("unpair", {"name": "nobody"})  # type: ignore[misc]
            assert told == []
            done = mapping.from_value(Unpaired, await table.do("unpair", {"name": "desktop"}))  # type: ignore[misc]
            assert done.device.id == device_text(identity("desktop").id) and told == ["changed"]
            assert set(part.verbs()) == {
                "devices",
                "device_allow",
                "device_meant",
                "device_rename",
                "unpair",
                "refound",
            }
        finally:
            lanes.close()

    asyncio.run(run())


@pytest.mark.parametrize(("machine", "name"), [("laptop.home", "laptop"), ("", "device"), ("x" * 300, "x" * 64)])
def test_a_device_without_a_name_is_called_as_its_machine(
    machine: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: machine)
    assert host_name() == name
