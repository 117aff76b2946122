"""Two that announce themselves on loopback hear one another; what is heard is a hint in its bounds."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hhd.discovery import discovery as discovery_module
from hhd.discovery.discovery import Discovery, Ears
from hhd.discovery.interfaces import Interface
from hhd.discovery.mdns import dialable
from hhd.discovery.sightings import Heard
from hhd_protocol.announcement import Announcement

LOOPBACK = (Interface("lo", 1, ("127.0.0.1",)),)
SECONDS = 240.0
"""After which a test gives up; on a quiet machine each takes well under one."""


class Device:
    """One that announces `tags` and remembers what it hears."""

    def __init__(self, *tags: bytes, usable: Callable[[], tuple[Interface, ...]] = lambda: LOOPBACK) -> None:
        self.tags, self.heard, self.left = tags, list[tuple[Announcement, int, tuple[str, ...]]](), list[bytes]()
        self.moves, self.pairing, self.quiet = 0, False, False
        self.discovery = Discovery(
            said=self.said,
            ears=Ears(heard=self.hear, gone=self.left.append, moved=self.moved),
            random=os.urandom,
            usable=usable,
        )
        self.discovery.port = 4711

    def said(self, nonce: bytes, filler: bytes) -> Announcement | None:
        return None if self.quiet else Announcement(nonce, self.tags, self.pairing)

    def hear(self, said: Announcement, port: int, addresses: tuple[str, ...]) -> None:
        self.heard.append((said, port, addresses))

    def moved(self, found: tuple[Interface, ...]) -> None:
        self.moves += 1

    async def until(self, came: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not came():
                await asyncio.sleep(0.01)

    def names(self, tags: tuple[bytes, ...]) -> set[bytes]:
        return {said.nonce for said, _, _ in self.heard if said.tags == tags}


def tags(count: int = 1) -> tuple[bytes, ...]:
    return tuple(os.urandom(6) for _ in range(count))


def run(test: Callable[[asyncio.TaskGroup], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            await test(tasks)
            raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main())


def start(tasks: asyncio.TaskGroup, *devices: Device) -> list[asyncio.Task[None]]:
    return [tasks.create_task(one.discovery.run()) for one in devices]


def test_two_hear_one_another_with_port_and_address_and_hear_of_changes_and_of_the_end() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop, desktop = Device(*tags()), Device(*tags())
        laptop.discovery.port, desktop.discovery.port = 4711, 4712
        first, _ = start(tasks, laptop, desktop)
        await laptop.until(lambda: bool(laptop.names(desktop.tags) and desktop.names(laptop.tags)))
        said = next(one for one in desktop.heard if one[0].tags == laptop.tags)
        assert said[1:] == (4711, ("127.0.0.1",)) and not said[0].pairing
        assert not laptop.names(laptop.tags)  # Nobody hears of themselves.
        laptop.pairing = True
        laptop.discovery.say_again()
        await desktop.until(lambda: any(one[0].tags == laptop.tags and one[0].pairing for one in desktop.heard))
        names = desktop.names(laptop.tags)
        assert len(names) == 2 and said[0].nonce in desktop.left  # What a name says never changes.
        first.cancel()
        await desktop.until(lambda: names <= set(desktop.left))

    run(test)


def test_a_code_that_is_closed_and_opened_again_at_once_is_heard_as_open_by_who_listened_all_the_while() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop, desktop = Device(*tags()), Device(*tags())
        start(tasks, laptop, desktop)

        def shows() -> bool:
            """Whether of what it heard of names that have not gone, the last word of one is that a code is open."""
            last = {said.nonce: said.pairing for said, _, _ in desktop.heard if said.tags == laptop.tags}
            return any(pairing for nonce, pairing in last.items() if nonce not in desktop.left)

        for is_open in (True, False, True):  # Each is heard, and the next comes within what RFC 6762 calls recent.
            laptop.pairing = is_open
            laptop.discovery.say_again()
            await desktop.until(lambda is_open=is_open: shows() is is_open)  # type: ignore[misc]
        for is_open in (False, True, False, True):  # None is waited for.
            laptop.pairing = is_open
            laptop.discovery.say_again()
            await asyncio.sleep(0)
        told = len(desktop.names(laptop.tags))
        await desktop.until(lambda: len(desktop.names(laptop.tags)) > told and shows())

    run(test)


def test_farewells_forged_by_a_third_one_keep_nobody_from_being_heard_of_and_show_no_code_that_was_closed() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop = Device(*tags())
        label, said = "1" * 16, Heard({b"v": b"1", b"t": bytes(24), b"p": b"1"}, 1, ("192.0.2.1",))
        laptop.discovery._heard(label, said)
        assert [one.pairing for one, _, _ in laptop.heard] == [True]
        for _ in range(20):
            laptop.discovery._gone(label)
        laptop.discovery._heard(label, said)  # An answer from before, or the device itself: it cannot be known.
        await laptop.until(lambda: len(laptop.heard) == 2)
        assert laptop.heard[1][0] == laptop.heard[0][0]._replace(pairing=False)
        assert laptop.heard[1][1:] == laptop.heard[0][1:], "where it is, is told"
        assert len(laptop.left) == 21, "and that it may be gone"

    run(test)


def test_one_that_announces_nothing_hears_and_is_not_heard() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop, desktop, phone = Device(*tags()), Device(*tags()), Device(*tags())
        laptop.quiet = True
        start(tasks, laptop, desktop, phone)
        await laptop.until(lambda: bool(laptop.names(desktop.tags) and desktop.names(phone.tags)))
        assert not desktop.names(laptop.tags) and not phone.names(laptop.tags)

    run(test)


def test_on_another_network_it_has_another_name_and_on_the_same_one_the_same() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        here = [LOOPBACK]
        laptop, desktop = Device(*tags(), usable=lambda: here[0]), Device(*tags())
        start(tasks, laptop, desktop)
        await desktop.until(lambda: bool(desktop.names(laptop.tags)))
        laptop.discovery.begin_anew()  # It woke, where it was.
        before = len(laptop.heard)
        await laptop.until(lambda: len(laptop.heard) > before)
        assert len(desktop.names(laptop.tags)) == 1
        here[0] = (Interface("lo", 1, ("127.0.0.2",)),)
        laptop.discovery.begin_anew()
        await desktop.until(lambda: len(desktop.names(laptop.tags)) == 2)
        assert laptop.moves == 2

    run(test)


def test_addresses_that_come_are_announced_as_soon_as_the_system_says_that_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        watches = list[asyncio.Event]()

        class Watch:
            """The system's word, said by the test."""

            def __init__(self) -> None:
                self.word = asyncio.Event()
                watches.append(self.word)

            async def stirred(self) -> None:
                await self.word.wait()
                self.word.clear()

            def close(self) -> None:
                pass

        monkeypatch.setattr(discovery_module.interfaces, "Watch", Watch)
        monkeypatch.setattr(discovery_module, "RESTART_SECONDS_MIN", 0.0)
        here = [LOOPBACK]
        laptop, desktop = Device(*tags(), usable=lambda: here[0]), Device(*tags())
        start(tasks, laptop, desktop)
        await desktop.until(lambda: bool(desktop.names(laptop.tags)))
        moves = laptop.moves
        here[0] = (Interface("lo", 1, ("127.0.0.1", "127.0.0.2")),)
        watches[0].set()

        def heard() -> bool:
            return any(said.tags == laptop.tags and "127.0.0.2" in where for said, _, where in desktop.heard)

        await desktop.until(heard)
        assert laptop.moves == moves + 1 and laptop.discovery.interfaces == here[0]
        watches[0].set()  # Nothing has changed: nobody is told anything.
        await laptop.until(lambda: not watches[0].is_set())
        assert laptop.moves == moves + 1

    run(test)


def test_without_a_network_it_says_so_and_begins_when_there_is_one() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        here: list[tuple[Interface, ...]] = [()]
        laptop, desktop = Device(*tags(), usable=lambda: here[0]), Device(*tags())
        start(tasks, laptop, desktop)
        await laptop.until(lambda: bool(laptop.discovery.trouble))
        assert not laptop.heard
        here[0] = LOOPBACK
        laptop.discovery.begin_anew()
        await laptop.until(lambda: bool(laptop.names(desktop.tags)))
        assert laptop.discovery.trouble == ""

    run(test)


@pytest.mark.parametrize(
    ("label", "properties"),
    [
        ("<img onerror=x>", {b"v": b"1"}),
        ("0" * 16, {b"v": b"2"}),
        ("0" * 16, {b"v": b"1", b"t": b"x" * 5}),
        ("0" * 16, {b"v": b"1", b"t": b"x" * 6000}),
        ("ü" * 8, {}),
        ("", {b"v": b"1"}),
    ],
)
def test_what_is_no_announcement_is_not_told(label: str, properties: dict[bytes, bytes | None]) -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop = Device(*tags())
        laptop.discovery._heard(label, Heard(properties, 1, ("192.0.2.1",)))
        assert not laptop.heard
        laptop.discovery._heard("1" * 16, Heard({b"v": b"1"}, 1, ("192.0.2.1",)))
        assert len(laptop.heard) == 1
        laptop.discovery._gone(label)

    run(test)


def test_one_that_changes_all_the_time_is_told_of_seldom_and_the_last_of_it() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop = Device(*tags())
        for port in range(1, 2000):
            laptop.discovery._heard("1" * 16, Heard({b"v": b"1"}, port, ("192.0.2.1",)))
        assert [port for _, port, _ in laptop.heard] == [1]
        await laptop.until(lambda: len(laptop.heard) == 2)
        assert laptop.heard[1][1] == 1999

    run(test)


@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), RuntimeError("No adapter found for index 9")])
def test_what_fails_while_networks_change_ends_nothing_and_is_said(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        failing = [True]

        def usable() -> tuple[Interface, ...]:
            if failing and isinstance(fault, OSError):
                raise fault
            return LOOPBACK

        def refuse(**given: object) -> None:
            raise fault

        laptop, desktop = Device(*tags(), usable=usable), Device(*tags())
        monkeypatch.setattr("hhd.discovery.mdns.Zeroconf", refuse)
        (running,) = start(tasks, laptop)
        await laptop.until(lambda: bool(laptop.discovery.trouble))
        assert (fault.strerror if isinstance(fault, OSError) else str(fault)) in laptop.discovery.trouble
        monkeypatch.undo()
        failing.clear()
        laptop.discovery.begin_anew()
        start(tasks, desktop)
        await laptop.until(lambda: bool(laptop.names(desktop.tags)) and not running.done())
        assert not laptop.discovery.trouble

    run(test)


def test_where_multicast_cannot_begin_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        laptop = Device(*tags())

        def refuse(**given: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr("hhd.discovery.mdns.Zeroconf", refuse)
        start(tasks, laptop)
        await laptop.until(lambda: "Operation not permitted" in laptop.discovery.trouble)
        monkeypatch.undo()
        laptop.discovery.begin_anew()
        await laptop.until(lambda: not laptop.discovery.trouble)

    run(test)


def test_an_address_that_does_not_say_behind_which_interface_it_is_is_not_told() -> None:
    heard = ["fe80::1", "10.77.0.2", "fe80::1%2", "169.254.7.7", "fd77::1", "febf::1"]
    assert dialable(heard) == ["10.77.0.2", "fe80::1%2", "169.254.7.7", "fd77::1"]
