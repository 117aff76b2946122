"""Writes sync.json beside it: each message, digests, a letter and a recipe; run by hand when the format changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hhd_protocol.codec import encode
from hhd_protocol.compression import compressor
from hhd_protocol.crypto import derive, device_id, public_key, seal
from hhd_protocol.ids import CheckpointId, EpochId, FamilyId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.images import ImageHead, encode_frames, encode_head, segments_of
from hhd_protocol.objects import Ref, object_name, seal_object
from hhd_protocol.sync import Chains, compare, encode_message, messages, recipe, session_digest
from hhd_protocol.sync.letters import Letter, letter_name, seal_letter
from hhd_protocol.sync.messages import Entry

HERE = Path(__file__).parent
LAPTOP, DESKTOP = bytes(range(32)), bytes(range(32, 64))
KEY = hashlib.sha256(b"sealing key").digest()


def digest(text: str) -> bytes:
    """Return 32 bytes that stand for `text`."""
    return hashlib.sha256(text.encode()).digest()


def statement(text: str) -> StatementId:
    """Return the id of a statement that stands for `text`."""
    return StatementId(digest(text))


SESSION = SessionId(statement("session"))
CHECKPOINT = CheckpointId(statement("checkpoint"))
OBJECT, MODULE = ObjectName(digest("object")), Sha256(digest("module"))
FAMILY, EPOCH = FamilyId(bytes(range(16))), EpochId(digest("epoch"))
ENTRY = Entry(raw=b"a statement", payload=b"a payload", thinned=False)

MESSAGES: list[messages.Message] = [
    messages.Hello(
        incarnation=Incarnation(bytes(16)), round=7, count=2, root=digest("root"), holding="the disk is full"
    ),
    messages.Buckets(round=7, bits=1, digests=bytes(range(32))),
    messages.Entries(round=7, bits=3, buckets=(0, 5), sessions=(SESSION,), digests=bytes(16), more=True),
    messages.Differ(round=7, sessions=(SESSION,)),
    messages.Ask(
        session=SESSION,
        ends=(statement("end"),),
        marks=(statement("one before"),),
        loose=(statement("loose"),),
        lacking=(CHECKPOINT,),
    ),
    messages.Compared(round=7),
    messages.Answered(round=7),
    messages.Statements(session=SESSION, entries=(ENTRY, Entry(raw=b"another")), objects=(b"sealed",)),
    messages.Want(session=SESSION, objects=(OBJECT,), modules=(MODULE,)),
    messages.Absent(objects=(OBJECT,)),
    messages.Part(what=messages.OBJECT, name=OBJECT, offset=4, total=10, content=b"middle"),
    messages.Rebuild(name=OBJECT, session=SESSION, recipe=b"sealed recipe"),
    messages.Begin(what=messages.LETTER, name=digest("letter"), offset=300),
    messages.Acknowledge(session=SESSION, statements=(statement("end"),), whole=(CHECKPOINT,)),
    messages.Keys(session=SESSION, family=FAMILY, epoch=EPOCH, wrapped=(b"one", b"two")),
    messages.AskKeys(session=SESSION),
    messages.Holding(why="this session is larger than 1 GB", session=SESSION),
    messages.Had(session=SESSION, records=(statement("release"),)),
    messages.Bare(session=SESSION, checkpoints=(CHECKPOINT,)),
]


def example_letter() -> tuple[Letter, bytes]:
    """Return a letter of the laptop that the desktop can read."""
    letter = Letter(
        by=device_id(public_key(LAPTOP)),
        family=FAMILY,
        page_key=digest("page key"),
        epochs=((EPOCH, KEY),),
        epoch=EPOCH,
        session=SESSION,
        entries=(ENTRY,),
        modules=((MODULE, Ref(name=OBJECT, epoch=EPOCH)),),
    )
    readers = [public_key(LAPTOP), public_key(DESKTOP)]
    return letter, seal_letter(letter, LAPTOP, readers, secret=digest("secret"), key=digest("content key"))


def example_object() -> tuple[recipe.Recipe, bytes, list[bytes], list[bytes]]:
    """Return a recipe, the object it is for, the parent's versions of its pages, and their bases."""
    base = [bytes([n]) * 2048 + digest(f"base {n}") * 64 for n in range(3)]
    old = [page[:100] + b"older" + page[105:] for page in base]
    new = [page[:200] + b"newer" + page[205:] for page in old]
    parent = Ref(name=ObjectName(digest("parent")), epoch=EPOCH)
    frames = encode_frames(new, 256, [compressor(b"".join(base), len(new) * 4096)])
    head = ImageHead(
        parent=parent,
        refs=[Ref(name=ObjectName(digest("key")), epoch=EPOCH)],
        state=b"state",
        pages=[1, 4, 9],
        frame_pages=256,
        frames=[len(frame) for frame in frames],
        dictionary=0,
        bases=[1, 1, 1],
        gone=[],
        given=[],
        given_objects=[],
        given_slots=[],
        pages_id=digest("pages id"),  # type: ignore[arg-type]
    )
    segments = [encode_head(head), *segments_of(frames, 1)]
    raw = seal_object(KEY, bytes(range(24)), segments)
    ref = Ref(name=object_name(raw), epoch=EPOCH)
    return recipe.make(ref, nonce=bytes(range(24)), segments=segments, old=old, new=new), raw, old, base


def example_places(image: Ref) -> dict[int, tuple[Ref, int]]:
    """Return where the pages of the image before are: most in one object, some in steps of their own."""
    assert image.name == digest("before")
    owners = [Ref(name=ObjectName(digest(f"owner {number}")), epoch=EPOCH) for number in range(4)]
    places = {page: (owners[0], page) for page in range(1, 300)}
    return places | {page: (owners[1 + page % 3], page // 3) for page in range(9, 60)}


def example_list() -> tuple[recipe.Recipe, bytes, list[bytes], list[bytes]]:
    """Return the recipe of a step whose list stands alone, that object, its pages as they were, and their bases."""
    step, _, old, base = example_object()
    before = Ref(name=ObjectName(digest("before")), epoch=EPOCH)
    new = [page[:200] + b"newer" + page[205:] for page in old]
    frames = encode_frames(new, 256, [compressor(b"".join(base), len(new) * 4096)])
    listed = {page: place for page, place in example_places(before).items() if page not in step.opened().pages}
    refs = list(dict.fromkeys([listed[10][0], listed[11][0], *(listed[page][0] for page in sorted(listed))]))
    head = replace(
        step.opened(),
        parent=None,
        refs=refs,
        frames=[len(frame) for frame in frames],
        given=sorted(listed),
        given_objects=[refs.index(listed[page][0]) + 1 for page in sorted(listed)],
        given_slots=[listed[page][1] for page in sorted(listed)],
    )
    segments = [encode_head(head), *segments_of(frames, 1)]
    raw = seal_object(KEY, bytes(range(24)), segments)
    ref = Ref(name=object_name(raw), epoch=EPOCH)
    made = recipe.make(ref, nonce=bytes(range(24)), segments=segments, old=old, new=new, before=before)
    return made, raw, old, base


def example_era() -> tuple[recipe.Recipe, bytes, list[bytes]]:
    """Return the recipe of an image that begins an era, that object, and its pages in the image before."""
    old = [bytes([n]) * 2048 + digest(f"base {n}") * 64 for n in range(3)] + [b""]
    new = [page[:200] + b"newer" + page[205:] for page in old[:3]] + [digest("new") * 128]
    frames = encode_frames(new, 256, [compressor(b"", 256 * 4096)])
    head = ImageHead(
        parent=None,
        refs=[],
        state=b"state",
        pages=[1, 4, 9, 12],
        frame_pages=256,
        frames=[len(frame) for frame in frames],
        dictionary=0,
        bases=[],
        gone=[],
        given=[],
        given_objects=[],
        given_slots=[],
        pages_id=digest("pages id"),  # type: ignore[arg-type]
    )
    segments = [encode_head(head), *segments_of(frames, 1)]
    raw = seal_object(KEY, bytes(range(24)), segments)
    ref, before = Ref(name=object_name(raw), epoch=EPOCH), Ref(name=ObjectName(digest("before")), epoch=EPOCH)
    made = recipe.make(ref, nonce=bytes(range(24)), segments=segments, old=old, new=new, before=before)
    return made, raw, old


def of_form_two(made: recipe.Recipe) -> bytes:
    """Return a recipe as earlier devices send it: with the first segment as it is."""
    assert made.before is not None
    before = made.before
    fields: list[Any] = [2, made.nonce, made.head, made.digest, list(made.changes), before.name, before.epoch]
    return EPOCH + bytes(24) + seal(derive(KEY, "recipe"), bytes(24), encode(fields), ad=made.ref.name)


def vectors() -> dict[str, Any]:
    """Return everything the file holds."""
    after: dict[StatementId, StatementId | None] = {}
    last: StatementId | None = None
    for number in range(20):
        one = statement(f"statement {number}")
        after[one] = last
        last = one
    after[statement("behind a gap")] = statement("not here")
    frontier = Chains(after).frontier()
    sessions = {SessionId(statement(f"session {n}")): digest(f"of session {n}")[:16] for n in range(60)}
    letter, sealed = example_letter()
    made, raw, _, _ = example_object()
    era, whole, _ = example_era()
    alone, with_list, _, _ = example_list()
    return {
        "messages": [{"name": type(one).__name__, "message": encode_message(one).hex()} for one in MESSAGES],
        "frontier": {
            "after": [[id.hex(), before.hex() if before else None] for id, before in after.items()],
            "ends": [one.hex() for one in frontier.ends],
            "marks": [one.hex() for one in frontier.marks],
            "loose": [one.hex() for one in frontier.loose],
            "digest": session_digest(frontier, [CHECKPOINT]).hex(),
            "lacking": [CHECKPOINT.hex()],
        },
        "compare": {
            "sessions": [[one.hex(), value.hex()] for one, value in sessions.items()],
            "root": compare.root(sessions).hex(),
            "bits": compare.bits_for(len(sessions)),
            "buckets": [one.hex() for one in compare.bucket_digests(sessions, compare.bits_for(len(sessions)))],
        },
        "letter": {
            "writer": LAPTOP.hex(),
            "reader": DESKTOP.hex(),
            "letter": sealed.hex(),
            "name": letter_name(sealed).hex(),
            "session": letter.session.hex(),
        },
        "recipe": {
            "key": KEY.hex(),
            "recipe": recipe.seal_recipe(made, KEY, bytes(24)).hex(),
            "name": made.ref.name.hex(),
            "bytes": len(raw),
        },
        "recipe of an era": {
            "key": KEY.hex(),
            "recipe": recipe.seal_recipe(era, KEY, bytes(24), example_places).hex(),
            "name": era.ref.name.hex(),
            "bytes": len(whole),
        },
        "recipe of an era, of form 2": {
            "key": KEY.hex(),
            "recipe": of_form_two(era).hex(),
            "name": era.ref.name.hex(),
            "bytes": len(whole),
        },
        "recipe of a list": {
            "key": KEY.hex(),
            "recipe": recipe.seal_recipe(alone, KEY, bytes(24), example_places).hex(),
            "name": alone.ref.name.hex(),
            "bytes": len(with_list),
        },
    }


if __name__ == "__main__":
    (HERE / "sync.json").write_text(json.dumps(vectors(), indent=1) + "\n")
