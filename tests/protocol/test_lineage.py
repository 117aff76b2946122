"""Signed statements: each kind there and back, bounds, and nothing but FormatError out of nonsense."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import tracemalloc
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.protocol.mutate import mutated, mutated_bytes

from hhd_protocol import bodies, bodies_encoding, crypto, limits, lineage, statements
from hhd_protocol.bodies import AnyBody, IntentBody, TombstoneBody, covering
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import CheckpointId, SessionId, StatementId
from hhd_protocol.lineage import PURPOSE
from hhd_protocol.statements import Progress

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol/spec/lineage.md").read_text()
FENCING = (ROOT / "protocol/spec/fencing.md").read_text()
VECTORS = json.loads((ROOT / "protocol/vectors/lineage.json").read_text())
SEEDS = {device["id"]: bytes.fromhex(device["seed"]) for device in VECTORS["devices"]}
KEYS = {bytes.fromhex(device["id"]): bytes.fromhex(device["public"]) for device in VECTORS["devices"]}
STATEMENTS = {one["name"]: one for one in VECTORS["statements"]}
SIGNED = {name: lineage.decode(bytes.fromhex(one["statement"])) for name, one in STATEMENTS.items()}
KINDS = {name: bodies_encoding.decode_body(one.message) for name, one in SIGNED.items()}


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("made", ROOT / "protocol/vectors/make_lineage_vectors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def resigned(body: list[Any]) -> bytes:
    """A statement of these fields, signed by the device it names if that is one of ours, else by the laptop."""
    message = encode(body)
    named = body[3].hex() if len(body) > 3 and isinstance(body[3], bytes) else ""
    seed = SEEDS.get(named, bytes(range(32)))
    return encode([message, crypto.sign(seed, PURPOSE, message)])


def test_the_vectors_are_what_the_code_makes() -> None:
    assert json.loads(json.dumps(_generator().vectors())) == VECTORS


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_comes_back_as_what_was_said(name: str) -> None:
    said, one = SIGNED[name], STATEMENTS[name]
    assert said.id.hex() == one["id"] == sha256(said.raw).hexdigest()
    assert said.session.hex() == one["session"] and said.message.hex() == one["message"]
    assert bodies_encoding.encode_body(said.body) == said.message
    assert lineage.sign(said.body, SEEDS[said.body.by.hex()]) == said
    assert lineage.verify(said, KEYS[said.body.by])


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_signature_holds_for_its_signer_and_these_bytes_only(name: str) -> None:
    said = SIGNED[name]
    other = next(key for device, key in KEYS.items() if device != said.body.by)
    assert lineage.verify(said, KEYS[said.body.by]) and not lineage.verify(said, other)
    for at in range(0, len(said.message), 7):
        flipped = bytearray(said.message)
        flipped[at] ^= 1
        assert not lineage.verify(replace(said, message=bytes(flipped)), KEYS[said.body.by])
    as_another_thing = crypto.sign(SEEDS[said.body.by.hex()], "wrapped-key", said.message)
    assert not lineage.verify(replace(said, signature=as_another_thing), KEYS[said.body.by])


def test_who_signs_in_anothers_name_is_found_out_under_its_own_key_too() -> None:
    theirs = SIGNED["closing"]
    laptop, key = SEEDS[SIGNED["create"].body.by.hex()], KEYS[SIGNED["create"].body.by]
    assert theirs.body.by != SIGNED["create"].body.by and lineage.verify(SIGNED["create"], key)
    forged = replace(theirs, signature=crypto.sign(laptop, PURPOSE, theirs.message))
    crypto.verify(key, PURPOSE, forged.message, forged.signature)
    assert not lineage.verify(forged, key), "the key is good for it, but is not that of whom it names"


def test_effect_ids_are_those_of_the_vectors_and_differ_by_session_and_position() -> None:
    for case in VECTORS["effects"]:
        session = SessionId(StatementId(bytes.fromhex(case["session"])))
        assert lineage.effect_id(session, case["position"]).hex() == case["id"]
    other = SessionId(StatementId(bytes(32)))
    ids = {lineage.effect_id(one, at) for one in (other, SIGNED["create"].session) for at in range(300)}
    assert len(ids) == 600


def test_facts_say_what_the_bodies_say() -> None:
    session = SIGNED["create"].session
    for name, said in SIGNED.items():
        for good in (True, False):
            fact = lineage.fact(said, good)
            assert (fact.id, fact.by, fact.after) == (said.id, said.body.by, said.body.after), name
            assert fact.signature_good is good
    create, closing = lineage.fact(SIGNED["create"], True), lineage.fact(SIGNED["closing"], True)
    assert isinstance(create, statements.Record) and isinstance(closing, statements.Checkpoint)
    assert (create.to, create.number, create.prev, create.head) == (create.by, 1, None, None)
    assert closing.closing and closing.journal == {lineage.effect_id(session, 1): Progress.STARTED}
    second = lineage.fact(SIGNED["second"], True)
    assert isinstance(second, statements.Checkpoint) and not second.closing and second.journal == {}
    assert second.effects[lineage.effect_id(session, 0)] is Progress.ANSWERED
    fork = lineage.fact(SIGNED["fork"], True)
    assert isinstance(fork, statements.Record)
    assert fork.pending == (lineage.effect_id(SIGNED["fork"].session, 1),), "in the fork's own session"
    release = lineage.fact(SIGNED["release"], True)
    assert isinstance(release, statements.Record) and release.to == SIGNED["closing"].body.by


def test_a_history_of_signed_statements_resolves() -> None:
    from hhd_protocol.fencing import resolve

    facts = [
        lineage.fact(one, lineage.verify(one, KEYS[one.body.by]))
        for one in SIGNED.values()
        if one.session == SIGNED["create"].session
    ]
    view = resolve(
        session=SIGNED["create"].session,
        members=dict.fromkeys(SIGNED[name].body.by for name in ("create", "closing"))
        | {SIGNED[name].body.by: statements.Role.FULL for name in ("create", "closing")},
        records=[one for one in facts if isinstance(one, statements.Record)],
        checkpoints=[one for one in facts if isinstance(one, statements.Checkpoint)],
        intents=[one for one in facts if isinstance(one, statements.Intent)],
    )
    assert view.owner == SIGNED["takeover"].body.by and view.main == SIGNED["second"].id
    assert view.heads == {SIGNED["second"].id, SIGNED["closing"].id} and not view.rolled_back
    assert view.uncertain == {lineage.effect_id(SIGNED["create"].session, 1)}


# What is refused

SECOND = decode(SIGNED["second"].message)
CREATE, FORK, TOMBSTONE, RELEASE, TAKEOVER, INTENT = (
    decode(SIGNED[name].message) for name in ("create", "fork", "tombstone", "release", "takeover", "intent")
)


def changed(body: Any, at: int, to: Any) -> list[Any]:
    return [*body[:at], to, *body[at + 1 :]]


REFUSED = {
    "a version of nothing": changed(SECOND, 0, 0),
    "a version that is true": changed(SECOND, 0, True),
    "a kind that is not known": changed(SECOND, 1, "revoke"),
    "a kind that is bytes": changed(SECOND, 1, b"checkpoint"),
    "no session": changed(SECOND, 2, None),
    "a session in a create record": changed(CREATE, 2, bytes(32)),
    "a create record after something": changed(CREATE, 4, bytes(32)),
    "a create record that is not the first": changed(CREATE, 5, 1),
    "a short device": changed(SECOND, 3, bytes(31)),
    "a negative sequence number": changed(SECOND, 5, -1),
    "a sequence number past 53 bits": changed(SECOND, 5, limits.STATEMENT_COUNT_MAX + 1),
    "a sequence number that is true": changed(SECOND, 5, True),
    "an incarnation of 15 bytes": changed(SECOND, 6, bytes(15)),
    "a time before 1970": changed(SECOND, 7, -1),
    "a field more": [*SECOND, None],
    "a field less": SECOND[:-1],
    "the head alone": SECOND[:8],
    "half a head": SECOND[:5],
    "a parent and a half": changed(SECOND, 9, bytes(48)),
    "a parent twice": changed(SECOND, 9, bytes(64)),
    "17 parents": changed(SECOND, 9, b"".join(bytes([n]) * 32 for n in range(17))),
    "parents as a list": changed(SECOND, 9, [bytes(32)]),
    "a payload of 31 bytes": changed(SECOND, 10, bytes(31)),
    "too many objects": changed(SECOND, 11, bytes(32 * (limits.STATEMENT_OBJECTS_MAX + 1))),
    "a position past the bound": changed(SECOND, 12, limits.EFFECTS_MAX + 1),
    "an empty workspace": changed(SECOND, 13, b""),
    "a long workspace": changed(SECOND, 13, bytes(65)),
    "a workspace of text": changed(SECOND, 13, "w"),
    "effects as a list": changed(SECOND, 14, []),
    "an effect of no progress there is": changed(SECOND, 14, {0: 5}),
    "an effect of negative progress": changed(SECOND, 14, {0: -1}),
    "an effect of true progress": changed(SECOND, 14, {0: True}),
    "an effect named by its id": changed(SECOND, 14, {bytes(32): 1}),
    "an effect at a negative position": changed(SECOND, 14, {-1: 1}),
    "too many effects": changed(SECOND, 14, dict.fromkeys(range(limits.STATEMENT_EFFECTS_MAX + 1), 0)),
    "a turn that is a number": changed(SECOND, 15, 1),
    "a journal that is empty text": changed(SECOND, 16, ""),
    "a family of 15 bytes": changed(CREATE, 8, bytes(15)),
    "unanswered effects of no fork": changed(CREATE, 10, [1]),
    "unanswered effects that descend": changed(FORK, 10, [2, 1]),
    "unanswered effects twice": changed(FORK, 10, [1, 1]),
    "too many unanswered effects": changed(FORK, 10, list(range(limits.STATEMENT_EFFECTS_MAX + 1))),
    "an origin of nothing": changed(FORK, 9, [None, None, None]),
    "an origin without its checkpoint": changed(FORK, 9, [bytes(32), None, bytes(32)]),
    "an origin without its session": changed(FORK, 9, [None, bytes(32), bytes(32)]),
    "an origin of four": changed(FORK, 9, [bytes(32), bytes(32), None, None]),
    "a release to a name": changed(RELEASE, 8, "desktop"),
    "a release of a head of 31 bytes": changed(RELEASE, 11, bytes(31)),
    "a transfer of 15 bytes": changed(RELEASE, 12, bytes(15)),
    "a reason past its bound": changed(TAKEOVER, 11, "é" * 513),
    "a reason in bytes": changed(TAKEOVER, 11, b"because"),
    "an op of no letters": changed(INTENT, 10, ""),
    "an op past its bound": changed(INTENT, 10, "a" * 65),
    "heads that descend": changed(TOMBSTONE, 10, bytes([1]) * 32 + bytes(32)),
    "too many heads": changed(TOMBSTONE, 10, b"".join(n.to_bytes(32, "big") for n in range(1025))),
    "what is covered, not ascending": changed(TOMBSTONE, 11, bytes(16)),
    "what is covered, not whole": changed(TOMBSTONE, 11, bytes(9)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_statement_out_of_form_is_refused_even_well_signed(why: str) -> None:
    with pytest.raises(FormatError):
        lineage.decode(resigned(REFUSED[why]))


def test_the_same_fields_unchanged_are_taken() -> None:
    for body in (SECOND, CREATE, FORK, TOMBSTONE, RELEASE, TAKEOVER, INTENT):
        assert isinstance(body, list)
        said = lineage.decode(resigned(body))
        assert lineage.verify(said, KEYS[said.body.by])
    assert lineage.decode(resigned(changed(TAKEOVER, 11, "é" * 512)))
    assert lineage.decode(resigned(changed(SECOND, 14, dict.fromkeys(range(limits.STATEMENT_EFFECTS_MAX), 0))))
    assert lineage.decode(resigned(changed(SECOND, 9, b"".join(bytes([n]) * 32 for n in range(16)))))


def test_a_newer_version_is_said_to_be_newer() -> None:
    with pytest.raises(NewerVersionError):
        lineage.decode(resigned(changed(SECOND, 0, 2)))


def test_what_is_no_statement_is_refused() -> None:
    good = SIGNED["second"]
    for raw in (
        b"",
        b"\x80",
        encode([]),
        encode([good.message]),
        encode([good.message, good.signature, b""]),
        encode([good.message, good.signature[:-1]]),
        encode([good.signature, good.message]),
        encode([b"", good.signature]),
        encode([encode({}), good.signature]),
        encode([encode([]), good.signature]),
        good.raw + b"\0",
        good.raw[:-1],
        b"\x9f" + good.raw[1:] + b"\xff",
        encode([bytes(limits.STATEMENT_BYTES_MAX), good.signature]),
    ):
        with pytest.raises(FormatError):
            lineage.decode(raw)


def test_what_passes_a_bound_is_not_signed() -> None:
    intent = KINDS["intent"]
    assert isinstance(intent, IntentBody)
    seed = SEEDS[intent.by.hex()]
    for wrong in (replace(intent, op=""), replace(intent, position=-1), replace(intent, op="\udc80")):
        with pytest.raises(FormatError):
            lineage.sign(wrong, seed)
    with pytest.raises(AssertionError):
        lineage.sign(intent, bytes(32))


def test_nothing_but_a_format_error_comes_out_of_nonsense_and_memory_stays_bounded() -> None:
    fuzz(3_000, seed=20261129)


@pytest.mark.long
def test_nothing_but_a_format_error_comes_out_of_much_nonsense() -> None:
    for seed in range(2):
        fuzz(20_000, seed)


def fuzz(tries: int, seed: int) -> None:
    """Two thirds of the inputs are well-signed mutations of a body, the rest mutations of the bytes."""
    dice = random.Random(seed)
    good = [decode(one.message) for one in SIGNED.values()]
    taken = 0
    tracemalloc.start()
    try:
        for attempt in range(tries):
            if attempt % 3:
                body = mutated(dice.choice(good), dice)
                raw = resigned(body if isinstance(body, list) else [body])
            else:
                raw = mutated_bytes(dice.choice(list(SIGNED.values())).raw, dice)
            try:
                said = lineage.decode(raw)
            except FormatError:
                continue
            taken += 1
            assert bodies_encoding.encode_body(said.body) == said.message and said.id == sha256(raw).digest()
            for public in KEYS.values():
                lineage.verify(said, public)
            lineage.fact(said, True)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert taken > tries // 20, "some changes are still statements, so the fuzz gets past the outer checks"


def test_lengths_are_checked_before_anything_is_allocated() -> None:
    huge = changed(SECOND, 11, bytes(32 * 30_000))
    raw = resigned(huge)
    for attempt in (raw, b"\x82\x5a\x7f\xff\xff\xff" + bytes(100), b"\x9b" + b"\x7f" * 8, b"\x82\x9b" + b"\x7f" * 8):
        tracemalloc.start()
        try:
            with pytest.raises(FormatError):
                lineage.decode(attempt)
            assert tracemalloc.get_traced_memory()[1] < 8 * len(raw)
        finally:
            tracemalloc.stop()


# The spec


def test_each_kind_has_a_heading_a_rule_and_a_vector() -> None:
    for kind, word in bodies_encoding._KINDS.items():
        assert kind in get_args(bodies.RecordBody) or kind in get_args(AnyBody)
        assert f"## {word}\n" in SPEC and re.search(rf"^{word} = \[", SPEC, re.MULTILINE)
        assert any(one["kind"] == word for one in VECTORS["statements"])
        rule = SPEC[SPEC.index(f"\n{word} = [") :]
        for field in {one.name for one in fields(kind)} - {one.name for one in fields(bodies.Body)}:
            assert re.search(rf"\b{field}\b", rule[: rule.index("```")]), (word, field)


def test_the_bounds_in_the_spec_are_those_of_the_code() -> None:
    assert f"at most {limits.STATEMENT_BYTES_MAX >> 20} MiB" in SPEC
    assert f"count = 0..{limits.STATEMENT_COUNT_MAX}\n" in SPEC
    assert f"position = 0..{limits.EFFECTS_MAX} " in SPEC
    assert f"`reason` is\nat most {limits.STATEMENT_REASON_BYTES_MAX:,} bytes" in SPEC
    assert f"at most {limits.STATEMENT_PARENTS_MAX}, each once" in SPEC
    assert f"at most {limits.STATEMENT_OBJECTS_MAX:,}\n" in SPEC
    assert f"workspace: bytes .size (1..{limits.STATEMENT_WORKSPACE_BYTES_MAX}) / null" in SPEC
    assert f"at most {limits.STATEMENT_EFFECTS_MAX:,} entries each" in SPEC
    assert f"`op` has 1 to {limits.OP_BYTES_MAX} bytes" in SPEC
    assert f"at\nmost {limits.TOMBSTONE_HEADS_MAX:,}" in SPEC or f"at most {limits.TOMBSTONE_HEADS_MAX:,}" in SPEC
    assert f"at most {limits.TOMBSTONE_COVERS_MAX:,}, ascending" in SPEC
    for number, progress in enumerate(bodies_encoding.PROGRESS):
        assert re.search(rf"^{progress.value} = {number}\b", SPEC, re.MULTILINE)


def test_a_tombstone_of_the_largest_session_fits_and_covers_the_newest() -> None:
    ids = [CheckpointId(StatementId(sha256(b"%d" % n).digest())) for n in range(limits.TOMBSTONE_COVERS_MAX + 5)]
    body = KINDS["tombstone"]
    assert isinstance(body, TombstoneBody)
    full = replace(body, heads=tuple(sorted(ids[-limits.TOMBSTONE_HEADS_MAX :])), covers=covering(ids))
    said = lineage.sign(full, SEEDS[body.by.hex()])
    assert len(said.raw) <= limits.STATEMENT_BYTES_MAX
    assert ids[-1][:8] in full.covers and ids[0][:8] not in full.covers


@pytest.mark.parametrize("length", [0, 1, 23, 24, 25, 255, 256, 257, 65535, 65536, 65537, 200_000])
def test_body_and_signature_are_taken_apart_as_the_codec_would(length: int) -> None:
    message, signature = bytes(length), bytes(range(64))
    raw = encode([message, signature])
    if length >= 24:  # No body is shorter.
        assert lineage._apart(raw) == (message, signature)
    longer_heads = (b"\x58", b"\x59\x00", b"\x5a\x00\x00\x00", b"\x5b" + bytes(7))
    for at, head in enumerate(longer_heads):
        wrong = b"\x82" + head + length.to_bytes(8, "big")[-(1 << at) :][-1:] + message + b"\x58\x40" + signature
        if wrong != raw:
            with pytest.raises(FormatError):
                lineage._apart(wrong)
    for wrong in (raw[:-1], raw + b"\0", b"\x83" + raw[1:], raw[:-66] + b"\x59\x00\x40" + signature):
        with pytest.raises(FormatError):
            lineage._apart(wrong)
