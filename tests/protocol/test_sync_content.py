"""Objects in parts, recipes, and letters: whole or refused, and nothing readable for who may not read."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.protocol.mutate import mutated_bytes
from tests.protocol.test_sync_messages import VECTORS, generator

from hhd_protocol import crypto
from hhd_protocol.codec import encode
from hhd_protocol.compression import compress
from hhd_protocol.errors import FormatError
from hhd_protocol.images import ImageHead, encode_head
from hhd_protocol.objects import SealedObject, object_name, seal_object
from hhd_protocol.sync import lists, recipe
from hhd_protocol.sync.letters import letter_name, open_letter, seal_letter
from hhd_protocol.sync.messages import OBJECT, Part
from hhd_protocol.sync.parts import Parts

MADE: Any = generator()
NAME = bytes(32)


def part(offset: int, content: bytes, total: int = 10, name: bytes = NAME) -> Part:
    return Part(what=OBJECT, name=name, offset=offset, total=total, content=content)


def test_parts_are_gone_on_from_after_a_cut_and_may_come_twice() -> None:
    parts = Parts()
    assert parts.add(part(0, b"abcd")) is None and parts.begun(NAME) == 4
    assert parts.add(part(0, b"abcd")) is None and parts.begun(NAME) == 4
    assert parts.add(part(2, b"cdef")) is None and parts.begun(NAME) == 6
    assert parts.add(part(6, b"ghij")) == b"abcdefghij"
    assert parts.begun(NAME) == 0 and parts.held_bytes == 0


def test_a_gap_between_parts_is_refused_and_leaves_nothing() -> None:
    parts = Parts()
    with pytest.raises(FormatError):
        parts.add(part(4, b"efgh"))
    assert parts.held_bytes == 0 and parts.begun(NAME) == 0


def test_what_is_begun_is_bounded() -> None:
    parts = Parts(bytes_max=100)
    for number in range(50):
        parts.add(part(0, b"x" * 9, name=bytes([number]) * 32))
    assert parts.held_bytes <= 100 and parts.begun(bytes([49]) * 32) == 9


def test_a_recipe_makes_the_object_byte_for_byte() -> None:
    made, raw, old, base = MADE.example_object()
    sealed = recipe.seal_recipe(made, MADE.KEY, bytes(24))
    assert sealed.hex() == VECTORS["recipe"]["recipe"]
    again = recipe.open_recipe(sealed, made.ref.name, MADE.KEY)
    assert again == made and recipe.epoch_of(sealed) == MADE.EPOCH
    remade = recipe.remake(again, MADE.KEY, old=old, base=lambda _, slot: base[slot])
    assert remade is not None and remade.raw == raw
    assert object_name(raw) == made.ref.name


def test_a_recipe_makes_an_image_that_begins_an_era_out_of_the_one_before() -> None:
    made, raw, old = MADE.example_era()
    sealed = recipe.seal_recipe(made, MADE.KEY, bytes(24), MADE.example_places)
    assert sealed.hex() == VECTORS["recipe of an era"]["recipe"]
    again = recipe.open_recipe(sealed, made.ref.name, MADE.KEY, MADE.example_places)
    assert again == made and again.image() == made.before
    remade = recipe.remake(again, MADE.KEY, old=old, base=never)
    assert remade is not None and remade.raw == raw and remade.frames is not None
    with_parent = replace(made, before=None)
    with pytest.raises(FormatError):  # It stands alone: without the image before there is nothing to make it of.
        with_parent.opened()
    step, _, _, _ = MADE.example_object()
    with pytest.raises(FormatError):  # Where a parent is named, nobody says another one.
        replace(step, before=made.before).opened()
    with pytest.raises(FormatError):
        recipe.open_recipe(sealed, made.ref.name, MADE.KEY)


def test_a_recipe_of_an_earlier_device_is_taken_as_it_was() -> None:
    made, raw, old = MADE.example_era()
    known = VECTORS["recipe of an era, of form 2"]
    sealed = bytes.fromhex(known["recipe"])
    again = recipe.open_recipe(sealed, made.ref.name, MADE.KEY)  # It asks for no places.
    assert again == made and known["name"] == made.ref.name.hex() and known["bytes"] == len(raw)
    remade = recipe.remake(again, MADE.KEY, old=old, base=never)
    assert remade is not None and remade.raw == raw
    good = [2, made.nonce, made.head, made.digest, list(made.changes), made.before.name, made.before.epoch]
    assert sealed_as(made.ref.name, *good) == sealed
    for at, wrong in ((0, 4), (1, b"short"), (2, 7), (3, b"short"), (4, [1]), (5, b"short"), (6, b"short")):
        with pytest.raises(FormatError):
            recipe.open_recipe(sealed_as(made.ref.name, *good[:at], wrong, *good[at + 1 :]), made.ref.name, MADE.KEY)


def test_a_list_that_stands_alone_goes_as_what_is_new_in_it() -> None:
    made, raw, old, base = MADE.example_list()
    sealed = recipe.seal_recipe(made, MADE.KEY, bytes(24), MADE.example_places)
    assert sealed.hex() == VECTORS["recipe of a list"]["recipe"]
    assert len(sealed) < len(made.head), "the head alone has a place for each of 300 pages"
    again = recipe.open_recipe(sealed, made.ref.name, MADE.KEY, MADE.example_places)
    assert again == made
    remade = recipe.remake(again, MADE.KEY, old=old, base=lambda _, slot: base[slot])
    assert remade is not None and remade.raw == raw
    for other in ({}, {1: (made.ref, 0)}, MADE.example_places(made.before) | {2: (made.ref, 7)}):
        try:
            wrong = recipe.open_recipe(sealed, made.ref.name, MADE.KEY, lambda _, other=other: other)  # type: ignore[misc]
            assert recipe.remake(wrong, MADE.KEY, old=old, base=lambda _, slot: base[slot]) is None
        except FormatError:
            continue


def sealed_as(name: bytes, *fields: Any) -> bytes:
    """What a full member that means harm can say: it has the key."""
    nonce = bytes(24)
    sealed: bytes = crypto.seal(crypto.derive(MADE.KEY, "recipe"), nonce, encode(list(fields)), ad=name)
    return MADE.EPOCH + nonce + sealed  # type: ignore[no-any-return]


def test_a_list_that_its_sender_made_up_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, _, _ = MADE.example_list()
    name, before = made.ref.name, made.before
    told = lists.tell(made.opened(), made.head, MADE.example_places(before))
    good: list[Any] = [
        3,
        made.nonce,
        b"\x01\x01\x03\x05",
        b"\x01\x01\x02",
        told.frame,
        made.digest,
        [b""],
        before.name,
        before.epoch,
    ]
    assert (told.own, told.first) == ((1, 4, 9), (1, 2))
    assert recipe.open_recipe(sealed_as(name, *good), name, MADE.KEY, MADE.example_places).head == made.head
    monkeypatch.setattr(lists, "decompress_exactly", never)
    size = lists.OBJECT_HEAD_BYTES_MAX + 1
    bomb = compress(bytes(size))
    for at, wrong in (
        (0, 2), (1, b"short"), (2, b"\x01"), (2, b"\x04" + b"\xff" * 8), (2, 7), (3, b"\x01\x04"), (3, b"\x09"),
        (4, bomb), (4, b""), (4, b"no frame"), (4, 1), (5, b"short"), (6, [1]), (7, b"short"), (8, b"short"),
    ):  # fmt: skip
        fields = [*good[:at], wrong, *good[at + 1 :]]
        with pytest.raises(FormatError):
            recipe.open_recipe(sealed_as(name, *fields), name, MADE.KEY, MADE.example_places)


def test_any_list_is_what_it_was_once_it_was_told() -> None:
    dice = random.Random(7)
    owners = [MADE.example_places(MADE.example_list()[0].before)[page][0] for page in (1, 9, 10, 11)]
    for _ in range(50):
        places = {
            page: (dice.choice(owners), dice.randrange(99)) for page in dice.sample(range(500), dice.randrange(90))
        }
        own = sorted(dice.sample(range(500), 3))
        given = {page: place for page, place in places.items() if page not in own and dice.random() < 0.9}
        refs = dice.sample(owners, len(owners))
        head = replace(
            MADE.example_list()[0].opened(),
            refs=refs,
            pages=own,
            given=sorted(given),
            given_objects=[refs.index(given[page][0]) + 1 for page in sorted(given)],
            given_slots=[given[page][1] for page in sorted(given)],
        )
        raw = encode_head(head)
        told = lists.tell(head, raw, places)
        assert lists.heard(told, places) == raw and tuple(told.own) == tuple(own)


def never(*_: object) -> bytes:
    raise AssertionError("an object without bases was asked for one")


def test_frames_are_given_for_reading_only_where_the_head_names_them() -> None:
    made, raw, old, base = MADE.example_object()
    remade = recipe.remake(made, MADE.KEY, old=old, base=lambda _, slot: base[slot])
    assert remade is not None and remade.frames is not None
    assert len(b"".join(remade.frames)) == len(old) * 4096
    head = made.opened()
    lying = ImageHead(**{**vars(head), "frames": [length + 1 for length in head.frames]})
    segments = [encode_head(lying), SealedObject(raw).segment(MADE.KEY, 1)]
    other = seal_object(MADE.KEY, made.nonce, segments)
    told = replace(
        made,
        ref=made.ref._replace(name=object_name(other)),
        head=segments[0],
        digest=hashlib.sha256(b"".join(segments)).digest(),
    )
    remade = recipe.remake(told, MADE.KEY, old=old, base=lambda _, slot: base[slot])
    assert remade is not None and remade.raw == other and remade.frames is None


def test_another_build_of_zstd_is_noticed_before_anything_is_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, old, base = MADE.example_object()

    def never(*_: object) -> bytes:
        raise AssertionError("it sealed another stream under the nonce")

    frames = recipe.encode_frames
    monkeypatch.setattr(
        recipe, "encode_frames", lambda *given: [one + b"" if False else compress(one) for one in frames(*given)]
    )
    monkeypatch.setattr(recipe, "seal_object", never)
    assert recipe.remake(made, MADE.KEY, old=old, base=lambda _, slot: base[slot]) is None


def test_wrong_pages_and_wrong_bases_make_nothing() -> None:
    made, _, old, base = MADE.example_object()
    other = [bytes(4096), *old[1:]]
    for given, under in ((other, base), (old, [bytes(4096)] * 3)):
        try:
            found = recipe.remake(made, MADE.KEY, old=given, base=lambda _, slot, under=under: under[slot])  # type: ignore[misc]
        except FormatError:
            continue
        assert found is None
    with pytest.raises(FormatError):
        recipe.remake(made, MADE.KEY, old=old[:2], base=lambda _, slot: base[slot])

    for changes in (made.changes[:-1], (*made.changes, compress(b""))):
        with pytest.raises(FormatError, match="other pages"):
            recipe.remake(replace(made, changes=changes), MADE.KEY, old=old, base=lambda _, slot: base[slot])


def test_a_recipe_that_lies_about_its_name_is_refused() -> None:
    made, _, old, base = MADE.example_object()
    lying = replace(made, ref=made.ref._replace(name=MADE.OBJECT))
    with pytest.raises(FormatError):
        recipe.remake(lying, MADE.KEY, old=old, base=lambda _, slot: base[slot])


def test_a_recipe_is_no_bomb() -> None:
    made, _, old, base = MADE.example_object()
    bomb = replace(made, changes=(compress(bytes(64 * 1024 * 1024)),))
    with pytest.raises(FormatError):
        recipe.remake(bomb, MADE.KEY, old=old, base=lambda _, slot: base[slot])
    head = made.opened()
    alone = ImageHead(**{**vars(head), "parent": None})
    with pytest.raises(FormatError):
        replace(made, head=encode_head(alone)).opened()


def test_damaged_recipes_are_refused() -> None:
    made, _, old, base = MADE.example_object()
    sealed, dice = recipe.seal_recipe(made, MADE.KEY, bytes(24)), random.Random(1)
    for _ in range(200):
        raw = mutated_bytes(sealed, dice)
        if raw == sealed:
            continue
        with pytest.raises(FormatError):
            again = recipe.open_recipe(raw, made.ref.name, MADE.KEY)
            if again == made:  # The epoch beside the seal is another: whoever looks it up has no such key.
                raise FormatError("only the epoch differs")
            recipe.remake(again, MADE.KEY, old=old, base=lambda _, slot: base[slot])


KEYS = {crypto.device_id(crypto.public_key(seed)): crypto.public_key(seed) for seed in (MADE.LAPTOP, MADE.DESKTOP)}


def test_a_letter_opens_for_each_reader_and_nobody_else() -> None:
    letter, sealed = MADE.example_letter()
    assert sealed.hex() == VECTORS["letter"]["letter"] and letter_name(sealed).hex() == VECTORS["letter"]["name"]
    assert open_letter(sealed, MADE.LAPTOP, KEYS) == open_letter(sealed, MADE.DESKTOP, KEYS) == letter
    assert open_letter(sealed, bytes(32), KEYS) is None
    for told in (letter.session, letter.family, letter.page_key, MADE.ENTRY.raw, letter.by):
        assert told not in sealed


def test_a_letter_of_a_stranger_is_refused() -> None:
    letter, _ = MADE.example_letter()
    stranger = bytes(range(64, 96))
    forged = replace(letter, by=crypto.device_id(crypto.public_key(stranger)))
    raw = seal_letter(forged, stranger, [crypto.public_key(MADE.DESKTOP)], secret=bytes(range(32)), key=bytes(32))
    with pytest.raises(FormatError):
        open_letter(raw, MADE.DESKTOP, KEYS)


def test_damaged_letters_are_refused_or_are_to_others() -> None:
    _, sealed = MADE.example_letter()
    dice = random.Random(2)
    for _ in range(200):
        raw = mutated_bytes(sealed, dice)
        try:
            found = open_letter(raw, MADE.DESKTOP, KEYS)
        except FormatError:
            continue
        assert found is None or raw == sealed
