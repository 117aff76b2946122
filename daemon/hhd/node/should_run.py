"""Sessions that should run on this device: on disk, so that a daemon that starts goes on with what was running.

A session is noted before it is started, and no more once it rests for a reason: a person paused it, it waits for one,
it finished, or its process failed. What is noted when a daemon starts was cut off by the end of the one before, or was
paused because that one was told to end. All notes are one row: they are few, and are read together.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hhd.base.errors import RefusedError
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.ids import SessionId, StatementId

_TABLE, _VERSION = "should run", 1

NOTES_MAX = 512
"""Sessions that run at a time on one device: each is a process, of which a machine has room for some hundreds."""


class Note(NamedTuple):
    """`session` should run, in `folder` (None: where it last was at work), with `model` (None: the configured one).

    `starts`: how often daemons have started it since it last made a step.
    """

    session: SessionId
    folder: Path | None
    model: str | None
    starts: int = 0


def noted(store: Store) -> list[Note]:
    """Return what should run, the first begun first; raises DamagedStoreError."""
    raw = store.rows.get(_TABLE, b"", b"")
    match decoded(raw, "list of what should run") if raw is not None else [_VERSION]:
        case [1, *rows]:
            return [of_row(one) for one in rows]
    raise DamagedStoreError("The list of what should run is not in the form it was written in.")


def note(store: Store, one: Note) -> None:
    """Note that a session should run, or change its note; raises RefusedError where too many do."""
    with store.transaction():
        all_notes = noted(store)
        for at, other in enumerate(all_notes):
            if other.session == one.session:
                all_notes[at] = one
                break
        else:
            if len(all_notes) >= NOTES_MAX:
                raise RefusedError(f"{NOTES_MAX} sessions run already, so it was not started. Pause one first.")
            all_notes.append(one)
        _put(store, all_notes)


def forget(store: Store, session: SessionId) -> None:
    """A session need not run any more; if it was not noted, nothing happens."""
    with store.transaction():
        all_notes = noted(store)
        left = [one for one in all_notes if one.session != session]
        if len(left) != len(all_notes):
            _put(store, left)


def _put(store: Store, all_notes: list[Note]) -> None:
    store.rows.put(_TABLE, b"", b"", encode([_VERSION, *map(row, all_notes)]))


def row(one: Note) -> Value:
    """Return a note as it is kept."""
    return [bytes(one.session), None if one.folder is None else _bytes(one.folder), one.model, one.starts]


def _bytes(folder: Path) -> bytes:
    return str(folder).encode("utf-8", "surrogateescape")


def of_row(value: Value) -> Note:
    """Return the note that is kept as `value`; raises DamagedStoreError."""
    match value:
        case [bytes(session), bytes() | None as folder, str() | None as model, int(starts)]:
            where = None if folder is None else Path(folder.decode("utf-8", "surrogateescape"))
            return Note(SessionId(StatementId(session)), where, model, starts)
    raise DamagedStoreError("The list of what should run is not in the form it was written in.")
