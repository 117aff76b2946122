"""What is said in the shared document is in the lists in the same moment, and what is behind catches up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hhd.base.errors import UsageError
from hhd.node import listing, registry
from hhd.node.listing import Listed
from hhd.store.catalogue import FACTS
from hhd.store.check import Check
from hhd.store.group import MARK, PIECES, SHOWN
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId, SessionId

HEAD = CheckpointId(b"\x07" * 32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", seed=bytes(range(32)), limits=Limits(free_bytes_min=0)) as opened:
        yield opened


def _session(store: Store, number: int, title: str = "") -> SessionId:
    session = SessionId(hashlib.sha256(b"%d" % number).digest())
    store.create_session(session)
    listing.put(store, Listed(id=session, title=title, owner=store.device))
    return session


def _listed(store: Store, session: SessionId) -> Listed:
    return {one.id: one for one in listing.listed(store)}[session]


def test_a_title_hides_the_opening_until_it_is_taken_away(store: Store) -> None:
    one, shared = _session(store, 1, "fix the parser please"), registry.opened(store)
    assert _listed(store, one).title == "fix the parser please"
    told = shared.rename(one, "parser")
    assert (told.before, told.after, told.questions) == (None, "parser", ())
    assert _listed(store, one).title == "parser"
    listing.change(store, one, turns=3)
    assert _listed(store, one)[:2] == (one, "parser") and _listed(store, one).turns == 3
    shared.rename(one, None)
    assert _listed(store, one).title == "fix the parser please"


def test_what_is_said_of_a_session_is_in_the_list_and_read_again_from_the_document(store: Store) -> None:
    one, other, shared = _session(store, 1, "one"), _session(store, 2, "other"), registry.opened(store)
    shared.archive(one, True)
    shared.pick(one, HEAD)
    shared.belongs(one, store.device)
    shared.wish(one, store.device, True)
    shared.name_device(store.device, "laptop")
    assert _listed(store, one).archived and _listed(store, one).picked == HEAD
    assert not _listed(store, other).archived and _listed(store, other).picked is None
    again = registry.opened(store)
    assert again.picked(one) == HEAD and again.facts(one).archived
    assert again.belongs_on(one) == store.device and again.follows(one, store.device) is True
    assert again.device_name(store.device) == "laptop"
    assert registry.device_names(store.shared) == ({store.device[:16]: "laptop"}, 0)
    again.archive(one, False)
    again.pick(one, None)
    assert not shared.facts(one).archived and shared.picked(one) is None
    assert not _listed(store, one).archived and _listed(store, one).picked is None
    assert not Check(store).run().findings


def test_what_was_said_of_a_session_that_is_not_here_is_shown_when_it_comes(store: Store) -> None:
    session = SessionId(hashlib.sha256(b"9").digest())
    registry.opened(store).rename(session, "known elsewhere")
    assert listing.listed(store) == []
    _session(store, 9, "its opening")
    assert _listed(store, session).title == "known elsewhere"


def test_an_edit_that_is_rolled_back_is_nowhere(store: Store) -> None:
    one, shared = _session(store, 1), registry.opened(store)
    shared.rename(one, "kept")
    with pytest.raises(KeyError), store.transaction():
        shared.rename(one, "not kept")
        raise KeyError
    assert shared.title(one) == "kept" and _listed(store, one).title == "kept"
    shared.rename(one, "after")
    assert registry.opened(store).title(one) == "after"


@pytest.mark.parametrize("title", ["", "  ", "x" * 1025, "é" * 513, "half \ud800", "x" * 1_000_000])
def test_a_title_that_may_not_be_is_refused_in_one_sentence_with_nothing_changed(store: Store, title: str) -> None:
    one, shared = _session(store, 1), registry.opened(store)
    shared.rename(one, "before")
    with pytest.raises(UsageError, match="nothing was changed"):
        shared.rename(one, title)
    assert shared.title(one) == "before" and _listed(store, one).title == "before"


@pytest.mark.parametrize(
    "title", ["<b>&amp;", "\x1b[31mred\x07", "\u202eabc\u2066", "two\nlines\t", "x" * 1024, "\x00"]
)
def test_any_other_text_is_kept_as_it_is(store: Store, title: str) -> None:
    one = _session(store, 1)
    registry.opened(store).rename(one, title)
    assert registry.opened(store).title(one) == title and _listed(store, one).title == title


def _spoil(store: Store, table: str, key: bytes, *, both: bool = True) -> None:
    name = store.rows.name(table, b"", key)
    with store.transaction():
        assert store.database.write("UPDATE rows SET sealed=zeroblob(100) WHERE name=?", name)
        if both:
            store.database.write("UPDATE spare SET sealed=zeroblob(100) WHERE name=?", name)


def test_lists_that_are_behind_or_damaged_catch_up(store: Store) -> None:
    one, shared = _session(store, 1, "opening"), registry.opened(store)
    shared.rename(one, "title")
    before = _listed(store, one)
    for table, key in ((SHOWN, b""), (FACTS, bytes(8))):
        _spoil(store, table, key)
        listing.change(store, one, turns=1)
        listing.change(store, one, turns=0)
        assert _listed(store, one) == before
        assert registry.opened(store).title(one) == "title"
    shown = store.shared.shown()
    shared.rename(one, "newer")
    assert shown is not None
    store.shared.show(shown)  # As if the lists had not been written.
    listing.put(store, before)
    assert _listed(store, one).title == "newer"


def test_one_damaged_copy_of_a_piece_costs_nothing_and_is_found(store: Store) -> None:
    one, shared = _session(store, 1), registry.opened(store)
    for number in range(5):
        shared.rename(one, f"title {number}")
    for position in range(5):
        _spoil(store, PIECES, position.to_bytes(8, "big"), both=False)
    assert len(Check(store).run().findings) >= 5
    again = registry.opened(store)
    assert again.title(one) == "title 4" and again.notice is None


@pytest.mark.parametrize("lost", [(0,), (2,), (4,), (0, 1, 2, 3, 4), "mark", "key"])
def test_a_lost_piece_is_noticed_said_and_made_up_for_from_the_lists(store: Store, lost: object) -> None:
    one, two, shared = _session(store, 1), _session(store, 2), registry.opened(store)
    shared.archive(two, True)
    for number in range(4):
        shared.rename(one, f"title {number}")
    if isinstance(lost, tuple):
        for position in lost:
            _spoil(store, PIECES, int(position).to_bytes(8, "big"))
    else:
        _spoil(store, MARK if lost == "mark" else "group-key", b"")
    again = registry.opened(store)
    assert again.title(one) == "title 3" and again.facts(two).archived
    assert again.notice is not None and "damaged" in again.notice
    third = registry.opened(store)
    assert third.title(one) == "title 3" and third.notice is None
    assert not Check(store).run().findings
