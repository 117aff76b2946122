"""The verbs on workspaces: a folder captured, shown, compared, mapped, and a capture made to appear in a folder.

A capture is named by the begin of its id, by a folder that was captured, or by a session, whose head names one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from hhd.base import log, passing
from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import visible, visible_bytes
from hhd.identity.key import Identity
from hhd.node import findings, here, naming, sessions, unfinished
from hhd.node import store as door
from hhd.node.looked import Looked
from hhd.node.readied import Readied
from hhd.node.workspace_answers import Applied, Differing, Kept, Mapped, Suspected, branch_of, hex_of, kept
from hhd.store.captures import CaptureReader, capture_ref
from hhd.store.errors import DamagedStoreError, MissingError, ThinnedError
from hhd.store.folders import Folders, Seen
from hhd.store.store import Store
from hhd.workspace import identity
from hhd.workspace.capture import capture
from hhd.workspace.comparing import tree_of
from hhd.workspace.errors import NotOurs, Unready
from hhd.workspace.in_place import same_state, why_not
from hhd.workspace.materialise import held, materialise, prepare
from hhd.workspace.place import find
from hhd.workspace.states import differences, state
from hhd.workspace.wanted import Wanted
from hhd.workspace.written import Written
from hhd_protocol.crypto import content_id
from hhd_protocol.ids import CheckpointId, FamilyId, PageId, SessionId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture

ID_MIN = 4
SHOWN_MAX = 8


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A capture in the store that a name means."""

    reader: CaptureReader
    family: FamilyId
    folder: Path | None
    session: SessionId | None = None

    @property
    def id(self) -> str:
        return self.reader.ref.name.hex()


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What a folder holds `now`, what hhd knows it by; of one where nothing is, a repository to `borrow` from."""

    get: Callable[[PageId], bytes]
    now: Capture | None = None
    last: _Found | None = None
    borrow: Path | None = None

    def about(self, found: _Found) -> _About:
        """The same for making the capture that was `found` appear there."""
        last = None if self.last is None else self.last.reader.capture()
        return {"now": self.now, "last": last, "borrow": self.borrow, "reason": f"hhd: {found.id[:12]}"}


class _About(TypedDict):
    now: Capture | None
    last: Capture | None
    borrow: Path | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Workspaces:
    """The verbs, on the store of this device; `recovered` says what a crash had left and was ended at the start."""

    store: Store
    me: Identity
    recovered: tuple[str, ...] = ()

    def capture(self, folder: Path, *, named: tuple[str, ...] = (), bytes_max: int | None = None) -> Kept:
        """Capture `folder` and remember it; raises RefusedError, FullStoreError.

        `named`: paths taken although they are ignored. `bytes_max`: of all files that are read.
        """
        top = self._top(folder)
        wanted = Wanted(named=frozenset(os.fsencode(one) for one in named))
        if bytes_max is not None:
            wanted = replace(wanted, bytes_max=bytes_max)
        commons = self.store.commons()
        with self.store.shelf.held():  # No session is advanced: `gc` cannot know that objects wait for their root.
            before = self._last(top, commons)
            try:
                known = None if before is None else before.reader.capture()
            except DamagedStoreError:  # `hhd check` names it; the folder is captured whole, as if for the first time.
                before = known = None
            writer = self.store.capture_writer(commons, None if before is None else before.reader.ref)
            made = capture(top, known, writer.put, wanted=wanted)
            with self.store.transaction():
                ref = writer.finish(made)
                Folders(self.store).note(top, commons, ref)
        new = sum(self.store.objects.size(name) for name in writer.made)
        return kept(made, ref, top, None, new_bytes=new)

    def show(self, name: str, *, at: str | None = None) -> Kept:
        """Return what the capture that `name` means holds; `at`: a checkpoint of the session that it means."""
        found = self._found(name, at)
        return kept(found.reader.capture(), found.reader.ref, found.folder, found.session)

    def diff(self, name: str, folder: Path | None = None, *, at: str | None = None) -> Differing:
        """Return what differs between the capture that `name` means and the folder it is of, or `folder`."""
        found = self._found(name, at)
        place = folder or found.folder
        if place is None:
            raise UsageError("This session has no folder here; say which with -C, or `hhd workspace map`.")
        top = self._top(place)
        old = found.reader.capture()
        now = capture(top, old, self._ids(found.family))
        changes = tuple(
            (one.what, one.how, visible_bytes(one.path))
            for one in differences(state(old, tree_of(top, old)), state(now, tree_of(top, now)))
        )
        was, here_now = old.repository, now.repository
        heads = (hex_of(was.head if was else None), hex_of(here_now.head if here_now else None))
        branches = (branch_of(was.branch if was else None), branch_of(here_now.branch if here_now else None))
        return Differing(
            capture=found.id,
            folder=visible(str(top), one_line=True),
            head=heads if heads[0] != heads[1] else None,
            branch=branches if branches[0] != branches[1] else None,
            changes=changes,
        )

    def map(self, name: str, folder: Path) -> Mapped:
        """Say that a session works in `folder` on this device; nothing in it is changed."""
        if not folder.is_dir():
            raise RefusedError(f"There is no folder {folder}; nothing was mapped.")
        session = naming.session(self.store, name)
        with self.store.transaction():
            noted = here.noted(self.store, session.id) or here.Note(place=None)
            here.note(self.store, session.id, replace(noted, folder=folder.resolve()))
        return Mapped(session=session.id.hex(), title=session.title, folder=str(folder.resolve()))

    def findings(self, name: str) -> Suspected:
        """Return where a session's captured files and texts look as if they held a credential."""
        session = naming.session(self.store, name)
        found = findings.findings(self.store, session.id)
        return Suspected(
            session=session.id.hex(),
            title=session.title,
            places=tuple((_where(one), one.line, one.kind) for one in found),
        )

    def apply(self, name: str, folder: Path | None, *, at: str | None = None) -> Applied:
        """Make the capture that `name` means appear in `folder`, or, where that would lose something, in one of ours.

        `folder` None: where the person mapped its session, else where hints say that its repository is.
        """
        with self.store.shelf.held():  # What is remembered of the folder in the end must still be here.
            found = self._found(name, at)
            return self._applied(found, _place(folder or self._guess(found, found.reader.capture())))

    def look(self, session: SessionId, ref: Ref, folder: Path | None, *, called: str) -> Looked | None:
        """Look at where `bring` would make the capture appear; None where nothing is there yet. Raises NotOurs."""
        found = self._of_session_at(session, ref)
        place = _place(folder or self._ours(Path(called), found))
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
        place = _place(folder)
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
        place = _place(folder or self._ours(Path(called), found))
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
            place = _place(folder or self._ours(Path(called), found))
            return self._applied(found, place, looked, readied, then)

    def _applied(
        self,
        found: _Found,
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
        found: _Found,
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

    def _appeared(self, found: _Found, folder: Path, readied: Readied) -> Written | None:
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

    def _given(self, found: _Found, folder: Path, looked: Looked | None) -> _Given:
        """How `folder` is, and how to come by what is to be there."""
        if not _holds_something(folder):
            return _Given(get=found.reader.piece, borrow=self._borrow(found.reader.capture()))
        last, now = self._seen(folder, found, looked)
        return _Given(
            get=found.reader.piece if last is None else _either(found.reader, last.reader), now=now, last=last
        )

    def _seen(self, folder: Path, found: _Found, looked: Looked | None = None) -> tuple[_Found | None, Capture]:
        """The capture that hhd knows `folder` by, and what it holds; raises NotOurs where that cannot be told."""
        if looked is not None and looked.is_of(folder):
            if looked.last is None:
                return None, looked.now
            with contextlib.suppress(MissingError, ThinnedError, DamagedStoreError):
                reader = self.store.capture_reader(looked.family, looked.last)
                return _Found(reader=reader, family=looked.family, folder=folder), looked.now
        newest, now = self._of_its_session(found, folder)
        last = newest or self._last(folder, None)
        if now is not None and last is not None and last.family == found.family:
            return last, now  # What it is held against changes only how its history is told, and that is not looked at.
        return last, self._now(folder, found, last)

    def _now(self, folder: Path, found: _Found, last: _Found | None) -> Capture:
        """What `folder` holds; raises NotOurs where that cannot be told, so that nothing may be written there."""
        family = found.family if last is None else last.family
        try:
            return capture(folder, None if last is None else last.reader.capture(), self._ids(family))
        except RefusedError as error:
            raise NotOurs(f"{visible(str(folder), one_line=True)} is left alone. {error}") from error

    def _ours(self, folder: Path, found: _Found) -> Path:
        return here.ours(folder, found.id)

    def _guess(self, found: _Found, wanted: Capture) -> Path:
        """Where a capture belongs here; raises UsageError that asks where hints do not decide."""
        mapped = None
        if found.session is not None and (noted := here.noted(self.store, found.session)) is not None:
            mapped = noted.folder
        mapped = mapped or (found.folder if found.session is None else None)
        if mapped is not None or wanted.repository is None:
            if mapped is None:
                raise UsageError("Nothing says where this folder belongs here; give a DIR.")
            return mapped
        guess = identity.guess(wanted.repository, self._known())
        if guess.folder is not None:
            return guess.folder
        if guess.candidates:
            shown = ", ".join(visible(str(one), one_line=True) for one in guess.candidates[:SHOWN_MAX])
            raise UsageError(f"Several folders here may be this repository: {shown}; give one as DIR, or map one.")
        return self._ours(Path("workspace"), found)

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

    def _borrow(self, wanted: Capture) -> Path | None:
        """A repository here that has what the capture takes for granted."""
        if wanted.repository is None or not wanted.repository.history.assumed:
            return None
        for one in self._known():
            if set(one.roots) & set(wanted.repository.roots) and (place := find(one.folder)) is not None:
                return place.common
        return None

    def _found(self, name: str, at: str | None = None) -> _Found:
        if at is not None:
            return self._of_session(name, at)
        path = Path(name).absolute()
        seen = Folders(self.store).all()
        if ("/" in name or name in (".", "..")) or path.is_dir():
            top = self._top(path)
            for one in seen:
                if one.folder == top:
                    return _Found(reader=self._reader(one), family=one.family, folder=top)
            raise RefusedError(f"{visible(name, one_line=True)} was never captured here; `hhd workspace capture` does.")
        wanted = name.lower()
        if len(wanted) >= ID_MIN and all(char in "0123456789abcdef" for char in wanted):
            hits = {one.ref: one for one in reversed(seen) if one.ref.name.hex().startswith(wanted)}
            if len(hits) > 1:
                shown = ", ".join(ref.name.hex()[:16] for ref in list(hits)[:SHOWN_MAX])
                raise UsageError(f"'{name}' may mean the captures {shown}; give more of the id.")
            for one in hits.values():
                return _Found(reader=self._reader(one), family=one.family, folder=one.folder)
        return self._of_session(name, what="captured folder and no session")

    def _of_session(self, name: str, at: str | None = None, *, what: str = "session") -> _Found:
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

    def _of_session_at(self, session: SessionId, ref: Ref) -> _Found:
        family = self.store.session(session).family
        noted = here.noted(self.store, session)
        return _Found(
            reader=self.store.capture_reader(family, ref),
            family=family,
            folder=None if noted is None else noted.folder,
            session=session,
        )

    def _of_its_session(self, found: _Found, folder: Path) -> tuple[_Found | None, Capture | None]:
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

    def _last(self, folder: Path, family: FamilyId | None) -> _Found | None:
        """The newest capture of `folder` (of `family`) that is here."""
        for one in Folders(self.store).all():
            if one.folder == folder and family in (None, one.family):
                try:
                    return _Found(reader=self._reader(one), family=one.family, folder=folder)
                except (MissingError, ThinnedError, DamagedStoreError):
                    continue
        return None

    def _reader(self, seen: Seen) -> CaptureReader:
        return self.store.capture_reader(seen.family, seen.ref)

    def _ids(self, family: FamilyId) -> Callable[[bytes], PageId]:
        """Names pieces as `family` does, and keeps none."""
        key = self.store.families.get(family).page_key
        return lambda raw: content_id(key, b"piece", raw)

    def _top(self, folder: Path) -> Path:
        if not folder.is_dir():
            raise RefusedError(f"There is no folder {visible(str(folder), one_line=True)}.")
        place = find(folder)
        return folder.resolve() if place is None else place.top


def _place(folder: Path) -> Path:
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


def _where(one: findings.Finding) -> str:
    if one.path is None:
        return f"what was said or given at effect {one.position}"
    return visible_bytes(one.path) + (f" (after its first {one.piece} MiB)" if one.piece else "")


def _counting(get: Callable[[PageId], bytes]) -> Callable[[PageId], bytes]:
    """`get`, with what it gives counted for who watches."""

    def counted(piece: PageId) -> bytes:
        raw = get(piece)
        passing.more(len(raw))
        return raw

    return counted if passing.is_watched() else get


def _either(one: CaptureReader, other: CaptureReader) -> Callable[[PageId], bytes]:
    return lambda piece: (one if piece in one.places() else other).piece(piece)


@contextlib.contextmanager
def opened() -> Iterator[Workspaces]:
    """The store, opened, and what a crash left in any folder ended first."""
    me = door.identity()
    with Store.open(door.store_folder(), seed=me.seed, limits=door.limits()) as store:
        yield Workspaces(store=store, me=me, recovered=unfinished.ended())
