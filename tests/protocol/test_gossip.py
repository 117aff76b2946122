"""Two devices tell each other the records of their group, in as few bytes as it takes, whoever says what when."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
from collections import deque
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd_protocol import gossip, limits
from hhd_protocol.codec import Value, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.gossip import Gossip, Joiner, parts
from hhd_protocol.limits import GOSSIP_BATCH_BYTES, GOSSIP_MESSAGE_BYTES_MAX, GOSSIP_ROUNDS_MAX

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/peers.json").read_text())
SPEC = (ROOT / "protocol/spec/peers.md").read_text()
RECORD_BYTES_MAX = 1024 * 1024
"""Of the group (`group.md`)."""


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_peers_vectors", ROOT / "protocol/vectors/make_peers_vectors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Side:
    """A device: what it has, and what it says on one link."""

    def __init__(self, *records: bytes) -> None:
        self.records = set(records)
        self.machine = Gossip(self.records)
        self.sent, self.bytes = deque(self.machine.begin()), 0

    def hear(self, raw: bytes) -> None:
        self.bytes += len(raw)
        heard = self.machine.heard(raw)
        self.sent += heard.send
        if not set(heard.records) <= self.records:
            self.keep(*heard.records)

    def keep(self, *records: bytes) -> None:
        self.records.update(records)
        self.sent += self.machine.changed(self.records)


def talk(one: Side, other: Side, dice: random.Random | None = None) -> None:
    while one.sent or other.sent:
        speaker, listener = (one, other) if one.sent else (other, one)
        if dice is not None and other.sent and one.sent and dice.random() < 0.5:
            speaker, listener = other, one
        listener.hear(speaker.sent.popleft())


def test_vectors_are_what_is_said() -> None:
    maker = _maker()
    assert VECTORS["talk"] == [[name, raw.hex()] for name, raw in maker.talk()]
    for name, size in (("parts of 7 bytes", 7), ("parts of nothing", 99)):
        message = bytes.fromhex(VECTORS[name]["message"])
        made = list(parts(message, bytes_max=size))
        assert [part.hex() for part in made] == VECTORS[name]["parts"]
        joiner = Joiner(len(message))
        assert [joiner.add(part) for part in made] == [None] * (len(made) - 1) + [message]


def test_two_that_agree_say_forty_bytes_each() -> None:
    one, other = Side(b"a", b"b"), Side(b"b", b"a")
    talk(one, other)
    assert one.machine.settled and other.machine.settled and one.bytes <= 40 and other.bytes <= 40


def test_each_gets_what_it_lacks_and_no_more() -> None:
    common = [os.urandom(300) for _ in range(20)]
    one, other = Side(*common, b"only here"), Side(*common, b"only there")
    talk(one, other)
    assert one.records == other.records and one.machine.settled and other.machine.settled
    assert one.bytes < 20 * 40 + 200


def test_nothing_is_settled_before_what_the_peer_had_has_come() -> None:
    one, other = Side(), Side(b"revocation")
    one.hear(other.sent.popleft())
    assert not one.machine.settled
    other.hear(one.sent.popleft())
    other.hear(one.sent.popleft())
    assert not one.machine.settled
    talk(one, other)
    assert one.machine.settled and one.records == {b"revocation"}


def test_what_comes_later_is_sent_on_unasked_and_not_back_to_who_sent_it() -> None:
    laptop, desktop, phone = Side(b"a"), Side(b"a"), Side(b"a")
    other_end = Side(b"a")  # The desktop's end of its link to the phone.
    talk(laptop, desktop)
    talk(phone, other_end)
    laptop.keep(b"revocation")
    talk(laptop, desktop)
    assert desktop.records == laptop.records and not desktop.sent
    other_end.keep(*desktop.records)
    talk(phone, other_end)
    assert phone.records == laptop.records


@settings(max_examples=80)
@given(st.integers(0, 2**32), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_whatever_they_have_and_whenever_it_comes_they_end_with_the_same(
    seed: int, ours: set[int], theirs: set[int]
) -> None:
    dice = random.Random(seed)
    one, other = (Side(*(b"record %d" % number for number in numbers)) for numbers in (ours, theirs))
    for _ in range(dice.randrange(4)):
        for _ in range(dice.randrange(4)):
            speaker, listener = (one, other) if dice.random() < 0.5 else (other, one)
            if speaker.sent:
                listener.hear(speaker.sent.popleft())
        dice.choice([one, other]).keep(b"later %d" % dice.randrange(9))
    talk(one, other, dice)
    assert one.records == other.records and one.machine.settled and other.machine.settled


def test_many_and_long_records_go_in_messages_of_a_bounded_size() -> None:
    long = [bytes([number]) + bytes(RECORD_BYTES_MAX - 1) for number in range(3)]
    short = [os.urandom(5000) for _ in range(300)]
    one, other = Side(), Side(*long, *short)
    sizes = []
    while one.sent or other.sent:
        speaker, listener = (one, other) if one.sent else (other, one)
        raw = speaker.sent.popleft()
        sizes.append(len(raw))
        joiner = Joiner(GOSSIP_MESSAGE_BYTES_MAX)
        (*_, whole) = [joiner.add(part) for part in parts(raw)]
        assert whole == raw and all(len(part) <= limits.LINK_MESSAGE_BYTES_MAX for part in parts(raw))
        listener.hear(raw)
    assert one.records == other.records
    assert len(sizes) < 16 and max(sizes) < RECORD_BYTES_MAX + GOSSIP_BATCH_BYTES


@pytest.mark.parametrize(
    "value",
    [
        [],
        [1],
        1,
        {},
        [1, 4, b""],
        [1, 1, bytes(31)],
        [1, 1, bytes(32), 1],
        [True, 1, bytes(32)],
        [1, True, bytes(32)],
        [1, 2, [bytes(31)]],
        [1, 2, [bytes(32), bytes(32)]],
        [1, 2, bytes(32)],
        [1, 3, True, []],
        [1, 3, True, [b"x"]],
        [1, 3, 1, [b"x"]],
        [1, 3, False, ["x"]],
        [0, 1, bytes(32)],
        [-1, 1, bytes(32)],
    ],
)
def test_what_is_in_another_form_is_refused(value: Value) -> None:
    with pytest.raises(FormatError):
        Gossip([b"a"]).heard(encode(value))


def test_a_newer_version_is_told_apart() -> None:
    with pytest.raises(NewerVersionError):
        Gossip([]).heard(encode([2, 9]))


def test_who_asks_again_and_again_is_refused() -> None:
    machine = Gossip([b"a"])
    ask = encode([1, 2, []])
    for _ in range(GOSSIP_ROUNDS_MAX):
        assert machine.heard(ask).send
    with pytest.raises(FormatError):
        machine.heard(ask)


@settings(max_examples=150)
@given(st.binary(max_size=60), st.integers(0, 2**32))
def test_garbage_is_a_message_or_refused(raw: bytes, seed: int) -> None:
    dice = random.Random(seed)
    damaged = bytearray(bytes.fromhex(dice.choice(VECTORS["talk"])[1]))
    damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    for one in (raw, bytes(damaged)):
        try:
            heard = Gossip([b"a record"]).heard(one)
        except FormatError:
            continue
        assert all(isinstance(record, bytes) for record in heard.records)


def test_parts_that_do_not_say_whether_they_are_the_last_or_are_too_much_are_refused() -> None:
    for several in ([b""], [b"\2x"], [b"\0"], [b"\0abc", b"\1defg"], [b"\1" + bytes(7)]):
        joiner = Joiner(6)
        with pytest.raises(FormatError):
            for part in several:
                joiner.add(part)
    joiner = Joiner(6)
    assert [joiner.add(part) for part in (b"\0abc", b"\1def", b"\1", b"\1x")] == [None, b"abcdef", b"", b"x"]


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    said = dict(re.findall(r"^\| `(GOSSIP_[A-Z_]+)` \| (\d+) \|", SPEC, re.MULTILINE))
    assert said == {name: str(value) for name, value in vars(limits).items() if name.startswith("GOSSIP_")}
    assert gossip.VERSION == 1
