"""Writes sealing.json, objects.json, images.json and logs.json beside it; run by hand when the format changes.

Compressed bytes depend on the build of zstd, so the tests only read what is written here; they never write it again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

from hhd_protocol import crypto, images, logs
from hhd_protocol.compression import compressor
from hhd_protocol.ids import EpochId, FamilyId, PageId
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.objects import Ref, object_name, seal_object

HERE = Path(__file__).parent
KEY, PAGE_KEY = bytes(range(32)), bytes(range(32, 64))
EPOCH = EpochId(hashlib.sha256(b"first epoch").digest())
NONCES = (hashlib.sha256(b"nonce %d" % i).digest()[:24] for i in itertools.count())


def sealing() -> dict[str, object]:
    """Return the cases of `sealing.md` and `identity.md` that have one answer."""
    seed, other = bytes(range(64, 96)), bytes(range(96, 128))
    nonce = next(NONCES)
    wrapped = [
        crypto.wrap(
            KEY,
            family=FamilyId(bytes(16)),
            epoch=epoch,
            to_public=crypto.public_key(other),
            by_seed=seed,
            ephemeral_secret=hashlib.sha256(b"ephemeral %d" % i).digest(),
        )
        for i, epoch in enumerate((None, EPOCH))
    ]
    return {
        "seal": [
            {"key": KEY.hex(), "nonce": nonce.hex(), "ad": ad.hex(), "message": message.hex(), "sealed": out.hex()}
            for ad, message in ((b"", b""), (b"ad", b"a page of a session"))
            for out in (crypto.seal(KEY, nonce, message, ad=ad),)
        ],
        "derive": [
            {"key": KEY.hex(), "purpose": purpose, "context": context.hex(), "result": result.hex()}
            for purpose, context in (("local", b""), ("rows", b"\x01"))
            for result in (crypto.derive(KEY, purpose, context),)
        ],
        "derived_nonce": {"key": KEY.hex(), "message": b"xyz".hex(), "nonce": crypto.derived_nonce(KEY, b"xyz").hex()},
        "content_id": [
            {"key": PAGE_KEY.hex(), "kind": kind.decode(), "content": b"text".hex(), "id": result.hex()}
            for kind in (b"page", b"pages", b"chunk", b"chunks")
            for result in (crypto.content_id(PAGE_KEY, kind, b"text"),)
        ],
        "device": [
            {"seed": one.hex(), "public": public.hex(), "id": device.hex(), "text": crypto.device_text(device)}
            for one in (seed, other)
            for public in (crypto.public_key(one),)
            for device in (crypto.device_id(public),)
        ],
        "sign": {
            "seed": seed.hex(),
            "kind": "test",
            "message": b"m".hex(),
            "mark": crypto.sign(seed, "test", b"m").hex(),
        },
        "wrap": [
            {"key": KEY.hex(), "by": seed.hex(), "to": other.hex(), "encoded": one.encoded().hex()} for one in wrapped
        ],
    }


def objects() -> dict[str, object]:
    """Return sealed objects with what is in them."""
    cases = [[b"one"], [b"", b"two", bytes(300)]]
    return {
        "key": KEY.hex(),
        "objects": [
            {"segments": [one.hex() for one in case], "raw": raw.hex(), "name": object_name(raw).hex()}
            for case in cases
            for raw in (seal_object(KEY, next(NONCES), case),)
        ],
    }


def page(number: int, version: int) -> bytes:
    """Return a page of readable, compressible text."""
    line = b'{"page":%d,"version":%d,"text":"%s"}\n'
    text = b"".join(
        line % (number, version, hashlib.sha256(b"%d %d %d" % (number, version, i)).hexdigest()[:9].encode())
        for i in range(200)
    )
    return text[:PAGE_BYTES]


class Maker:
    """Seals images and logs and keeps what was made."""

    def __init__(self) -> None:
        self.made: list[bytes] = []

    def ref(self, segments: list[bytes]) -> Ref:
        self.made.append(seal_object(KEY, next(NONCES), segments))
        return Ref(name=object_name(self.made[-1]), epoch=EPOCH)

    def image(self, pages: dict[int, bytes], **fields: object) -> Ref:
        numbers = sorted(pages)
        contents = [pages[number] for number in numbers]
        frame_pages = int(str(fields.get("frame_pages", 256)))
        prefixes = fields.pop("prefixes", None) or itertools.repeat(b"")
        assert isinstance(prefixes, list | itertools.repeat)
        using = (compressor(prefix, frame_pages * PAGE_BYTES) for prefix in prefixes)
        frames = images.encode_frames(contents, frame_pages, using)
        ids = b"".join(crypto.content_id(PAGE_KEY, b"page", content) for content in contents)
        defaults: dict[str, object] = {
            "parent": None,
            "refs": (),
            "state": b"",
            "frame_pages": 256,
            "dictionary": 0,
            "bases": (),
            "gone": (),
            "given": (),
            "given_objects": (),
            "given_slots": (),
        }
        head = images.ImageHead(
            pages=numbers,
            frames=[len(frame) for frame in frames],
            pages_id=crypto.content_id(PAGE_KEY, b"pages", ids),
            **{**defaults, **fields},  # type: ignore[arg-type]
        )
        return self.ref([images.encode_head(head), *images.segments_of(frames, head.frames_per_segment())])

    def log(self, chunks: list[bytes], **fields: object) -> Ref:
        ids = b"".join(crypto.content_id(PAGE_KEY, b"chunk", chunk) for chunk in chunks)
        head = logs.LogHead(
            lengths=[len(chunk) for chunk in chunks],
            chunks_id=PageId(crypto.content_id(PAGE_KEY, b"chunks", ids)),
            **{"parent": None, "refs": (), "given_objects": (), "given_slots": (), "given_lengths": (), **fields},  # type: ignore[arg-type]
        )
        return self.ref([logs.encode_head(head), *map(logs.encode_chunk, chunks)])


def image_vectors() -> dict[str, object]:
    """Return a key, a step of edited pages, one of rewritten pages, and a list that stands alone again."""
    maker = Maker()
    steps: list[tuple[Ref, dict[int, bytes]]] = []
    image = {number: page(number, 0) for number in range(0, 40, 2)}
    key = maker.image(image, state=b"at the key")
    steps.append((key, dict(image)))
    edited = {4: image[4][:100] + b"EDIT" + image[4][104:], 8: image[8][:-3] + b"end", 9: page(9, 1)}
    step = maker.image(
        edited, parent=key, refs=[key], state=b"edited", bases=[1, 1, 0], gone=[38], prefixes=[image[4] + image[8]]
    )
    image = {number: text for number, text in (image | edited).items() if number != 38}
    steps.append((step, dict(image)))
    old = steps[0][1]
    dictionary = b"".join(old[sorted(old)[slot]] for slot in images.dictionary_slots(len(old)))
    fresh = {number: page(number, 2) for number in range(10, 27)}
    rewritten = maker.image(
        fresh, parent=step, refs=[key], state=b"new", dictionary=1, frame_pages=8, prefixes=[dictionary] * 3
    )
    image |= fresh
    steps.append((rewritten, dict(image)))
    own = {2: page(2, 3)}
    sources = {key: sorted(old), step: sorted(edited), rewritten: sorted(fresh)}
    given = sorted(set(image) - set(own))
    at = []
    for number in given:
        index, ref = next((i, one) for i, one in reversed(list(enumerate(sources))) if number in sources[one])
        at.append((index + 1, sources[ref].index(number)))
    alone = maker.image(
        own, refs=list(sources), given=given, given_objects=[i for i, _ in at], given_slots=[slot for _, slot in at]
    )
    steps.append((alone, image | own))
    return {
        "key": KEY.hex(),
        "page_key": PAGE_KEY.hex(),
        "epoch": EPOCH.hex(),
        "objects": [one.hex() for one in maker.made],
        "images": [{"object": ref.name.hex(), "pages": digests(content)} for ref, content in steps],
    }


def digests(content: dict[int, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each page."""
    return {str(number): hashlib.sha256(text).hexdigest() for number, text in content.items()}


def log_vectors() -> dict[str, object]:
    """Return a log that grew twice, then a list that stands alone."""
    maker = Maker()
    first = maker.log([b'{"turn":1}\n' * 50])
    second = maker.log([b'{"turn":2}\n' * 20, b"last line without an end"], parent=first, refs=())
    alone = maker.log(
        [b"\nmore"], refs=[first, second], given_objects=[1, 2, 2], given_slots=[0, 0, 1], given_lengths=[550, 220, 24]
    )
    return {
        "key": KEY.hex(),
        "page_key": PAGE_KEY.hex(),
        "epoch": EPOCH.hex(),
        "objects": [one.hex() for one in maker.made],
        "logs": [
            {"object": ref.name.hex(), "text": text.decode()}
            for ref, text in (
                (first, b'{"turn":1}\n' * 50),
                (second, b'{"turn":1}\n' * 50 + b'{"turn":2}\n' * 20 + b"last line without an end"),
                (alone, b'{"turn":1}\n' * 50 + b'{"turn":2}\n' * 20 + b"last line without an end\nmore"),
            )
        ],
    }


if __name__ == "__main__":
    for name, made in (
        ("sealing", sealing()),
        ("objects", objects()),
        ("images", image_vectors()),
        ("logs", log_vectors()),
    ):
        (HERE / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
