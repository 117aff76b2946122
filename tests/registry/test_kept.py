"""A damaged document is noticed, made again from what is whole, and never used as if it were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hhd.base.errors import UserError
from hhd.node import listing, registry
from hhd.node.listing import Listed
from hhd.registry import registry as module
from hhd.registry import sync
from hhd.registry.registry import Registry
from hhd.store.group import PIECES
from hhd.store.store import Limits, Store
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import SessionId, StatementId

from .memory import NOTHING
from .memory import registry as in_memory

ONE, TWO = (SessionId(StatementId(hashlib.sha256(name).digest())) for name in (b"one", b"two"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", seed=bytes(range(32)), limits=Limits(free_bytes_min=0)) as opened:
        yield opened


def test_each_byte_of_a_sealed_piece_is_proved(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECES_MAX", 0)
    store.create_session(ONE)
    listing.put(store, Listed(id=ONE, title="opening"))
    registry.opened(store).rename(ONE, "title")
    name = store.rows.name(PIECES, b"", bytes(8))
    sealed = store.database.blob("SELECT sealed FROM rows WHERE name=?", name)
    assert sealed is not None
    changed = [sealed[:at] + bytes([sealed[at] ^ 1 << at % 8]) + sealed[at + 1 :] for at in range(len(sealed))]
    for raw in (*changed, b"", *(sealed[:length] for length in range(1, len(sealed), 37))):
        with pytest.raises(KeyError), store.transaction():
            for table in ("rows", "spare"):
                assert store.database.write(f"UPDATE {table} SET sealed=? WHERE name=?", raw, name)
            assert store.shared.pieces() == ([], 1)
            if len(raw) % 5 == 0 or raw == changed[0]:
                again = registry.opened(store)
                assert again.title(ONE) == "title" and again.notice is not None
                assert registry.opened(store).notice is None
            raise KeyError
    assert len(store.shared.pieces()[0]) == 1 and registry.opened(store).notice is None


def test_each_byte_of_what_was_sealed_is_proved_again() -> None:
    one, shelf = in_memory()
    one.rename(ONE, "title")
    one.archive(TWO, True)
    pieces, marked, shown = list(shelf.pieces), shelf.marked, shelf.shown
    assert len(pieces) == 2
    noticed = 0
    for number, piece in enumerate(pieces):
        damaged = [piece[:at] + bytes([piece[at] ^ 1 << at % 8]) + piece[at + 1 :] for at in range(len(piece))]
        for raw in (*damaged, *(piece[:length] for length in range(0, len(piece), 7))):
            shelf.pieces = [*pieces[:number], raw, *pieces[number + 1 :]]
            shelf.marked, shelf.shown = marked, shown
            again = Registry(shelf)
            assert again.title(ONE) == "title" and again.facts(TWO).archived
            assert again.notice is not None
            noticed += 1
    assert noticed > sum(map(len, pieces))
    shelf.pieces, shelf.marked = pieces, marked
    assert Registry(shelf).title(ONE) == "title"


def test_what_lists_do_not_show_comes_back_from_peers_without_a_question() -> None:
    (one, shelf), (other, _) = in_memory("laptop"), in_memory("desktop")
    one.rename(ONE, "before")
    one.belongs(ONE, shelf.device)
    sync.merge_from(other, sync.copy(one))
    one.rename(ONE, "after")
    sync.merge_from(other, sync.copy(one))
    shelf.pieces, shelf.lost, shelf.shown = [], 1, NOTHING
    again = Registry(shelf)
    assert again.title(ONE) is None and again.notice is not None
    again.rename(TWO, "since")
    assert sync.merge_from(again, sync.copy(other))
    assert again.title(ONE) == "after" and again.belongs_on(ONE) == shelf.device and again.title(TWO) == "since"
    assert not again.questions()
    sync.merge_from(other, sync.copy(again))
    assert other.title(TWO) == "since" and other.title(ONE) == "after" and not other.questions()


def test_what_was_made_up_for_from_lists_is_no_question_when_peers_say_the_same() -> None:
    (one, shelf), (other, _) = in_memory("laptop"), in_memory("desktop")
    one.rename(ONE, "title")
    sync.merge_from(other, sync.copy(one))
    shelf.pieces, shelf.lost = [], 1
    again = Registry(shelf)
    assert again.title(ONE) == "title"
    sync.merge_from(again, sync.copy(other))
    assert again.title(ONE) == "title" and not again.questions()


def test_a_write_that_fails_leaves_what_was_before_here_and_on_the_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    one, shelf = in_memory()
    one.rename(ONE, "before")
    whole = list(shelf.pieces)

    def full(*_: object) -> None:
        raise UserError("the disk is full")

    for name in ("append", "show"):
        with monkeypatch.context() as patch, pytest.raises(UserError):
            patch.setattr(shelf, name, full)
            one.rename(ONE, "after")
        assert one.title(ONE) == "before" and shelf.pieces == whole
    one.rename(ONE, "at last")
    assert Registry(shelf).title(ONE) == "at last" == one.title(ONE)


def test_a_peer_that_sends_too_much_leaves_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    (one, shelf), (other, _) = in_memory("laptop"), in_memory("desktop")
    one.rename(ONE, "ours")
    other.rename(ONE, "theirs")
    other.rename(TWO, "theirs")
    whole = list(shelf.pieces)
    with monkeypatch.context() as patch:
        patch.setattr(module, "REGISTRY_ENTRIES_MAX", 3)
        with pytest.raises(FormatError):
            sync.merge_from(one, sync.copy(other))
        assert one.title(ONE) == "ours" and one.title(TWO) is None and shelf.pieces == whole and not one.questions()
    assert sync.merge_from(one, sync.copy(other)) and len(one.questions()) == 1


def test_what_another_process_wrote_is_read_before_the_next_word() -> None:
    one, shelf = in_memory()
    other = Registry(shelf)
    one.rename(ONE, "first")
    assert other.title(ONE) == "first"
    other.rename(ONE, "second")
    told = one.rename(ONE, "third")
    assert told.before == "second" and not told.questions and other.title(ONE) == "third"


def test_pieces_are_packed_and_history_is_given_up_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_MIN", 20)
    monkeypatch.setattr(module, "PIECES_MAX", 5)
    one, shelf = in_memory()
    most = 0
    for number in range(100):
        one.rename(ONE, f"title {number}")
        most = max(most, len(shelf.pieces))
        assert Registry(shelf).title(ONE) == f"title {number}"
    assert most == 5 and one.refresh().number == 5 and len(one.refresh().changes()) < 20
    assert len(one.refresh().save()) < 600


def test_saying_the_same_again_writes_nothing() -> None:
    one, shelf = in_memory()
    one.rename(ONE, "title")
    count = len(shelf.pieces)
    assert one.rename(ONE, "title").after == "title" and len(shelf.pieces) == count
    one.rename(ONE, "another")
    assert len(shelf.pieces) == count + 1
