"""Documents converge however edits and messages fall, and equal ones have nothing to say."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hhd.registry import registry as module
from hhd.registry import sync
from hhd.registry.registry import Registry
from hhd.registry.sync import Peer
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId

from .memory import Memory, registry

SESSIONS = [SessionId(StatementId(hashlib.sha256(b"%d" % number).digest())) for number in range(4)]
HEADS = [CheckpointId(StatementId(hashlib.sha256(b"head %d" % number).digest())) for number in range(3)]
NAMES = ("laptop", "desktop", "phone")
DEVICES = [DeviceId(Memory(name).device) for name in NAMES]


@dataclass
class Link:
    """A link of two devices: messages on their way in each direction."""

    ends: tuple[int, int]
    peers: dict[int, Peer] = field(default_factory=dict)
    waiting: dict[int, list[bytes]] = field(default_factory=dict)


@dataclass
class World:
    """Three devices of one person."""

    shelves: list[Memory] = field(default_factory=lambda: [Memory(name) for name in NAMES])
    registries: list[Registry] = field(default_factory=list)
    links: dict[tuple[int, int], Link] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registries = [Registry(shelf) for shelf in self.shelves]

    def link(self, one: int, other: int) -> Link:
        ends = (min(one, other), max(one, other))
        if ends not in self.links:
            link = self.links[ends] = Link(ends)
            for end, far in (ends, ends[::-1]):
                link.peers[end] = Peer.of(sync.summary(self.registries[far]))
                link.waiting[end] = []
        return self.links[ends]

    def say(self, one: int, other: int) -> bool:
        """Let one end say its next message; it is on its way until it is heard."""
        raw = sync.message_for(self.registries[one], self.link(one, other).peers[one])
        if raw is not None:
            self.link(one, other).waiting[other].append(raw)
        return raw is not None

    def hear(self, one: int, other: int) -> bool:
        """Let one end hear the next message of the other."""
        link = self.link(one, other)
        if not link.waiting[one]:
            return False
        sync.receive(self.registries[one], link.peers[one], link.waiting[one].pop(0))
        return True

    def settle(self) -> int:
        """Let all talk until nobody has anything to say; return how many messages that took."""
        count = 0
        for _ in range(60):
            said = 0
            for one, other in ((0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)):
                said += self.say(one, other)
                while self.hear(other, one):
                    pass
                while self.hear(one, other):
                    pass
            count += said
            if not said:
                return count
        raise AssertionError("the devices never stop talking")

    def restart(self, one: int) -> None:
        """End a process and start another: its links are gone, its document is read from the shelf."""
        self.registries[one] = Registry(self.shelves[one])
        self.links = {ends: link for ends, link in self.links.items() if one not in ends}

    def edit(self, device: int, what: int, number: int, value: int) -> None:
        one, session = self.registries[device], SESSIONS[number % len(SESSIONS)]
        if what == 0:
            one.rename(session, f"title {value}" if value else None)
        elif what == 1:
            one.archive(session, bool(value % 2))
        elif what == 2:
            one.pick(session, HEADS[value % 3] if value else None)
        elif what == 3:
            one.name_device(DEVICES[number % 3], f"name {value % 2}")
        elif what == 4:
            one.wish(session, DEVICES[value % 3], (True, False, None)[value % 3])
        else:
            one.belongs(session, DEVICES[value % 3] if value else None)

    def assert_equal(self) -> None:
        states = [one.refresh().heads() for one in self.registries]
        assert states[0] == states[1] == states[2]
        assert len({one.questions() for one in self.registries}) == 1
        for shelf in self.shelves:
            shown = shelf.shown
            assert {key: value for key, value in shown.sessions.items() if value != module.SessionFacts()} == {
                key: value for key, value in self.shelves[0].shown.sessions.items() if value != module.SessionFacts()
            }
            assert shown.names == self.shelves[0].shown.names
            assert shown.questions == len(self.registries[0].questions())
            assert shelf.shown_mark == (shelf.marked or b"")


DEVICE = st.integers(0, 2)
STEPS = st.lists(
    st.tuples(st.just("edit"), DEVICE, st.integers(0, 5), st.integers(0, 3), st.integers(0, 5))
    | st.tuples(st.sampled_from(["say", "hear"]), DEVICE, DEVICE)
    | st.tuples(st.sampled_from(["settle", "restart"]), DEVICE),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.sampled_from([3, 8, 2000]), st.sampled_from([1, 4, 128]))
@example([("edit", 0, 0, 0, 1), ("edit", 0, 0, 0, 0), ("edit", 1, 0, 0, 1), ("settle", 0), ("edit", 0, 0, 0, 0)], 3, 1)
@example([("edit", 0, 0, 0, 1), ("edit", 1, 0, 0, 2), ("edit", 1, 0, 0, 3), ("settle", 0), ("edit", 2, 0, 0, 4)], 3, 1)
def test_any_interleaving_of_edits_and_messages_converges(
    steps: list[tuple[str | int, ...]], history: int, pieces: int
) -> None:
    _converges(steps, history, pieces)


@pytest.mark.long
@settings(deadline=None, max_examples=500)
@given(STEPS, st.sampled_from([3, 8, 30]), st.sampled_from([1, 4]))
def test_many_interleavings_converge(steps: list[tuple[str | int, ...]], history: int, pieces: int) -> None:
    _converges(steps, history, pieces)


def _converges(steps: list[tuple[str | int, ...]], history: int, pieces: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HISTORY_MIN", history)
        patch.setattr(module, "PIECES_MAX", pieces)
        world = World()
        for verb, *numbers in steps:
            first, *rest = (int(number) for number in numbers)
            if verb == "edit":
                world.edit(first, *rest)
            elif verb == "restart":
                world.restart(first)
            elif verb == "settle":
                world.settle()
            elif first != rest[0]:
                (world.say if verb == "say" else world.hear)(first, rest[0])
        world.settle()
        world.assert_equal()
        for one in range(3):
            world.restart(one)
        assert world.settle() == 0
        world.assert_equal()
        assert not any(one.notice for one in world.registries)


def test_equal_documents_have_nothing_to_say_and_others_have() -> None:
    world = World()
    assert world.settle() == 0
    world.registries[0].rename(SESSIONS[0], "news")
    assert world.settle() > 0
    assert world.settle() == 0
    for one in range(3):
        world.restart(one)
    assert world.settle() == 0
    assert {one.title(SESSIONS[0]) for one in world.registries} == {"news"}


def test_who_was_told_nothing_yet_says_once_what_it_has() -> None:
    (one, _), (other, _) = registry("laptop"), registry("desktop")
    one.rename(SESSIONS[0], "news")
    here, there = Peer(), Peer()
    first = sync.message_for(one, here)
    assert first is not None and len(first) < 200 and sync.message_for(one, here) is None
    assert not sync.receive(other, there, first)
    for _ in range(6):
        for speaker, listener, peer, far in ((other, one, there, here), (one, other, here, there)):
            while (raw := sync.message_for(speaker, peer)) is not None:
                sync.receive(listener, far, raw)
    assert other.title(SESSIONS[0]) == "news"


def test_titles_given_apart_are_a_question_on_both_devices_until_either_answers() -> None:
    world = World()
    assert not world.registries[0].rename(SESSIONS[0], "one").questions
    assert not world.registries[1].rename(SESSIONS[0], "two").questions
    world.settle()
    for one in world.registries:
        (question,) = one.questions()
        assert question.what == "title" and [claim.text for claim in question.claims] == ["one", "two"]
        assert [claim.device for claim in question.claims] == [DEVICES[0][:5], DEVICES[1][:5]]
        assert one.title(SESSIONS[0]) == "two" and one.facts(SESSIONS[0]).asked == 1
    told = world.registries[2].rename(SESSIONS[0], "one")
    assert not told.questions and (told.before, told.after) == ("two", "one")
    world.settle()
    assert all(not one.questions() and one.title(SESSIONS[0]) == "one" for one in world.registries)


def test_the_same_title_given_apart_is_no_question_nor_is_one_given_after_the_other() -> None:
    world = World()
    for one in world.registries:
        one.rename(SESSIONS[0], "the same")
    world.registries[0].rename(SESSIONS[1], "first")
    world.settle()
    world.registries[1].rename(SESSIONS[1], "second")
    world.settle()
    assert not world.registries[2].questions() and world.registries[0].title(SESSIONS[1]) == "second"


def test_two_devices_of_one_name_are_a_question() -> None:
    world = World()
    assert not world.registries[0].name_device(DEVICES[0], "work").questions
    assert not world.registries[1].name_device(DEVICES[1], "work").questions
    world.settle()
    told = world.registries[0].name_device(DEVICES[2], "phone")
    assert not told.questions
    (question,) = world.registries[2].questions()
    assert question.what == "same name" and len(question.subjects) == 2 and question.claims[0].text == "work"
    told = world.registries[2].name_device(DEVICES[2], "work")
    assert [one.what for one in told.questions] == ["same name"] and len(told.questions[0].subjects) == 3
    world.registries[1].name_device(DEVICES[1], "home")
    world.registries[2].name_device(DEVICES[2], "phone")
    world.settle()
    assert not world.registries[0].questions()


def test_a_device_that_was_away_while_history_was_given_up_loses_nothing_and_brings_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HISTORY_MIN", 10)
    world = World()
    a, b, _ = world.registries
    for number, session in enumerate(SESSIONS):
        a.rename(session, f"old {number}")
    world.settle()
    b.rename(SESSIONS[0], "by the one that was away")
    b.archive(SESSIONS[1], True)
    for turn in range(30):
        a.rename(SESSIONS[2], f"new {turn}")
        a.rename(SESSIONS[3], None)
    assert a.refresh().number > b.refresh().number
    world.settle()
    for one in world.registries:
        assert [one.title(session) for session in SESSIONS] == ["by the one that was away", "old 1", "new 29", None]
        assert one.facts(SESSIONS[1]).archived and not one.questions()
    world.assert_equal()


def test_a_copy_is_taken_in_whole_and_again_changes_nothing() -> None:
    (one, _), (other, _) = registry("laptop"), registry("desktop")
    one.rename(SESSIONS[0], "here")
    other.rename(SESSIONS[1], "there")
    raw = sync.copy(one)
    assert sync.merge_from(other, raw) and not sync.merge_from(other, raw)
    assert other.title(SESSIONS[0]) == "here" and other.title(SESSIONS[1]) == "there"
    assert one.title(SESSIONS[1]) is None


def test_what_is_no_message_is_refused_in_one_sentence() -> None:
    one, shelf = registry()
    one.rename(SESSIONS[0], "title")
    pieces = list(shelf.pieces)
    good = sync.summary(one)
    for raw in (b"", b"\xff", good[:-1], good + b"x",
                encode([1, -1, bytes(32), [], None]), encode([1, 0, b"", [], None]),
                encode([1, 0, bytes(32), [b"x"], None]), encode([1, 0, bytes(32), [], "x"]),
                encode([1, 2**40, bytes(32), [], [{}, []]]), encode([1, 0, bytes(32), [], [{"x": 1}, []]]),
                encode([1, 0, bytes(32), [], [{}, ["x"]]]), encode([1, 1, bytes(32), [], [{}, []]])):  # fmt: skip
        with pytest.raises(FormatError):
            sync.receive(one, Peer(), raw)
    with pytest.raises(NewerVersionError):
        sync.receive(one, Peer(), encode([2, "anything"]))
    with pytest.raises(FormatError):
        sync.merge_from(one, good)
    with pytest.raises(FormatError):
        Peer.of(sync.copy(one))
    assert shelf.pieces == pieces and one.title(SESSIONS[0]) == "title"
