"""Sealing, signing and wrapping answer as their vectors say, and open nothing that differs by one bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import crypto
from hhd_protocol.crypto import SealError
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import EpochId, FamilyId

VECTORS = json.loads((Path(__file__).parents[2] / "protocol/vectors/sealing.json").read_text())
LAPTOP, DESKTOP = bytes(32), bytes([1]) * 32
KEYS = st.binary(min_size=32, max_size=32)
raw = bytes.fromhex


def test_seals_are_those_of_the_vectors() -> None:
    for case in VECTORS["seal"]:
        key, nonce, ad = raw(case["key"]), raw(case["nonce"]), raw(case["ad"])
        assert crypto.seal(key, nonce, raw(case["message"]), ad=ad).hex() == case["sealed"]
        assert crypto.unseal(key, nonce, raw(case["sealed"]), ad=ad).hex() == case["message"]


def test_derived_keys_nonces_and_ids_are_those_of_the_vectors() -> None:
    for case in VECTORS["derive"]:
        assert crypto.derive(raw(case["key"]), case["purpose"], raw(case["context"])).hex() == case["result"]
    nonce = VECTORS["derived_nonce"]
    assert crypto.derived_nonce(raw(nonce["key"]), raw(nonce["message"])).hex() == nonce["nonce"]
    for case in VECTORS["content_id"]:
        assert crypto.content_id(raw(case["key"]), case["kind"].encode(), raw(case["content"])).hex() == case["id"]


def test_devices_and_signatures_are_those_of_the_vectors() -> None:
    for case in VECTORS["device"]:
        public = crypto.public_key(raw(case["seed"]))
        assert public.hex() == case["public"]
        assert crypto.device_id(public).hex() == case["id"]
        assert crypto.device_text(crypto.device_id(public)) == case["text"]
        assert crypto.device_from_text(case["text"].upper().replace("-", "")).hex() == case["id"]
    case = VECTORS["sign"]
    assert crypto.sign(raw(case["seed"]), case["kind"], raw(case["message"])).hex() == case["mark"]


def test_wrapped_keys_are_those_of_the_vectors() -> None:
    for case in VECTORS["wrap"]:
        wrapped = crypto.decode_wrapped(raw(case["encoded"]))
        assert wrapped.encoded().hex() == case["encoded"]
        by = crypto.public_key(raw(case["by"]))
        assert crypto.unwrap(wrapped, by_public=by, seed=raw(case["to"])).hex() == case["key"]


@given(KEYS, st.binary(min_size=24, max_size=24), st.binary(max_size=200), st.binary(max_size=20), st.data())
def test_no_flipped_bit_opens(key: bytes, nonce: bytes, message: bytes, ad: bytes, data: st.DataObject) -> None:
    sealed = crypto.seal(key, nonce, message, ad=ad)
    assert crypto.unseal(key, nonce, sealed, ad=ad) == message
    parts = {"key": key, "nonce": nonce, "sealed": sealed, "ad": ad or b"\0"}
    which = data.draw(st.sampled_from(sorted(parts)))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    changed = bytearray(parts[which])
    changed[bit // 8] ^= 1 << bit % 8
    parts[which] = bytes(changed)
    with pytest.raises(SealError):
        crypto.unseal(parts["key"], parts["nonce"], parts["sealed"], ad=parts["ad"])


def test_a_signature_holds_for_its_kind_message_and_signer_only() -> None:
    mark = crypto.sign(LAPTOP, "release", b"text")
    crypto.verify(crypto.public_key(LAPTOP), "release", b"text", mark)
    for seed, kind, message in (
        (DESKTOP, "release", b"text"),
        (LAPTOP, "takeover", b"text"),
        (LAPTOP, "release", b"x"),
    ):
        with pytest.raises(SealError):
            crypto.verify(crypto.public_key(seed), kind, message, mark)
    for wrong in (b"", mark[:-1], mark + b"\0", bytes(64)):
        with pytest.raises(SealError):
            crypto.verify(crypto.public_key(LAPTOP), "release", b"text", wrong)


def _wrapped(epoch: EpochId | None = None) -> crypto.WrappedKey:
    return crypto.wrap(
        b"k" * 32,
        family=FamilyId(b"f" * 16),
        epoch=epoch,
        to_public=crypto.public_key(DESKTOP),
        by_seed=LAPTOP,
        ephemeral_secret=hashlib.sha256(b"e").digest(),
    )


def test_a_wrapped_key_opens_on_its_device_and_for_its_signer_only() -> None:
    wrapped, by = _wrapped(), crypto.public_key(LAPTOP)
    assert crypto.unwrap(wrapped, by_public=by, seed=DESKTOP) == b"k" * 32
    with pytest.raises(SealError, match="another device"):
        crypto.unwrap(wrapped, by_public=by, seed=LAPTOP)
    with pytest.raises(SealError, match="another signer"):
        crypto.unwrap(wrapped, by_public=crypto.public_key(DESKTOP), seed=DESKTOP)


@pytest.mark.parametrize("position", range(1, 7))
def test_no_field_of_a_wrapped_key_may_be_changed(position: int) -> None:
    fields = crypto.decode(_wrapped(EpochId(b"e" * 32)).encoded())
    assert isinstance(fields, list) and isinstance(fields[position], bytes)
    fields[position] = bytes([fields[position][0] ^ 1]) + fields[position][1:]
    with pytest.raises(SealError):
        crypto.unwrap(crypto.decode_wrapped(crypto.encode(fields)), by_public=crypto.public_key(LAPTOP), seed=DESKTOP)


def test_a_wrapped_key_of_a_newer_version_says_so_and_nonsense_is_refused() -> None:
    fields = crypto.decode(_wrapped().encoded())
    assert isinstance(fields, list)
    with pytest.raises(NewerVersionError):
        crypto.decode_wrapped(crypto.encode([2, *fields[1:]]))
    for wrong in (fields[:-1], [*fields, 0], [1, b"short", *fields[2:]], [1, *fields[1:7], b""], 7, []):
        with pytest.raises(FormatError):
            crypto.decode_wrapped(crypto.encode(wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "abcd", "a" * 51, "a" * 53, "1" * 52, "a" * 51 + "b", "ä" * 52])
def test_what_does_not_spell_a_device_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        crypto.device_from_text(text)
