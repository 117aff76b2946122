"""Frames of a link: those of the vectors, and nothing else is taken for one, however it is cut."""

from __future__ import annotations

import importlib.util
import json
import random
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.protocol.mutate import mutated, mutated_bytes

from hhd_protocol import limits, link
from hhd_protocol.codec import Value, encode
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import DeviceId
from hhd_protocol.link import Decoder, Frame, Hello, Kind

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/link.json").read_text())
SPEC = (ROOT / "protocol/spec/link.md").read_text()


def _maker() -> ModuleType:
    path = ROOT / "protocol/vectors/make_link_vectors.py"
    spec = importlib.util.spec_from_file_location("make_link_vectors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = _maker()
HELLO = link.hello(MADE.HELLOS["hello of who dialled"])


def said(fields: Value) -> bytes:
    """A hello with any fields."""
    raw = encode(fields)
    return link.MAGIC + len(raw).to_bytes(2, "big") + raw


def taken(raw: bytes) -> list[Frame]:
    """The frames that come after a hello."""
    decoder = Decoder()
    decoder.feed(HELLO)
    return decoder.feed(raw)[1]


@pytest.mark.parametrize("name", MADE.HELLOS)
def test_hellos_are_those_of_the_vectors(name: str) -> None:
    raw = bytes.fromhex(VECTORS["hello"][name])
    assert link.hello(MADE.HELLOS[name]) == raw
    assert Decoder().feed(raw) == (MADE.HELLOS[name], [])


@pytest.mark.parametrize("name", MADE.FRAMES)
def test_frames_are_those_of_the_vectors(name: str) -> None:
    raw = bytes.fromhex(VECTORS["frame"][name])
    assert MADE.encoded(MADE.FRAMES[name]) == raw
    assert taken(raw) == [MADE.FRAMES[name]]


def test_the_vectors_are_of_every_kind_and_the_spec_has_a_row_and_a_heading_for_each() -> None:
    assert set(VECTORS["hello"]) == set(MADE.HELLOS) and set(VECTORS["frame"]) == set(MADE.FRAMES)
    assert {one.kind for one in MADE.FRAMES.values()} == set(Kind)
    rows = dict(re.findall(r"^\| (\d) \| (\w+) \|", SPEC, re.M))
    assert rows == {str(int(kind)): kind.name.lower() for kind in Kind}
    for kind in Kind:
        assert f"### {kind.name.lower()}\n" in SPEC


def test_the_bounds_in_the_spec_are_those_of_the_code() -> None:
    told = dict(re.findall(r"^\| `(LINK_\w+)` \| (\d+) \|", SPEC, re.M))
    assert told == {name: str(value) for name, value in vars(limits).items() if name.startswith("LINK_")}
    assert f"takes its length and {link.FRAME_COST_BYTES} of it" in SPEC


def test_frames_are_the_same_however_they_are_cut() -> None:
    frames = [*MADE.FRAMES.values(), Frame(Kind.DATA, 1, True, bytes(limits.LINK_FRAME_BYTES_MAX))] * 3
    raw = HELLO + b"".join(MADE.encoded(one) for one in frames)
    dice = random.Random(5)
    for most in (1, 7, 1000, 40_000, len(raw)):
        decoder, hello, found, at = Decoder(), None, [], 0
        while at < len(raw):
            step = dice.randint(1, most) if most < 40_000 else most
            one, more = decoder.feed(raw[at : at + step])
            hello, found, at = hello or one, found + more, at + step
        assert hello == MADE.HELLOS["hello of who dialled"] and found == frames


def test_there_is_always_room_and_never_more_than_the_buffer() -> None:
    decoder = Decoder()
    decoder.feed(HELLO)
    longest = MADE.encoded(Frame(Kind.DATA, 1, True, bytes(limits.LINK_FRAME_BYTES_MAX)))
    for _ in range(10):
        assert decoder.feed(longest[:-1])[1] == []
        assert len(decoder.room()) >= link.ROOM_BYTES_MIN
        assert decoder.feed(longest[-1:])[1] != []
    assert len(decoder._buffer) == link.BUFFER_BYTES


@pytest.mark.parametrize(
    "raw",
    [
        b"x", b"GET / HTTP/1.1\r\n", b"hhd-linc", b"hhd-link\x04\x01", b"hhd-link\xff\xff", b"hhd-link\x00\x00",
        b"\x16\x03\x01\x02\x00\x01", said([]), said({}), said(None), b"hhd-link\x00\x01\xff",
        *(
            said({"versions": [1], "instance": bytes(16), "dials": 0, "hhd": "1", **change})
            for change in (
                {"versions": []}, {"versions": [1, 2]}, {"versions": [1, 1]}, {"versions": [0]}, {"versions": [-1]},
                {"versions": [True]}, {"versions": 1}, {"versions": ["1"]}, {"versions": list(range(17, 0, -1))},
                {"versions": [2**53]}, {"instance": bytes(15)}, {"instance": "x" * 16}, {"dials": -1},
                {"dials": True}, {"dials": 2**53}, {"hhd": ""}, {"hhd": "x" * 65}, {"hhd": b"1"}, {"more": 1},
            )
        ),
    ],
)  # fmt: skip
def test_what_is_no_hello_is_refused_as_soon_as_that_is_seen(raw: bytes) -> None:
    decoder = Decoder()
    with pytest.raises(FormatError):
        decoder.feed(raw)
    with pytest.raises(FormatError):
        decoder.feed(HELLO)
    with pytest.raises(FormatError):
        decoder.filled(0)


@pytest.mark.parametrize(
    "raw",
    [
        link.header(Kind.OPEN, 1, 0), link.header(Kind.OPEN, 1, 33), link.header(Kind.DATA, 1, 32761),
        link.header(Kind.CREDIT, 1, 3), link.header(Kind.CREDIT, 1, 5), link.header(Kind.END, 1, 1),
        link.header(Kind.PING, 0, 7), link.header(Kind.BYE, 0, 257), link.header(Kind.DATA, 0, 1),
        link.header(Kind.OPEN, 0, 1), link.header(Kind.PING, 1, 8), link.header(Kind.BYE, 1, 0),
        link.frame(Kind.END, 1, flag=True), link.frame(Kind.PING, 0, bytes(8), flag=True),
        b"\0\0\0\1\0\0\0\0", b"\0\0\0\1\x08\0\0\0", b"\0\0\0\1\xff\0\0\0", b"\0\0\0\1\x02\x02\0\0",
        b"\0\0\0\1\x02\xff\0\0", link.frame(Kind.OPEN, 1, b"Sync"), link.frame(Kind.OPEN, 1, b"a\0"),
        link.frame(Kind.OPEN, 1, "ä".encode()), link.frame(Kind.CREDIT, 1, bytes(4)),
        link.frame(Kind.CREDIT, 1, link.credit(2**21 + 1)), link.frame(Kind.CREDIT, 1, b"\xff" * 4),
        link.frame(Kind.PING, 0, b"\xff" * 8), link.frame(Kind.PONG, 0, link.number(2**53)),
        link.frame(Kind.BYE, 0, b"\xff\xfe"),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused_by_its_head_alone(raw: bytes) -> None:
    with pytest.raises(FormatError):
        taken(raw)


def test_a_length_past_its_bound_is_refused_before_any_of_it_comes() -> None:
    with pytest.raises(TooLargeError):
        taken(link.header(Kind.DATA, 1, 65535))


def test_nothing_but_a_format_error_comes_out_of_damaged_bytes_and_what_is_taken_is_what_was_said() -> None:
    dice, whole, refused = random.Random(23), 0, 0
    frames = [MADE.encoded(one) for one in MADE.FRAMES.values()]
    hellos = [link.hello(one) for one in MADE.HELLOS.values()]
    for turn in range(6000):
        if turn % 2:
            raw = dice.choice(hellos) + b"".join(dice.choices(frames, k=dice.randrange(1, 8)))
            raw = mutated_bytes(raw, dice)
        elif turn % 4:
            fields = {"versions": [2, 1], "instance": bytes(16), "dials": 5, "hhd": "0.1"}
            raw = said(mutated(fields, dice)) + dice.choice(frames)
        else:
            raw = dice.choice([b"", HELLO]) + dice.randbytes(dice.randrange(60))
        decoder = Decoder()
        try:
            hello, found = decoder.feed(raw)
        except FormatError:
            refused += 1
            continue
        if hello is not None:
            again = link.hello(hello) + b"".join(MADE.encoded(one) for one in found)
            assert raw.startswith(again) and decoder._end - decoder._begin == len(raw) - len(again)
            whole += 1
    assert whole > 500 and refused > 500


def test_both_ends_find_the_same_of_two_links() -> None:
    low, high = DeviceId(b"\1" * 32), DeviceId(b"\2" * 32)
    assert link.precedence(low, high, 1) > link.precedence(high, low, 900)
    assert link.precedence(high, low, 2) > link.precedence(high, low, 1)
    assert link.common((3, 2, 1), (5, 4, 2, 1)) == 2 and link.common((1,), (2,)) is None
    assert (
        Hello(link.VERSIONS, bytes(16), 0, "x")
        == Decoder().feed(link.hello(Hello(link.VERSIONS, bytes(16), 0, "x")))[0]
    )
