"""Well-formed hostile capsules are refused, with one clause for a person and bounded memory."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.protocol import forge, hostile

from hhd_protocol import capsule
from hhd_protocol.errors import FormatError, NewerVersionError

ROOT = Path(__file__).parents[2]
CASES = dict(hostile.cases())


def opened(raw: bytes) -> None:
    """Do with a file all that a step, `info` and `transcript` do before the module is loaded."""
    found = capsule.decode(raw)
    list(found.transcript), list(found.history)
    if found.module.packed is not None:
        capsule.module_bytes(found.module)
    if found.execution is not None:
        found.execution.snapshot()


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused(name: str) -> None:
    opened(forge.whole(forge.at_effect()))
    with pytest.raises(FormatError) as refusal:
        opened(CASES[name])
    sentence = str(refusal.value)
    assert sentence and "\n" not in sentence and len(sentence) < 200


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("another op than the journal's", "pending effect is not the one of its journal"),
        ("a short frame that claims 10 GB", "does not hold the size"),
        ("4 GiB of memory", "memory's size is 4294967296"),
        ("a page number twice", "do not ascend"),
        ("a page outside the memory", "page 64 lies outside"),
        ("sealed", "is sealed"),
        ("format version 2", "format version 2"),
        ("interrupted with an effect pending", "does not wait for"),
    ],
)
def test_the_sentence_says_what_is_wrong(name: str, clause: str) -> None:
    with pytest.raises(FormatError, match=clause):
        opened(CASES[name])


def test_a_newer_version_is_told_apart_from_damage() -> None:
    with pytest.raises(NewerVersionError):
        capsule.decode(CASES["format version 2"])


def test_a_sealed_one_is_told_apart_from_damage() -> None:
    with pytest.raises(capsule.SealedCapsuleError):
        capsule.decode(CASES["sealed"])


IN_LITTLE_MEMORY = """
import resource, sys
from hhd_protocol.errors import FormatError
from tests.protocol import hostile
from tests.protocol.test_capsule_hostile import opened

cases = [raw for name, raw in hostile.cases() if "10 GB" in name]
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 64 * 2**20, held + 64 * 2**20))
refused = 0
for raw in cases:
    try:
        opened(raw)
    except FormatError:
        refused += 1
print(len(cases), refused)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bounds the address space by what /proc says is in use")
def test_the_10_gb_frames_are_refused_in_64_mib() -> None:
    assert zstandard.decompress(hostile.bomb(2**20)) == bytes(2**20), "the bombs are real ones"
    command = [sys.executable, "-c", IN_LITTLE_MEMORY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    count, refused = map(int, done.stdout.split())
    assert count == refused >= 7


def mutations(rng: random.Random) -> bytes:
    """A valid capsule with something changed at random, and its digests made good again."""
    kind = rng.choice((forge.fresh, forge.interrupted, forge.at_effect, forge.finished))
    header, pieces = forge.taken_apart(forge.whole(kind()))
    header = copy.deepcopy(header)
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.3 and pieces:
            pieces[rng.randrange(len(pieces))] = _bytes_changed(rng, rng.choice(pieces))
        else:
            _value_changed(rng, header)
    try:
        raw = forge.put_together(header, pieces)
    except (TypeError, ValueError):  # Changed into something that even the encoder cannot say.
        return b""
    return raw if rng.random() < 0.8 else forge.rehash(raw[:64] + _bytes_changed(rng, raw[64:]))


def _bytes_changed(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw) + 1)
    return rng.choice(
        (
            lambda: raw[:at],
            lambda: raw[:at] + rng.randbytes(rng.randint(1, 9)) + raw[at:],
            lambda: raw[:at] + rng.randbytes(1) + raw[at + 1 :],
            lambda: raw + raw,
            lambda: b"",
        )
    )()


def _value_changed(rng: random.Random, value: Any) -> None:
    while isinstance(value, dict | list) and value:
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if not isinstance(value[key], dict | list) or rng.random() < 0.2:
            value[key] = rng.choice(
                (
                    None,
                    True,
                    0,
                    -1,
                    rng.getrandbits(rng.randint(1, 64)),
                    rng.randbytes(rng.randint(0, 40)),
                    "x" * rng.randint(0, 300),
                    [],
                    {},
                    [value[key], value[key]],
                    value[key] + rng.choice((-1, 1)) if type(value[key]) is int else 5,
                )
            )
            return
        value = value[key]


@pytest.mark.parametrize("rounds", [600, pytest.param(40_000, marks=pytest.mark.long)])
def test_random_changes_with_good_digests_are_refused_or_make_a_consistent_capsule(rounds: int) -> None:
    rng = random.Random(rounds)
    refused = taken = 0
    for _ in range(rounds):
        raw = mutations(rng)
        try:
            opened(raw)
        except FormatError:
            refused += 1
            continue
        taken += 1
        assert forge.whole(capsule.decode(raw)) == raw
    assert refused > rounds / 2 and taken
