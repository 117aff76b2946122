"""Which captures are in the store here, by what a person calls them, by the folder they are of, by their session."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import visible
from hhd.identity.key import Identity
from hhd.node import here, naming, sessions
from hhd.store.captures import CaptureReader, capture_ref
from hhd.store.errors import DamagedStoreError, MissingError, ThinnedError
from hhd.store.folders import Folders, Seen
from hhd.store.store import Store
from hhd.workspace import identity
from hhd.workspace.capture import capture
from hhd.workspace.errors import NotOurs
from hhd.workspace.in_place import same_state
from hhd.workspace.place import find
from hhd_protocol.crypto import content_id
from hhd_protocol.ids import CheckpointId, FamilyId, PageId, SessionId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture

ID_MIN = 4
SHOWN_MAX = 8


@dataclass(frozen=True, kw_only=True)
class Found:
    """A capture in the store that a name means."""

    reader: CaptureReader
    family: FamilyId
    folder: Path | None
    session: SessionId | None = None

    @property
    def id(self) -> str:
        return self.reader.ref.name.hex()


@dataclass(frozen=True, kw_only=True)
class CapturesHere:
    """The captures in the store of this device."""

    store: Store
    me: Identity

    def _found(self, name: str, at: str | None = None) -> Found:
        if at is not None:
            return self._of_session(name, at)
        path = Path(name).absolute()
        seen = Folders(self.store).all()
        if ("/" in name or name in (".", "..")) or path.is_dir():
            top = self._top(path)
            for one in seen:
                if one.folder == top:
                    return Found(reader=self._reader(one), family=one.family, folder=top)
            raise RefusedError(f"{visible(name, one_line=True)} was never captured here; `hhd workspace capture` does.")
        wanted = name.lower()
        if len(wanted) >= ID_MIN and all(char in "0123456789abcdef" for char in wanted):
            hits = {one.ref: one for one in reversed(seen) if one.ref.name.hex().startswith(wanted)}
            if len(hits) > 1:
                shown = ", ".join(ref.name.hex()[:16] for ref in list(hits)[:SHOWN_MAX])
                raise UsageError(f"'{name}' may mean the captures {shown}; give more of the id.")
            for one in hits.values():
                return Found(reader=self._reader(one), family=one.family, folder=one.folder)
        return self._of_session(name, what="captured folder and no session")

    def _of_session(self, name: str, at: str | None = None, *, what: str = "session") -> Found:
        """The capture that a session's main head names, or its checkpoint `at`."""
        listed = naming.session(self.store, name, what)
        shown = listed.id.hex()[: naming.ID_SHOWN]
        if at is None:
            point = sessions.view(self.store, self.me, listed.id).main
        else:
            point = naming.checkpoint(self.store, listed.id, at)
        ref = None if point is None else capture_ref(self.store.checkpoint(CheckpointId(point)).workspace)
        if ref is None:
            where = "" if at is None else " at that checkpoint"
            raise RefusedError(f"Session {shown} has no capture of its folder{where} yet.")
        return self._of_session_at(listed.id, ref)

    def _of_session_at(self, session: SessionId, ref: Ref) -> Found:
        family = self.store.session(session).family
        noted = here.noted(self.store, session)
        return Found(
            reader=self.store.capture_reader(family, ref),
            family=family,
            folder=None if noted is None else noted.folder,
            session=session,
        )

    def _of_its_session(self, found: Found, folder: Path) -> tuple[Found | None, Capture | None]:
        """The newest capture of the session of `found`, if it works in `folder` and that is still as it says; and what
        `folder` holds, named as the family of `found` does, if it came to be looked at."""
        if found.session is None or found.folder is None or found.folder.resolve() != folder.resolve():
            return None, None
        try:
            newest = self._of_session(found.session.hex())
            was = newest.reader.capture()
            now = self._now(folder, newest, newest)
        except (RefusedError, MissingError, ThinnedError):
            return None, None
        return newest if same_state(now, was) else None, now

    def _last(self, folder: Path, family: FamilyId | None) -> Found | None:
        """The newest capture of `folder` (of `family`) that is here."""
        for one in Folders(self.store).all():
            if one.folder == folder and family in (None, one.family):
                try:
                    return Found(reader=self._reader(one), family=one.family, folder=folder)
                except (MissingError, ThinnedError, DamagedStoreError):
                    continue
        return None

    def _known(self) -> list[identity.Known]:
        folders: dict[Path, identity.Known] = {}
        for seen in Folders(self.store).all():
            if seen.folder in folders or not seen.folder.is_dir():
                continue
            with contextlib.suppress(MissingError, ThinnedError, DamagedStoreError):
                repository = self._reader(seen).capture().repository
                if repository is not None:
                    folders[seen.folder] = identity.known(seen.folder, repository)
        return list(folders.values())

    def _reader(self, seen: Seen) -> CaptureReader:
        return self.store.capture_reader(seen.family, seen.ref)

    def _now(self, folder: Path, found: Found, last: Found | None) -> Capture:
        """What `folder` holds; raises NotOurs where that cannot be told, so that nothing may be written there."""
        family = found.family if last is None else last.family
        try:
            return capture(folder, None if last is None else last.reader.capture(), self._ids(family))
        except RefusedError as error:
            raise NotOurs(f"{visible(str(folder), one_line=True)} is left alone. {error}") from error

    def _ids(self, family: FamilyId) -> Callable[[bytes], PageId]:
        """Names pieces as `family` does, and keeps none."""
        key = self.store.families.get(family).page_key
        return lambda raw: content_id(key, b"piece", raw)

    def _top(self, folder: Path) -> Path:
        if not folder.is_dir():
            raise RefusedError(f"There is no folder {visible(str(folder), one_line=True)}.")
        place = find(folder)
        return folder.resolve() if place is None else place.top
