"""What is announced to members, and who is recognised by what they announce."""

from __future__ import annotations

import asyncio
import os

from tests.node.peering import Circle, ident
from tests.transports.devices import device_named

from hhd.node.beacon import SHOWING_MAX, Beacon, Told
from hhd.node.dialling import Place
from hhd.node.roll import Roll
from hhd_protocol.announcement import Announcement
from hhd_protocol.ids import DeviceId

NONCE, FILLER = b"12345678", bytes(24)


class Device:
    """A device that knows a group, and what it heard."""

    def __init__(self, name: str, *records: str) -> None:
        self.heard: list[tuple[DeviceId, list[Place]]] = []
        self.gone: list[bytes] = []
        self.circle = Circle([record.encode() for record in records])
        self.roll = Roll(device_named(name), self.circle)
        told = Told(lambda device, nonce, places: self.heard.append((device, places)), self.gone.append, lambda: None)
        self.beacon = Beacon(self.roll, told, random=os.urandom)
        self.roll.on_change(self.beacon.group_changed)
        asyncio.run(self.roll.refresh())

    def says(self) -> Announcement | None:
        return self.beacon._said(NONCE, FILLER)

    def hears(self, said: Announcement | None) -> None:
        assert said is not None
        self.beacon._heard(said, 4711, ("192.0.2.7", "fd00::7"))


PAIR = ("add laptop", "add desktop")


def test_a_member_is_recognised_and_is_where_it_says() -> None:
    laptop, desktop = Device("laptop", *PAIR), Device("desktop", *PAIR)
    desktop.hears(laptop.says())
    assert desktop.heard == [(ident("laptop"), [Place("192.0.2.7", 4711), Place("fd00::7", 4711)])]


def test_a_stranger_and_one_who_was_put_out_recognise_nobody_and_are_recognised_by_nobody() -> None:
    laptop, desktop = Device("laptop", *PAIR), Device("desktop", *PAIR)
    stranger = Device("stranger", "add stranger", "add laptop", "add desktop")
    stranger.hears(laptop.says())
    laptop.hears(stranger.says())
    laptop.circle.kept.append(b"revoke desktop")
    asyncio.run(laptop.roll.refresh())
    laptop.hears(desktop.says())
    assert stranger.heard == laptop.heard == [] and laptop.says() is None


def test_one_that_is_alone_says_nothing_unless_a_code_is_open() -> None:
    alone = Device("laptop")
    assert alone.says() is None
    alone.beacon.pairing_changed(True)
    said = alone.says()
    assert said is not None and said.pairing
    alone.beacon.pairing_changed(False)
    assert alone.says() is None


def test_who_shows_a_code_is_known_until_it_does_not_any_more_and_a_crowd_is_bounded() -> None:
    laptop, desktop = Device("laptop"), Device("desktop")
    laptop.beacon.pairing_changed(True)
    said = laptop.says()
    desktop.hears(said)
    assert list(desktop.beacon.showing) == [NONCE] and desktop.heard == []
    assert said is not None
    desktop.hears(said._replace(pairing=False))
    assert desktop.beacon.showing == {}
    for number in range(100):
        desktop.beacon._heard(said._replace(nonce=number.to_bytes(8, "big")), 4711, (f"192.0.2.{number}",))
    assert len(desktop.beacon.showing) == SHOWING_MAX
    desktop.beacon._gone((3).to_bytes(8, "big"))
    assert len(desktop.beacon.showing) == SHOWING_MAX - 1 and desktop.gone


def test_a_device_that_shows_a_code_under_another_name_is_one_device_though_its_farewell_was_lost() -> None:
    laptop, desktop = Device("laptop"), Device("desktop")
    laptop.beacon.pairing_changed(True)
    said = laptop.says()
    assert said is not None
    desktop.hears(said)
    desktop.hears(said._replace(nonce=b"another1"))
    assert list(desktop.beacon.showing) == [b"another1"]
    desktop.hears(said._replace(nonce=b"another2", pairing=False))  # What it said before, heard late.
    assert list(desktop.beacon.showing) == [b"another1"]
    desktop.beacon._heard(said._replace(nonce=b"elsewher"), 4711, ("192.0.2.8",))
    assert len(desktop.beacon.showing) == 2  # Two that are at two places are two.


def test_nobody_takes_the_place_of_a_device_that_shows_a_code_by_naming_its_address_beside_another() -> None:
    laptop, desktop = Device("laptop"), Device("desktop")
    laptop.beacon.pairing_changed(True)
    said = laptop.says()
    assert said is not None
    desktop.hears(said)
    desktop.beacon._heard(said._replace(nonce=b"stranger"), 4711, ("192.0.2.7", "fd00::7", "192.0.2.66"))
    assert list(desktop.beacon.showing) == [NONCE, b"stranger"]
