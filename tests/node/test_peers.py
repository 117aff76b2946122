"""Links to the members of the group: one to each, kept, and cut when a device is put out; all of it in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from unittest import mock

import pytest
from tests.node.peering import Circle, House, Shelf, echo, ident, run

from hhd.base import log
from hhd.base.errors import RefusedError, UsageError
from hhd.node import dialling, peers
from hhd.node.address_book import PORT_DEFAULT, AddressBook, Met
from hhd.node.dialling import Place
from hhd.transports import sockets
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError

PAIR = ("add laptop", "add desktop")
THREE = (*PAIR, "add phone")


async def pair(
    house: House, records: tuple[str, ...] = PAIR, *, courtesy_seconds: float = 30
) -> tuple[House.Device, House.Device]:
    """Two that are linked, by one link however slow the machine is: the one that waits for the other's does so long."""
    laptop, desktop = house.device("laptop", records), house.device("desktop", records)
    await laptop.listens()
    await desktop.listens()
    with mock.patch.object(dialling, "COURTESY_SECONDS", courtesy_seconds):
        laptop.hears("desktop")
        desktop.hears("laptop")
    await laptop.linked("desktop")
    await desktop.linked("laptop")
    await laptop.until(lambda: bool(laptop.links))
    await desktop.until(lambda: bool(desktop.links))
    return laptop, desktop


def test_a_device_without_others_listens_to_nobody_and_begins_when_another_one_joins() -> None:
    async def test(house: House) -> None:
        laptop = house.device("laptop", [])
        await laptop.until(lambda: not laptop.roll.members)
        assert not house.network.listeners
        laptop.circle.kept += [record.encode() for record in PAIR]
        await laptop.roll.refresh()
        await laptop.listens()
        laptop.circle.kept.append(b"revoke desktop")
        await laptop.roll.refresh()
        await laptop.until(lambda: not house.network.listeners)

    run(test)


def test_two_that_hear_of_each_other_have_one_link_and_each_is_told_once() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house, courtesy_seconds=1)
        await asyncio.sleep(1.2)  # Longer than the courtesy of the one that waits.
        assert laptop.said == ["linked desktop"] and desktop.said == ["linked laptop"]
        link = laptop.peers.link(ident("desktop"))
        assert link is not None and link.peer == ident("desktop")

    run(test)


def test_channels_are_served_by_name_and_others_are_ended() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        desktop.peers.serve("sync", echo)
        link = laptop.peers.link(ident("desktop"))
        assert link is not None
        channel = await link.open("sync")
        await channel.send(b"x" * 100_000)
        assert await channel.receive() == b"x" * 100_000
        assert await (await link.open("unheard-of")).receive() is None
        assert link.error is None

    run(test)


@pytest.mark.parametrize("error", [FormatError("nonsense"), RefusedError("The disk is full."), ZeroDivisionError()])
def test_whatever_goes_wrong_with_one_device_costs_its_link_and_nothing_else(
    error: Exception, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def test(house: House) -> None:
        laptop, desktop, phone = (house.device(name, THREE) for name in ("laptop", "desktop", "phone"))
        for one in (laptop, desktop, phone):
            await one.listens()
        desktop.hears("laptop")
        phone.hears("laptop")
        await laptop.linked("desktop", "phone")
        await desktop.linked("laptop")  # Each end hears of a link by itself, one of them later.
        await phone.linked("laptop")

        async def fail(channel: Channel, link: Link) -> None:
            raise error

        laptop.peers.serve("bad", fail)
        link = desktop.peers.link(ident("laptop"))
        assert link is not None
        request.addfinalizer(lambda: log.to(None))
        log.to(tmp_path)
        await link.open("bad")
        await desktop.until(lambda: "lost laptop" in desktop.said)
        assert phone.said == ["linked laptop"]
        lines = [json.loads(line) for line in (tmp_path / log.FILE).read_text().splitlines()]
        (said,) = [one for one in lines if one["level"] == "error"]
        assert said["error"] == type(error).__name__ and said["device"] == device_text(ident("desktop"))
        await laptop.until(lambda: len(laptop.links) == 3)  # It comes back by itself.
        await laptop.linked("desktop", "phone")

    run(test)


def test_a_link_that_broke_is_there_again_without_a_word_from_the_network() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        laptop.links[0].cut("the network failed")
        await laptop.until(lambda: len(laptop.links) == 2)
        await desktop.linked("laptop")
        assert laptop.said == ["linked desktop", "lost desktop", "linked desktop"]

    run(test)


def test_daemons_killed_and_started_in_any_order_are_linked_again_from_what_they_remember() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        place = Place("desktop", desktop.port)
        await laptop.until(lambda: laptop.shelf.book.met.get(ident("desktop"), Met()).places == (place,))
        for orderly in (True, False):
            shelf = laptop.shelf
            await laptop.end(orderly=orderly)
            await desktop.linked()
            laptop = house.device("laptop", PAIR, shelf)
            await laptop.linked("desktop")  # Nothing was heard: it remembers where the desktop was.
            await desktop.linked("laptop")

    run(test)


def test_one_that_started_anew_before_its_old_link_was_missed_gets_a_new_one() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        house.network.part("laptop", "desktop")  # The power goes: nobody hears of it.
        shelf = laptop.shelf
        await laptop.end(orderly=False)
        assert desktop.peers.connected() == {ident("laptop")}
        house.network.join("laptop", "desktop")
        laptop = house.device("laptop", PAIR, shelf)
        await laptop.listens()
        laptop.hears("desktop")
        await laptop.linked("desktop")
        await desktop.until(lambda: desktop.said.count("linked laptop") == 2)
        assert desktop.said[-2:] == ["lost laptop", "linked laptop"]

    run(test)


def test_records_of_the_group_reach_everybody_by_way_of_whoever_is_linked() -> None:
    async def test(house: House) -> None:
        laptop, desktop = house.device("laptop", PAIR), house.device("desktop", PAIR)
        phone = house.device("phone", THREE)  # The desktop added it, and has no word of that yet.
        desktop.circle.kept.append(b"add phone")
        await desktop.roll.refresh()
        for one in (laptop, desktop, phone):
            await one.listens()
        laptop.hears("desktop")
        phone.hears("desktop")
        await desktop.linked("laptop", "phone")
        await laptop.until(lambda: ident("phone") in laptop.roll.others)
        laptop.hears("phone")
        await laptop.linked("desktop", "phone")
        laptop.circle.kept.append(b"revoke phone")
        await laptop.roll.refresh()
        await laptop.linked("desktop")
        await desktop.linked("laptop")
        await phone.linked()
        assert laptop.peers.link(ident("phone")) is None

    run(test)


def test_a_device_that_is_put_out_loses_its_link_at_once_and_is_neither_dialled_nor_let_in() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house, THREE)
        served = []

        async def serve(channel: Channel, link: Link) -> None:
            served.append(link.peer)

        laptop.peers.serve("sync", serve)
        link = desktop.links[0]
        await link.open("sync")
        await laptop.until(lambda: served == [ident("desktop")])  # Until now it is served.
        laptop.circle.kept.append(b"revoke desktop")
        await laptop.roll.refresh()
        assert laptop.peers.connected() == frozenset() and laptop.links[0].error is not None
        await desktop.linked()
        desktop.hears("laptop")  # It does not know, and dials.
        laptop.peers._heard(ident("desktop"), b"87654321", [Place("desktop", 1)])
        around = await desktop.peers._peers()
        await desktop.until(lambda: bool(desktop.peers._troubles))
        assert not around.peers[0].linked and laptop.peers._machine.deadline() is None
        with pytest.raises(LinkError):
            await desktop.peers.transport.dial("laptop", 1, ident("laptop"))
        assert b"revoke desktop" not in desktop.circle.kept and served == [ident("desktop")]

        async def refuses() -> dict[str, bool]:
            return {peer.name: peer.refuses for peer in (await desktop.peers._peers()).peers}

        assert await refuses() == {"laptop": True, "phone": False}, "its person is told, of who said so"
        laptop.circle.kept.remove(b"revoke desktop")
        await laptop.roll.refresh()
        laptop.hears("desktop", nonce=b"11111111")
        await desktop.linked("laptop")
        await desktop.until(lambda: not desktop.peers._refusing)
        assert await refuses() == {"laptop": False, "phone": False}

    run(test)


def test_a_device_that_only_stored_loses_its_link_at_once_too() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house, (*THREE, "lower desktop"))
        laptop.circle.kept.append(b"revoke desktop")
        await laptop.roll.refresh()
        assert laptop.peers.connected() == frozenset() and laptop.links[0].error is not None
        await desktop.linked()

    run(test)


def test_a_device_that_is_away_or_another_one_is_not_said_to_refuse() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        place = Place("desktop", desktop.port)
        await laptop.until(lambda: laptop.shelf.book.met[ident("desktop")].places == (place,))
        await desktop.end()
        await laptop.until(lambda: bool(laptop.peers._troubles))
        assert [peer.refuses for peer in (await laptop.peers._peers()).peers] == [False]

    run(test)


def test_a_device_whose_role_changes_is_linked_anew_and_served_by_the_new_one() -> None:
    """What is served on a link was decided when it began: who may not read any more loses it at once."""

    async def test(house: House) -> None:
        laptop, desktop = await pair(house, THREE)
        first = laptop.links[0]
        laptop.circle.kept.append(b"lower desktop")
        await laptop.roll.refresh()
        assert first.error is not None and not laptop.roll.is_full(ident("desktop"))
        await laptop.until(lambda: len(laptop.links) == 2 and laptop.peers.link(ident("desktop")) is laptop.links[1])
        await laptop.until(lambda: desktop.roll.only_stores(ident("desktop")))  # It is told on the new link.
        second = laptop.links[1]
        laptop.circle.kept.append(b"raise desktop")  # And back: what it may read now is served on a new link.
        await laptop.roll.refresh()
        await laptop.until(lambda: second.error is not None and not desktop.roll.only_stores(ident("desktop")))
        phone = house.device("phone", THREE)
        await phone.listens()
        laptop.hears("phone")
        await laptop.linked("desktop", "phone")

        def living() -> list[Link]:
            return [link for link in laptop.links if link.error is None]

        await laptop.until(lambda: len(living()) == 2)
        before = living()
        await laptop.roll.refresh()
        assert living() == before, "where nothing changed nothing is cut"

    run(test)


def test_nothing_is_served_before_the_group_is_agreed_on() -> None:
    async def test(house: House) -> None:
        laptop, desktop = house.device("laptop", PAIR), house.device("desktop", (*PAIR, "revoke laptop"))
        del desktop
        await laptop.listens()
        served: list[str] = []

        async def serve(channel: Channel, link: Link) -> None:
            served.append("served")

        laptop.peers.serve("sync", serve)
        # A desktop that knows of the revocation, and comes as if it did not: what it says of the group comes first.
        other = House.Device(house, "desktop", Circle([record.encode() for record in PAIR]), Shelf())
        await other.roll.refresh()
        link = await other.transport().dial("laptop", laptop.port, ident("laptop"))
        await link.open("sync")
        await asyncio.sleep(0.2)
        assert served == [] and laptop.peers.connected() == frozenset()
        group = await link.open("group")
        from hhd_protocol.gossip import Gossip, parts

        machine = Gossip([record.encode() for record in PAIR])
        for message in machine.begin():
            for part in parts(message):
                await group.send(part)
        await laptop.until(lambda: served == ["served"])
        link.cut("the test is over")

    run(test)


def test_a_fixed_address_finds_who_is_there_once_and_keeps_it() -> None:
    async def test(house: House) -> None:
        laptop, desktop = house.device("laptop", PAIR), house.device("desktop", PAIR)
        await laptop.listens()
        await desktop.listens()
        address = f"desktop:{desktop.port}"
        around = await laptop.peers._peer_add(address)
        assert [one.address for one in around.fixed] == [address]
        await laptop.linked("desktop")
        await laptop.until(lambda: laptop.shelf.book.fixed == {Place("desktop", desktop.port): ident("desktop")})
        around = await laptop.peers._peers()
        assert around.peers[0].linked and around.peers[0].name == "desktop" and around.fixed[0].device
        await laptop.peers._peer_remove(address)
        assert laptop.shelf.book.fixed == {}
        with pytest.raises(RefusedError):
            await laptop.peers._peer_remove(address)
        assert laptop.peers.connected() == {ident("desktop")}

    run(test)


def test_what_is_asked_of_a_daemon_that_just_began_waits_for_what_is_kept() -> None:
    async def test(house: House) -> None:
        kept = AddressBook(
            fixed={Place("desktop", 1): None}, met={ident("desktop"): Met(seen_ms=7, places=(Place("desktop", 2),))}
        )
        laptop = house.device("laptop", PAIR, Shelf(kept))
        around = await laptop.peers._peer_add("desktop:3")  # Before anything was read.
        assert [one.address for one in around.fixed] == ["desktop:1", "desktop:3"]
        assert [(one.name, one.seen_ms) for one in around.peers] == [("desktop", 7)]
        assert laptop.shelf.book.met == kept.met and set(laptop.shelf.book.fixed) == {*kept.fixed, Place("desktop", 3)}
        again = house.device("laptop", PAIR, laptop.shelf)
        assert [one.name for one in (await again.peers._peers()).peers] == ["desktop"]

    run(test)


def test_while_the_group_cannot_be_read_that_is_said_and_no_address_is_lost() -> None:
    async def test(house: House) -> None:
        shelf = Shelf(AddressBook(fixed={Place("desktop", 1): None}))
        laptop = House.Device(house, "laptop", Circle(), shelf)
        with mock.patch.object(shelf, "read", side_effect=RefusedError("The disk is gone.")):
            laptop.start()
            for act in (laptop.peers._peers(), laptop.peers._peer_add("desktop:3"), laptop.peers.listening()):
                with pytest.raises(RefusedError, match="The disk is gone"):
                    await asyncio.wait_for(act, 60)
        assert shelf.book.fixed == {Place("desktop", 1): None} and not shelf.written
        await laptop.end()

    run(test)


def test_an_address_that_cannot_be_kept_is_refused_and_not_used() -> None:
    async def test(house: House) -> None:
        laptop = house.device("laptop", PAIR, Shelf(AddressBook(fixed={Place("desktop", 1): None})))
        with mock.patch.object(laptop.shelf, "write", side_effect=RefusedError("The disk is full.")):
            for act in (laptop.peers._peer_add("desktop:3"), laptop.peers._peer_remove("desktop:1")):
                with pytest.raises(RefusedError, match="The disk is full"):
                    await act
        assert [one.address for one in (await laptop.peers._peers()).fixed] == ["desktop:1"]
        await laptop.peers._peer_add("desktop:3")
        assert set(laptop.shelf.book.fixed) == {Place("desktop", 1), Place("desktop", 3)}

    run(test)


def test_how_long_ago_a_device_was_linked_is_said_by_a_clock_that_does_not_jump() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        shown = (await laptop.peers._peers()).peers[0]
        assert shown.linked and shown.ago_ms == 0
        await desktop.end()
        await laptop.linked()
        await laptop.until(lambda: laptop.shelf.book.met[ident("desktop")].seen_ms > 0)
        for date in (86_400_000_000, 5, 1_000):  # A day and more ahead, behind, and as it was.
            laptop.peers._now_ms = lambda date=date: date  # type: ignore[misc]
            ago = (await laptop.peers._peers()).peers[0].ago_ms
            assert ago is not None and 0 <= ago < 600_000, f"at the date {date} it was {ago} ms ago"
        shelf = laptop.shelf
        await laptop.end()
        laptop = house.device("laptop", PAIR, shelf)  # What it knew by that clock ended with the process.
        await laptop.until(lambda: bool(laptop.peers._book.met))
        for date, told in ((61_000, 60_000), (5, None), (1_000 + 40 * 365 * 86_400_000, None)):
            laptop.peers._now_ms = lambda date=date: date  # type: ignore[misc]
            assert (await laptop.peers._peers()).peers[0].ago_ms == told

    run(test)


def test_a_stranger_at_a_fixed_address_is_left_and_said() -> None:
    async def test(house: House) -> None:
        laptop = house.device("laptop", PAIR)
        stranger = house.device("stranger", ("add stranger", "add laptop"))  # It takes the laptop for one of its own.
        await laptop.listens()
        await stranger.listens()
        await laptop.peers._peer_add(f"stranger:{stranger.port}")
        await laptop.until(lambda: bool(laptop.peers._troubles))
        assert stranger.said == [] and laptop.said == []
        assert laptop.shelf.book.fixed == {Place("stranger", stranger.port): None}
        (fixed,) = (await laptop.peers._peers()).fixed
        assert fixed.trouble in laptop.peers._troubles.values() and not fixed.device

    run(test)


def test_a_stranger_gets_in_for_pairing_only_and_only_while_a_code_is_open() -> None:
    async def test(house: House) -> None:
        laptop = house.device("laptop", [])
        await laptop.until(lambda: not laptop.roll.members)
        laptop.peers.serve("pair", echo)
        laptop.peers.serve("sync", echo)
        codes = [True]
        laptop.peers.pairing_open = lambda: bool(codes)
        laptop.peers.pairing_wanted(True)
        await laptop.listens()
        stranger = house.device("stranger", ())
        place = Place("laptop", laptop.port)
        link = await stranger.peers.dial_stranger(place)
        channel = await link.open("pair")
        await channel.send(b"hello")
        assert await channel.receive() == b"hello"
        link.cut("done")
        link = await stranger.peers.dial_stranger(place)
        with pytest.raises((LinkError, FormatError, ValueError)):
            await (await link.open("sync")).receive()
            raise LinkError(link.error.why if link.error else None, "")  # type: ignore[arg-type]
        codes.clear()
        with pytest.raises(LinkError):
            await stranger.peers.dial_stranger(place)
        laptop.peers.pairing_wanted(False)
        await laptop.until(lambda: not house.network.listeners)
        with pytest.raises(LinkError):
            await stranger.peers.dial_stranger(place)

    run(test)


def test_after_a_sleep_a_dead_link_is_noticed_and_replaced_at_once() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        house.network.part("laptop", "desktop")
        laptop.peers._woke(60.0)
        await laptop.until(lambda: "lost desktop" in laptop.said)
        house.network.join("laptop", "desktop")
        await laptop.linked("desktop")
        await desktop.linked("laptop")
        before = list(laptop.said)
        with mock.patch.object(peers, "WAKE_SECONDS", 30):
            laptop.peers._woke(60.0)  # A link that answers stays.
            await asyncio.sleep(0.2)
        assert laptop.said == before

    run(test)


def test_a_daemon_that_ends_parts_with_a_word_and_takes_nobody_in_any_more() -> None:
    async def test(house: House) -> None:
        laptop, desktop = await pair(house)
        await laptop.peers.stop()
        await desktop.linked()
        assert desktop.links[0].error is not None and "ends" in str(desktop.links[0].error)
        await laptop.until(lambda: not any(host == "laptop" for host, _ in house.network.listeners))
        assert laptop.said == ["linked desktop", "lost desktop"]

    run(test)


def test_what_a_person_types_is_an_address_or_refused() -> None:
    from hhd.node.address_book import typed

    assert typed("desktop.local") == Place("desktop.local", PORT_DEFAULT)
    assert typed(" desktop:80 ") == Place("desktop", 80)
    assert typed("192.0.2.7:80") == Place("192.0.2.7", 80)
    assert typed("[fd00::1]:80") == Place("fd00::1", 80)
    assert typed("fd00:0::1") == typed("[fd00::1]") == Place("fd00::1", PORT_DEFAULT)
    assert str(typed("[fd00::1]:80")) == "[fd00::1]:80"
    for text in (
        "",
        ":",
        "a b",
        "host:",
        "host:0",
        "host:65536",
        "host:0000080808080",
        "host:" + "0" * 5000 + "80",
        "host:x",
        "host:٣",
        "999.1.1.1",
        "-x",
        "[::1",
        "[]:1",
        "fe80::1%",
        "fe80::1%\udcff",
        "fe80::1%a b",
        "fe80::1%" + "x" * 64,
    ):
        with pytest.raises(UsageError):
            typed(text)
    assert typed("[fe80::1%eth0.5]:80") == Place("fe80::1%eth0.5", 80)
    assert PORT_DEFAULT == sockets.PORT_DEFAULT


def test_an_address_book_has_bounds_and_forgets_who_left() -> None:
    book = AddressBook()
    for port in range(1, 30):
        book = book.meeting(ident("desktop"), Place("desktop", port), port)
    met = book.met[ident("desktop")]
    assert met.seen_ms == 29 and len(met.places) == 4 and met.places[-1].port == 29
    assert book.meeting(ident("desktop"), None, 3).met[ident("desktop")].seen_ms == 29
    book = book.fixing(Place("a", 1)).meeting(ident("desktop"), Place("a", 1), 30)
    assert book.fixed == {Place("a", 1): ident("desktop")}
    assert book.of_members({}) == AddressBook(fixed={Place("a", 1): None})
    for port in range(2, 65):
        book = book.fixing(Place("a", port))
    with pytest.raises(RefusedError):
        book.fixing(Place("b", 1))
    assert book.fixing(Place("a", 64)) == book
