"""The capsule file."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol import forge

from hhd_protocol import capsule, limits, pages
from hhd_protocol.abi import Snapshot
from hhd_protocol.capsule import At, Capsule, Execution, Module
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import LineId
from hhd_protocol.stream import Stream

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol/spec/capsule.md").read_text()
KINDS = {kind.__name__: kind for kind in (forge.fresh, forge.interrupted, forge.at_effect, forge.finished)}


def same(one: Capsule, other: Capsule) -> bool:
    """Whether two capsules say the same; pieces compare by what is inside."""
    return forge.whole(one) == forge.whole(other)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_encoded_decodes_to_itself(kind: str) -> None:
    value = KINDS[kind]()
    found = capsule.decode(forge.whole(value))
    assert same(found, value)
    assert found.content_digest() == value.content_digest()
    assert b"".join(capsule.transcript_bytes(found)) == b"".join(capsule.transcript_bytes(value))
    if value.execution is not None:
        assert found.execution is not None
        one, other = found.execution.snapshot(), value.execution.snapshot()
        assert dataclasses.replace(one, pages=[b"".join(one.pages)]) == dataclasses.replace(
            other, pages=[b"".join(other.pages)]
        )
    if value.module.packed is not None:
        assert capsule.module_bytes(found.module) == forge.WASM


def test_the_content_digest_is_of_the_session_and_not_of_this_copy() -> None:
    value = forge.interrupted()
    copies = [
        dataclasses.replace(value, line=LineId(bytes(16))),
        dataclasses.replace(value, steps=77),
        dataclasses.replace(value, origin=None, path_hint=None),
        dataclasses.replace(value, module=Module.of(forge.WASM, embed=False)),
    ]
    assert {copy.content_digest() for copy in copies} == {value.content_digest()}
    others = [
        dataclasses.replace(value, checks=value.checks + 1),
        dataclasses.replace(value, args=b"{ }"),
        dataclasses.replace(value, transcript=value.transcript.append(b"x")),
        dataclasses.replace(value, module=Module.of(forge.WASM + b"x")),
        dataclasses.replace(value, execution=Execution.of(forge.snapshot((1, 5, 62)))),
    ]
    assert len({other.content_digest() for other in [value, *others]}) == 6


@given(st.lists(st.binary(max_size=3000), max_size=8), st.integers(1, 400))
def test_a_stream_depends_on_its_bytes_and_not_on_how_they_came(parts: list[bytes], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hhd_protocol.stream.STREAM_CHUNK_BYTES", chunk)
        stream = Stream()
        for part in parts:
            stream = stream.append(part)
        joined = b"".join(parts)
        assert b"".join(stream) == joined
        assert len(stream) == len(joined)
        assert [piece.digest for piece in stream.chunks] == [piece.digest for piece in Stream().append(joined).chunks]


def test_appending_leaves_full_chunks_untouched() -> None:
    stream = Stream().append(bytes(limits.STREAM_CHUNK_BYTES * 3 + 5))
    longer = stream.append(b"more")
    assert all(one is other for one, other in zip(stream.chunks[:3], longer.chunks[:3], strict=True))
    even = Stream().append(bytes(limits.STREAM_CHUNK_BYTES * 2))
    assert all(one is other for one, other in zip(even.chunks, even.append(b"more").chunks[:2], strict=True))


@given(st.sets(st.integers(0, 2000), max_size=600), st.lists(st.integers(1, 9000), max_size=20))
@settings(max_examples=50)
def test_pages_survive_whatever_buffers_they_came_in(chosen: set[int], cuts: list[int]) -> None:
    numbers = sorted(chosen)
    joined = b"".join(number.to_bytes(4, "big") * 1024 for number in numbers)
    buffers, rest = [], memoryview(joined)
    for cut in cuts:
        buffers.append(rest[:cut])
        rest = rest[cut:]
    found, contents = pages.unpack_pages(pages.pack_pages(numbers, [*buffers, rest]), 2048 * 4096)
    assert list(found) == numbers
    assert b"".join(contents) == joined
    assert [len(piece) for piece in contents] == pages.piece_lengths(len(numbers))


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_is_noticed(kind: str) -> None:
    raw = forge.whole(KINDS[kind]())
    capsule.decode(raw)
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(FormatError):
            capsule.decode(damaged)


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_and_every_extension_is_noticed(kind: str) -> None:
    raw = forge.whole(KINDS[kind]())
    for length in range(len(raw)):
        with pytest.raises(FormatError):
            capsule.decode(raw[:length])
    with pytest.raises(FormatError):
        capsule.decode(raw + b"\0")


def test_pages_that_stayed_the_same_are_not_packed_again() -> None:
    numbers = tuple(range(600))
    before = Execution.of(forge.snapshot(numbers, 1024 * 4096))
    changed = forge.snapshot(numbers, 1024 * 4096)
    contents = [*changed.pages[:300], b"x" * 4096, *changed.pages[301:]]
    after = Execution.of(dataclasses.replace(changed, pages=contents), before=before)
    kept = [any(piece is one for one in before.pages.contents) for piece in after.pages.contents]
    assert kept == [True, False, True]


def test_a_long_past_does_not_make_a_step_slow() -> None:
    """Counted, not timed: bytes compressed and unpacked by one more step with 64 chunks behind it."""
    long = dataclasses.replace(
        forge.interrupted(), transcript=Stream().append(bytes(64 * limits.STREAM_CHUNK_BYTES + 9))
    )
    found = capsule.decode(forge.whole(long))
    work = 0

    def counted(raw: bytes, *rest: int) -> object:
        nonlocal work
        work += len(raw)
        return original(raw, *rest)

    original = pages.pack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hhd_protocol.stream.pack", counted)
        patch.setattr("hhd_protocol.capsule.pack", counted)
        capsule.encode(dataclasses.replace(found, transcript=found.transcript.append(b"more")))
    assert work < 1000


def test_the_vectors_decode_and_encode_as_they_say() -> None:
    vectors = json.loads((ROOT / "protocol/vectors/capsule/capsules.json").read_text())
    for vector in vectors:
        raw = bytes.fromhex(vector["hex"])
        if vector["valid"]:
            found = capsule.decode(raw)
            assert found.content_digest().hex() == vector["content"], vector["name"]
            assert found.at == vector["at"]
            assert b"".join(found.transcript).decode() == vector["transcript"]
            if found.execution is not None:
                assert found.execution.snapshot().page_numbers == tuple(vector["pages"])
        else:
            with pytest.raises(FormatError):
                forge_checked(raw)


def forge_checked(raw: bytes) -> Snapshot | None:
    """Decode and unpack everything."""
    found = capsule.decode(raw)
    list(found.transcript), list(found.history)
    if found.module.packed is not None:
        capsule.module_bytes(found.module)
    return None if found.execution is None else found.execution.snapshot()


def test_the_spec_names_the_numbers_of_the_code() -> None:
    named = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|$", SPEC, re.M))
    assert len(named) == 19
    assert {name: getattr(limits, name) for name in named} == {name: int(value) for name, value in named.items()}
    assert f"magic `{capsule.MAGIC.hex(' ')}`" in SPEC
    assert f"format version, {capsule.VERSION} |" in SPEC
    rows = re.findall(r"^\| (\d+) \| \d* ?\|", SPEC, re.M)
    assert [int(offset) for offset in rows] == [0, 8, 12, 16, 24, 32, capsule.HEAD_BYTES]
    block = SPEC.split("header = {")[1].split("\n}")[0]
    assert {int(key) for key in re.findall(r"^  (\d+):", block, re.M)} == capsule._HEADER_KEYS
    places = re.search(r"; (fresh, .*)", SPEC)
    assert places is not None
    assert places[1].replace("at an effect", "effect").split(", ") == [place.name.lower() for place in At]
