"""Nothing of a session can be read from the files without the keys."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, BOB, SEED, Memory
from tests.store.phrase import leaks
from tests.store.test_statements import create, recorder

import hhd.store.rows
import hhd_protocol.objects
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from hhd_protocol.limits import PAGE_BYTES


def _phrase() -> str:
    return "".join(random.SystemRandom().choices("abcdefghijkmnpqrstuvwxyz", k=24))


def _written(folder: Path, phrase: str) -> list[str]:
    """Write the phrase into everything that a store keeps and return where it can be read."""
    text = phrase.encode()
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
        made = create(opening=store.incarnation)
        store.create_session(made.session)
        store.statements.add(made.session, made.raw)
        memory, line = Memory(20), Line(store, made.session)
        for step in range(4):
            memory.pages[step] = (b"memory " + text + b" ").ljust(PAGE_BYTES, b".")
            line.checkpoint(
                changed=[step],
                snapshot=memory.snapshot(),
                logs={phrase: b'{"conversation":"' + text + b'"}\n'},
                workspace=b"/home/" + text,
                sign=recorder(store, made.session),
            )
        store.rows.put("title", ALICE, b"", text)
        store.rows.append("journal", ALICE, b"asked " + text)
        store.modules.put(b"\0asm" + text * 10)
        # Not folded: the write-ahead log is a file, too.
        assert text in (store.record(store.heads(made.session)[-1]) or b"")
        found = leaks(folder, phrase)
        assert any(path.name.endswith("-wal") and path.stat().st_size for path in folder.iterdir())
    return found + leaks(folder, phrase)


def test_a_phrase_is_nowhere_in_the_files(tmp_path: Path) -> None:
    assert _written(tmp_path / "store", _phrase()) == []


@pytest.mark.parametrize("module", [hhd_protocol.objects, hhd.store.rows])
def test_with_sealing_switched_off_the_phrase_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    monkeypatch.setattr(module, "seal", lambda key, nonce, message, *, ad=b"": message + bytes(16))
    monkeypatch.setattr(module, "unseal", lambda key, nonce, sealed, *, ad=b"": sealed[:-16])
    assert _written(tmp_path / "store", _phrase())


def test_names_and_numbers_of_sessions_do_not_show_in_the_rows(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
        for session in (ALICE, BOB):
            store.create_session(session)
            for i in range(5):
                store.rows.append("journal", session, b"%d" % i)
            store.advance(session).release()
        names = [name for (name,) in store.database.each("SELECT name FROM rows")]
        assert len(set(names)) == len(names)
        store.database.fold()
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    everything += b"".join(str(path).encode() for path in folder.rglob("*"))
    for session in (ALICE, BOB):
        assert session not in everything and session.hex().encode() not in everything
    assert b"journal" not in everything
