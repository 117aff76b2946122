"""Messages of the control socket: those of the vectors, and nothing else is taken for one."""

from __future__ import annotations

import importlib.util
import json
import random
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.mutate import mutated

from hhd_protocol import control, limits
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.control import Hello
from hhd_protocol.errors import FormatError
from hhd_protocol.frames import frame

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/control.json").read_text())
SPEC = (ROOT / "protocol/spec/control.md").read_text()


def _maker() -> ModuleType:
    path = ROOT / "protocol/vectors/make_control_vectors.py"
    spec = importlib.util.spec_from_file_location("make_control_vectors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = _maker()
SIDES = {
    "from-client": (MADE.FROM_CLIENT, control.from_client),
    "from-daemon": (MADE.FROM_DAEMON, control.from_daemon),
}
ALL = [(side, name) for side, (messages, _) in SIDES.items() for name in messages]


@pytest.mark.parametrize(("side", "name"), ALL)
def test_messages_are_those_of_the_vectors(side: str, name: str) -> None:
    messages, read = SIDES[side]
    raw = bytes.fromhex(VECTORS[side][name])
    assert frame(control.encoded(messages[name])) == raw
    assert read(decode(raw[4:])) == messages[name]


def test_the_vectors_are_of_every_message_and_the_spec_has_a_heading_and_a_rule_for_each() -> None:
    for side, (messages, _) in SIDES.items():
        assert set(VECTORS[side]) == set(messages)
        kinds = {type(one).__name__.lower() for one in messages.values()}
        rule = re.search(rf"^{side} = (.*)$", SPEC, re.M)
        assert rule is not None and set(rule[1].split(" / ")) == kinds
        for kind in kinds:
            assert re.search(rf"^{kind} +=", SPEC, re.M) and f"### {kind}\n" in SPEC


def test_the_bounds_in_the_spec_are_those_of_the_code() -> None:
    said = dict(re.findall(r"^\| `(CONTROL_\w+)` \| (\d+) \|", SPEC, re.M))
    assert said == {name: str(value) for name, value in vars(limits).items() if name.startswith("CONTROL_")}


@pytest.mark.parametrize(
    "value",
    [
        None, [], "hello", {}, {"id": 1}, {"id": 1, "cancel": False}, {"id": 1, "cancel": 1},
        {"id": -1, "cancel": True}, {"id": True, "cancel": True},
        {"id": 2**53, "cancel": True}, {"id": 1, "cancel": True, "more": 1},
        {"id": 1, "verb": "", "arguments": {}}, {"id": 1, "verb": "x" * 65, "arguments": {}},
        {"id": 1, "verb": "show", "arguments": []}, {"id": 1, "verb": b"show", "arguments": {}},
        {"versions": [], "hhd": "1"}, {"versions": [1, 2], "hhd": "1"}, {"versions": [1, 1], "hhd": "1"},
        {"versions": list(range(17, 0, -1)), "hhd": "1"}, {"versions": 1, "hhd": "1"}, {"versions": [1], "hhd": ""},
        {"versions": [1], "hhd": "x" * 65}, {1: 2, "hhd": "1"}, {"id": 1, "result": None}, {b"id": 1, "cancel": True},
    ],
)  # fmt: skip
def test_what_is_no_message_of_a_client_is_refused(value: Value) -> None:
    with pytest.raises(FormatError):
        control.from_client(value)


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "error": "no"}, {"id": 1, "error": {"sentence": "no", "exit": 0}}, {"id": 1, "cancel": True},
        {"id": 1, "error": {"sentence": "no", "exit": 6}}, {"id": 1, "error": {"sentence": "", "exit": 1}},
        {"id": 1, "error": {"sentence": "no", "exit": 1, "more": 1}}, {"id": 1, "error": {"sentence": "no"}},
        {"id": 1, "position": -1, "event": 1}, {"id": 1, "position": None, "event": 1}, {"id": 1, "end": False},
        {"id": 1, "error": {"sentence": "x" * 65537, "exit": 1}}, {"id": "1", "result": 1}, {"result": 1},
    ],
)  # fmt: skip
def test_what_is_no_message_of_a_daemon_is_refused(value: Value) -> None:
    with pytest.raises(FormatError):
        control.from_daemon(value)


def test_nothing_but_a_format_error_comes_out_of_damaged_messages() -> None:
    dice, taken = random.Random(11), 0
    for _ in range(3000):
        side, name = dice.choice(ALL)
        value = mutated(control.encoded(SIDES[side][0][name]), dice)
        for read in (control.from_client, control.from_daemon):
            try:
                message = read(decode(encode(value)))
            except FormatError:
                continue
            taken += 1
            assert control.encoded(message) == value  # What is taken is what was said.
    assert taken > 100


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.binary(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_nothing_but_a_format_error_comes_out_of_any_value(value: Value) -> None:
    for read in (control.from_client, control.from_daemon):
        try:
            message = read(value)
        except FormatError:
            continue
        assert control.encoded(message) == value


def test_the_newest_common_version_is_chosen() -> None:
    assert control.common((3, 2, 1), (5, 4, 2, 1)) == 2
    assert control.common((1,), (2,)) is None
    assert Hello(control.VERSIONS, "x") == control.from_daemon(control.encoded(Hello(control.VERSIONS, "x")))
