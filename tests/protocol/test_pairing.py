"""Two devices meet: who learns what, and what stops it (`protocol/spec/pairing.md`)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.meeting import NOW, ROOT, agree, card, carry, device, end, key, two

from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import (
    GROUP_RECORDS_MAX,
    PAIRING_ADDRESSES_MAX,
    PAIRING_CODE_MS,
    PAIRING_LOCKED_MS,
    PAIRING_LOCKED_MS_MAX,
    PAIRING_MS_MAX,
)
from hhd_protocol.pairing import Failures, Fault, Refusal, Side, Window, codes
from hhd_protocol.pairing.cards import Card, plan
from hhd_protocol.pairing.machine import (
    Answered,
    Closed,
    Failed,
    Introduce,
    Introduced,
    Join,
    Joined,
    Passed,
    Received,
    Take,
)
from hhd_protocol.pairing.messages import (
    Done,
    Hello,
    Opening,
    Records,
    batches,
    decode_message,
    decode_words,
    encode_message,
)
from hhd_protocol.pairing.window import Closed as Shut
from hhd_protocol.pairing.words import WORDS, words_of
from hhd_protocol.statements import Role

# The whole of it


def test_two_devices_that_share_a_code_become_members_of_one_group() -> None:
    laptop, desktop = two()
    carry(laptop, desktop)
    assert laptop.ask is not None and desktop.ask is not None
    assert laptop.ask.words == desktop.ask.words and len(laptop.ask.words) == 3
    assert laptop.ask.other.device == device("desktop") and desktop.ask.other.name == "laptop"
    agree(laptop, desktop)
    carry(laptop, desktop)
    introduce = laptop.last(Introduce)
    assert isinstance(introduce, Introduce) and introduce.public == key("desktop")
    records = tuple(bytes([n]) * 100_000 for n in range(5))
    laptop.tell(Introduced(root=ROOT, records=records))
    carry(laptop, desktop)
    join = desktop.last(Join)
    assert isinstance(join, Join) and join.records == records and join.root == ROOT
    assert not desktop.paired and not laptop.paired
    desktop.tell(Joined(root=ROOT, records=(*records, b"joined")))
    carry(laptop, desktop)
    take = laptop.last(Take)
    assert isinstance(take, Take) and take.records[-1] == b"joined"
    assert laptop.paired and desktop.paired
    assert laptop.machine.deadline() is None is desktop.machine.deadline()


def test_neither_side_does_anything_before_both_persons_agreed() -> None:
    for first in (0, 1):
        ends = two()
        carry(*ends)
        ends[first].tell(Answered(yes=True))
        carry(*ends)
        assert all(one.last(Introduce) is None is one.last(Join) for one in ends)
        ends[1 - first].tell(Answered(yes=False))
        carry(*ends)
        assert ends[1 - first].why is Fault.DECLINED and ends[first].why is Fault.DECLINED_THERE


# Who guesses wrongly, or sits in between


def test_a_wrong_code_tells_nothing_and_is_noticed_by_who_shows() -> None:
    laptop, _ = two()
    guesser = end(Side.GUESSER, "desktop", "laptop", code="another")
    carry(laptop, guesser)
    assert laptop.why is Fault.WRONG_CODE and laptop.ask is None is guesser.ask
    assert len(laptop.said) == 1, "its half of the key exchange, which is random to who does not know the code"
    assert b"laptop" not in laptop.said[0] and key("laptop") not in laptop.said[0]
    assert guesser.tell(Closed()) and guesser.why is Fault.WRONG_CODE


def test_a_second_message_of_a_guess_is_no_second_guess() -> None:
    laptop, _ = two()
    wrong = end(Side.GUESSER, "desktop", "laptop", code="another")
    carry(laptop, wrong)
    right = end(Side.GUESSER, "desktop", "laptop")
    for raw in right.said:
        assert laptop.tell(Received(raw=raw)) == []
    assert laptop.ask is None


def test_who_sits_in_between_without_the_code_gets_nowhere() -> None:
    """It answers each side with its own key exchange; both sides fail, and neither told its name."""
    laptop = end(Side.SHOWER, "laptop", "thief", mine=card("laptop", full=True))
    desktop = end(Side.GUESSER, "desktop", "thief")
    to_laptop = end(Side.GUESSER, "thief", "laptop", code="?")
    to_desktop = end(Side.SHOWER, "thief", "desktop", code="?", mine=card("thief", full=True))
    carry(laptop, to_laptop)
    carry(to_desktop, desktop)
    assert laptop.why is Fault.WRONG_CODE and laptop.ask is None is desktop.ask
    assert to_desktop.why is Fault.WRONG_CODE


def test_who_passes_messages_on_between_two_channels_of_its_own_is_caught() -> None:
    """The channel of each side leads to the thief; the key rests on who the channel leads to."""
    laptop = end(Side.SHOWER, "laptop", "thief", mine=card("laptop", full=True))
    desktop = end(Side.GUESSER, "desktop", "thief")
    carry(laptop, desktop)
    assert laptop.why is Fault.WRONG_CODE and laptop.ask is None is desktop.ask
    honest = two()
    carry(*honest)
    assert honest[0].ask is not None


def proven(*, mine: Card, other: str = "desktop", theirs: Card | None = None) -> tuple[bytes, tuple[str, ...]]:
    """The key and the words of a laptop that paired so, always with the same code, halves of a key and nonces."""
    laptop = end(Side.SHOWER, "laptop", other, mine=mine)
    carry(laptop, end(Side.GUESSER, other, "laptop", mine=theirs))
    assert laptop.ask is not None
    return laptop.machine._key, laptop.ask.words


OTHERWISE: dict[str, object] = {
    "name": "lapdog",
    "role": Role.STORE_ONLY,
    "root": ROOT,
    "others": 1,
    "full": False,
    "sessions": True,
}


@pytest.mark.parametrize("field", OTHERWISE)
@pytest.mark.parametrize("side", list(Side))
def test_the_key_and_the_words_rest_on_all_that_either_device_says_of_itself(side: Side, field: str) -> None:
    """Names and the role among it: no two pairings that differ in one of them have the same proof."""
    laptop, desktop = card("laptop", full=True), card("desktop", full=True)
    before = proven(mine=laptop, theirs=desktop)
    assert before == proven(mine=laptop, theirs=desktop)
    if side is Side.SHOWER:
        after = proven(mine=replace(laptop, **{field: OTHERWISE[field]}), theirs=desktop)  # type: ignore[arg-type]
    else:
        after = proven(mine=laptop, theirs=replace(desktop, **{field: OTHERWISE[field]}))  # type: ignore[arg-type]
    assert before[0] != after[0] and before[1] != after[1]


@pytest.mark.parametrize("side", list(Side))
def test_what_was_committed_to_is_part_of_the_key(side: Side) -> None:
    """Who changes only the commitment on its way is found out by the key, before anything is opened."""
    laptop, desktop = two()

    def change(raw: bytes) -> list[bytes]:
        message = decode_message(raw)
        if isinstance(message, Hello) and (message.pake[:1] == b"B") is (side is Side.SHOWER):
            return [encode_message(replace(message, commitment=message.commitment[::-1]))]
        return [raw]

    carry(laptop, desktop, change)
    assert laptop.why is Fault.WRONG_CODE and laptop.ask is None is desktop.ask


def test_the_proof_of_the_key_is_of_the_box_that_comes_with_it() -> None:
    """It is looked at before the box is: who changes the box is found out by it, as who does not know the code is."""
    laptop, desktop = two()

    def change(raw: bytes) -> list[bytes]:
        message = decode_message(raw)
        if isinstance(message, Opening):
            message = replace(message, box=message.box[:-1] + bytes([message.box[-1] ^ 1]))
        return [encode_message(message)]

    carry(laptop, desktop, change)
    assert laptop.why is Fault.WRONG_CODE and laptop.ask is None is desktop.ask


def test_another_binding_of_the_channel_is_caught() -> None:
    laptop, _ = two(channel=b"one")
    _, desktop = two(channel=b"other")
    carry(laptop, desktop)
    assert laptop.why is Fault.WRONG_CODE


def test_who_knows_the_code_and_sits_in_between_shows_other_words() -> None:
    """It can only hope that two hashes of 24 bits agree: what it says is committed to before it knows the nonces."""
    laptop = end(Side.SHOWER, "laptop", "thief", mine=card("laptop", full=True))
    desktop = end(Side.GUESSER, "desktop", "thief")
    to_laptop = end(Side.GUESSER, "thief", "laptop")
    to_desktop = end(Side.SHOWER, "thief", "desktop", mine=card("thief", full=True))
    carry(laptop, to_laptop)
    carry(to_desktop, desktop)
    assert laptop.ask is not None and desktop.ask is not None
    assert laptop.ask.words != desktop.ask.words
    assert laptop.ask.other.device == device("thief"), "and its own key is what is shown"


@pytest.mark.parametrize("side", list(Side))
def test_the_words_rest_on_everything_that_was_said_and_on_what_the_channel_proved(side: Side) -> None:
    """Whatever of it somebody in between could choose freely, it could search for words that agree."""
    laptop, desktop = two()
    carry(laptop, desktop)
    machine = laptop.machine
    shown = machine._words()
    assert laptop.ask is not None and shown == laptop.ask.words
    for said in (machine._hellos, machine._openings):
        before, said[side] = said[side], bytes(len(said[side]))
        assert machine._words() != shown
        said[side] = before
    before, machine._binding = machine._binding, b""
    assert machine._words() != shown
    machine._binding = before
    assert machine._words() == shown


def test_a_count_of_records_that_is_not_theirs_is_refused() -> None:
    for count in (0, 2):
        laptop, desktop = two()
        carry(laptop, desktop)
        agree(laptop, desktop)
        carry(laptop, desktop)
        said = [laptop.machine._say(Records(raws=(b"r",))), laptop.machine._say(Done(root=ROOT, count=count))]
        for one in said:
            desktop.tell(Received(raw=one.raw))
        assert desktop.why is Fault.RULES and desktop.last(Join) is None


def test_a_card_of_another_device_than_the_channel_leads_to_is_refused() -> None:
    laptop, _ = two()
    liar = end(Side.GUESSER, "desktop", "laptop")
    liar.machine._card = card("phone")
    liar.machine._opening = encode([b"n" * 32, card("phone").value()])
    liar.said.clear()
    liar.put(liar.machine.begin())  # Its binding still says desktop: only the card lies.
    carry(laptop, liar)
    assert laptop.why is Fault.OTHER_KEY and laptop.ask is None


def test_who_opens_something_else_than_it_committed_to_is_refused() -> None:
    laptop, desktop = two()
    desktop.machine._opening = encode([b"n" * 32, card("desktop", role=Role.CONTROLLER).value()])
    carry(laptop, desktop)
    assert laptop.why is Fault.RULES and laptop.ask is None


def test_every_changed_message_is_caught_before_anybody_is_asked_or_anything_signed() -> None:
    for place, at in itertools.product(range(4), (0, 3, 12, 40, 60, -1)):
        laptop, desktop = two()
        count = 0

        def change(raw: bytes, place: int = place, at: int = at) -> list[bytes]:
            nonlocal count
            count += 1
            changed = bytearray(raw)
            changed[at if -len(raw) <= at < len(raw) else 0] ^= 4
            return [bytes(changed)] if count == place + 1 else [raw]

        carry(laptop, desktop, change)
        assert laptop.why is not None or desktop.why is not None, (place, at)
        assert laptop.ask is None or desktop.ask is None


@pytest.mark.parametrize("change", [lambda raw: [raw, raw], lambda raw: []])
def test_messages_that_come_twice_or_not_at_all_make_no_pair(change: object) -> None:
    laptop, desktop = two()
    carry(laptop, desktop, change)  # type: ignore[arg-type]
    agree(laptop, desktop)
    carry(laptop, desktop)
    assert laptop.last(Introduce) is None and desktop.last(Join) is None


def test_a_recorded_pairing_means_nothing_to_another_one() -> None:
    """All that the desktop said, played to the laptop, which shows the very same code again."""
    laptop, desktop = two()
    carry(laptop, desktop)
    agree(laptop, desktop)
    again = end(Side.SHOWER, "laptop", "desktop", mine=card("laptop", full=True), salt=b"again")
    for raw in desktop.said:
        again.tell(Received(raw=raw))
    assert again.why is Fault.WRONG_CODE and again.ask is None
    fresh = end(Side.SHOWER, "laptop", "desktop", mine=card("laptop", full=True), salt=b"again")
    carry(fresh, end(Side.GUESSER, "desktop", "laptop", salt=b"again"))
    assert fresh.ask is not None


def test_what_one_side_said_is_not_taken_from_the_other() -> None:
    laptop, _ = two()
    _, desktop = two()
    reflected = list(desktop.said)
    for raw in reflected:
        desktop.tell(Received(raw=raw))
    assert desktop.why is Fault.RULES and laptop.why is None


# How it ends early


def test_after_three_minutes_it_is_over() -> None:
    laptop, desktop = two()
    carry(laptop, desktop)
    deadline = laptop.machine.deadline()
    assert deadline == NOW + PAIRING_MS_MAX
    assert laptop.tell(Passed(), deadline - 1) == []
    laptop.tell(Answered(yes=True), deadline)
    assert laptop.why is Fault.LATE and laptop.machine.deadline() is None


def test_a_device_that_cannot_do_its_part_says_so() -> None:
    laptop, desktop = two()
    carry(laptop, desktop)
    agree(laptop, desktop)
    carry(laptop, desktop)
    laptop.tell(Failed())
    carry(laptop, desktop)
    assert laptop.why is Fault.FAILED_HERE and desktop.why is Fault.DECLINED_THERE


def test_where_the_channel_ends_after_the_introduction_that_is_said() -> None:
    laptop, desktop = two()
    carry(laptop, desktop)
    agree(laptop, desktop)
    carry(laptop, desktop)
    laptop.tell(Introduced(root=ROOT, records=(b"r",)))
    (ended,) = laptop.tell(Closed())
    assert ended.introduced and ended.why is Fault.CLOSED  # type: ignore[union-attr]


def test_more_records_than_a_group_has_are_refused() -> None:
    laptop, desktop = two()
    carry(laptop, desktop)
    agree(laptop, desktop)
    carry(laptop, desktop)
    laptop.tell(Introduced(root=ROOT, records=(b"",) * (GROUP_RECORDS_MAX + 1)))
    carry(laptop, desktop)
    assert desktop.why is Fault.RULES and desktop.last(Join) is None


# Who takes in whom


def test_who_has_other_devices_takes_in_who_has_none() -> None:
    alone, grouped = card("laptop"), card("desktop", root=ROOT, others=2, full=True)
    for shower, guesser, introducer in ((grouped, alone, Side.SHOWER), (alone, grouped, Side.GUESSER)):
        found = plan(shower, guesser)
        assert not isinstance(found, Refusal) and found.introducer is introducer
        assert found.joiner == alone


def test_two_groups_are_not_made_one() -> None:
    one = card("laptop", root=ROOT, others=1, full=True)
    other = card("desktop", root=b"q" * 32, others=1, full=True)
    assert plan(one, other) is Refusal.BOTH_GROUPED
    assert not isinstance(plan(one, card("desktop", root=b"q" * 32, full=True)), Refusal), "nobody else is in it"


def test_who_is_not_full_takes_nobody_in() -> None:
    phone = card("phone", root=ROOT, others=1)
    assert plan(phone, card("desktop")) is Refusal.NOT_FULL
    assert plan(phone, card("phone")) is Refusal.SAME


def test_a_device_with_sessions_joins_as_full_only() -> None:
    laptop = card("laptop", full=True, role=Role.STORE_ONLY)
    assert plan(laptop, card("desktop", sessions=True)) is Refusal.OWN_SESSIONS
    found = plan(laptop, card("desktop"))
    assert not isinstance(found, Refusal) and found.role is Role.STORE_ONLY


def test_both_find_out_that_they_may_not() -> None:
    laptop = end(Side.SHOWER, "laptop", "desktop", mine=card("laptop", full=True, role=Role.CONTROLLER))
    desktop = end(Side.GUESSER, "desktop", "laptop", mine=card("desktop", sessions=True))
    carry(laptop, desktop)
    assert laptop.why is Refusal.OWN_SESSIONS is desktop.why


# Codes, words, addresses


def test_a_code_reads_back_however_it_was_typed() -> None:
    code = codes.code_of(bytes(range(16)))
    assert len(code) == 8 and codes.parse(f" {codes.shown(code)} ") == code == codes.parse(code)
    assert len({codes.code_of(bytes([n]) * 16) for n in range(256)}) == 256


def test_every_slip_of_a_finger_is_found_without_a_guess() -> None:
    for n in range(20):
        code = codes.code_of(bytes([n, *range(15)]))
        slips = [code[:at] + digit + code[at + 1 :] for at in range(8) for digit in "0123456789" if digit != code[at]]
        slips += [code[:at] + code[at + 1] + code[at] + code[at + 2 :] for at in range(7) if code[at] != code[at + 1]]
        for slip in (*slips, code[:-1], code + "0", "", "abcdefgh", "١٢٣٤٥٦٧٨", "1" * 1000):
            with pytest.raises(FormatError):
                codes.parse(slip)


def test_the_words_are_256_that_begin_differently() -> None:
    assert len(set(WORDS)) == 256 == len({word[:4] for word in WORDS})
    assert all(word.isalpha() and word.islower() and 3 <= len(word) <= 9 for word in WORDS)
    assert words_of(b"\x00\xff") == ("acid", "tiger")


def test_a_code_is_guessed_once_and_lives_for_minutes() -> None:
    window = Window.open("12345678", NOW)
    assert window.closed(NOW + PAIRING_CODE_MS - 1) is None
    assert window.closed(NOW + PAIRING_CODE_MS) is Shut.EXPIRED
    assert window.taken().closed(NOW) is Shut.USED


def test_an_address_that_failed_waits_twice_as_long_each_time() -> None:
    failures = Failures().failed("h", NOW)
    assert failures.locked("h", NOW + PAIRING_LOCKED_MS - 1) is Shut.LOCKED
    assert failures.locked("h", NOW + PAIRING_LOCKED_MS) is None is failures.locked("other", NOW)
    failures = failures.failed("h", NOW)
    assert failures.locked("h", NOW + 2 * PAIRING_LOCKED_MS - 1) is Shut.LOCKED
    for _ in range(100):
        failures = failures.failed("h", NOW)
    assert failures.locked("h", NOW + PAIRING_LOCKED_MS_MAX) is None
    assert failures.succeeded("h").locked("h", NOW) is None


def test_addresses_that_failed_are_remembered_within_a_bound_the_latest_ones() -> None:
    failures = Failures()
    for n in range(PAIRING_ADDRESSES_MAX + 10):
        failures = failures.failed(f"h{n}", NOW)
    assert len(failures.of) == PAIRING_ADDRESSES_MAX
    assert failures.locked("h0", NOW) is None and failures.locked(f"h{PAIRING_ADDRESSES_MAX}", NOW) is Shut.LOCKED


# Nonsense

_VALID = [raw for one in (two(),) for _ in [carry(*one)] for peer in one for raw in peer.said]


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200), st.tuples(st.sampled_from(_VALID), st.integers(0, 10_000), st.binary(max_size=3))
    )
)
def test_nothing_but_a_format_error_comes_of_nonsense(given: bytes | tuple[bytes, int, bytes]) -> None:
    if isinstance(given, tuple):
        raw, at, put = given
        given = raw[: at % (len(raw) + 1)] + put + raw[at % (len(raw) + 1) + len(put) :]
    for decode in (decode_message, decode_words):
        try:
            decode(given)
        except FormatError:
            continue
    for machine in two():
        machine.tell(Received(raw=given))
        assert machine.last(Introduce) is None


def test_large_records_go_alone_and_small_ones_together() -> None:
    raws = [b"x" * 10] * 100 + [b"y" * 700_000, b"z"]
    sent = list(batches(raws))
    assert [len(one.raws) for one in sent] == [100, 1, 1] and isinstance(sent[0], Records)
    assert [raw for one in sent for raw in one.raws] == raws
