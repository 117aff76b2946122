"""Captures a git repository: what a checkout of its HEAD commit lacks, without changing a byte of it."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hhd.base.beneath import Below, LinkInTheWay
from hhd.base.credentials import redacted
from hhd.base.errors import RefusedError
from hhd.base.files import open_plain
from hhd.base.text import visible, visible_bytes
from hhd.workspace.blobs import blobs
from hhd.workspace.contents import Contents, Put
from hhd.workspace.converting import differing, may_convert
from hhd.workspace.credential_files import is_for_credentials
from hhd.workspace.history import history, shallow_marks
from hhd.workspace.leaving_out import LeftOuts
from hhd.workspace.memory import Memory
from hhd.workspace.operation import operation
from hhd.workspace.place import Place, at
from hhd.workspace.status import Changed, Status, status
from hhd.workspace.tracked import SUBMODULE, Tracked, tracked
from hhd.workspace.view import View
from hhd.workspace.walk import walk
from hhd.workspace.wanted import Wanted
from hhd_protocol.limits import WORKSPACE_COMMITS_MAX, WORKSPACE_REMOTES_MAX, WORKSPACE_TEXT_BYTES_MAX
from hhd_protocol.workspace import (
    Capture,
    Content,
    Entry,
    Flag,
    IndexEntry,
    Kind,
    LeftOut,
    ObjectFormat,
    Reason,
    Remote,
    Repository,
    Sparse,
)
from hhd_protocol.workspace_paths import path_problem

_TRIES = 3
"""Captures begun anew because git changed the index or HEAD meanwhile; an agent's own git commands are short."""

_USER_IN_URL = re.compile(rb"^([A-Za-z][A-Za-z0-9+.-]*://)[^/]*@")
_FILES = (0o100644, 0o100755)
_EMPTY_BLOB = {
    20: bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
    32: bytes.fromhex("473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"),
}
"""What an intent to add stands on, by the length of object ids."""


def capture_repository(place: Place, before: Capture | None, put: Put, memory: Memory, wanted: Wanted) -> Capture:
    """Return the state of the repository at `place`; raises RefusedError, as `capture` says."""
    for _ in range(_TRIES):
        with View(place) as view:
            mark = _mark(view)
            made = _Taking(view, before, put, memory, wanted, mark).taken()
            if _mark(view) == mark:
                return made
    raise RefusedError(
        f"git keeps changing {visible(str(place.top), one_line=True)} while it is captured; try again when that has "
        "ended. Nothing was captured."
    )


def _mark(view: View) -> tuple[object, ...]:
    """What tells whether git changed the index or where HEAD stands."""
    index = view.place.git_dir / "index"
    try:
        with open_plain(index) as opened:
            found = os.fstat(opened.fileno())
            opened.seek(max(0, found.st_size - 32))
            seen: tuple[object, ...] = (found.st_ino, found.st_size, found.st_mtime_ns, opened.read(32))
    except FileNotFoundError:
        seen = ()
    except OSError as error:
        raise view.refused(error) from error
    branch = view.copied(os.fsdecode(view.branch)) if view.branch and not path_problem(view.branch) else b""
    packed = _changed_at(view.place.common / "packed-refs")
    return (seen, view.copied("HEAD"), branch, packed)


def _changed_at(path: os.PathLike[str]) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


@dataclass
class _Taking:
    """One try at one capture."""

    view: View
    before: Capture | None
    put: Put
    memory: Memory
    wanted: Wanted
    mark: tuple[object, ...]
    left_out: LeftOuts = field(default_factory=LeftOuts)

    def taken(self) -> Capture:
        doing = operation(self.view)
        found = status(self.view)
        listed = self._tracked()
        with Below(self.view.place.top) as below:
            entries = self._entries(found, listed, below)
        old = self.before.repository if self.before is not None else None
        repository = Repository(
            object_format=ObjectFormat.SHA256 if self.view.sha256 else ObjectFormat.SHA1,
            head=self.view.head,
            branch=self.view.branch,
            index=self._index(found, listed),
            sparse=self._sparse(),
            operation=doing,
            history=history(self.view, doing, old, self.wanted, self.put),
            shallow=shallow_marks(self.view)[:WORKSPACE_COMMITS_MAX],
            roots=self._roots(old),
            remotes=_remotes(self.view),
        )
        self._say_what_else_is_left_out(found, listed)
        left_out, more = self.left_out.listed()
        return Capture(repository=repository, entries=entries, left_out=left_out, left_out_more=more)

    def _tracked(self) -> Tracked:
        if self.memory.index != self.mark[0] or self.memory.tracked is None:
            self.memory.index, self.memory.tracked = self.mark[0], tracked(self.view)
        return self.memory.tracked

    # The working tree

    def _entries(self, found: Status, listed: Tracked, below: Below) -> tuple[Entry, ...]:
        old = {one.path: one for one in self.before.entries} if self.before and self.before.repository else {}
        contents = Contents(below, self.put, before=old, memory=self.memory)
        made = [module for one in found.changed if (module := self._submodule(one, below)) is not None]
        in_index = {one.path for one in found.changed if one.mode} | {one.path for one in found.conflicts}
        in_index |= {one.path for one in listed.flagged}
        looks: dict[bytes, os.stat_result | None] = {}
        for path in sorted(self._paths(found, listed, below)):
            if self._stays(path):
                continue
            try:
                looks[path] = below.stat(tuple(path.split(b"/")))
            except LinkInTheWay:
                looks[path] = None
            except PermissionError:
                self.left_out.add(LeftOut(path=path, reason=Reason.UNREADABLE))
        self.wanted.insist(
            (look.st_size, path) for path, look in looks.items() if look is not None and stat.S_ISREG(look.st_mode)
        )
        for path, look in looks.items():
            one: Entry | LeftOut | None = None if look is None else contents.entry(path, look)
            gone = one is None or (isinstance(one, LeftOut) and one.reason is Reason.SPECIAL)
            if isinstance(one, LeftOut):
                self._left_out(one, tracked=path in in_index)
            elif one is not None:
                made.append(one)
            if gone and path in in_index:
                made.append(Entry(path=path, kind=Kind.GONE))
        made += [Entry(path=path, kind=Kind.FOLDER) for path in self._empty_folders(found, below)]
        self.memory.stamps = contents.stamps
        return tuple(sorted(made, key=lambda one: one.path))

    def _paths(self, found: Status, listed: Tracked, below: Below) -> set[bytes]:
        """Paths where the working tree differs, or may differ, from the index."""
        paths = {one.path for one in found.changed if one.unstaged != "." and not one.is_submodule}
        paths.update(one.path for one in found.conflicts)
        paths.update(path for path in found.untracked if not path.endswith(b"/"))
        paths.update(self._named(found, below))
        now, sha256 = time.time_ns(), self.view.sha256
        for one in listed.flagged:
            there = _is_there(below, one.path)
            if one.flags & Flag.SKIP_WORKTREE:
                paths.update({one.path} if there else ())
            elif one.mode in _FILES:
                only = ((one.path, one.object),)
                paths.update({one.path} if not there else differing(only, below, Memory(), sha256=sha256, now_ns=now))
        attributes = {*listed.attribute_files, *(p for p in paths if p.rpartition(b"/")[2] == b".gitattributes")}
        if may_convert(self.view, attributes, below):
            paths.update(differing(listed.files, below, self.memory, sha256=sha256, now_ns=now))
        return paths

    def _named(self, found: Status, below: Below) -> Iterator[bytes]:
        """Files that are ignored, but were named."""
        for path in found.ignored:
            if path.endswith(b"/") and (self.wanted.names(path) or self.wanted.within(path)):
                inner = (one.path for one in walk(below.fd, path) if not one.is_folder)
                yield from (one for one in inner if self.wanted.names(one))
            elif not path.endswith(b"/") and self.wanted.names(path):
                yield path

    def _stays(self, path: bytes) -> bool:
        """Whether `path` is left out for its name alone; says so."""
        if path_problem(path):
            self.left_out.add(LeftOut(path=path, reason=Reason.NAME))
        elif self.wanted.keeps_off(path) or (is_for_credentials(path) and not self.wanted.names(path)):
            self.left_out.add(LeftOut(path=path, reason=Reason.CREDENTIALS))
        else:
            return False
        return True

    def _left_out(self, one: LeftOut, *, tracked: bool) -> None:
        if tracked and one.reason is Reason.CHANGING:
            raise RefusedError(
                f"{visible_bytes(one.path)} keeps changing while it is read; stop what writes it, then capture again. "
                "Nothing was captured."
            )
        self.left_out.add(one)

    def _submodule(self, changed: Changed, below: Below) -> Entry | None:
        if not changed.is_submodule or changed.unstaged == "." or changed.mode != SUBMODULE:
            return None
        if not _is_there(below, changed.path):
            return Entry(path=changed.path, kind=Kind.GONE)
        inner = at(self.view.place.top / os.fsdecode(changed.path))
        if inner is None:
            return None
        with View(inner) as view:
            commit = view.head
        if commit is None or len(commit) != len(changed.object):
            return None
        return Entry(path=changed.path, kind=Kind.GITLINK, commit=commit)

    def _empty_folders(self, found: Status, below: Below) -> Iterator[bytes]:
        skipped = {path for path in (*found.ignored, *found.untracked) if path.endswith(b"/")}
        for folder in found.untracked_folders:
            for one in walk(below.fd, folder, skipped):
                if one.is_special:
                    self.left_out.add(LeftOut(path=one.path, reason=Reason.SPECIAL))
                elif one.is_empty and not path_problem(one.path) and not self.wanted.keeps_off(one.path):
                    yield one.path

    # The index

    def _index(self, found: Status, listed: Tracked) -> tuple[IndexEntry, ...]:
        made: dict[tuple[bytes, int], IndexEntry] = {}
        for one in found.changed:
            if one.staged != ".":
                made[one.path, 0] = _indexed(one.path, one.mode, one.object)
            elif one.unstaged == "A":
                intended = _indexed(one.path, one.file_mode or _FILES[0], _EMPTY_BLOB[len(one.object)])
                made[one.path, 0] = replace(intended, flags=Flag.INTENT_TO_ADD)
        in_head = {one.head_object for one in found.changed}
        for flagged in listed.flagged:
            staged = made.get((flagged.path, 0)) or _indexed(flagged.path, flagged.mode, flagged.object)
            in_head.update(() if (flagged.path, 0) in made else (flagged.object,))
            made[flagged.path, 0] = replace(staged, flags=staged.flags | flagged.flags)
        for conflict in found.conflicts:
            for stage, (mode, object_id) in conflict.stages.items():
                made[conflict.path, stage] = replace(_indexed(conflict.path, mode, object_id), stage=stage)
        kept = [made[place] for place in sorted(made) if not self._stays(place[0])]
        return self._with_contents(kept, in_head)

    def _with_contents(self, entries: list[IndexEntry], in_head: set[bytes]) -> tuple[IndexEntry, ...]:
        """The entries with the contents of objects that HEAD's tree does not hold."""
        old = self.before.repository.index if self.before and self.before.repository else ()
        known = {one.object: one.content for one in old if one.content is not None}

        def needs(one: IndexEntry) -> bool:
            return one.mode not in (0, SUBMODULE) and not one.flags & Flag.INTENT_TO_ADD and one.object not in in_head

        read = blobs(self.view, {one.object for one in entries if needs(one) and one.object not in known}, self.put)
        found: dict[bytes, Content] = {**known, **read}
        return tuple(replace(one, content=found[one.object]) if needs(one) else one for one in entries)

    # The rest

    def _sparse(self) -> Sparse | None:
        if not self.view.settings.flag("core.sparsecheckout"):
            return None
        patterns = self.view.copied("info/sparse-checkout")
        if len(patterns) > WORKSPACE_TEXT_BYTES_MAX * 64:
            raise self.view.refused(ValueError("the patterns of its sparse checkout are too long to travel"))
        return Sparse(patterns=patterns, cone=self.view.settings.flag("core.sparsecheckoutcone"))

    def _roots(self, old: Repository | None) -> tuple[bytes, ...]:
        """First commits: looked for once, since it walks the whole history; unknown where that is cut."""
        if self.view.head is None or self.view.copied("shallow"):
            return ()
        if old is not None and old.roots:
            return old.roots
        out = self.view.run("rev-list", "--max-parents=0", "HEAD")
        return tuple(sorted(bytes.fromhex(line.decode()) for line in out.split()))[:WORKSPACE_COMMITS_MAX]

    def _say_what_else_is_left_out(self, found: Status, listed: Tracked) -> None:
        for path in found.untracked:
            if path.endswith(b"/"):
                self.left_out.add(LeftOut(path=path, reason=Reason.REPOSITORY))
        for path in found.ignored:
            if not self.wanted.names(path):
                self.left_out.add(LeftOut(path=path, reason=Reason.IGNORED))
        for path in found.unreadable:
            self.left_out.add(LeftOut(path=path, reason=Reason.UNREADABLE))
        for path in listed.submodules:
            if self._has_own_changes(path):
                self.left_out.add(LeftOut(path=path + b"/", reason=Reason.SUBMODULE))

    def _has_own_changes(self, path: bytes) -> bool:
        """Whether the submodule at `path` has changes of its own, which do not travel; said of one git cannot read."""
        with Below(self.view.place.top) as below:
            if not _is_there(below, path + b"/.git"):
                return False
        try:
            inner = at(self.view.place.top / os.fsdecode(path))
            if inner is None:
                return False
            with View(inner) as view:
                found = status(view)
        except RefusedError:
            return True
        return bool(found.changed or found.conflicts or found.untracked)


def _is_there(below: Below, path: bytes) -> bool:
    try:
        return below.stat(tuple(path.split(b"/"))) is not None
    except (LinkInTheWay, PermissionError, ValueError):
        return False


def _indexed(path: bytes, mode: int, object_id: bytes) -> IndexEntry:
    return IndexEntry(path=path, stage=0, mode=mode, object=object_id if mode else b"")


def _remotes(view: View) -> tuple[Remote, ...]:
    found = []
    for name, url in sorted(view.settings.remotes.items())[:WORKSPACE_REMOTES_MAX]:
        bare = _USER_IN_URL.sub(rb"\1", url)
        shown = redacted(bare.decode("utf-8", "surrogateescape"))[0].encode("utf-8", "surrogateescape")
        if name and max(len(name), len(shown)) <= WORKSPACE_TEXT_BYTES_MAX:
            found.append(Remote(name=name, url=shown))
    return tuple(found)
