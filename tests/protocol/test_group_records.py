"""Records of the group in bytes: the vectors, and what becomes of anything that is nearly one."""

from __future__ import annotations

import importlib.util
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.circle import DESKTOP, LAPTOP, THIEF, Circle, device
from tests.protocol.mutate import mutated, mutated_bytes

from hhd_protocol import crypto
from hhd_protocol.codec import decode as decode_value
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.group import Add, Found, decode, resolve, sign
from hhd_protocol.group.records import PURPOSE
from hhd_protocol.ids import GroupRecordId
from hhd_protocol.limits import (
    GROUP_DEVICES_MAX,
    GROUP_RECORD_BYTES_MAX,
    GROUP_RECORDS_MAX,
    GROUP_RECORDS_OF_ONE_MAX,
    GROUP_SEEN_MAX,
)
from hhd_protocol.pairing.messages import decode_message
from hhd_protocol.statements import Role

ROOT = Path(__file__).parents[2]
VECTORS: dict[str, Any] = json.loads((ROOT / "protocol/vectors/group.json").read_text())
PAIRING: dict[str, Any] = json.loads((ROOT / "protocol/vectors/pairing.json").read_text())
RAWS = [bytes.fromhex(one["raw"]) for one in VECTORS["records"].values()]
SEEDS = {crypto.public_key(seed): seed for seed in (bytes(range(at, at + 32)) for at in (0, 32, 64))}
TURNS = 3000


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("made", ROOT / "protocol/vectors/make_group_vectors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_vectors_are_what_the_code_makes() -> None:
    made = _generator()
    assert json.loads(json.dumps(made.group())) == VECTORS
    assert json.loads(json.dumps(made.pairing())) == PAIRING


def test_records_read_back_as_their_ids_and_mean_what_the_vectors_say() -> None:
    records = [decode(raw) for raw in RAWS]
    assert [one.id.hex() for one in records] == [one["id"] for one in VECTORS["records"].values()]
    group = resolve(reversed(records), root=GroupRecordId(bytes.fromhex(VECTORS["root"])))
    assert {id.hex() for id in group.members} == VECTORS["members"].keys()
    assert {type(one.body).__name__ for one in records} == {"Found", "Add", "Join", "Allow", "Revoke"}


def test_every_kind_of_record_has_its_rule_on_the_page() -> None:
    page = (ROOT / "protocol/spec/group.md").read_text()
    for kind in ("found", "add", "join", "revoke", "allow"):
        assert f"\n{kind} " in page or f"\n{kind}  " in page
    for bound in (GROUP_SEEN_MAX, GROUP_DEVICES_MAX, GROUP_RECORDS_OF_ONE_MAX):
        assert f" {bound} " in page or f" {bound};" in page or f" {bound}\n" in page or f"most {bound}" in page
    assert f"{GROUP_RECORDS_MAX:,}" in page and f"{GROUP_RECORD_BYTES_MAX // 1024} KiB" in page


def _signed_anew(value: Any) -> bytes:
    """A record of which the body was changed, signed by whom it names, as far as that is known here."""
    message = encode(value)
    key = value[2] if isinstance(value, list) and len(value) > 2 and isinstance(value[2], bytes) else b""
    return encode([message, crypto.sign(SEEDS.get(key, THIEF), PURPOSE, message)])


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_a_format_error_comes_of_what_is_nearly_a_record(seed: int) -> None:
    """Half of it with a signature that holds, so that what is in it is read."""
    dice = random.Random(seed)
    whole = [decode(raw) for raw in RAWS]
    root = GroupRecordId(bytes.fromhex(VECTORS["root"]))
    kept = refused = 0
    for _ in range(TURNS // 4):
        raw = dice.choice(RAWS)
        if dice.random() < 0.5:
            parts = decode_value(raw)
            assert isinstance(parts, list) and isinstance(parts[0], bytes)
            raw = _signed_anew(mutated(decode_value(parts[0]), dice))
        else:
            raw = mutated_bytes(raw, dice)
        try:
            record = decode(raw)
        except FormatError:
            refused += 1
            continue
        kept += 1
        assert decode(record.raw) == record
        resolve([*whole, record], root=root)
    assert kept > 10 and refused > 100


def test_a_record_of_another_signer_or_a_flipped_bit_is_refused() -> None:
    for raw in RAWS:
        for at in range(0, len(raw), 7):
            with pytest.raises(FormatError):
                decode(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        assert decode(raw).raw == raw


def test_what_is_too_large_or_newer_is_refused_as_such() -> None:
    with pytest.raises(TooLargeError):
        decode(bytes(GROUP_RECORD_BYTES_MAX + 1))
    parts = decode_value(RAWS[0])
    assert isinstance(parts, list) and isinstance(parts[0], bytes)
    body = decode_value(parts[0])
    assert isinstance(body, list)
    with pytest.raises(NewerVersionError):
        decode(_signed_anew([2, *body[1:]]))
    for name in ("", "x" * 1025, "\ud800"):
        with pytest.raises(FormatError):
            sign(Found(public=crypto.public_key(LAPTOP), name=name, at_ms=0), LAPTOP)


@pytest.mark.parametrize("shape", ["a chain", "a crowd", "revocations of one"])
def test_as_many_records_as_are_kept_are_sorted_in_bounded_time(shape: str) -> None:
    """Three shapes that make a sorter slow; an eighth of the bound, as making them takes longest."""
    circle = Circle()
    root = circle.found()
    desktop = circle.add(LAPTOP, root, DESKTOP)
    head = {"public": crypto.public_key(DESKTOP), "under": desktop.id}
    last: tuple[GroupRecordId, ...] = (desktop.id,)
    begun = time.process_time()
    count = GROUP_RECORDS_MAX // 8
    for at in range(count):
        if shape == "revocations of one" and at % 2:
            whom = circle.records[-1]
            circle.revoke(DESKTOP, desktop, whom, whom=THIEF, saw=[desktop])
            continue
        body = Add(**head, seen=last, at_ms=at, member=crypto.public_key(THIEF), name="x", role=Role.FULL)
        record = circle.put(sign(body, DESKTOP))
        last = (record.id,) if shape == "a chain" else last
    made = time.process_time() - begun
    begun = time.process_time()
    group = resolve(circle.records, root=root.id)
    sorted_in = time.process_time() - begun
    assert device(DESKTOP) in group.members and sorted_in < 3 * made, "sorting costs no more than signing does"


def test_the_pairing_of_the_vectors_reads_as_messages() -> None:
    for _, raw in PAIRING["said"]:
        decode_message(bytes.fromhex(raw))
    assert len(PAIRING["words"]) == 3
