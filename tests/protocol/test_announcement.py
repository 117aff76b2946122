"""Announcements: the members of a group recognise each other, nobody else does, and odd ones are none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import announcement, limits
from hhd_protocol.announcement import PADDED_TO, TAG_BYTES, announcer, decoded, pair_key
from hhd_protocol.crypto import SealError, device_id, public_key
from hhd_protocol.errors import FormatError, NewerVersionError

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/discovery.json").read_text())
SPEC = (ROOT / "protocol/spec/discovery.md").read_text()
LAPTOP, DESKTOP, PHONE, STRANGER = (bytes([number] * 32) for number in range(1, 5))
"""Seeds, as in the vectors."""
NONCE, FILLER = bytes(range(8)), bytes(range(100, 124))
IDS = {seed: device_id(public_key(seed)) for seed in (LAPTOP, DESKTOP, PHONE, STRANGER)}


def keys(seed: bytes, *others: bytes) -> dict[object, bytes]:
    return {IDS[other]: pair_key(seed, public_key(other)) for other in others}


def said_by_laptop(*others: bytes, pairing: bool = False) -> announcement.Announcement:
    return announcement.announcement(IDS[LAPTOP], keys(LAPTOP, *others).values(), NONCE, FILLER, pairing=pairing)


def read(name: str) -> announcement.Announcement:
    one = VECTORS[name]
    return decoded(one["instance"], {key.encode(): bytes.fromhex(text) for key, text in one["properties"].items()})


def test_vectors_are_what_the_laptop_announces() -> None:
    assert read("to desktop and phone") == said_by_laptop(DESKTOP, PHONE)
    assert read("to the desktop") == said_by_laptop(DESKTOP)
    assert read("to nobody, with a code open") == said_by_laptop(pairing=True)
    for name in VECTORS:
        assert read(name).properties() == {
            key.encode(): bytes.fromhex(text) for key, text in VECTORS[name]["properties"].items()
        }


def test_a_member_recognises_who_announced_and_a_stranger_does_not() -> None:
    said = said_by_laptop(DESKTOP, PHONE)
    assert announcer(said, keys(DESKTOP, PHONE, LAPTOP)) == IDS[LAPTOP]
    assert announcer(said, keys(PHONE, LAPTOP)) == IDS[LAPTOP]
    assert announcer(said, keys(STRANGER, LAPTOP, DESKTOP)) is None  # Who knows every public key is none the wiser.
    assert announcer(said_by_laptop(DESKTOP), keys(PHONE, LAPTOP)) is None  # It was revoked.


def test_another_nonce_makes_other_tags() -> None:
    said = said_by_laptop(DESKTOP, PHONE)
    moved = said._replace(nonce=bytes(8))
    assert announcer(moved, keys(DESKTOP, LAPTOP)) is None


def test_the_number_of_tags_tells_the_size_of_a_group_only_roughly() -> None:
    assert {len(read(name).tags) for name in VECTORS} == {PADDED_TO, 2 * PADDED_TO}
    assert len(said_by_laptop(DESKTOP).tags) == len(said_by_laptop(DESKTOP, PHONE, STRANGER).tags)


def test_a_group_past_the_bound_is_announced_to_as_many_as_fit() -> None:
    many = [bytes([number]) * 32 for number in range(limits.ANNOUNCEMENT_TAGS_MAX + 9)]
    said = announcement.announcement(IDS[LAPTOP], many, NONCE, FILLER)
    assert len(said.tags) == limits.ANNOUNCEMENT_TAGS_MAX and decoded(said.label, said.properties()) == said
    assert all(len(key) + 1 + len(value) <= 255 for key, value in said.properties().items())


@pytest.mark.parametrize(
    ("label", "properties", "kind"),
    [
        ("0" * 15, {b"v": b"1"}, FormatError),
        ("0" * 15 + "G", {b"v": b"1"}, FormatError),
        ("0" * 15 + "A", {b"v": b"1"}, FormatError),
        ("0" * 16 + "\n", {b"v": b"1"}, FormatError),
        ("0" * 16, {}, FormatError),
        ("0" * 16, {b"v": None}, FormatError),
        ("0" * 16, {b"v": b"01"}, FormatError),
        ("0" * 16, {b"v": b"9" * 200}, FormatError),
        ("0" * 16, {b"v": "²".encode()}, FormatError),
        ("0" * 16, {b"v": b"2"}, NewerVersionError),
        ("0" * 16, {b"v": b"1", b"t": bytes(7)}, FormatError),
        ("0" * 16, {b"v": b"1", b"t": bytes(6 * 41)}, FormatError),
    ],
)
def test_what_is_in_another_form_is_no_announcement(
    label: str, properties: dict[bytes, bytes | None], kind: type[FormatError]
) -> None:
    with pytest.raises(kind):
        decoded(label, properties)


def test_strings_that_are_not_known_are_no_matter() -> None:
    said = said_by_laptop(DESKTOP, pairing=True)
    assert decoded(said.label, {**said.properties(), b"later": b"x", b"p": b"1"}) == said
    assert not decoded(said.label, {**said.properties(), b"p": b"yes"}).pairing


@given(st.text(max_size=20), st.dictionaries(st.sampled_from([b"v", b"t", b"p", b"x"]), st.none() | st.binary()))
def test_whatever_is_said_is_an_announcement_or_refused(label: str, properties: dict[bytes, bytes | None]) -> None:
    try:
        said = decoded(label, properties)
    except FormatError:
        return
    assert said.label == label and all(len(one) == TAG_BYTES for one in said.tags)


def test_a_key_that_none_can_have_is_refused() -> None:
    for public in (bytes(32), b"\1" + bytes(31), b"\xff" * 32, b"short"):
        with pytest.raises(SealError):
            pair_key(LAPTOP, public)


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    said = dict(re.findall(r"^\| `(ANNOUNCEMENT_[A-Z_]+)` \| (\d+) \|", SPEC, re.MULTILINE))
    assert said == {name: str(value) for name, value in vars(limits).items() if name.startswith("ANNOUNCEMENT_")}
