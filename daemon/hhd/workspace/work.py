"""One folder being changed in place: what came is taken in apart, the change is planned and prepared, and then made.

    begin, lock, prepare, make, end             # all at once, under git's lock
    begin, prepare, ... lock, again, make, end  # prepared ahead: only what stands after the dots is left to do

Until `make` nothing of the folder is touched: all lies in the stage, which a record names.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hhd.base.beneath import Below
from hhd.base.files import sync_file, sync_folder, write_all
from hhd.workspace import gitdir
from hhd.workspace.branches import Moves, moves
from hhd.workspace.errors import HostileCapture, LeftBetween, Meddled, NotOurs, Unready
from hhd.workspace.fitting import insist_on_distinct, probe
from hhd.workspace.git import Git, GitFailed
from hhd.workspace.index_file import IndexEntry, decode, encode, places
from hhd.workspace.index_lock import release_lock, take_lock
from hhd.workspace.objects import Get, insist_on_present, read_tree, store_blobs, take_packs
from hhd.workspace.pending import Pending, Place
from hhd.workspace.place import find
from hhd.workspace.planning import Plan, Planner
from hhd.workspace.standing import Standing, standing
from hhd.workspace.states import SUBMODULE, Indexed, State, Tree, state
from hhd.workspace.switch import GIT_DIR, PUT, REMOVE, Change, Seen, Switch, seen
from hhd.workspace.switcher import Switcher
from hhd.workspace.writing import write_nodes
from hhd.workspace.written import Written, notes
from hhd_protocol.workspace import Capture, Repository

_AHEAD = ".ahead"
"""The end of the name of a stage that is no switch's yet: its record never has the folder changed."""


class Work:
    """One folder that is to turn from `now` into `capture`; `last` is what hhd knows it held."""

    def __init__(
        self, capture: Capture, get: Get, folder: Path, *, now: Capture, last: Capture | None, reason: str
    ) -> None:
        self.capture, self.get, self.folder = capture, get, folder
        self.now, self.last, self.reason = now, last, reason
        self.repository = capture.repository
        self.git = Git(folder)
        self.git_dir: Path | None = None
        self.keep_stage = False
        self.token = secrets.token_bytes(16)

    # Prepared

    def begin(self, place: Place, *, ahead: bool = False) -> None:
        """Make the stage, named in a record of `place` before; `ahead`: one whose name no switch has."""
        if self.repository is not None:
            self.git_dir = self._own_git_dir()
        beside = self._stage_place()
        if ahead and beside == self.folder:
            raise Unready("what is prepared could be seen in the folder")
        self.stage = beside / f".hhd-{self.token.hex()[:12]}{_AHEAD if ahead else ''}"
        place.save(self._pending(self.stage, lock=not ahead))
        try:
            self.stage.mkdir(0o700)
            for name in ("new", "old"):
                (self.stage / name).mkdir()
        except BaseException:
            self.end(place)
            raise

    def _pending(self, stage: Path, *, lock: bool, switch: Switch | None = None) -> Pending:
        """What is left if this process dies; `lock`: git's lock may be ours."""
        found = self._lock if lock else None
        token = self.token if lock else b""
        return Pending(folder=self.folder, stage=stage, lock=found, token=token, switch=switch)

    @property
    def _lock(self) -> Path | None:
        return None if self.git_dir is None else self.git_dir / "index.lock"

    def lock(self) -> None:
        """Hold git's lock, if there is a repository; raises NotOurs."""
        if self._lock is not None:
            take_lock(self._lock, self.token)

    def unlock(self) -> None:
        """Let it go again, if it is held."""
        if self._lock is not None:
            release_lock(self._lock, self.token)

    def _own_git_dir(self) -> Path:
        try:
            top, own = self.git.parsed(["--show-toplevel"], ["--absolute-git-dir"])
        except GitFailed as error:  # Somebody else's, say, which git does not work in.
            raise NotOurs(f"{self.folder} is left alone. git said: {error}") from error
        if Path(top).resolve() != self.folder.resolve():
            raise NotOurs(f"{self.folder} is left alone: it is not the top of a repository.")
        for name in gitdir.REFUSED:
            if os.path.lexists(Path(own) / os.fsdecode(name)):
                raise NotOurs(f"{self.folder} is left alone: a rebase, or the like, is in progress there.")
        return Path(own)

    def _stage_place(self) -> Path:
        """A folder on the same file system: what is prepared must be movable to where it belongs."""
        device = os.stat(self.folder).st_dev
        if self.git_dir is not None and os.stat(self.git_dir).st_dev != device:
            raise NotOurs(f"{self.folder} is left alone: its repository is on another file system.")
        candidates = (self.git_dir, self.folder.parent, self.folder)
        for one in candidates:
            if one is not None and os.stat(one).st_dev == device and os.access(one, os.W_OK):
                return one
        raise NotOurs(f"{self.folder} is left alone: this user may not write there.")

    def prepare(self) -> None:
        """Take in what came, find what has to change, and write all that is new into the stage."""
        git = self.git
        if self.repository is not None:
            git = self._objects(self.repository)
        tree = self._tree(git, self.now.repository)
        old = state(self.now, tree)
        new = state(self.capture, tree if self._stays_at_its_commit() else self._tree(git, self.repository))
        insist_on_distinct((*new.nodes, *(one.path for one in new.index)), probe(self.stage))
        index = self._current_index(old)
        going = self._moves(git)
        planner = Planner(old, new, self._algorithm())
        plan = planner.plan(self.folder, self.get)
        changes = [*plan.changes, *self._prepare(plan, git)]
        changes += self._git_files(len(changes))
        unchanged = self._unchanged(plan, new)
        at, index_at = None, None
        if self.repository is not None:
            at = len(changes)
            change, index_at = self._prepare_index(at, index, old, new, unchanged)
            changes.append(change)
        self.switch = Switch(
            folder=self.folder,
            git_dir=self.git_dir,
            stage=self.stage,
            changes=tuple(changes),
            refs=going.refs,
            head_old=going.head_old,
            head_new=going.head_new,
            index=at,
            unchanged=unchanged,
            algorithm=self._algorithm(),
            reason=self.reason,
        )
        self.written = Written(folder=self.folder, in_place=True, notes=notes(self.capture, new, shallow=False))
        self._apart, self._planner, self._plan, self._going, self._index_at = git, planner, plan, going, index_at

    def prepare_ahead(self) -> None:
        """The same without git's lock, noting what it stands on; raises Unready where somebody is at work there."""
        before = self._standing()
        self.prepare()
        self._stood = self._standing()
        if before != self._stood:
            raise Unready("somebody is at work in the repository")

    # Prepared ahead, and now to be made

    def record_ahead(self, place: Place) -> None:
        """Name the switch in `place`, and git's lock: none of it counts before `uncover`."""
        self.switch = replace(self.switch, stage=self._uncovered)
        place.save(self._pending(self._uncovered, lock=True, switch=self.switch))

    def insist_on_as_it_was(self, get: Get) -> None:
        """Under git's lock: raise Unready unless all that `prepare_ahead` found is found again, down to the bytes."""
        self.get = get
        if self._standing() != self._stood:
            raise Unready("the repository is not as it was")
        going = self._going
        if (going.refs or going.head_old != going.head_new) and self._moves(self._apart) != going:
            raise Unready("a branch is not as it was")
        if self._planner.plan(self.folder, get) != self._plan:
            raise Unready("the files are not as they were")

    def uncover(self) -> None:
        """Have the stage be called what the record calls it: from now on the switch is carried on."""
        self.keep_objects()
        uncovered = self._uncovered
        os.rename(self.stage, uncovered)
        self.stage = uncovered  # Not before: what stands under that name otherwise is nobody's to remove.
        sync_folder(self.stage.parent)

    @property
    def _uncovered(self) -> Path:
        return self.stage.with_name(self.stage.name.removesuffix(_AHEAD))

    def _standing(self) -> Standing | None:
        if self.git_dir is None:
            return None
        place, now = find(self.folder), self.now.repository
        if place is None or place.git_dir != self.git_dir.resolve() or now is None:
            raise Unready("the repository is not where git says")
        return standing(place, now.branch)

    # Made

    def record(self, place: Place) -> None:
        """Name the switch in `place`: from now on it is carried on by whoever finds it."""
        self.keep_objects()
        place.save(self._pending(self.stage, lock=True, switch=self.switch))

    def make(self, place: Place) -> Written:
        """Make the change that was recorded. Raises what a step raises, with all taken back, or LeftBetween."""
        switcher = Switcher(self.switch, index_at=self._index_at)
        pending = self._pending(self.stage, lock=True, switch=self.switch)
        try:
            switcher.forward()
        except BaseException as error:
            self.keep_stage = True  # Until it is taken back, the stage holds the person's files.
            try:
                switcher.back()
            except OSError as again:
                raise LeftBetween(
                    f"{self.folder} is half-way ({again.strerror}): with that mended, the next start of hhd ends it."
                ) from error
            if switcher.left:
                self._let_go(place)
                raise LeftBetween(
                    f"{self.folder} was changed by something else while a failed change was taken back: "
                    f"{' '.join(switcher.left)} What was replaced is in {self.stage}."
                ) from error
            self.keep_stage = False
            place.forget_switch(pending, undone=True)
            raise
        place.forget_switch(pending)
        return self.written

    def end(self, *places: Place) -> None:
        """Nothing is left of it, the records last; what is half-way stays. Raises OSError."""
        if self.keep_stage:
            return
        self.unlock()
        shutil.rmtree(self.stage, ignore_errors=True)
        for place in places:
            place.clear()

    def _let_go(self, place: Place) -> None:
        """Nothing is carried on by anybody, but the stage stays: it holds what could not be put back."""
        place.clear()
        self.unlock()

    def _algorithm(self) -> str:
        return "sha1" if self.repository is None else self.repository.object_format.value

    def _stays_at_its_commit(self) -> bool:
        now, wanted = self.now.repository, self.repository
        return now is not None and wanted is not None and now.head == wanted.head

    def _tree(self, git: Git, repository: Repository | None) -> Tree:
        if repository is None or repository.head is None:
            return {}
        return read_tree(git, repository.head, repository.object_format)

    def _objects(self, repository: Repository) -> Git:
        """Take in what came, apart from the repository until it is wanted."""
        here, objects = self.git.parsed(["--show-object-format"], ["--path-format=absolute", "--git-path", "objects"])
        if here != repository.object_format.value:
            raise NotOurs(f"{self.folder} is left alone: its objects are named by {here}.")
        self._insist_on_same_sparse(repository)
        self.store = Path(objects)
        (self.stage / "objects" / "pack").mkdir(parents=True)
        apart = {
            "GIT_OBJECT_DIRECTORY": str(self.stage / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.store),
        }
        git = Git(self.folder, git_dir=self.git_dir, apart=apart, like=self.git)
        heads = (repository.operation.heads if repository.operation else ()) + (
            () if repository.head is None else (repository.head,)
        )
        stands = self.now.repository is not None and set(heads) <= {self.now.repository.head}
        whole = stands or self._is_whole(git, heads)  # A commit that it stands on is not looked for.
        try:
            if not whole:  # Else the packs hold nothing that is not here: most often, the commit is an old one.
                take_packs(git, repository.history.packs, self.get)
        except HostileCapture as error:
            if repository.history.shallow:  # Perhaps only because the repository here is complete, and lacks a base.
                raise NotOurs(f"{self.folder} is left alone: {error}") from error
            raise
        store_blobs(git, repository, self.get, self.stage / "blobs")
        insist_on_present(git, () if stands else heads, "commit")
        insist_on_present(git, (one.object for one in repository.index if one.mode not in (0, SUBMODULE)), "blob")
        if not whole and not self._is_whole(git, heads):
            raise NotOurs(f"{self.folder} is left alone: it lacks a part of the history.")
        return git

    def _is_whole(self, git: Git, commits: Sequence[bytes]) -> bool:
        """Whether `commits` are here with all they reach."""
        if not commits:
            return True
        ids = [one.hex() for one in commits]
        return git.line("rev-list", "--quiet", "--objects", *ids, "--not", "--all") is not None

    def keep_objects(self) -> None:
        """Move what came into the repository: objects that nothing names yet change nothing there."""
        if self.repository is None:
            return
        arrived = self.stage / "objects"
        for source in sorted(arrived.rglob("*"), key=lambda one: one.suffix == ".idx"):
            if source.is_file():
                target = self.store / source.relative_to(arrived)
                target.parent.mkdir(exist_ok=True)
                if not target.exists():
                    os.chmod(source, 0o444)
                    shutil.move(source, target)

    def _insist_on_same_sparse(self, repository: Repository) -> None:
        assert self.git_dir is not None
        on = self.git.line("config", "--type=bool", "core.sparseCheckout") == "true"
        patterns = self.git_dir / "info" / "sparse-checkout"
        here = patterns.read_bytes() if on and patterns.exists() else None
        there = None if repository.sparse is None else repository.sparse.patterns
        if (here if on else None) != there:
            raise NotOurs(f"{self.folder} is left alone: its checkout is sparse in another way.")

    def _current_index(self, old: State) -> dict[tuple[bytes, int], IndexEntry]:
        """The entries of the index, which must be those of `now`; what git saw of a file too late is forgotten."""
        if self.git_dir is None:
            return {}
        file = self.git_dir / "index"
        if not file.exists():
            found, at = [], 0
        else:
            found, at = decode(file.read_bytes(), algorithm=self._algorithm()), file.stat().st_mtime_ns
        facts = [(one.path, one.stage, one.mode, one.oid, one.flags) for one in found]
        if facts != [(one.path, one.stage, one.mode, one.object, int(one.flags)) for one in old.index]:
            raise Meddled("the index was changed by something else meanwhile.")
        return {(one.path, one.stage): one for one in found if _mtime(one.seen) < at}

    def _moves(self, git: Git) -> Moves:
        now, last = self.now.repository, None if self.last is None else self.last.repository
        if self.repository is None or now is None:
            return Moves(refs=(), head_old=None, head_new=None)
        return moves(git, self.folder, now=now, last=last, wanted=self.repository)

    def _prepare(self, plan: Plan, git: Git) -> list[Change]:
        """Write what is to be put into the stage, each under the number of its change."""
        with Below(self.stage) as below:
            wanted = [((b"new", b"%d" % (len(plan.changes) + n)), node) for n, (_, node, _) in enumerate(plan.put)]
            looks = [seen(found) for _, found in write_nodes(below, wanted, git, self.get)]
        return [
            Change(kind=PUT, path=path, before=before, staged=look)
            for (path, _, before), look in zip(plan.put, looks, strict=True)
        ]

    def _git_files(self, first: int) -> list[Change]:
        """The operation in progress: its files put, and those of one that is over removed."""
        if self.git_dir is None or self.repository is None:
            return []
        want = gitdir.operation_files(self.repository.operation)
        changes: list[Change] = []
        for name in gitdir.OPERATION_FILES:
            file = self.git_dir / os.fsdecode(name)
            before = seen(file.lstat()) if os.path.lexists(file) else None
            if name in want and not (before is not None and file.read_bytes() == want[name]):
                number = first + len(changes)
                staged = self._stage_file(number, want[name])
                changes.append(Change(kind=PUT, path=name, root=GIT_DIR, before=before, staged=staged))
            elif name not in want and before is not None:
                changes.append(Change(kind=REMOVE, path=name, root=GIT_DIR, before=before))
        return changes

    def _stage_file(self, number: int, content: bytes) -> Seen:
        with Below(self.stage) as below:
            fd = below.create((b"new", b"%d" % number), 0o666)
            try:
                write_all(fd, [content])
                sync_file(fd)
                return seen(os.fstat(fd))
            finally:
                os.close(fd)

    def _unchanged(self, plan: Plan, new: State) -> tuple[bytes, ...]:
        as_index = {one.path for one in new.index if one.as_index}
        return tuple(path for path, _, _ in plan.put if path in as_index)

    def _prepare_index(
        self,
        number: int,
        current: Mapping[tuple[bytes, int], IndexEntry],
        old: State,
        new: State,
        unchanged: Sequence[bytes],
    ) -> tuple[Change, dict[bytes, int]]:
        """The change that puts the index, and where in it the entries of what is put are."""
        assert self.git_dir is not None
        raw = encode((_index_entry(one, current, old, new) for one in new.index), algorithm=self._algorithm())
        staged = self._stage_file(number, raw)
        file = self.git_dir / "index"
        before = seen(file.lstat()) if os.path.lexists(file) else None
        change = Change(kind=PUT, path=b"index", root=GIT_DIR, before=before, staged=staged)
        return change, places(raw, frozenset(unchanged), algorithm=self._algorithm())


def _index_entry(one: Indexed, current: Mapping[tuple[bytes, int], IndexEntry], old: State, new: State) -> IndexEntry:
    known = current.get((one.path, one.stage))
    same = (
        known is not None
        and (known.mode, known.oid) == (one.mode, one.object)
        and old.nodes.get(one.path) == new.nodes.get(one.path)
    )
    look = known.seen if same and known is not None else b"\0" * 40
    return IndexEntry(path=one.path, mode=one.mode, oid=one.object, stage=one.stage, flags=int(one.flags), seen=look)


def _mtime(look: bytes) -> int:
    return int.from_bytes(look[8:12], "big") * 10**9 + int.from_bytes(look[12:16], "big")
