"""Which link counts at the network's side and at the machine's, while links begin and end in any order."""

from __future__ import annotations

from hhd_protocol.ids import DeviceId
from hhd_protocol.sync.links import Links

PEER, OTHER = DeviceId(b"p" * 32), DeviceId(b"o" * 32)


class One:
    """A link."""


def test_what_was_said_for_a_link_goes_over_it_and_over_no_other() -> None:
    links, first, second = Links[One](), One(), One()
    links.begin(PEER, first)
    links.told(PEER, first)
    said = links.stamp()
    assert links.over(PEER, said) is first and links.over(OTHER, said) is None
    links.begin(PEER, second)
    assert links.over(PEER, said) is None, "it was meant for the one before"
    links.told(PEER, second)
    assert links.over(PEER, said) is None and links.over(PEER, links.stamp()) is second


def test_a_link_that_the_machine_was_not_told_of_carries_nothing() -> None:
    links, only = Links[One](), One()
    links.begin(PEER, only)
    assert links.over(PEER, links.stamp()) is None and not links.hears(PEER, only)


def test_the_machine_hears_of_the_link_that_it_was_told_of_last() -> None:
    links, first, second = Links[One](), One(), One()
    links.begin(PEER, first)
    links.told(PEER, first)
    links.begin(PEER, second)
    assert links.hears(PEER, first) and not links.hears(PEER, second), "it does not know of the other yet"
    links.told(PEER, second)
    assert links.hears(PEER, second) and not links.hears(PEER, first)


def test_the_end_of_a_link_that_was_replaced_is_nothing_at_either_side() -> None:
    links, first, second = Links[One](), One(), One()
    for link in (first, second):
        links.begin(PEER, link)
        links.told(PEER, link)
    assert not links.end(PEER, first) and not links.ended(PEER, first)
    assert links.current(PEER) is second and links.hears(PEER, second)
    assert links.end(PEER, second) and links.ended(PEER, second)
    assert links.current(PEER) is None and not links.all() and not links.hears(PEER, second)
    assert not links.end(PEER, second) and not links.ended(PEER, second), "it has ended"


def test_what_was_answered_before_a_wake_does_not_count_until_the_machine_knows_of_it() -> None:
    links = Links[One]()
    assert links.is_awake(before := links.stamp())
    wake = links.woke()
    assert not links.is_awake(before) and not links.is_awake(links.stamp())
    later = links.woke()
    links.wakes(wake)
    assert not links.is_awake(links.stamp()), "it slept again meanwhile"
    links.wakes(later)
    assert links.is_awake(links.stamp()) and not links.is_awake(before)
