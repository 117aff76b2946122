"""The shared document over a link: two devices that agree say two marks, others end with the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.node.peering import House, ident, run
from tests.transports.devices import device_named

from hhd.node import registry
from hhd.node.sharing import SETTLE_SECONDS, Sharing, _mark_of
from hhd.store.store import Limits, Store
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError

PAIR = ("add laptop", "add desktop")


class Shared:
    """A device with a store, and the document in it."""

    def __init__(self, house: House, name: str, folder: Path) -> None:
        self.device = house.device(name, PAIR)
        self.folder, self.name, self.opened_count = folder / name, name, 0
        with self.opened():
            pass
        self.sharing = Sharing(self.device.peers, self.opened)
        self.running = asyncio.get_running_loop().create_task(self.sharing.run())

    @contextmanager
    def opened(self) -> Iterator[Store]:
        self.opened_count += 1
        with Store.open(self.folder, seed=device_named(self.name).seed, limits=Limits(free_bytes_min=0)) as store:
            yield store

    def names(self, of: str, title: str | None = None) -> str | None:
        """What the document calls a device, after it was called `title`."""
        with self.opened() as store:
            document = registry.opened(store)
            if title is not None:
                document.name_device(ident(of), title)
            return document.device_name(ident(of))

    async def until_called(self, of: str, title: str) -> None:
        async with asyncio.timeout(240):
            while self.names(of) != title:
                await asyncio.sleep(0.02)

    async def until_quiet(self) -> None:
        """Wait until nothing was looked at for longer than a change takes to be passed on."""
        async with asyncio.timeout(240):
            before = -1
            while before != self.opened_count:
                before = self.opened_count
                await asyncio.sleep(3 * SETTLE_SECONDS)


async def two(house: House, folder: Path) -> tuple[Shared, Shared]:
    laptop, desktop = Shared(house, "laptop", folder), Shared(house, "desktop", folder)
    await laptop.device.listens()
    await desktop.device.listens()
    return laptop, desktop


async def link(laptop: Shared, desktop: Shared) -> None:
    laptop.device.hears("desktop")
    await laptop.device.linked("desktop")
    await desktop.device.linked("laptop")


def test_what_either_said_before_they_were_linked_both_have_afterwards(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        laptop, desktop = await two(house, tmp_path)
        laptop.names("laptop", "the small one")
        desktop.names("desktop", "the big one")
        await link(laptop, desktop)
        await desktop.until_called("laptop", "the small one")
        await laptop.until_called("desktop", "the big one")
        assert await laptop.sharing.mark() == await desktop.sharing.mark() != b""

    run(test)


def test_what_is_said_while_they_are_linked_goes_over_at_once_in_both_directions(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        laptop, desktop = await two(house, tmp_path)
        await link(laptop, desktop)
        for number in range(3):
            laptop.names("laptop", f"small {number}")
            laptop.sharing.look()
            await desktop.until_called("laptop", f"small {number}")
            desktop.names("laptop", f"called otherwise {number}")
            desktop.sharing.look()
            await laptop.until_called("laptop", f"called otherwise {number}")

    run(test)


def test_two_that_agree_read_their_marks_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(house: House) -> None:
        laptop, desktop = await two(house, tmp_path)
        laptop.names("laptop", "the small one")
        await link(laptop, desktop)
        await desktop.until_called("laptop", "the small one")
        await laptop.until_quiet()  # What they looked at on that link is over.
        await desktop.until_quiet()
        opened = []
        monkeypatch.setattr(registry, "opened", lambda store: opened.append(store))
        laptop.device.links[0].cut("the network failed")
        await laptop.device.until(lambda: len(laptop.device.links) == 2)
        await laptop.device.until(lambda: len(laptop.sharing._talks) == 1 and len(desktop.sharing._talks) == 1)
        await asyncio.sleep(0.3)
        assert opened == [] and laptop.device.peers.connected() == {ident("desktop")}

    run(test)


def test_what_is_no_document_costs_the_link_and_changes_nothing(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        laptop, desktop = await two(house, tmp_path)
        laptop.names("laptop", "the small one")
        await link(laptop, desktop)
        await desktop.until_called("laptop", "the small one")
        before = await desktop.sharing.mark()
        for garbage in (b"", b"\x01" + encode([2, b""]), b"\x01" + encode([1, bytes(31)]), b"\x02"):
            link_ = laptop.device.peers.link(ident("desktop"))
            assert link_ is not None
            channel = await link_.open("registry")
            await channel.send(garbage)
            await link_.ended()
            await laptop.device.linked("desktop")
            await desktop.device.linked("laptop")
        assert await desktop.sharing.mark() == before and desktop.names("laptop") == "the small one"

    run(test)


def test_the_first_word_is_a_mark_or_refused() -> None:
    assert _mark_of(encode([1, b""])) == b"" and _mark_of(encode([1, bytes(32)])) == bytes(32)
    for value in ([1], [1, bytes(31)], [2, bytes(32)], [1, "x"], {}, 1):
        with pytest.raises(FormatError):
            _mark_of(encode(value))  # type: ignore[arg-type]


def test_a_daemon_that_shares_nothing_yet_has_not_loaded_automerge() -> None:
    code = (
        "import hhd.app.peering, hhd.node.sharing, hhd.node.meeting, hhd.node.peers, hhd.node.peers_kept, sys\n"
        "print([one for one in ('automerge', 'zeroconf', 'spake2', 'OpenSSL') if one in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
