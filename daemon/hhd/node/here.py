"""Where a stored session was last at work on this device: noted for this device only, and never taken from a session.

A session without a note, or with one that has no place, came from elsewhere: nothing it asks for is done before a
person saw what it is, and agreed. That they said where it is to work is no such word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from hhd.base.paths import workspaces_folder
from hhd.node import files_due
from hhd.node.own import UNKNOWN
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import encode
from hhd_protocol.ids import SessionId

_TABLE = "here"
_ID_CHARS = 12
_OURS = re.compile(rf"(.+)-[0-9a-f]{{{_ID_CHARS}}}", re.DOTALL)
"""The name of a folder that hhd made: after what, and of which capture."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """`place`: digest of folder, user, device and day (`hhd.node.own.Place`), None where nobody agreed to it yet.

    `folder`: None before the first run.
    """

    place: bytes | None = UNKNOWN
    folder: Path | None = None


def noted(store: Store, session: SessionId) -> Note | None:
    """Return what is noted of `session` here, None if it came from elsewhere; raises DamagedStoreError."""
    raw = store.rows.get(_TABLE, b"", session)
    match decoded(raw, "note of where a session works") if raw is not None else None:
        case None:
            return None
        case [bytes(place), bytes(folder)] if len(place) in (0, len(UNKNOWN)):
            return Note(place=place or None, folder=Path(_text(folder)) if folder else None)
    raise DamagedStoreError("The note of where a session works is not in the form it was written in.")


def note(store: Store, session: SessionId, value: Note) -> None:
    """Note where `session` works, in the caller's transaction if there is one."""
    folder = b"" if value.folder is None else str(value.folder).encode("utf-8", "surrogateescape")
    store.rows.put(_TABLE, b"", session, encode([value.place or b"", folder]))


def goes_on_in(store: Store, session: SessionId, folder: Path) -> None:
    """Note that it goes on in `folder`, in the caller's transaction: one that makes no step there does so, too."""
    before = noted(store, session) or Note(place=None)
    if before.folder != folder:
        note(store, session, replace(before, folder=folder))


def forget(store: Store, session: SessionId) -> None:
    """Remove the note of a session that is removed."""
    store.rows.delete(_TABLE, b"", session)
    files_due.forget(store, session)


def called(folder: Path) -> str:
    """What a folder where a session works is called: of one that hhd made (`ours`), what that was named after.

    So a name does not grow on its way from device to device.
    """
    name, made_here = folder.name, folder.parent in (workspaces_folder(), workspaces_folder().resolve())
    while made_here and (after := _OURS.fullmatch(name)) is not None:
        name = after[1]
    return name


def ours(folder: Path, capture: str) -> Path:
    """The folder of hhd's in which a capture, by its id in hex, appears that does not go into `folder`."""
    return workspaces_folder() / f"{called(folder)[:60] or 'workspace'}-{capture[:_ID_CHARS]}"


def _text(folder: bytes) -> str:
    return folder.decode("utf-8", "surrogateescape")


class Here:
    """The note of one session, as a keeper wants it: what changes is written with the next step."""

    def __init__(self, store: Store, session: SessionId) -> None:
        self._store, self._session = store, session
        found = noted(store, session)
        self.place = None if found is None else found.place
        self.folder = None if found is None else found.folder
        self._written = found

    def adopt(self) -> None:
        """A person saw what it is, and agreed."""
        self.place = UNKNOWN

    def write(self) -> None:
        """Write it down if it changed; within the transaction of a step."""
        now = None if self.place is None else Note(place=self.place, folder=self.folder)
        if now is not None and now != self._written:
            note(self._store, self._session, now)
            self._written = now

    def reread(self) -> None:
        """The transaction was rolled back: write it again next time."""
        self._written = noted(self._store, self._session)
