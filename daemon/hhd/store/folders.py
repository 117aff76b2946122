"""Captures that are no checkpoint's: what folders of this device were last seen to hold, newest first.

They lie in the store like those of sessions, under the keys that belong to no session or under a session's, and keep
what they name from `hhd gc` until newer ones push them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd_protocol.codec import encode
from hhd_protocol.ids import EpochId, FamilyId, ObjectName
from hhd_protocol.objects import Ref

if TYPE_CHECKING:
    from hhd.store.store import Store

_TABLE = "folders"
_KEY = b"seen"
_VERSION = 1
FOLDERS_MAX = 256
"""Captures that are remembered: a person has some dozen folders."""
EACH_MAX = 8
"""Of one folder: to look at what it was like some captures ago."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`folder` was as capture `ref`, of `family`, says, at `at_ms`."""

    folder: Path
    family: FamilyId
    ref: Ref
    at_ms: int


class Folders:
    """What is remembered of the folders of this device."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[Seen]:
        """Everything remembered, newest first; raises DamagedStoreError."""
        raw = self._store.rows.get(_TABLE, b"", _KEY)
        if raw is None:
            return []
        match decoded(raw, "list of folders"):
            case [1, list(rows)]:
                return [_seen(row) for row in rows]
        raise DamagedStoreError("The list of folders is not in the form it was written in.")

    def last(self, folder: Path) -> Seen | None:
        """What `folder` was last seen to hold."""
        return next((one for one in self.all() if one.folder == folder), None)

    def note(self, folder: Path, family: FamilyId, ref: Ref) -> None:
        """Remember what `folder` holds now, in the caller's transaction if there is one."""
        new = Seen(folder=folder, family=family, ref=ref, at_ms=self._store.now_ms())
        kept, count = [new], 1
        for one in self.all():
            if one.folder == folder:
                count += 1
                if (one.ref, one.family) == (ref, family) or count > EACH_MAX:
                    continue
            kept.append(one)
        self._write(kept[:FOLDERS_MAX])

    def keep(self, kept: Callable[[Seen], bool]) -> list[Seen]:
        """Forget all that are not to be `kept`, and a list that cannot be read; return what was forgotten."""
        try:
            before = self.all()
        except DamagedStoreError:
            self._store.rows.delete(_TABLE, b"", _KEY)
            return []
        gone = [one for one in before if not kept(one)]
        if gone:
            self._write(one for one in before if one not in gone)
        return gone

    def roots(self) -> list[Ref]:
        """The captures that no session keeps."""
        commons = self._store.commons()
        return [one.ref for one in self.all() if one.family == commons]

    def _write(self, kept: Iterable[Seen]) -> None:
        rows = [[_bytes(one.folder), one.family, one.ref.name, one.ref.epoch, one.at_ms] for one in kept]
        self._store.rows.put(_TABLE, b"", _KEY, encode([_VERSION, rows]))  # type: ignore[list-item]


def _seen(row: object) -> Seen:
    match row:
        case [bytes(folder), bytes(family), bytes(name), bytes(epoch), int(at_ms)]:
            return Seen(
                folder=Path(folder.decode("utf-8", "surrogateescape")),
                family=FamilyId(family),
                ref=Ref(name=ObjectName(name), epoch=EpochId(epoch)),
                at_ms=at_ms,
            )
    raise DamagedStoreError("The list of folders is not in the form it was written in.")


def _bytes(folder: Path) -> bytes:
    return str(folder).encode("utf-8", "surrogateescape")
