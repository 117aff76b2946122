"""A capture made to appear in a folder that is there: only what differs is touched, all of it or nothing.

What the folder holds is known from a capture of it, made just before, and every file that is to go is read and compared
with that again, under git's own lock; so nothing is replaced that somebody changed. Files that git ignores, and
whatever else a capture leaves out, stay; if one is in the way, the folder is not written to at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hhd.base.beneath import Below, LinkInTheWay
from hhd.base.files import sync_file, write_all
from hhd.workspace import gitdir
from hhd.workspace.branches import Moves, moves
from hhd.workspace.errors import HostileCapture, LeftBetween, Meddled, NotOurs, UnfinishedWrite, unclean
from hhd.workspace.fitting import insist_on_distinct, probe
from hhd.workspace.git import Git, GitFailed
from hhd.workspace.index_file import IndexEntry, UnreadableIndex, decode, encode
from hhd.workspace.index_lock import release_lock, take_lock
from hhd.workspace.objects import Get, insist_on_present, read_tree, store_blobs, take_packs
from hhd.workspace.pending import Pending, Place
from hhd.workspace.planning import Plan, Planner
from hhd.workspace.states import SUBMODULE, Indexed, State, Tree, state
from hhd.workspace.switch import GIT_DIR, PUT, REMOVE, Change, Seen, Switch, seen
from hhd.workspace.switcher import Switcher
from hhd.workspace.writing import write_nodes
from hhd.workspace.written import Written, notes
from hhd_protocol.errors import FormatError
from hhd_protocol.workspace import Capture, Kind, Reason, Repository, check

_BLIND = frozenset({Reason.UNREADABLE, Reason.CHANGING})
"""Left out for reasons that keep one from knowing what the folder holds."""


def why_not(now: Capture, last: Capture | None, wanted: Capture) -> str | None:
    """What keeps a folder that is as `now` says from becoming `wanted`, as a sentence; None if nothing does.

    `last`: what hhd last captured or wrote there; if it is still that, nothing of the person is lost.
    """
    if (now.repository is None) != (wanted.repository is None):
        return "One of the two is a repository and the other is not."
    if now.left_out_more or any(one.reason in _BLIND for one in now.left_out):
        return "Not all of the folder could be read."
    if last is not None and same_state(now, last):
        return None
    if now.repository is None:
        return None if not now.entries else "The folder holds files that hhd did not put there."
    if now.repository.index or now.repository.operation or any(one.kind is not Kind.FOLDER for one in now.entries):
        return "The folder has changes that are not committed."
    return None


def same_state(one: Capture, other: Capture) -> bool:
    """Whether two captures show the same folder; their histories and hints may differ."""
    if one.entries != other.entries or (one.repository is None) != (other.repository is None):
        return False
    if one.repository is None or other.repository is None:
        return True
    return _facts(one.repository) == _facts(other.repository)


def _facts(repository: Repository) -> tuple[object, ...]:
    return (
        repository.object_format,
        repository.head,
        repository.branch,
        repository.index,
        repository.sparse,
        repository.operation,
    )


def in_place(
    capture: Capture, get: Get, folder: Path, place: Place, *, now: Capture, last: Capture | None, reason: str = "hhd"
) -> Written:
    """Turn `folder`, which is as `now` says, into `capture`; `last` is what hhd knows it held.

    Raises NotOurs when something of the person's would be lost (write it elsewhere then), HostileCapture,
    UnfinishedWrite, what `get` raises: then the folder is as it was. LeftBetween if somebody wrote to it while a
    failed change was taken back.
    """
    problem = why_not(now, last, capture)
    if problem is not None:
        raise NotOurs(f"{folder} is left alone: {problem}")
    try:
        check(capture)
        with _Work(capture, get, folder, place, now, last, reason) as work:
            return work.do()
    except FormatError as error:
        raise HostileCapture(f"The capture breaks a rule: {error}; nothing was written.") from error
    except (Meddled, LinkInTheWay, UnreadableIndex) as error:
        raise NotOurs(f"{folder} is left alone: {str(error).rstrip(chr(46))}.") from error
    except (OSError, GitFailed) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise UnfinishedWrite(f"{folder} could not be written ({words}); it is as it was.") from error


class _Work:
    """One folder being changed, its stage and locks held."""

    def __init__(
        self, capture: Capture, get: Get, folder: Path, place: Place, now: Capture, last: Capture | None, reason: str
    ) -> None:
        self.capture, self.get, self.folder, self.place = capture, get, folder, place
        self.now, self.last, self.reason = now, last, reason
        self.repository = capture.repository
        self.git = Git(folder)
        self.git_dir: Path | None = None
        self.keep_stage = False

    def __enter__(self) -> _Work:
        self.token = secrets.token_bytes(16)
        lock = None
        if self.repository is not None:
            self.git_dir = self._own_git_dir()
            lock = self.git_dir / "index.lock"
        self.stage = self._stage_place() / f".hhd-{self.token.hex()[:12]}"
        self.place.save(Pending(folder=self.folder, stage=self.stage, lock=lock, token=self.token))
        try:
            if lock is not None:
                take_lock(lock, self.token)
            self.stage.mkdir(0o700)
            for name in ("new", "old"):
                (self.stage / name).mkdir()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.keep_stage:
            return
        try:
            self._end()
        except OSError as error:
            raise unclean(self.folder, error) from error

    def _end(self) -> None:
        if self.git_dir is not None:
            release_lock(self.git_dir / "index.lock", self.token)
        shutil.rmtree(self.stage, ignore_errors=True)
        self.place.clear()

    def _let_go(self) -> None:
        """Nothing is carried on by anybody, but the stage stays: it holds what could not be put back."""
        self.place.clear()
        if self.git_dir is not None:
            release_lock(self.git_dir / "index.lock", self.token)

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

    def do(self) -> Written:
        git = self.git
        if self.repository is not None:
            git = self._objects(self.repository)
        tree = self._tree(git, self.now.repository)
        old = state(self.now, tree)
        new = state(self.capture, tree if self._stays_at_its_commit() else self._tree(git, self.repository))
        insist_on_distinct((*new.nodes, *(one.path for one in new.index)), probe(self.stage))
        index = self._current_index(old)
        going = self._moves(git)
        with Below(self.folder) as below:
            plan = Planner(below, self.get, old, new, self._algorithm()).plan()
        changes = [*plan.changes, *self._prepare(plan, git)]
        changes += self._git_files(len(changes))
        unchanged = self._unchanged(plan, new)
        at = None
        if self.repository is not None:
            at = len(changes)
            changes.append(self._prepare_index(at, index, old, new))
        switch = Switch(
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
        self._keep_objects()
        self._make(switch)
        return Written(folder=self.folder, in_place=True, notes=notes(self.capture, new, shallow=False))

    def _make(self, switch: Switch) -> None:
        lock = None if self.git_dir is None else self.git_dir / "index.lock"
        pending = Pending(folder=self.folder, stage=self.stage, lock=lock, token=self.token, switch=switch)
        self.place.save(pending)
        switcher = Switcher(switch)
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
                self._let_go()
                raise LeftBetween(
                    f"{self.folder} was changed by something else while a failed change was taken back: "
                    f"{' '.join(switcher.left)} What was replaced is in {self.stage}."
                ) from error
            self.keep_stage = False
            self.place.forget_switch(pending, undone=True)
            raise
        self.place.forget_switch(pending)

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

    def _keep_objects(self) -> None:
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
        self, number: int, current: Mapping[tuple[bytes, int], IndexEntry], old: State, new: State
    ) -> Change:
        assert self.git_dir is not None
        entries = (_index_entry(one, current, old, new) for one in new.index)
        staged = self._stage_file(number, encode(entries, algorithm=self._algorithm()))
        file = self.git_dir / "index"
        before = seen(file.lstat()) if os.path.lexists(file) else None
        return Change(kind=PUT, path=b"index", root=GIT_DIR, before=before, staged=staged)


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
