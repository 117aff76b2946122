"""A conversation between two devices, recorded and played back: a peer of each earlier version stays in the tests.

Run by hand (`python -m tests.transports.recorded`) once for each version of the protocol, before it is followed by a
newer one; it writes `tests/fixtures/links/version-N.json`. A file that is there is never written again.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from tests.transports.devices import device_named

from hhd.transports.link import Link
from hhd.transports.stream import Ends, Own, StreamLink
from hhd_protocol.link import VERSIONS

FOLDER = Path(__file__).parents[1] / "fixtures/links"
LARGE = bytes(700_000)


async def dialler(link: Link) -> None:
    """What the app of the side that dialled does."""
    sync = await link.open("sync", urgent=True)
    await sync.send(b"which heads do you have?")
    assert await sync.receive() == b"none"
    pages = await link.open("pages")
    await pages.send(LARGE)
    await pages.send(b"")
    group = await link.accepted()
    assert group.name == "group" and await group.receive() == b"records"
    assert await group.receive() is None
    assert await link.answers(60)
    assert await pages.receive() == b"received"
    await pages.close()
    await link.close("that was all")


async def accepter(link: Link) -> None:
    """What the app of the side that was dialled does."""
    sync = await link.accepted()
    assert (sync.name, await sync.receive()) == ("sync", b"which heads do you have?")
    await sync.send(b"none")
    pages = await link.accepted()
    assert (pages.name, await pages.receive(), await pages.receive()) == ("pages", LARGE, b"")
    group = await link.open("group")
    await group.send(b"records")
    await group.close()
    await pages.send(b"received")
    assert await pages.receive() is None
    assert "that was all" in str(await link.ended())


APPS = {"dialler": dialler, "accepter": accepter}
OTHER = {"dialler": "accepter", "accepter": "dialler"}


@dataclass
class Tape:
    """A wire that keeps what is written to it."""

    said: bytearray = field(default_factory=bytearray)
    remote: str = "a tape"
    over: bool = False
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, raw: memoryview) -> int:
        self.said += raw
        self.more.set()
        return len(raw)

    def finish(self) -> None:
        self.over = True
        self.more.set()

    abort = finish


def link_on(tape: Tape, side: str) -> StreamLink:
    """A link of one side, whose bytes go to `tape`."""
    ids = {"dialler": device_named("laptop").id, "accepter": device_named("desktop").id}
    ends = Ends(me=ids[side], peer=ids[OTHER[side]], dialled=side == "dialler", trusted=True)
    own = Own(instance=side.encode().ljust(16, b"."), hhd="0.1.0")
    return StreamLink(tape, ends, own, dials=1 if side == "dialler" else 0)


def give(link: StreamLink, raw: bytes) -> None:
    """Let `raw` come in on a link."""
    at = 0
    while at < len(raw):
        room = link.room()
        count = min(len(room), len(raw) - at)
        room[:count] = raw[at : at + count]
        link.received(count)
        at += count


async def _recorded() -> list[tuple[str, bytes]]:
    tapes = {side: Tape() for side in APPS}
    links = {side: link_on(tapes[side], side) for side in APPS}
    steps: list[tuple[str, bytes]] = []
    given = dict.fromkeys(APPS, 0)

    async def app(side: str) -> None:
        await links[side].greeted()
        await APPS[side](links[side])

    async with asyncio.TaskGroup() as tasks:
        doing = [tasks.create_task(app(side)) for side in APPS]
        while not all(one.done() for one in doing):
            await asyncio.sleep(0)
            for side in APPS:
                raw = bytes(tapes[side].said[given[side] :])
                if raw:
                    given[side] += len(raw)
                    steps.append((side, raw))
                    give(links[OTHER[side]], raw)
    return steps


def recording(version: int) -> list[tuple[str, bytes]]:
    """The recorded conversation of a version: who said what, in the order in which it came."""
    found = json.loads((FOLDER / f"version-{version}.json").read_text())
    return [(side, zlib.decompress(bytes.fromhex(packed))) for side, packed in found]


if __name__ == "__main__":
    path = FOLDER / f"version-{VERSIONS[0]}.json"
    made = [[side, zlib.compress(raw, 9).hex()] for side, raw in asyncio.run(_recorded())]
    with open(path, "x") as file:
        json.dump(made, file, indent=1)
        file.write("\n")
