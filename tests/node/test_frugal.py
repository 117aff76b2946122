"""On battery, and on a metered network, content goes together, while records of who owns what go at once."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.node.sync.linked import Idle, Peering, grouped, opened
from tests.node.sync.wired import Grown
from tests.store.conftest import Memory
from tests.transports.devices import device_named

from hhd.node import frugal, programs, sessions
from hhd.node.frugal import Frugal, on_battery
from hhd.node.sync import syncing
from hhd.node.sync.syncing import Syncing
from hhd.transports.link import Link
from hhd_protocol.ids import CheckpointId


def supply(folder: Path, name: str, **says: str) -> None:
    """What Linux says of one thing that feeds the machine, or of one of its devices."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for file, text in says.items():
        (folder / name / file).write_text(f"{text}\n")


def test_a_machine_that_its_battery_alone_feeds_is_on_battery(tmp_path: Path) -> None:
    assert not on_battery(tmp_path / "none") and not on_battery(tmp_path)
    supply(tmp_path, "BAT0", type="Battery", status="Discharging")
    assert on_battery(tmp_path)
    supply(tmp_path, "AC", type="Mains", online="1")
    assert not on_battery(tmp_path)
    supply(tmp_path, "AC", online="0")
    assert on_battery(tmp_path)
    supply(tmp_path, "usb0", type="USB", online="1")
    assert not on_battery(tmp_path)
    supply(tmp_path, "usb0", online="0")
    for status, told in (("Charging", False), ("Full", False), ("Not charging", False), ("Discharging", True)):
        supply(tmp_path, "BAT0", status=status)
        assert on_battery(tmp_path) is told


def test_the_battery_of_a_mouse_feeds_no_machine(tmp_path: Path) -> None:
    supply(tmp_path, "hidpp_battery_0", type="Battery", scope="Device", status="Discharging")
    assert not on_battery(tmp_path)
    supply(tmp_path, "BAT0", type="Battery", scope="System", status="Discharging")
    assert on_battery(tmp_path)


def test_what_is_spared_is_a_persons_to_say_and_both_reasons_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frugal, "ASKED_SECONDS", -1.0)
    supply(tmp_path, "BAT0", type="Battery", status="Discharging")

    def why(battery: bool, metered: bool) -> str:
        one = Frugal(battery=battery, metered=metered, supplies=tmp_path, network=lambda: True)
        one.why()
        if one._asking is not None:
            one._asking.join()
        return one.why()

    assert why(False, False) == "" and why(True, False) == "this device is on battery"
    assert why(False, True) == "this device is on a metered network"
    assert why(True, True) == "this device is on battery and on a metered network"


def test_a_bus_that_hangs_is_not_waited_for_and_asked_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frugal, "ASKED_SECONDS", -1.0)
    hangs, begun = threading.Event(), []

    def network() -> bool:
        begun.append(1)
        return hangs.wait(240)

    one = Frugal(battery=False, metered=True, network=network)
    assert [one.why() for _ in range(5)] == [""] * 5 and begun == [1]
    hangs.set()
    assert one._asking is not None
    one._asking.join()
    assert one.why() == "this device is on a metered network"
    one._asking.join()


def test_on_battery_records_go_at_once_and_content_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supplies = tmp_path / "supplies"
    supply(supplies, "BAT0", type="Battery", status="Discharging")
    supply(supplies, "AC", type="Mains", online="1")
    monkeypatch.setattr(frugal, "ASKED_SECONDS", -1.0)
    monkeypatch.setattr(syncing, "COALESCE_SECONDS", 3600.0)
    grouped(tmp_path, "laptop", "desktop")
    spared = Frugal(battery=True, metered=False, supplies=supplies)

    async def live() -> None:
        near, far, workers = Peering("laptop"), Peering("desktop"), Idle()
        both = [
            Syncing(
                me=device_named(name),
                peers=peers,
                roll=peers,
                workers=idle,
                opened=lambda name=name: opened(tmp_path, name),  # type: ignore[misc]
                random=os.urandom,
                frugal=why,
            )
            for name, peers, idle, why in (
                ("laptop", near, workers, spared.why),
                ("desktop", far, Idle(), lambda: ""),
            )
        ]
        parts = [asyncio.create_task(one.run()) for one in both]
        for one in both:
            await one._ready.wait()

        async def kept(link: Link) -> None:
            await far.keep(link)

        listener = await far.transport.listen(kept)
        dialled = await near.transport.dial("127.0.0.1", listener.port, device_named("desktop").id)  # type: ignore[attr-defined]
        linked = asyncio.create_task(near.keep(dialled))
        target = device_named("desktop").id
        with opened(tmp_path, "laptop") as store, opened(tmp_path, "desktop") as there:
            session = sessions.create(
                store, device_named("laptop"), program="agent", args=programs.encode_args({"prompt": "go"})
            )
            work = Grown(store, device_named("laptop"), session, Memory(10))

            def step() -> CheckpointId:
                made = work.step()
                for hear in workers.on_step:
                    hear(session)
                return made

            def has(made: CheckpointId) -> bool:
                return made in there.checkpoint_ids(session)

            made = step()
            await until(lambda: has(made))  # The control: fed by its charger it sends content at once.
            supply(supplies, "AC", online="0")
            assert spared.why()
            held = []
            for _ in range(4):  # Each there and acknowledged before the next: content would have had the time to go.
                held.append(step())
                await until(lambda: there.statements.get(session, held[-1]) is not None)
                while held[-1] in both[0]._engine.machine.peers[target].sent.get(session, ()):
                    await asyncio.sleep(0.01)
            status = await both[0].asked.sync_status()
            assert "on battery" in status.frugal and status.flows[0].behind == 1
            assert not any(map(has, held)), "records are there, their content is not"
            monkeypatch.setattr(syncing, "COALESCE_SECONDS", 0.0)
            await until(lambda: all(map(has, held)))  # It goes together once its time has come.
            monkeypatch.setattr(syncing, "COALESCE_SECONDS", 3600.0)
            last = step()
            await until(lambda: there.statements.get(session, last) is not None)
            assert not has(last)
            await both[0].wait_synced(session, target)  # Somebody moves it: nothing is waited for.
            assert has(last)
            after = step()
            await until(lambda: there.statements.get(session, after) is not None)
            assert not has(after), "that was for the one who waited"
        for task in (linked, *parts):
            task.cancel()
        await asyncio.gather(linked, *parts, return_exceptions=True)
        await listener.close()

    asyncio.run(asyncio.wait_for(live(), 120))


async def until(so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    while not so():
        await asyncio.sleep(0.01)
