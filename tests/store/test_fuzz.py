"""Decoders fed with nonsense refuse it in one way: never another error, never more memory than their bounds.

More than half of the inputs are mutations of the vectors whose seals, hashes and signatures were made good again, so
that they get past the outer checks.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.protocol.mutate import mutated, mutated_bytes
from tests.store.lines_run import Lines

from hhd.store import checkpoints, closure, opened, reading, restore, salvage, snapshots, wal
from hhd.store.checkpoints import Checkpoint, Payload, decode_checkpoint
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.families import Family
from hhd.store.reading import Reader
from hhd_protocol import columns, compression, crypto, images, logs, objects
from hhd_protocol.codec import decode, encode
from hhd_protocol.compression import compress, decompress
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, EpochId, FamilyId, ObjectName, SessionId
from hhd_protocol.limits import CBOR_BYTES_MAX
from hhd_protocol.objects import Ref, SealedObject, object_name, seal_object

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
NONCE = bytes(24)
Tried = Callable[[random.Random], None]
REFUSALS = (FormatError, DamagedStoreError, MissingError)


class Pile:
    """The objects of one vector file, opened, that can be sealed again after a change."""

    def __init__(self, name: str) -> None:
        told = json.loads((VECTORS / f"{name}.json").read_text())
        self.key, self.epoch = bytes.fromhex(told["key"]), EpochId(bytes.fromhex(told["epoch"]))
        self.family = Family(
            id=FamilyId(bytes(16)),
            page_key=bytes.fromhex(told["page_key"]),
            epochs={self.epoch: self.key},
            epoch=self.epoch,
        )
        raws = [bytes.fromhex(raw) for raw in told["objects"]]
        self.objects: dict[ObjectName, bytes] = {object_name(raw): raw for raw in raws}
        self.refs = [Ref(name=name, epoch=self.epoch) for name in self.objects]

    def changed(self, dice: random.Random) -> tuple[Reader, Ref]:
        """Return a reader over the pile with one object changed inside and sealed again, and a reference to read."""
        victim = dice.choice(self.refs)
        sealed = SealedObject(self.objects[victim.name])
        segments = [sealed.segment(self.key, i) for i in range(sealed.count)]
        if dice.random() < 0.7:
            fields = decode(decompress(segments[0], bytes_max=CBOR_BYTES_MAX))
            segments[0] = compress(encode(mutated(fields, dice)))
        else:
            at = dice.randrange(len(segments))
            segments[at] = mutated_bytes(segments[at], dice)
            if dice.random() < 0.2:
                segments.pop()
        raw = seal_object(self.key, NONCE, segments or [b""])
        table = {**self.objects, victim.name: raw}  # Under the old name, so that others' references reach it.
        return Reader(self.family, lambda ref: table.get(ref.name)), victim if dice.random() < 0.5 else self.refs[-1]


def _images(dice: random.Random) -> None:
    reader, ref = IMAGES.changed(dice)
    try:
        reader.image(ref)
        reader.bases(ref)
        reader.needs([ref])
        reader.own_pages(ref)
    except REFUSALS:
        return


def _logs(dice: random.Random) -> None:
    reader, ref = LOGS.changed(dice)
    try:
        for _ in reader.log(ref):
            pass
        reader.needs([ref])
        reader.check_log_object(ref)
    except REFUSALS:
        return


def _raw_objects(dice: random.Random) -> None:
    raw = mutated_bytes(dice.choice(list(IMAGES.objects.values())), dice)
    try:
        sealed = SealedObject(raw)
        for number in range(sealed.count):
            images.decode_head(sealed.segment(IMAGES.key, number))
    except REFUSALS:
        return


def _wrapped(dice: random.Random) -> None:
    by, to = bytes.fromhex(SEALING["wrap"][0]["by"]), bytes.fromhex(SEALING["wrap"][0]["to"])
    fields = decode(bytes.fromhex(dice.choice(SEALING["wrap"])["encoded"]))
    assert isinstance(fields, list)
    changed = mutated(fields[:-1], dice)
    if not isinstance(changed, list):
        return
    signed = encode([*changed, crypto.sign(by, "wrapped-key", encode(changed))])
    raw = signed if dice.random() < 0.8 else mutated_bytes(signed, dice)
    try:
        crypto.unwrap(crypto.decode_wrapped(raw), by_public=crypto.public_key(by), seed=to)
    except REFUSALS:
        return


def _checkpoints(dice: random.Random) -> None:
    whole = Checkpoint(
        session=SessionId(bytes(32)),
        parents=(CheckpointId(bytes(32)),),
        payload=Payload(image=IMAGES.refs[0], logs={"claude": LOGS.refs[0]}),
        objects=(IMAGES.refs[0].name,),
        workspace=b"w",
    )
    raw = encode(mutated(decode(whole.encoded()), dice))
    try:
        decode_checkpoint(raw if dice.random() < 0.9 else mutated_bytes(raw, dice))
    except REFUSALS:
        return


def _states(dice: random.Random) -> None:
    state = encode(mutated([1, "hhd_run", 65536, {"g": 1}, 0], dice))
    try:
        snapshots.snapshot_of(reading.Image(numbers=[], pages=[], state=state))
    except REFUSALS:
        return


SEALING = json.loads((VECTORS / "sealing.json").read_text())
IMAGES, LOGS = Pile("images"), Pile("logs")
DECODERS: dict[str, tuple[Tried, int]] = {
    "images": (_images, 4),
    "logs": (_logs, 2),
    "objects": (_raw_objects, 1),
    "wrapped keys": (_wrapped, 1),
    "checkpoints": (_checkpoints, 1),
    "states": (_states, 1),
}
"""Each with its share of the tries."""

FUZZED = (
    images,
    logs,
    objects,
    columns,
    compression,
    crypto,
    checkpoints,
    closure,
    opened,
    reading,
    restore,
    snapshots,
)


def fuzz(tries: int, seed: int) -> None:
    dice = random.Random(seed)
    for attempt, share in DECODERS.values():
        for _ in range(tries * share // 10):
            attempt(dice)


def test_decoders_refuse_nonsense_in_one_way(told: Callable[[str], None]) -> None:
    lines = Lines(FUZZED)
    with lines.watched():
        fuzz(600, 1)
    for module in FUZZED:
        assert module.__file__
        told(f"fuzzed: {lines.share(module.__file__):.0%} of the lines in functions of {module.__name__}")
    assert lines.share(str(images.__file__)) > 0.4  # Encoders included.
    assert min(lines.share(str(one.__file__)) for one in (opened, restore)) > 0.7
    assert lines.share(str(reading.__file__)) > 0.5  # What reads pieces of captures has no part in this.


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_decoders_refuse_much_nonsense_in_one_way(seed: int) -> None:
    fuzz(20_000, 100 + seed)


def test_nonsense_does_not_make_a_decoder_allocate_much() -> None:
    tracemalloc.start()
    try:
        fuzz(300, 9)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 * 1024 * 1024


def test_damaged_files_do_not_confuse_salvage(tmp_path: Path) -> None:
    dice = random.Random(4)
    raw = (Path(__file__).parents[1] / "fixtures/stores/format-1/store.db").read_bytes()
    for _ in range(60):
        (tmp_path / "store.db").write_bytes(mutated_bytes(mutated_bytes(raw, dice), dice))
        (tmp_path / "store.db-wal").write_bytes(dice.randbytes(5000) if dice.random() < 0.5 else b"")
        salvage.File(tmp_path).records(lambda number, record: None)
        wal.read_log(tmp_path / "store.db-wal")
