"""What a session has spent, held against this device's limits."""

from __future__ import annotations

import dataclasses

import pytest

from hhd.base.config import load
from hhd.effects.spend import Purse, Spend, tokens_of_reply, tokens_of_transcript


def purse(calls: int, tokens: int, spent: Spend | None = None) -> Purse:
    limits = dataclasses.replace(load().model, calls_max=calls, tokens_max=tokens)
    return Purse(config=limits, spent=spent or Spend())


def test_calls_are_limited_and_a_yes_allows_as_many_again() -> None:
    one = purse(2, 10**9)
    for _ in range(2):
        assert one.empty() is None
        one.call()
    assert "2 model calls" in (one.empty() or "")
    one.refill()
    for _ in range(2):
        assert one.empty() is None
        one.call()
    assert "4 model calls" in (one.empty() or "")


def test_tokens_of_every_kind_count() -> None:
    one = purse(10, 100)
    one.reply(b'{"usage": {"input_tokens": 40, "output_tokens": 20, "cache_read_input_tokens": 39}}')
    assert one.empty() is None
    one.reply(b'{"usage": {"cache_creation_input_tokens": 1}}')
    assert "100 tokens" in (one.empty() or "")


def test_what_was_spent_elsewhere_counts() -> None:
    assert purse(3, 10, Spend(calls=3)).empty() and purse(3, 10, Spend(tokens=10)).empty()


@pytest.mark.parametrize(
    "raw",
    [b"", b"[1]", b"\xff", b'{"usage": 3}', b'{"usage": {"input_tokens": -5, "output_tokens": true}}', b"[" * 10**5],
)
def test_nonsense_counts_nothing(raw: bytes) -> None:
    assert tokens_of_reply(raw) == 0
    assert tokens_of_transcript([b'{"event":"usage"' + raw]) == 0


def test_the_lines_of_a_transcript_tell_what_calls_cost() -> None:
    lines = [b'{"event":"usage","input_tokens":5,"output_tokens":2}', b'{"event":"text","text":"usage"}']
    assert tokens_of_transcript(lines) == 7
