"""A hostile full member: whatever it says is bounded, named, and costs it the link; nothing of ours is damaged."""

from __future__ import annotations

import hashlib
import os
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.node.sync.wired import Person, Work, person
from tests.protocol.mutate import mutated_bytes
from tests.store.conftest import Memory

from hhd.store.check import Check
from hhd.store.log_writer import LogWriter
from hhd_protocol import lineage, logs
from hhd_protocol.bodies import CheckpointBody, IntentBody, TakeoverBody
from hhd_protocol.codec import encode
from hhd_protocol.compression import compress
from hhd_protocol.crypto import content_id
from hhd_protocol.ids import CheckpointId, Incarnation, ObjectName, PageId, SessionId, Sha256, StatementId
from hhd_protocol.logs import LogHead, encode_head
from hhd_protocol.objects import Ref, SealedObject, object_name, seal_object
from hhd_protocol.sync import decode_message, encode_message
from hhd_protocol.sync.messages import (
    MODULE,
    OBJECT,
    Absent,
    Acknowledge,
    Answered,
    Ask,
    Begin,
    Buckets,
    Entry,
    Hello,
    Keys,
    Message,
    Part,
    Rebuild,
    Statements,
    Want,
)


class Mallory:
    """The desktop, which says what it likes to the laptop."""

    def __init__(self, alice: Person, session: SessionId) -> None:
        self.alice, self.session = alice, session
        self.me = alice["desktop"].owned.me
        self.before = self.state()

    def says(self, message: Message) -> None:
        self.alice._do(self.alice["laptop"], self.alice["laptop"].engine.heard(self.me.id, encode_message(message)))

    @property
    def cut(self) -> str:
        cuts = self.alice["laptop"].cuts
        return cuts[-1] if cuts else ""

    def state(self) -> tuple[object, ...]:
        """What must not change: the session as the laptop had it."""
        store = self.alice["laptop"].store
        return tuple(one.id for one in store.statements.all(self.session)), store.checkpoint_ids(self.session)

    def unharmed(self) -> None:
        store = self.alice["laptop"].store
        assert self.state() == self.before
        assert not Check(store).run().findings

    def told_whole(self) -> set[CheckpointId]:
        """Of which checkpoints the laptop said that it has all content."""
        said = map(decode_message, self.alice.seen)
        return {id for one in said if isinstance(one, Acknowledge) for id in one.whole}

    def body(self, kind: type, **fields: object) -> bytes:
        """A statement that it signs, right or wrong."""
        body = kind(
            session=self.session,
            by=self.me.id,
            after=None,
            seq=0,
            incarnation=Incarnation(bytes(16)),
            at_ms=0,
            **fields,
        )
        return lineage.sign(body, self.me.seed).raw

    def token(self) -> StatementId:
        return StatementId(self.session)


@pytest.fixture
def mallory(tmp_path: Path) -> Iterator[Mallory]:
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        Work(alice, "laptop", session, Memory(20)).step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        yield Mallory(alice, session)


def test_who_signs_under_anothers_token_is_cut_off(mallory: Mallory) -> None:
    raw = mallory.body(
        CheckpointBody, token=mallory.token(), parents=(), payload=Sha256(bytes(32)), objects=(ObjectName(bytes(32)),)
    )
    mallory.says(Statements(session=mallory.session, entries=(Entry(raw=raw),)))
    assert "no right" in mallory.cut
    mallory.unharmed()


def test_a_signature_that_does_not_hold_costs_the_link(mallory: Mallory) -> None:
    own = mallory.alice["laptop"].store.statements.all(mallory.session)[-1].raw
    forged = own[:-1] + bytes([own[-1] ^ 1])
    mallory.says(Statements(session=mallory.session, entries=(Entry(raw=forged),)))
    assert mallory.cut
    mallory.unharmed()


@pytest.mark.parametrize("answer", [Answered(round=1), Buckets(round=1, bits=0, digests=bytes(16))])
def test_who_is_cut_off_and_answers_with_the_same_breath_is_cut_off_and_no_more(
    mallory: Mallory, answer: Message
) -> None:
    alice, laptop = mallory.alice, mallory.alice["laptop"].engine
    alice.cut("laptop")
    alice.do("laptop", lambda engine: engine.linked(mallory.me.id))
    root = laptop.machine._here.root_for(laptop.machine.peers[mallory.me.id])
    mallory.says(Hello(incarnation=Incarnation(bytes(16)), round=1, count=1, root=root))
    own = alice["laptop"].store.statements.all(mallory.session)[-1].raw
    forged = Statements(session=mallory.session, entries=(Entry(raw=own[:-1] + bytes([own[-1] ^ 1])),))
    alice.do("laptop", lambda engine: engine.heard(mallory.me.id, encode_message(forged), encode_message(answer)))
    assert mallory.cut
    mallory.unharmed()


def test_a_statement_that_came_for_another_session_costs_the_link(mallory: Mallory) -> None:
    own = mallory.alice["laptop"].store.statements.all(mallory.session)[-1].raw
    mallory.says(Statements(session=SessionId(StatementId(os.urandom(32))), entries=(Entry(raw=own),)))
    assert "another session" in mallory.cut
    mallory.unharmed()


def taken_over(mallory: Mallory, objects: tuple[ObjectName, ...], payload: bytes | None) -> tuple[Entry, ...]:
    """It takes the session over, which it may, and makes a checkpoint of what it likes."""
    head = mallory.alice["laptop"].store.checkpoint_ids(mallory.session)[-1]
    taking = lineage.decode(
        mallory.body(TakeoverBody, prev=mallory.token(), number=2, head=CheckpointId(head), reason="mine")
    )
    digest = Sha256(bytes(32)) if payload is None else Sha256(hashlib.sha256(payload).digest())
    body = CheckpointBody(
        session=mallory.session,
        by=mallory.me.id,
        after=taking.id,
        seq=1,
        incarnation=Incarnation(bytes(16)),
        at_ms=0,
        token=taking.id,
        parents=(CheckpointId(head),),
        payload=digest,
        objects=objects,
    )
    made = lineage.sign(body, mallory.me.seed)
    return Entry(raw=taking.raw), Entry(raw=made.raw, payload=payload)


def test_a_head_whose_content_never_comes_is_kept_bare_and_shown_and_hurts_nothing(mallory: Mallory) -> None:
    names = tuple(ObjectName(os.urandom(32)) for _ in range(50))
    payload = encode([[names[0], bytes(32)], {}, None])
    entries = taken_over(mallory, names, payload)
    mallory.says(Statements(session=mallory.session, entries=entries))
    assert not mallory.cut
    laptop = mallory.alice["laptop"]
    assert len(laptop.engine.machine.wants) == 50
    for name in names:
        mallory.says(Absent(objects=(name,)))
    assert laptop.engine.machine.wants.waits_for(mallory.me.id) == 0
    assert not Check(laptop.store).run().findings
    assert laptop.store.checkpoint_ids(mallory.session) == mallory.before[1], "nothing stands on it"
    head = lineage.decode(entries[1].raw).id
    said = [one for one in map(decode_message, mallory.alice.seen) if isinstance(one, Acknowledge)]
    assert any(head in one.statements for one in said), "the record is durable here"
    assert head not in mallory.told_whole(), "and its content is not"


@pytest.mark.parametrize("segments", [[b"no head"], [compress(bytes(60 << 20))], [b"x" * 500, b"y" * 500]])
def test_content_that_nobody_can_read_makes_no_checkpoint(mallory: Mallory, segments: list[bytes]) -> None:
    family = mallory.alice["laptop"].store.family(mallory.session)
    raw = seal_object(family.key(family.epoch), os.urandom(24), segments)
    payload = encode([[object_name(raw), family.epoch], {}, None])
    entries = taken_over(mallory, (object_name(raw),), payload)
    mallory.says(Statements(session=mallory.session, entries=entries, objects=(raw,)))
    laptop = mallory.alice["laptop"]
    assert laptop.store.checkpoint_ids(mallory.session) == mallory.before[1]
    assert not Check(laptop.store).run().findings


def test_a_bomb_makes_no_checkpoint_and_is_never_unpacked(mallory: Mallory) -> None:
    """It says that three bytes are in it, and 60 MiB are."""
    family = mallory.alice["laptop"].store.family(mallory.session)
    chunk = content_id(family.page_key, b"chunk", b"abc")
    head = LogHead(
        parent=None,
        refs=[],
        given_objects=[],
        given_slots=[],
        given_lengths=[],
        lengths=[3],
        chunks_id=content_id(family.page_key, b"chunks", chunk),
    )
    raw = seal_object(family.key(family.epoch), os.urandom(24), [encode_head(head), compress(bytes(60 << 20))])
    payload = encode([None, {"words": [object_name(raw), family.epoch]}, None])
    entries = taken_over(mallory, (object_name(raw),), payload)
    tracemalloc.start()
    try:
        mallory.says(Statements(session=mallory.session, entries=entries, objects=(raw,)))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    laptop = mallory.alice["laptop"]
    assert laptop.store.checkpoint_ids(mallory.session) == mallory.before[1]
    assert not Check(laptop.store).run().findings


@pytest.mark.parametrize("thinned", [False, True])
def test_a_payload_that_is_not_what_was_signed_costs_the_link(mallory: Mallory, thinned: bool) -> None:
    entries = taken_over(mallory, (), encode([None, {}, None]))
    payload = encode([None, {"words": [bytes(32), bytes(32)]}, None])
    lying = (entries[0], replace(entries[1], payload=payload, thinned=thinned))
    mallory.says(Statements(session=mallory.session, entries=lying))
    assert "another content" in mallory.cut
    mallory.unharmed()


def test_an_object_that_is_another_one_costs_the_link(mallory: Mallory) -> None:
    name = ObjectName(os.urandom(32))
    payload = encode([[name, bytes(32)], {}, None])
    mallory.says(Statements(session=mallory.session, entries=taken_over(mallory, (name,), payload)))
    mallory.says(Part(what=OBJECT, name=name, offset=0, total=4, content=b"junk"))
    assert "not the one of its name" in mallory.cut
    assert not Check(mallory.alice["laptop"].store).run().findings


def test_what_was_not_asked_for_is_not_kept_and_ends_the_link_in_the_end(mallory: Mallory) -> None:
    laptop = mallory.alice["laptop"]
    piece = os.urandom(256 * 1024)
    for number in range(400):
        mallory.says(Part(what=OBJECT, name=number.to_bytes(32, "big"), offset=0, total=64 << 20, content=piece))
        if mallory.cut:
            break
    assert "not asked for" in mallory.cut
    assert laptop.engine._arrivals.begun.held_bytes == 0
    mallory.unharmed()


def test_of_what_comes_along_only_what_a_checkpoint_with_it_brings_is_kept(mallory: Mallory) -> None:
    family = mallory.alice["laptop"].store.family(mallory.session)
    brought, stray = (seal_object(family.key(family.epoch), os.urandom(24), [os.urandom(9)]) for _ in range(2))
    payload = encode([[object_name(brought), family.epoch], {}, None])
    entries = taken_over(mallory, (object_name(brought),), payload)
    mallory.says(Statements(session=mallory.session, entries=entries, objects=(stray, brought)))
    objects = mallory.alice["laptop"].store.objects
    assert objects.has(object_name(brought)) and not objects.has(object_name(stray))


def test_what_was_looked_at_in_a_message_that_was_refused_does_not_count_as_here(mallory: Mallory) -> None:
    laptop = mallory.alice["laptop"]
    family = laptop.store.family(mallory.session)
    written: list[tuple[Ref, bytes]] = []
    writer = LogWriter(family, lambda *one: written.append(one), os.urandom, reader=laptop.store.reader(family.id))
    for words in (b"abc", b"def"):
        writer.append(words)
    (first, first_raw), (second, second_raw) = written
    assert logs.decode_head(SealedObject(second_raw).segment(family.key(family.epoch), 0)).parent == first
    payloads = [encode([None, {"words": [ref.name, ref.epoch]}, None]) for ref in (first, second)]
    whole = taken_over(mallory, (first.name,), payloads[0])
    lying = replace(taken_over(mallory, (second.name,), payloads[1])[1], payload=payloads[0])
    mallory.says(Statements(session=mallory.session, entries=(*whole, lying), objects=(first_raw,)))
    assert "another content" in mallory.cut and not laptop.store.objects.has(first.name)
    mallory.alice.link("laptop", "desktop")
    standing_on_it = taken_over(mallory, (second.name,), payloads[1])
    mallory.says(Statements(session=mallory.session, entries=standing_on_it, objects=(second_raw,)))
    head = lineage.decode(standing_on_it[1].raw).id
    assert head not in mallory.told_whole() and head not in laptop.store.checkpoint_ids(mallory.session)
    assert first.name in laptop.engine.machine.wants, "it is asked for"
    assert not Check(laptop.store).run().findings


@pytest.mark.parametrize("number", range(4))
def test_wrong_recipes_and_keys_are_refused(mallory: Mallory, number: int) -> None:
    family = mallory.alice["laptop"].store.family(mallory.session)
    messages: list[Message] = [
        Rebuild(name=ObjectName(bytes(32)), session=mallory.session, recipe=b"short"),
        Rebuild(name=ObjectName(bytes(32)), session=mallory.session, recipe=family.epoch + os.urandom(400)),
        Keys(session=mallory.session, family=family.id, epoch=family.epoch, wrapped=(b"no key",)),
        Keys(session=mallory.session, family=family.id, epoch=family.epoch, wrapped=()),
    ]
    mallory.says(messages[number])
    assert mallory.cut
    mallory.unharmed()
    now = mallory.alice["laptop"].store.family(mallory.session)
    assert (now.page_key, now.epochs, now.epoch) == (family.page_key, family.epochs, family.epoch)


def test_endless_asking_ends_the_link(mallory: Mallory) -> None:
    name = mallory.alice["laptop"].store.checkpoint(mallory.alice["laptop"].store.checkpoint_ids(mallory.session)[-1])
    for _ in range(40):
        mallory.says(Want(session=mallory.session, objects=name.objects))
        if mallory.cut:
            break
    assert "again and again" in mallory.cut
    mallory.unharmed()


def test_a_flood_of_questions_ends_the_link(mallory: Mallory) -> None:
    for _ in range(12_000):
        mallory.says(Ask(session=mallory.session))
        if mallory.cut:
            break
    assert "without end" in mallory.cut
    mallory.unharmed()


def test_a_million_tiny_records_are_bounded_and_the_session_is_read_as_before(mallory: Mallory) -> None:
    """They are well signed and follow one another: it may say them, and not without end."""
    after: StatementId | None = None
    kept = 0
    for batch in range(600):
        entries = []
        for number in range(200):
            body = IntentBody(
                session=mallory.session,
                by=mallory.me.id,
                after=after,
                seq=batch * 200 + number,
                incarnation=Incarnation(bytes(16)),
                at_ms=0,
                token=mallory.token(),
                position=0,
                op="tool",
                request=Sha256(bytes(32)),
            )
            signed = lineage.sign(body, mallory.me.seed)
            after = signed.id
            entries.append(Entry(raw=signed.raw))
        mallory.alice["laptop"].engine.machine.peers[mallory.me.id].unbacked += 0 if batch else 99_000
        mallory.says(Statements(session=mallory.session, entries=tuple(entries)))
        if mallory.cut:
            break
        kept += 200
    assert "without end" in mallory.cut and kept <= 1000
    laptop = mallory.alice["laptop"]
    assert laptop.store.checkpoint_ids(mallory.session) == mallory.before[1]
    assert not Check(laptop.store).run().findings


def test_nothing_but_a_cut_comes_of_damaged_messages(tmp_path: Path) -> None:
    dice = random.Random(5)
    with person(tmp_path, "laptop", "desktop") as alice:
        session = alice.create("laptop")
        work = Work(alice, "laptop", session, Memory(20))
        work.step()
        alice.link("laptop", "desktop")
        assert alice.pump()
        real = [raw for raw in alice.seen if len(raw) < 100_000]
        for number in range(400):
            alice.link("laptop", "desktop")
            raw = mutated_bytes(dice.choice(real), dice)
            for name, source in (("laptop", "desktop"), ("desktop", "laptop")):
                one = alice[name]
                alice._do(one, one.engine.heard(alice[source].id, raw))
            if number % 50 == 0:
                alice.cut("laptop")
        alice.cut("laptop")
        alice.link("laptop", "desktop")
        assert alice.pump()
        made = work.step()
        assert alice.pump()
        assert made in alice["desktop"].store.checkpoint_ids(session), "and honest work goes on"
        for name in ("laptop", "desktop"):
            assert not Check(alice[name].store).run().findings


def test_a_begin_past_the_end_sends_nothing(mallory: Mallory) -> None:
    laptop = mallory.alice["laptop"]
    checkpoint = laptop.store.checkpoint(laptop.store.checkpoint_ids(mallory.session)[-1])
    mallory.says(Want(session=mallory.session, objects=checkpoint.objects[:1]))
    mallory.says(Begin(what=OBJECT, name=checkpoint.objects[0], offset=1 << 25))
    assert laptop.engine.next_part(mallory.me.id) is None and not mallory.cut


@pytest.mark.parametrize("lacks", ["nothing", "its own ids", "its program"])
def test_content_whose_ids_are_not_its_own_makes_no_checkpoint_and_honest_content_does(
    mallory: Mallory, lacks: str
) -> None:
    honest = lacks == "nothing"
    family = mallory.alice["laptop"].store.family(mallory.session)
    chunk = content_id(family.page_key, b"chunk", b"abc")
    right = content_id(family.page_key, b"chunks", chunk)
    head = LogHead(
        parent=None,
        refs=[],
        given_objects=[],
        given_slots=[],
        given_lengths=[],
        lengths=[3],
        chunks_id=PageId(bytes(32)) if lacks == "its own ids" else right,
    )
    raw = seal_object(family.key(family.epoch), os.urandom(24), [encode_head(head), compress(b"abc")])
    module = os.urandom(32) if lacks == "its program" else None
    payload = encode([None, {"words": [object_name(raw), family.epoch]}, module])
    entries = taken_over(mallory, (object_name(raw),), payload)
    mallory.says(Statements(session=mallory.session, entries=entries, objects=(raw,)))
    laptop = mallory.alice["laptop"]
    assert not mallory.cut
    assert (laptop.store.checkpoint_ids(mallory.session) != mallory.before[1]) == honest
    assert (lineage.decode(entries[1].raw).id in mallory.told_whole()) == honest
    assert not Check(laptop.store).run().findings


def test_a_module_that_is_another_one_costs_who_gave_it_the_link_whoever_has_it_kept(mallory: Mallory) -> None:
    """It is kept with what else came, which may be when time passed, or when another peer gave the rest."""
    laptop = mallory.alice["laptop"]
    family = laptop.store.family(mallory.session)
    module, content = Sha256(os.urandom(32)), compress(b"another program")
    sealed = family.epoch + seal_object(family.key(family.epoch), os.urandom(24), [content])
    objects = [(object_name(os.urandom(100)), False)]
    laptop.engine.machine.wants.add(mallory.session, [(module, True), *objects], mallory.me.id)
    mallory.alice.do("laptop", lambda engine: engine.ticked())
    assert laptop.engine.machine.wants.asked(module) == mallory.me.id
    mallory.says(Part(what=MODULE, name=module, offset=0, total=len(sealed), content=sealed))
    assert not mallory.cut, "it waits for what else comes"
    mallory.alice.do("laptop", lambda engine: engine.ticked())
    assert "not the one" in mallory.cut
    assert module not in laptop.store.modules.all() and module in laptop.engine.machine.wants
    mallory.unharmed()


def test_what_one_peer_said_before_its_keys_came_is_not_laid_to_who_gives_the_keys(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop", "tower") as alice:
        session = alice.create("tower")
        Work(alice, "tower", session, Memory(20)).step()
        alice.link("tower", "laptop")
        told: list[bytes] = []
        keys: list[bytes] = []
        while alice.wires:
            source, target, raw = alice.wires.popleft()
            message = decode_message(raw)
            if isinstance(message, Keys | Statements):
                (keys if isinstance(message, Keys) else told).append(raw)
            else:
                alice.do(alice.devices[target].owned.name, lambda one: one.heard(source, raw))  # noqa: B023
        alice.link("desktop", "laptop")
        alice.wires.clear()
        laptop = alice["laptop"]
        said = decode_message(told[0])
        assert keys and isinstance(said, Statements)
        wrong = tuple(replace(one, payload=b"no payload") if one.payload else one for one in said.entries)
        assert wrong != said.entries
        stashed = encode_message(replace(said, entries=wrong, objects=()))
        assert not laptop.engine.heard(alice["desktop"].id, stashed).cuts, "its keys are not here"
        out = laptop.engine.heard(alice["tower"].id, keys[0])
        assert [peer for peer, _ in out.cuts] == [alice["desktop"].id]
        assert alice["tower"].id in laptop.engine.machine.peers
