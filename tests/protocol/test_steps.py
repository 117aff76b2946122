"""The log of a session's steps: its records are those of the vectors, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import limits, steps
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.steps import TRAILER_BYTES, StepRecord

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/steps.json").read_text())


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_steps_vectors", ROOT / "protocol/vectors/make_steps_vectors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = _maker()
RECORDS: dict[str, StepRecord] = MADE.RECORDS


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_those_of_the_vectors(name: str) -> None:
    raw = bytes.fromhex(VECTORS["records"][name])
    assert steps.encode_step(RECORDS[name]) == raw
    assert steps.record_bytes(raw[-TRAILER_BYTES:]) == len(raw) - TRAILER_BYTES
    assert steps.decode_step(raw[:-TRAILER_BYTES]) == RECORDS[name]


def test_the_opening_is_that_of_the_vectors() -> None:
    raw = bytes.fromhex(VECTORS["opening"])
    assert steps.encode_opening(MADE.OPENING) == raw and steps.decode_opening(raw) == MADE.OPENING


def test_a_newer_version_is_called_newer() -> None:
    for raw, read in (
        (bytes.fromhex(VECTORS["opening"]), steps.decode_opening),
        (bytes.fromhex(VECTORS["records"]["fresh"])[:-TRAILER_BYTES], steps.decode_step),
    ):
        fields = decode(raw)
        assert isinstance(fields, list)
        with pytest.raises(NewerVersionError):
            read(encode([2, *fields[1:]]))


FIELDS = decode(bytes.fromhex(VECTORS["records"]["waits with a request in memory"])[:-TRAILER_BYTES])
assert isinstance(FIELDS, list)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (0, 0), (0, True), (1, -1), (1, 2**51), (2, None), (2, [1]), (3, 4), (3, True), (4, -1), (5, "1"), (6, 2**40),
        (7, []), (8, 1), (8, b""), (9, []), (9, {"model": 1}), (9, {1: [1, 1]}), (10, None), (11, 2**40),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_kind_or_size_is_refused(field: int, wrong: object) -> None:
    changed = [*FIELDS[:field], wrong, *FIELDS[field + 1 :]]
    with pytest.raises(FormatError):
        steps.decode_step(encode(changed))  # type: ignore[arg-type]


LIVE = FIELDS[7]
assert isinstance(LIVE, list)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (0, 1), (0, "x" * 65), (1, b"x" * 65), (1, [1, 2, 3]), (1, [1, 2, b"short"]), (1, [2**31, 1, bytes(32)]),
        (1, 7), (2, 5), (2, 0), (2, 3), (3, -1), (4, [0, 1]), (5, [bytes(32), 1]), (5, [b"", True]), (6, 0),
    ],
)  # fmt: skip
def test_an_effect_with_a_wrong_field_is_refused(field: int, wrong: object) -> None:
    changed = [*FIELDS[:7], [*LIVE[:field], wrong, *LIVE[field + 1 :]], *FIELDS[8:]]
    with pytest.raises(FormatError):
        steps.decode_step(encode(changed))  # type: ignore[arg-type]


def test_more_kinds_of_effects_than_the_bound_are_refused() -> None:
    many = {f"op{n}": (1, 1) for n in range(steps.STEP_OPS_MAX + 1)}
    with pytest.raises(FormatError):
        steps.decode_step(steps.encode_step(dataclasses.replace(RECORDS["fresh"], counts=many))[:-TRAILER_BYTES])


def test_a_log_that_does_not_end_in_a_length_is_refused() -> None:
    for trailer in (b"", b"\0\0\1", b"\xff\xff\xff\xff", (steps.STEP_BYTES_MAX + 1).to_bytes(4, "big")):
        with pytest.raises(FormatError):
            steps.record_bytes(trailer)


RAW = [bytes.fromhex(VECTORS["opening"]), *(bytes.fromhex(raw)[:-TRAILER_BYTES] for raw in VECTORS["records"].values())]


@given(raw=st.sampled_from(RAW), at=st.integers(0, 400), to=st.integers(0, 255), cut=st.integers(0, 400))
def test_damage_is_refused_or_reads_as_something_that_encodes_to_it(raw: bytes, at: int, to: int, cut: int) -> None:
    changed = bytearray(raw)
    changed[at % len(raw)] = to
    for damaged in (bytes(changed), raw[: cut % len(raw)], raw + bytes([to])):
        with contextlib.suppress(FormatError):
            assert steps.encode_step(steps.decode_step(damaged))[:-TRAILER_BYTES] == damaged
        with contextlib.suppress(FormatError):
            assert steps.encode_opening(steps.decode_opening(damaged)) == damaged


def test_the_limits_of_the_spec_are_those_of_the_code() -> None:
    page = (ROOT / "protocol/spec/session.md").read_text()
    named = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|$", page, re.M))
    assert len(named) == 3 and named == {name: str(getattr(limits, name)) for name in named}
