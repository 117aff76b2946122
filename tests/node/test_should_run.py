"""What should run on this device: noted before it runs, in order, and no more than may."""

from __future__ import annotations

from pathlib import Path

import pytest

from hhd.base.errors import RefusedError
from hhd.node import should_run
from hhd.node.should_run import Note
from hhd.node.store import opened
from hhd.store.errors import DamagedStoreError
from hhd_protocol.codec import encode
from hhd_protocol.ids import SessionId, StatementId


def session(number: int) -> SessionId:
    return SessionId(StatementId(number.to_bytes(32, "big")))


def test_notes_come_back_in_the_order_in_which_they_began() -> None:
    first = Note(session(1), Path("/a/\udc80b"), "scripted:x", 0)
    second = Note(session(2), None, None, 2)
    with opened() as store:
        assert should_run.noted(store) == []
        should_run.note(store, first)
        should_run.note(store, second)
        should_run.note(store, first._replace(starts=1))
    with opened() as store:
        assert should_run.noted(store) == [first._replace(starts=1), second]
        should_run.forget(store, first.session)
        should_run.forget(store, first.session)
        assert should_run.noted(store) == [second]


def test_no_more_run_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(should_run, "NOTES_MAX", 2)
    with opened() as store:
        for number in (1, 2, 1):
            should_run.note(store, Note(session(number), None, None))
        with pytest.raises(RefusedError):
            should_run.note(store, Note(session(3), None, None))
        assert len(should_run.noted(store)) == 2


@pytest.mark.parametrize("value", [[], [2], [1, 5], [1, [b"x", None, None]], [1, [b"x", "folder", None, 0]], {}])
def test_a_list_in_another_form_is_damage(value: object) -> None:
    with opened() as store:
        store.rows.put("should run", b"", b"", encode(value))  # type: ignore[arg-type]
        with pytest.raises(DamagedStoreError):
            should_run.noted(store)
