"""The interfaces of this machine, whichever it has."""

from __future__ import annotations

import asyncio
import ipaddress

from hhd.discovery import interfaces
from hhd.discovery.interfaces import ADDRESSES_MAX, INTERFACES_MAX


def test_loopback_is_no_network_and_addresses_are_plain() -> None:
    found = interfaces.usable()
    assert len(found) <= INTERFACES_MAX and len({one.number for one in found}) == len(found)
    for one in found:
        assert one.name != "lo" and 0 < len(one.addresses) <= ADDRESSES_MAX
        for address in one.addresses:
            assert not ipaddress.ip_address(address).is_loopback and "%" not in address


def test_watching_costs_nothing_while_nothing_changes() -> None:
    async def main() -> None:
        watch = interfaces.Watch()
        waiting = asyncio.ensure_future(watch.stirred())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        watch.close()

    asyncio.run(main())
