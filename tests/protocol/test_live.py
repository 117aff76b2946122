"""Events of a running session: as the vectors have them, and nothing else passes."""

from __future__ import annotations

import importlib.util
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.mutate import mutated_bytes

from hhd_protocol import live
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError

VECTORS = Path(__file__).parents[2] / "protocol/vectors"


def made() -> dict[str, live.Event]:
    found = importlib.util.spec_from_file_location("make_live_vectors", VECTORS / "make_live_vectors.py")
    assert found is not None and found.loader is not None
    module: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return dict(module.EVENTS)


def test_every_vector_is_the_event_it_says_and_every_kind_has_one() -> None:
    said = json.loads((VECTORS / "live.json").read_text())
    events = made()
    assert said.keys() == events.keys()
    for name, event in events.items():
        raw = bytes.fromhex(said[name])
        assert encode(live.encoded(event)) == raw and live.decoded(decode(raw)) == event
    assert {type(event) for event in events.values()} == set(live.KINDS.values())


def test_the_spec_has_every_kind_with_its_fields() -> None:
    spec = (Path(__file__).parents[2] / "protocol/spec/live.md").read_text()
    for name, kind in live.KINDS.items():
        line = re.search(rf"^{name} +=  ?\{{ (.*) \}}$", spec, re.M)
        assert line is not None, name
        assert re.findall(r"(\w+):", line[1]) == list(kind.__dataclass_fields__), name
        assert f'{{ "{name}" => {name} }}' in spec


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"words": {"text": "a"}, "notice": {"text": "b"}},
        {"word": {"text": "a"}},
        {b"words": {"text": "a"}},
        {"words": {"text": 1}},
        {"words": {"text": "a", "more": 1}},
        {"emitted": {"position": -1, "piece": b""}},
        {"state": {"name": "odd", "sentence": "", "ways": [], "effect": "", "status": 0}},
        {"question": {"id": "1", "pages": [], "shown": b"short", "always": ""}},
    ],
    ids=repr,
)
def test_what_is_no_event_is_refused(value: Any) -> None:
    with pytest.raises(FormatError):
        live.decoded(value)


def test_nothing_but_a_format_error_comes_of_damage() -> None:
    dice, refused = random.Random(5), 0
    for event in made().values():
        raw = encode(live.encoded(event))
        for _ in range(60):
            try:
                live.decoded(decode(mutated_bytes(raw, dice)))
            except FormatError:
                refused += 1
    assert refused > 100
