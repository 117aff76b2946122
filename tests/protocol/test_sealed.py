"""A sealed capsule opens for its device or its passphrase, whole and unchanged, or not at all."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nacl.bindings as sodium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol import forge

from hhd_protocol import capsule, codec, crypto, limits, sealed
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol/spec/sealed-capsule.md").read_text()
VECTORS = json.loads((ROOT / "protocol/vectors/sealed.json").read_text())
LAPTOP, DESKTOP, STRANGER = bytes(32), bytes([1]) * 32, bytes([2]) * 32
WORDS = b"correct horse"
CHUNK, STRIDE = limits.SEALED_CHUNK_BYTES, limits.SEALED_CHUNK_BYTES + crypto.TAG_BYTES
CONTENT = b"text of a capsule\n" * 40_000
"""Three chunks."""


def to_desktop(content: bytes = CONTENT, file_key: bytes = b"f" * 32) -> bytes:
    return b"".join(
        sealed.seal_to_device(
            [content[:5], content[5:]],
            to_public=crypto.public_key(DESKTOP),
            by_seed=LAPTOP,
            file_key=file_key,
            ephemeral_secret=b"e" * 32,
        )
    )


def with_words(content: bytes = CONTENT, memory_bytes: int = 65536) -> bytes:
    return b"".join(
        sealed.seal_with_passphrase(
            [content],
            passphrase=WORDS,
            by_seed=LAPTOP,
            file_key=b"f" * 32,
            salt=b"s" * 16,
            operations=1,
            memory_bytes=memory_bytes,
        )
    )


def opened(raw: bytes) -> bytes:
    """The content, by whichever way it opens here."""
    found = sealed.decode(raw)
    if isinstance(found.lock, sealed.ToDevice):
        return bytes(found.open_as(DESKTOP).content)
    return bytes(found.open_with(WORDS).content)


def rebound(raw: bytes, lock: bytes | None = None, chunks: bytes | None = None) -> bytes:
    """The file with another lock or chunks, its lengths and binding made good again: what a forger can do."""
    length = int.from_bytes(raw[16:24], "big")
    lock = raw[64 : 64 + length] if lock is None else lock
    chunks = raw[64 + length :] if chunks is None else chunks
    start = raw[:16] + len(lock).to_bytes(8, "big") + (64 + len(lock) + len(chunks)).to_bytes(8, "big")
    return start + hashlib.sha256(start + lock).digest() + lock + chunks


def chunks_of(raw: bytes) -> list[bytes]:
    body = raw[64 + int.from_bytes(raw[16:24], "big") :]
    return [body[at : at + STRIDE] for at in range(0, len(body), STRIDE)]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=[case["name"] for case in VECTORS["cases"]])
def test_the_vectors_are_sealed_and_opened_as_they_say(case: dict[str, Any]) -> None:
    of = VECTORS["contents"][case["content"]]
    content = of["piece"].encode() * of["times"]
    raw = {key: bytes.fromhex(case[key]) for key in ("sender", "target", "file_key", "ephemeral_secret", "salt")}
    if case["way"] == "device":
        parts = sealed.seal_to_device(
            [content],
            to_public=crypto.public_key(raw["target"]),
            by_seed=raw["sender"],
            file_key=raw["file_key"],
            ephemeral_secret=raw["ephemeral_secret"],
        )
    else:
        parts = sealed.seal_with_passphrase(
            [content],
            passphrase=case["passphrase"].encode(),
            by_seed=raw["sender"],
            file_key=raw["file_key"],
            salt=raw["salt"],
            operations=case["operations"],
            memory_bytes=case["memory_bytes"],
        )
    file = b"".join(parts)
    assert hashlib.sha256(file).hexdigest() == case["sha256"]
    assert case["sealed"] in (None, file.hex())
    found = sealed.decode(file)
    result = found.open_as(raw["target"]) if case["way"] == "device" else found.open_with(case["passphrase"].encode())
    assert result.content == content
    assert result.by == crypto.device_id(crypto.public_key(raw["sender"]))


def test_a_real_capsule_comes_back_byte_for_byte_and_shows_nothing_while_sealed() -> None:
    value = forge.whole(forge.at_effect())
    for raw in (to_desktop(value), with_words(value)):
        assert capsule.decode(opened(raw)) is not None and opened(raw) == value
        assert value[64:96] not in raw
        assert crypto.public_key(LAPTOP) not in raw and crypto.device_id(crypto.public_key(LAPTOP)) not in raw
        with pytest.raises(capsule.SealedCapsuleError):
            capsule.decode(raw)


@pytest.mark.parametrize("inner", [1, CHUNK - 96, CHUNK - 95, CHUNK, 2 * CHUNK - 96, 2 * CHUNK + 1])
def test_every_length_around_the_borders_of_chunks_comes_back(inner: int) -> None:
    content = random.Random(inner).randbytes(inner)
    assert opened(to_desktop(content)) == content
    assert len(chunks_of(to_desktop(content))) == -(-(inner + 96) // CHUNK)


def test_another_device_another_passphrase_or_the_other_way_opens_nothing() -> None:
    device, words = sealed.decode(to_desktop()), sealed.decode(with_words())
    for act, clause in (
        (lambda: device.open_as(STRANGER), "another device"),
        (lambda: device.open_as(LAPTOP), "another device"),
        (lambda: device.open_with(WORDS), "no passphrase opens it"),
        (lambda: words.open_with(WORDS + b"\n"), "passphrase is not the one"),
        (lambda: words.open_with(b""), "1 to 1024 bytes"),
        (lambda: words.open_with(b"x" * 1025), "1 to 1024 bytes"),
        (lambda: words.open_as(DESKTOP), "sealed with a passphrase"),
    ):
        with pytest.raises(FormatError, match=clause):
            act()


def _moved(raw: bytes) -> bytes:
    one, two, *rest = chunks_of(raw)
    return rebound(raw, chunks=b"".join([two, one, *rest]))


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "cut by a byte": lambda raw: raw[:-1],
    "cut at the border of a chunk": lambda raw: raw[: -len(chunks_of(raw)[-1])],
    "the last chunk left out, lengths made good": lambda raw: rebound(raw, chunks=b"".join(chunks_of(raw)[:-1])),
    "the first chunk left out": lambda raw: rebound(raw, chunks=b"".join(chunks_of(raw)[1:])),
    "two chunks changed places": _moved,
    "a chunk twice": lambda raw: rebound(raw, chunks=b"".join([chunks_of(raw)[0], *chunks_of(raw)])),
    "an empty chunk at the end": lambda raw: rebound(raw, chunks=b"".join([*chunks_of(raw)[:2], b"t" * 16])),
    "nothing sealed": lambda raw: rebound(raw, chunks=b""),
    "a byte more": lambda raw: raw + b"x",
    "chunks of another file": lambda raw: rebound(raw, chunks=b"".join(chunks_of(to_desktop(CONTENT, b"g" * 32)))),
    "a head of nothing": lambda raw: raw[:40],
    "only magic": lambda raw: raw[:16],
}


@pytest.mark.parametrize("signed", [True, False], ids=["", "by the seal alone"])
@pytest.mark.parametrize("damage", FORGED)
@pytest.mark.parametrize("make", [to_desktop, with_words])
def test_what_was_cut_moved_or_added_to_is_refused(
    damage: str, make: Callable[[], bytes], signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = make()
    if not signed:
        monkeypatch.setattr(sealed, "verify", lambda *_: None)
    assert opened(raw) == CONTENT
    with pytest.raises(FormatError) as refusal:
        opened(FORGED[damage](raw))
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 200


def test_a_chunk_opens_in_no_other_file_and_no_two_share_a_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where a broken source of randomness gave two files one key."""
    raw, other = to_desktop(bytes(5 * CHUNK)), to_desktop(bytes(5 * CHUNK + 9))
    monkeypatch.setattr(sealed, "verify", lambda *_: None)
    with pytest.raises(FormatError, match="damaged"):
        opened(rebound(other, chunks=b"".join([chunks_of(raw)[0], *chunks_of(other)[1:]])))
    inner = chunks_of(raw)[1:5]
    assert len(set(inner)) == 4, "equal pieces look different"


@settings(deadline=None)
@given(st.data())
def test_no_flipped_bit_opens(data: st.DataObject) -> None:
    raw = bytearray(with_words(CONTENT[:300]) if data.draw(st.booleans()) else to_desktop(CONTENT[:300]))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    for made in (bytes(raw), rebound(bytes(raw)) if bit // 8 >= 64 else bytes(raw)):
        with pytest.raises(FormatError):
            opened(made)


def _lock(*fields: Any) -> Callable[[], bytes]:
    return lambda: rebound(to_desktop(), lock=codec.encode(list(fields)))


BOX, TO = b"b" * 48, crypto.device_id(crypto.public_key(DESKTOP))
LIES: dict[str, tuple[Callable[[], bytes], type[FormatError]]] = {
    "a newer lock": (_lock(2, 0, TO, b"e" * 32, BOX), NewerVersionError),
    "a lock of version 0": (_lock(0, 0, TO, b"e" * 32, BOX), FormatError),
    "a third way": (_lock(1, 2, TO, b"e" * 32, BOX), FormatError),
    "a short box": (_lock(1, 0, TO, b"e" * 32, b"b" * 47), FormatError),
    "a short key": (_lock(1, 0, TO, b"e" * 31, BOX), FormatError),
    "a short id": (_lock(1, 0, TO[:31], b"e" * 32, BOX), FormatError),
    "a key of order one": (_lock(1, 0, TO, bytes(32), BOX), FormatError),
    "a short salt": (_lock(1, 1, b"s" * 15, 1, 65536, BOX), FormatError),
    "4 TiB of memory": (_lock(1, 1, b"s" * 16, 1, 2**42, BOX), TooLargeError),
    "a byte over the bound of memory": (
        _lock(1, 1, b"s" * 16, 1, limits.PASSPHRASE_MEMORY_BYTES_MAX + 1, BOX),
        TooLargeError,
    ),
    "no memory": (_lock(1, 1, b"s" * 16, 1, 0, BOX), TooLargeError),
    "a billion passes": (_lock(1, 1, b"s" * 16, 10**9, 65536, BOX), TooLargeError),
    "no pass": (_lock(1, 1, b"s" * 16, 0, 65536, BOX), TooLargeError),
    "a negative pass": (_lock(1, 1, b"s" * 16, -1, 65536, BOX), TooLargeError),
    "passes that are true": (_lock(1, 1, b"s" * 16, True, 65536, BOX), FormatError),
    "a number past 64 bits": (_lock(1, 1, b"s" * 16, 1, 2**64 - 1, BOX), TooLargeError),
    "a field more": (_lock(1, 0, TO, b"e" * 32, BOX, 0), FormatError),
    "an empty list": (_lock(), FormatError),
    "a lock that is a map": (lambda: rebound(to_desktop(), lock=codec.encode({0: 1})), FormatError),
    "a lock past its bound": (lambda: rebound(to_desktop(), lock=codec.encode([1, bytes(2000)])), FormatError),
    "a lock of nesting": (lambda: rebound(to_desktop(), lock=b"\x81" * 1000 + b"\x00"), FormatError),
    "a lock of a huge array": (lambda: rebound(to_desktop(), lock=b"\x9b" + b"\x7f" * 8), FormatError),
    "a lock that is not canonical": (lambda: rebound(to_desktop(), lock=b"\x9f\x01\xff"), FormatError),
    "no lock": (lambda: rebound(to_desktop(), lock=b""), FormatError),
    "a length past the file": (lambda: b"".join((to_desktop()[:16], b"\xff" * 16, to_desktop()[32:])), FormatError),
    "a plain capsule": (lambda: forge.whole(forge.fresh()), FormatError),
    "nothing": (lambda: b"", FormatError),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lock_that_lies_is_refused(lie: str) -> None:
    make, kind = LIES[lie]
    with pytest.raises(kind) as refusal:
        opened(make())
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 200


def test_costs_out_of_bounds_are_refused_before_anything_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = []

    def stand_in(*given: object) -> bytes:
        spent.append(given)
        return bytes(32)

    monkeypatch.setattr(sodium, "crypto_pwhash_alg", stand_in)
    for lie in ("4 TiB of memory", "a billion passes"):
        with pytest.raises(TooLargeError):
            opened(LIES[lie][0]())
    assert not spent
    with pytest.raises(FormatError):
        opened(_lock(1, 1, b"s" * 16, 1, 65536, BOX)())
    assert len(spent) == 1, "what is in bounds is tried"


IN_LITTLE_MEMORY = """
import resource
from hhd_protocol.errors import FormatError
from tests.protocol import test_sealed as cases

raw = cases.with_words()
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 64 * 2**20, held + 64 * 2**20))
lock = cases.codec.encode([1, 1, b"s" * 16, 1, 512 * 2**20, b"b" * 48])
try:
    cases.opened(cases.rebound(raw, lock=lock))
except FormatError as error:
    print(error)
print(cases.opened(raw) == cases.CONTENT)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bounds the address space by what /proc says is in use")
def test_where_the_memory_of_a_passphrase_is_not_free_it_is_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said, whole = done.stdout.splitlines()
    assert "are not free" in said and whole == "True"


def test_the_signature_is_the_senders_for_this_file_alone() -> None:
    """Who was sent a capsule cannot pass its content on as if the sender had sealed it to somebody else."""
    raw = to_desktop(b"content")
    found = sealed.decode(raw)
    assert found.open_as(DESKTOP).by == crypto.device_id(crypto.public_key(LAPTOP))
    inner = crypto.unseal(b"f" * 32, bytes(23) + b"\x01", chunks_of(raw)[0], ad=found.binding)
    passed_on = b"".join(
        sealed.seal_to_device(
            [b"content"],
            to_public=crypto.public_key(STRANGER),
            by_seed=DESKTOP,
            file_key=b"g" * 32,
            ephemeral_secret=b"h" * 32,
        )
    )
    other = sealed.decode(passed_on)
    forged = crypto.seal(b"g" * 32, bytes(23) + b"\x01", inner, ad=other.binding)
    with pytest.raises(FormatError, match="signature"):
        sealed.decode(rebound(passed_on, chunks=forged)).open_as(STRANGER)
    assert other.open_as(STRANGER).by == crypto.device_id(crypto.public_key(DESKTOP)), "and its own is taken"


def test_what_cannot_be_sealed_is_refused() -> None:
    public = crypto.public_key(DESKTOP)
    for content, to_public in (([b""], public), ([], public), ([b"x"], bytes(32)), ([b"x"], b"short")):
        with pytest.raises(FormatError):
            sealed.seal_to_device(
                content, to_public=to_public, by_seed=LAPTOP, file_key=b"f" * 32, ephemeral_secret=b"e" * 32
            )
    with pytest.raises(TooLargeError):
        with_words(memory_bytes=limits.PASSPHRASE_MEMORY_BYTES_MAX + 1)


def changed(rng: random.Random, raw: bytes) -> bytes:
    """`raw` with something changed at random, mostly with lengths and binding made good again."""
    length = int.from_bytes(raw[16:24], "big")
    lock, body = raw[64 : 64 + length], raw[64 + length :]
    for _ in range(rng.randint(1, 3)):
        part = lock if rng.random() < 0.6 else body
        at = rng.randrange(len(part) + 1)
        made = rng.choice(
            (
                part[:at],
                part[:at] + rng.randbytes(rng.randint(1, 9)) + part[at:],
                part[:at] + rng.randbytes(1) + part[at + 1 :],
                part + part,
                b"",
            )
        )
        lock, body = (made, body) if part is lock else (lock, made)
    return rebound(raw, lock=lock, chunks=body) if rng.random() < 0.9 else raw[:64] + lock + body


@pytest.mark.parametrize("rounds", [400, pytest.param(20_000, marks=pytest.mark.long)])
def test_random_changes_never_open_as_something_else(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sodium, "crypto_pwhash_alg", lambda *_: bytes(32))  # Its cost is not the matter here.
    rng = random.Random(rounds)
    bases = [to_desktop(CONTENT[:500]), with_words(CONTENT[:500]), to_desktop()]
    refused = 0
    for _ in range(rounds):
        base = rng.choice(bases)
        raw = changed(rng, base)
        try:
            found = opened(raw)
        except FormatError:
            refused += 1
            continue
        assert raw == base and found in (CONTENT[:500], CONTENT)
    assert refused > rounds * 0.9


def test_the_spec_names_the_numbers_of_the_code() -> None:
    named = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|$", SPEC, re.M))
    assert len(named) == 6
    assert {name: getattr(limits, name) for name in named} == {name: int(value) for name, value in named.items()}
    assert f"{sealed.OPERATIONS} operations over {sealed.MEMORY_BYTES // 2**20} MiB" in SPEC
    assert f"[1, {sealed.TO_DEVICE}, to:" in SPEC and f"[1, {sealed.BY_PASSPHRASE}, salt:" in SPEC
