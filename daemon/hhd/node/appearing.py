"""A capture made to appear in a folder: looked at, prepared, switched to; elsewhere where something would be lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from hhd.base import log, passing
from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.node import here, unfinished
from hhd.node.captures_here import CapturesHere, Found
from hhd.node.looked import Looked
from hhd.node.readied import Readied
from hhd.node.workspace_answers import Applied
from hhd.store.captures import CaptureReader
from hhd.store.errors import DamagedStoreError, MissingError, ThinnedError
from hhd.store.folders import Folders
from hhd.workspace.errors import NotOurs, Unready
from hhd.workspace.in_place import why_not
from hhd.workspace.materialise import held, materialise, prepare
from hhd.workspace.place import find
from hhd.workspace.written import Written
from hhd_protocol.ids import PageId, SessionId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What a folder holds `now`, what hhd knows it by; of one where nothing is, a repository to `borrow` from."""

    get: Callable[[PageId], bytes]
    now: Capture | None = None
    last: Found | None = None
    borrow: Path | None = None

    def about(self, found: Found) -> _About:
        """The same for making the capture that was `found` appear there."""
        last = None if self.last is None else self.last.reader.capture()
        return {"now": self.now, "last": last, "borrow": self.borrow, "reason": f"hhd: {found.id[:12]}"}


class _About(TypedDict):
    now: Capture | None
    last: Capture | None
    borrow: Path | None
    reason: str


class Appearing(CapturesHere):
    """Captures made to appear on this device."""

    # In two steps: looked at and prepared before, switched to in a session's pause

    def look(self, session: SessionId, ref: Ref, folder: Path | None, *, called: str) -> Looked | None:
        """Look at where `bring` would make the capture appear; None where nothing is there yet. Raises NotOurs."""
        found = self._of_session_at(session, ref)
        place = place_of(folder or self._ours(Path(called), found))
        if not _holds_something(place):
            return None
        last, now = self._seen(place, found)
        return Looked(
            folder=place, now=now, family=(last or found).family, last=None if last is None else last.reader.ref
        )

    def why_elsewhere(self, session: SessionId, ref: Ref, folder: Path) -> str:
        """Why `bring` would leave `folder` alone, "" where nothing speaks for that; it is only looked at."""
        if not folder.is_dir():
            return ""
        found = self._of_session_at(session, ref)
        place = place_of(folder)
        try:
            last, now = self._seen(place, found)
        except NotOurs as error:
            return str(error)
        problem = why_not(now, None if last is None else last.reader.capture(), found.reader.capture())
        return "" if problem is None or not any(place.iterdir()) else f"{place} is left alone: {problem}"

    def ready(
        self, session: SessionId, ref: Ref, folder: Path | None, *, called: str, looked: Looked | None
    ) -> Readied | None:
        """Prepare all of `bring` but the switch; None where that can only be done at once. Raises as `bring`, with
        nothing left of it."""
        found = self._of_session_at(session, ref)
        place = place_of(folder or self._ours(Path(called), found))
        given = self._given(found, place, looked)
        try:
            ahead = prepare(found.reader.capture(), given.get, place, unfinished.box(), **given.about(found))
        except Unready:
            return None
        if ahead is None:
            return None
        last = None if given.last is None else (given.last.family, given.last.reader.ref)
        return Readied(ahead=ahead, ref=found.reader.ref, last=last)

    def bring(
        self,
        session: SessionId,
        ref: Ref,
        folder: Path | None,
        *,
        called: str,
        looked: Looked | None = None,
        readied: Readied | None = None,
        then: Callable[[Path], None] = lambda _: None,
    ) -> Applied:
        """Make the capture `ref` of a session appear in `folder`, or, where it has none here or that would lose
        something, in one of ours, that is named after what it is `called`.

        `looked`: what was found there shortly before. `readied`: what was prepared there; what is left of that is the
        caller's to drop. `then` writes in the transaction in which it is noted that they are in the folder it is given.
        """
        with self.store.shelf.held():
            found = self._of_session_at(session, ref)
            place = place_of(folder or self._ours(Path(called), found))
            return self._applied(found, place, looked, readied, then)

    # How

    def _applied(
        self,
        found: Found,
        place: Path,
        looked: Looked | None = None,
        readied: Readied | None = None,
        then: Callable[[Path], None] = lambda _: None,
    ) -> Applied:
        wanted = found.reader.capture()
        try:
            return self._apply(found, wanted, place, "", looked, readied, then)
        except NotOurs as error:
            ours = self._ours(place, found)
            return self._apply(found, wanted, ours, str(error), None, None, then)

    def _apply(
        self,
        found: Found,
        wanted: Capture,
        folder: Path,
        instead: str,
        looked: Looked | None,
        readied: Readied | None,
        then: Callable[[Path], None],
    ) -> Applied:
        done = None if readied is None else self._appeared(found, folder, readied)
        if done is None:
            given = self._given(found, folder, looked)
            passing.begin("its files", sum(one.size for one in wanted.contents()))
            with held(folder, unfinished.box()) as place:
                done = materialise(wanted, _counting(given.get), folder, place, **given.about(found))
        with self.store.transaction():
            Folders(self.store).note(done.folder, found.family, found.reader.ref)
            then(done.folder)
        return Applied(
            capture=found.id, folder=str(done.folder), in_place=done.in_place, instead=instead, notes=done.notes
        )

    def _appeared(self, found: Found, folder: Path, readied: Readied) -> Written | None:
        """Switch to what was prepared; None where that is something else, or does not fit any more."""
        if not readied.is_of(folder, found.reader.ref):
            return None
        get: Callable[[PageId], bytes] = found.reader.piece
        try:
            if readied.last is not None:
                get = _either(found.reader, self.store.capture_reader(*readied.last))
            return readied.ahead.appear(get)
        except (Unready, MissingError, ThinnedError, DamagedStoreError):
            log.note("files_not_readied")
            return None

    def _given(self, found: Found, folder: Path, looked: Looked | None) -> _Given:
        """How `folder` is, and how to come by what is to be there."""
        if not _holds_something(folder):
            return _Given(get=found.reader.piece, borrow=self._borrow(found.reader.capture()))
        last, now = self._seen(folder, found, looked)
        return _Given(
            get=found.reader.piece if last is None else _either(found.reader, last.reader), now=now, last=last
        )

    def _seen(self, folder: Path, found: Found, looked: Looked | None = None) -> tuple[Found | None, Capture]:
        """The capture that hhd knows `folder` by, and what it holds; raises NotOurs where that cannot be told."""
        if looked is not None and looked.is_of(folder):
            if looked.last is None:
                return None, looked.now
            with contextlib.suppress(MissingError, ThinnedError, DamagedStoreError):
                reader = self.store.capture_reader(looked.family, looked.last)
                return Found(reader=reader, family=looked.family, folder=folder), looked.now
        newest, now = self._of_its_session(found, folder)
        last = newest or self._last(folder, None)
        if now is not None and last is not None and last.family == found.family:
            return last, now  # What it is held against changes only how its history is told, and that is not looked at.
        return last, self._now(folder, found, last)

    def _borrow(self, wanted: Capture) -> Path | None:
        """A repository here that has what the capture takes for granted, or what its history is cut off from."""
        of = wanted.repository
        if of is None or not (of.history.assumed or (of.history.shallow and of.remotes)):
            return None
        for one in self._known():
            if set(one.roots) & set(of.roots) and (place := find(one.folder)) is not None:
                return place.common
        return None

    def _ours(self, folder: Path, found: Found) -> Path:
        return here.ours(folder, found.id)


def place_of(folder: Path) -> Path:
    """Where `folder` is, whether or not it is there."""
    folder = folder.absolute()
    return folder.resolve() if folder.is_dir() else folder.parent.resolve() / folder.name


def _holds_something(folder: Path) -> bool:
    """Whether anything is in `folder`; its parents are made. Raises RefusedError where this user may not."""
    try:
        if folder.is_dir():
            with os.scandir(folder) as found:
                return next(found, None) is not None
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        shown = visible(str(folder), one_line=True)
        raise RefusedError(f"{shown} cannot be written ({error.strerror}); nothing was changed.") from error
    return False


def _counting(get: Callable[[PageId], bytes]) -> Callable[[PageId], bytes]:
    """`get`, with what it gives counted for who watches."""

    def counted(piece: PageId) -> bytes:
        raw = get(piece)
        passing.more(len(raw))
        return raw

    return counted if passing.is_watched() else get


def _either(one: CaptureReader, other: CaptureReader) -> Callable[[PageId], bytes]:
    return lambda piece: (one if piece in one.places() else other).piece(piece)
