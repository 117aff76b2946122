"""Clocks of linked devices, compared when a person asks; what is no answer costs the link and tells nothing."""

from __future__ import annotations

from tests.node.peering import House, ident, run

from hhd.node import clocks
from hhd.node.answers.clocks import Clock
from hhd.node.clocks import CHANNEL, Clocks
from hhd.transports.link import Channel, Link
from hhd_protocol import clock
from hhd_protocol.codec import encode
from hhd_protocol.crypto import device_text

GROUP = ("add laptop", "add desktop", "add phone")


def test_each_linked_device_says_what_time_it_is_and_an_older_one_is_not_waited_for() -> None:
    async def test(house: House) -> None:
        laptop, desktop, phone = (house.device(name, GROUP) for name in ("laptop", "desktop", "phone"))
        for one in (laptop, desktop, phone):
            await one.listens()
        here = Clocks(laptop.peers, lambda: 1_000_000)
        assert await here.clocks() == []
        Clocks(desktop.peers, lambda: 1_000_000 + 3_600_000)
        laptop.hears("desktop", "phone")
        await laptop.linked("desktop", "phone")
        await desktop.linked("laptop")
        await phone.linked("laptop")
        found = {one.name: one for one in await here.clocks()}
        assert found.keys() == {"desktop", "phone"}
        assert found["phone"] == Clock(device=device_text(ident("phone")), name="phone", ahead_ms=None)
        ahead = found["desktop"].ahead_ms
        assert ahead is not None and 3_600_000 - clocks.SECONDS_MAX * 1000 <= ahead <= 3_600_000

    run(test)


def test_what_is_no_answer_and_no_question_costs_the_link() -> None:
    async def nonsense(channel: Channel, link: Link) -> None:
        await channel.receive()
        await channel.send(encode([1, "late"]))

    async def test(house: House) -> None:
        laptop, desktop = (house.device(name, GROUP[:2]) for name in ("laptop", "desktop"))
        for one in (laptop, desktop):
            await one.listens()
        here = Clocks(laptop.peers)
        desktop.peers.serve(CHANNEL, nonsense)
        laptop.hears("desktop")
        await laptop.linked("desktop")
        await desktop.linked("laptop")
        (said,) = await here.clocks()
        assert said.ahead_ms is None and laptop.links[0].error is not None, "an answer that is none"
        await laptop.until(lambda: len(laptop.links) == 2 and len(desktop.links) == 2)
        channel = await desktop.links[1].open(CHANNEL)
        await channel.send(clock.encode_told(1))
        await desktop.links[1].ended()

    run(test)
