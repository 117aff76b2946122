"""The sieve before the parser of what a network says."""

from __future__ import annotations

from hhd.discovery.sieve import DATAGRAM_BYTES_MAX, DATAGRAMS_BURST_MAX, DATAGRAMS_SECOND_MAX, Sieve

OURS = b"...\x04_hhd\x04_tcp..."


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_about_this_service_passes_and_nothing_else() -> None:
    sieve = Sieve(Clock())
    assert sieve.passes(OURS)
    assert not sieve.passes(b"\x0b_googlecast\x04_tcp")
    assert not sieve.passes(OURS + bytes(DATAGRAM_BYTES_MAX))
    assert (sieve.passed, sieve.dropped) == (1, 0)


def test_a_flood_is_cut_to_a_number_a_second_and_passes_again_afterwards() -> None:
    clock = Clock()
    sieve = Sieve(clock)
    assert sum(sieve.passes(OURS) for _ in range(10_000)) == DATAGRAMS_BURST_MAX
    for _ in range(10_000):
        clock.now += 0.001
        sieve.passes(OURS)
    assert abs(sieve.passed - DATAGRAMS_BURST_MAX - 10 * DATAGRAMS_SECOND_MAX) <= 1
    clock.now += 1
    assert sieve.passes(OURS)


def test_a_flood_of_others_takes_no_place_from_this_service() -> None:
    sieve = Sieve(Clock())
    assert not any(sieve.passes(b"another") for _ in range(10_000))
    assert sieve.passes(OURS)
