"""Who asks for a link in the moment in which one takes the place of another is not told that there is none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hhd.node import links
from hhd.node.links import Links
from hhd.transports.link import LinkError, Why
from hhd_protocol.ids import DeviceId

PEER = DeviceId(b"p" * 32)


class Roll:
    """Everybody is a full member."""

    me = SimpleNamespace(id=DeviceId(b"m" * 32))

    def trusted(self, device: DeviceId) -> bool:
        return True

    def is_full(self, device: DeviceId) -> bool:
        return True


class Report:
    """Nobody is told."""

    def linked(self, device: DeviceId) -> None: ...

    def settled(self, device: DeviceId) -> None: ...

    def lost(self, device: DeviceId, *, used: bool) -> None: ...


class Bare:
    """A link as far as it is looked at here."""

    def __init__(self) -> None:
        self.peer, self.error, self.remote = PEER, None, "somewhere"


def begun(all_: Links) -> Any:
    """A link that is not agreed on yet."""
    link: Any = Bare()
    all_._came(link)
    return link


def agreed(all_: Links) -> Any:
    """A link that is in use."""
    link = begun(all_)
    all_._settled(all_._links[PEER])
    return link


def ended(all_: Links, link: Any, why: Why) -> None:
    link.error = LinkError(why, "It ended.")
    all_._went(link, link.error)


async def coming(all_: Links, then: Any = None) -> Any:
    """What `coming` returns, where `then` happens once it waits."""
    asking = asyncio.ensure_future(all_.coming(PEER))
    await asyncio.sleep(0)
    if then is not None:
        assert not asking.done(), "it waits"
        then()
    return await asking


@pytest.fixture
def all_() -> Links:
    return Links(Roll(), Report())  # type: ignore[arg-type]


def test_one_that_takes_the_place_of_another_is_waited_for(all_: Links) -> None:
    async def go() -> None:
        first = agreed(all_)
        assert await coming(all_) is first
        ended(all_, first, Why.CLOSED)  # Another one stays.
        second = begun(all_)
        assert await coming(all_, lambda: all_._settled(all_._links[PEER])) is second

    asyncio.run(go())


def test_where_one_broke_just_now_the_next_is_waited_for(all_: Links) -> None:
    async def go() -> None:
        ended(all_, agreed(all_), Why.LOST)
        made: list[Any] = []
        assert await coming(all_, lambda: made.append(agreed(all_))) is made[0]

    asyncio.run(go())


@pytest.mark.parametrize("what", ["none was there", "it was closed", "it broke long ago", "none comes"])
def test_where_none_is_on_its_way_nobody_waits_for_long(
    all_: Links, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        if what == "it was closed":
            ended(all_, agreed(all_), Why.CLOSED)
        elif what in ("it broke long ago", "none comes"):
            ended(all_, agreed(all_), Why.LOST)
        if what == "none comes":
            monkeypatch.setattr(links, "COMING_SECONDS", 0.05)
        elif what == "it broke long ago":
            all_._broke_at[PEER] -= links.COMING_SECONDS
        asking = asyncio.ensure_future(all_.coming(PEER))
        await asyncio.sleep(0)
        assert asking.done() is (what != "none comes")
        assert await asking is None

    asyncio.run(go())
