"""A list says what was put; what it lacks it finds out, and damage to it shows nowhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hhd.node import listing
from hhd.node.listing import Listed, State
from hhd.store.catalogue import CATALOGUE, VALUE_BYTES_MAX
from hhd.store.checkpoints import Checkpoint, Payload
from hhd.store.store import Limits, Store
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", seed=bytes(range(32)), limits=Limits(free_bytes_min=0)) as opened:
        yield opened


def _session(number: int) -> SessionId:
    return SessionId(hashlib.sha256(b"%d" % number).digest())


IDS = st.binary(min_size=32, max_size=32)
TEXT = st.text(st.characters(), max_size=2000)
LISTED = st.builds(
    Listed,
    id=IDS.map(SessionId),
    title=TEXT,
    program=TEXT,
    state=st.sampled_from(State),
    owner=IDS.map(DeviceId),
    token=st.integers(0, 2**63),
    heads=st.integers(0, 10**6),
    archived=st.booleans(),
    picked=st.none() | IDS.map(CheckpointId),
    at_ms=st.integers(0, 2**63),
    turns=st.integers(0, 10**9),
    waiting=TEXT,
    folder=TEXT,
)


@given(LISTED)
@example(Listed(id=_session(1), title="\ud800" + "ä" * 1_000_000, folder="\u202e/\x1b[31m", waiting="é" * 999))
def test_what_is_decoded_is_what_was_encoded_with_texts_cut_at_their_bounds(one: Listed) -> None:
    raw = one.encoded()
    again = listing.decoded(raw)
    assert len(raw) <= VALUE_BYTES_MAX and again.encoded() == raw and type(again.state) is State
    for ours, theirs in zip(one, again, strict=True):
        if not isinstance(ours, str) or len(ours) <= 50:
            assert ours == theirs or "\ud800" <= max(str(ours), default="") <= "\udfff" or "?" in str(theirs)
        else:
            assert isinstance(theirs, str) and ours.encode("utf-8", "replace").startswith(
                theirs.removesuffix("…").encode()
            )


@given(LISTED, st.data())
def test_a_damaged_entry_is_a_format_error_or_an_entry(one: Listed, data: st.DataObject) -> None:
    raw = bytearray(one.encoded())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = listing.decoded(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    except FormatError:
        return
    assert isinstance(found, Listed) and type(found.state) is State


def test_entries_from_before_heads_were_archived_are_read_beside_others() -> None:
    one, other = Listed(id=_session(1), title="one"), Listed(id=_session(2), title="other", heads=3, left_out=1)
    earlier = [encode(one.row[:-2]), encode(one.row[:-1])]  # Before checkpoints were counted, too.
    assert listing.decoded_all([*earlier, other.encoded()]) == [one, one, other]
    assert (one.heads_shown, other.heads_shown) == (1, 2)
    with pytest.raises(FormatError):
        listing.decoded(encode(one.row[:-3]))


def test_an_entry_of_a_newer_hhd_says_so() -> None:
    with pytest.raises(NewerVersionError):
        listing.decoded(encode([2, "whatever"]))


def test_a_change_keeps_what_it_does_not_name(store: Store) -> None:
    store.create_session(_session(1))
    listing.put(store, Listed(id=_session(1), title="parser", token=3))
    listing.change(store, _session(1), state=State.RUNNING, turns=2)
    assert listing.get(store, _session(1)) == Listed(
        id=_session(1), title="parser", opening="parser", token=3, state=State.RUNNING, turns=2
    )
    assert listing.listed(store) == [listing.get(store, _session(1))]


def test_what_the_catalogue_lacks_is_described_and_then_kept(store: Store) -> None:
    for number in range(3):
        store.create_session(_session(number))
    first = store.commit(Checkpoint(session=_session(0), parents=(), payload=Payload(), objects=(), at_ms=5, turn=True))
    for number in range(2):
        store.commit(
            Checkpoint(
                session=_session(0), parents=(first,), payload=Payload(), objects=(), at_ms=6 + number, turn=number > 0
            )
        )
    listing.put(store, Listed(id=_session(1), title="known"))
    asked: list[SessionId] = []

    def describe(store: Store, session: SessionId) -> Listed:
        asked.append(session)
        return listing.described(store, session)

    found = {one.id: one for one in listing.listed(store, describe)}
    assert sorted(asked) == sorted([_session(0), _session(2)])
    assert found[_session(0)] == Listed(
        id=_session(0), title="", owner=store.device, heads=2, at_ms=7, turns=1, checkpoints=3
    )
    assert found[_session(1)].title == "known"
    assert {one.id: one for one in listing.listed(store, describe)} == found and len(asked) == 2


def test_what_the_catalogue_has_of_no_session_is_dropped(store: Store) -> None:
    store.create_session(_session(1))
    listing.put(store, Listed(id=_session(1), title="here"))
    listing.put(store, Listed(id=_session(2), title="never was"))
    assert [one.title for one in listing.listed(store)] == ["here"]
    assert listing.get(store, _session(2)) is None


def test_damage_to_the_catalogue_shows_nowhere(store: Store) -> None:
    for number in range(60):
        store.create_session(_session(number))
        listing.put(store, Listed(id=_session(number), title=f"session {number}", owner=store.device))
    name = store.rows.name(CATALOGUE, b"", (0).to_bytes(8, "big"))
    with store.transaction():
        store.database.write("UPDATE rows SET sealed=zeroblob(90) WHERE name=?", name)
    found = listing.listed(store)
    assert {one.id for one in found} == {_session(number) for number in range(60)}
    assert 0 < sum(one.title == "" for one in found) < 60
    assert sorted(listing.listed(store)) == sorted(found)


def test_a_session_that_cannot_be_described_is_listed_as_damaged(store: Store) -> None:
    store.create_session(_session(1))
    name = store.rows.name("session", b"", _session(1))
    with store.transaction():
        store.database.write("UPDATE rows SET sealed=zeroblob(90) WHERE name=?", name)
    assert [one.state for one in listing.listed(store)] == [State.DAMAGED]
