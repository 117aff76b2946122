"""A capture made to appear as a new folder: built beside the place, complete and durable, then renamed to it.

For a repository it is one of its own, not a linked worktree: branches of a linked worktree are those of the person's
repository, so that a branch would have to move under them, or the state would arrive on another one than it was on; and
a `.git/worktrees` entry would be left where there was none. It begins with no settings but git's own, no remotes, no
hooks. Objects of a local repository of the same history are shared by hard links, as `git clone --local` does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hhd.base.beneath import Below, LinkInTheWay, parts_of, rename_new, sync_file_system
from hhd.base.errors import RefusedError
from hhd.base.files import replace, sync_folder
from hhd.workspace import gitdir
from hhd.workspace.errors import HostileCapture, LeftBetween, NotOurs, UnfinishedWrite, unclean
from hhd.workspace.fitting import insist_on_distinct, probe
from hhd.workspace.git import Git, GitFailed
from hhd.workspace.index_file import IndexEntry, encode, seen
from hhd.workspace.objects import Get, insist_on_present, read_tree, store_blobs, take_packs
from hhd.workspace.pending import Pending, Place
from hhd.workspace.states import SUBMODULE, State, Tree, state
from hhd.workspace.writing import write_nodes
from hhd.workspace.written import Written, notes
from hhd_protocol.errors import FormatError
from hhd_protocol.workspace import Capture, Repository, check

_SYNC_ALL = 64
"""Up to so many folders are synced each; for more, one call for the whole file system is the cheaper one."""


def insist_on_free(folder: Path) -> None:
    """Raise NotOurs unless nothing is at `folder`, or an empty folder."""
    try:
        with os.scandir(folder) as found:
            if next(found, None) is None and not folder.is_symlink():
                return
    except FileNotFoundError:
        if not folder.is_symlink():
            return
    except NotADirectoryError:
        pass
    raise NotOurs(f"There is something at {folder}; nothing was written.")


@dataclass(frozen=True, kw_only=True)
class Built:
    """A folder that stands complete in `stage`, durable: one step, and it is where it belongs, as `written` says."""

    stage: Path
    folder: Path
    written: Written


def into_new(capture: Capture, get: Get, folder: Path, place: Place, *, borrow: Path | None = None) -> Written:
    """Make `capture` appear at `folder`, where nothing is or an empty folder, in one step.

    `borrow`: the common folder of a local repository whose objects may be needed. Raises HostileCapture, NotOurs,
    UnfinishedWrite, what `get` raises; then nothing is there that was not before.
    """
    insist_on_free(folder)
    stage = stage_of(folder)
    with refusals(folder):
        try:
            return show(build(capture, get, folder, stage, place, borrow=borrow))
        finally:
            remove(folder, stage, place)


def stage_of(folder: Path) -> Path:
    """A new name beside `folder`."""
    return folder.parent / f".{folder.name[:60]}.hhd-{secrets.token_hex(6)}"


def build(capture: Capture, get: Get, folder: Path, stage: Path, place: Place, *, borrow: Path | None = None) -> Built:
    """Build it in `stage`, which is named in a record of `place` before; raises as `into_new`, with the stage left."""
    insist_on_free(folder)
    place.save(Pending(folder=folder, stage=stage))
    stage.mkdir(0o700)
    tree = stage / "tree"
    tree.mkdir(0o777)
    built = _Building(capture, get, tree, stage, borrow).build()
    _sync_tree(tree)
    shallow = (tree / ".git" / "shallow").exists()
    written = Written(folder=folder, in_place=False, notes=notes(capture, built, shallow=shallow))
    return Built(stage=stage, folder=folder, written=written)


def show(built: Built) -> Written:
    """The one step in which it appears; raises NotOurs, OSError, with nothing changed, and LeftBetween."""
    insist_on_free(built.folder)
    _show(built.stage / "tree", built.folder)
    return built.written


def remove(folder: Path, stage: Path, place: Place) -> None:
    """Leave nothing of the stage, the record last; raises LeftBetween."""
    shutil.rmtree(stage, ignore_errors=True)
    try:
        place.clear()
    except OSError as error:
        raise unclean(folder, error) from error


@contextlib.contextmanager
def refusals(folder: Path) -> Iterator[None]:
    """Errors become those of a person."""
    try:
        yield
    except (FormatError, LinkInTheWay) as error:
        raise HostileCapture(f"The capture breaks a rule: {error}; nothing was written.") from error
    except (OSError, GitFailed) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnfinishedWrite(f"{folder} could not be written ({reason}); nothing is left of the attempt.") from error


class _Building:
    """One new folder being built."""

    def __init__(self, capture: Capture, get: Get, tree: Path, stage: Path, borrow: Path | None) -> None:
        self.capture, self.get, self.tree, self.stage, self.borrow = capture, get, tree, stage, borrow
        self.git_dir = tree / ".git"

    def build(self) -> State:
        check(self.capture)
        repository = self.capture.repository
        git: Git | None = None
        tree: Tree = {}
        if repository is not None:
            git = self._begin(repository)
            tree = self._objects(git, repository)
        built = state(self.capture, tree)
        insist_on_distinct((*built.nodes, *(one.path for one in built.index)), probe(self.stage))
        with Below(self.tree) as below:
            wanted = [(parts_of(path), node) for path, node in sorted(built.nodes.items())]
            looks = {b"/".join(parts): found for parts, found in write_nodes(below, wanted, git, self.get)}
        if repository is not None:
            assert git is not None
            self._end(git, repository, built, looks)
        return built

    def _begin(self, repository: Repository) -> Git:
        plain = Git(self.tree)
        kind = f"--object-format={repository.object_format.value}"
        plain.run("-c", "init.defaultBranch=hhd", "init", "--quiet", "--template=", kind)
        self.marks = {*repository.history.shallow, *repository.shallow}
        if self.borrow is not None:
            _share_objects(self.borrow / "objects", self.git_dir / "objects")
            with contextlib.suppress(FileNotFoundError):
                self.marks |= {bytes.fromhex(line) for line in (self.borrow / "shallow").read_text("ascii").split()}
        elif repository.history.assumed:
            raise RefusedError(
                f"The capture rests on commit {repository.history.assumed[0].hex()[:12]}, which is in no repository "
                "that hhd knows here; nothing was written. Capture that repository here once, then try again."
            )
        if self.marks:
            self._write("shallow", gitdir.shallow_file(self.marks))
        return Git(self.tree, git_dir=self.git_dir)

    def _objects(self, git: Git, repository: Repository) -> Tree:
        take_packs(git, repository.history.packs, self.get)
        store_blobs(git, repository, self.get, self.stage / "blobs")
        heads = (() if repository.operation is None else repository.operation.heads) + (
            () if repository.head is None else (repository.head,)
        )
        self._keep_marks_of_what_came(git, repository, heads)
        insist_on_present(git, heads, "commit")
        insist_on_present(git, (one.object for one in repository.index if one.mode not in (0, SUBMODULE)), "blob")
        if self.borrow is not None and heads:
            git.run("rev-list", "--quiet", "--objects", *(head.hex() for head in heads))
        if repository.head is None:
            return {}
        return read_tree(git, repository.head, repository.object_format)

    def _keep_marks_of_what_came(self, git: Git, repository: Repository, heads: Sequence[bytes]) -> None:
        marks = sorted(self.marks)
        if not marks:
            return
        asked = b"".join(mark.hex().encode() + b"\n" for mark in marks)
        said = git.run("cat-file", "--batch-check", stdin=asked).splitlines()
        there = [mark for mark, line in zip(marks, said, strict=True) if not line.endswith(b" missing")]
        ends = set(repository.history.shallow) - set(repository.shallow)
        if self.borrow is not None and heads and not ends.isdisjoint(there):
            self._mark([mark for mark in there if mark not in ends])  # What is before them may be here, too.
            if git.line("rev-list", "--quiet", "--objects", *(head.hex() for head in heads)) is not None:
                return
        self._mark(there)

    def _mark(self, commits: Sequence[bytes]) -> None:
        """Say that history ends with these commits."""
        (self.git_dir / "shallow").unlink(missing_ok=True)
        if commits:
            self._write("shallow", gitdir.shallow_file(commits))

    def _end(self, git: Git, repository: Repository, built: State, looks: dict[bytes, os.stat_result]) -> None:
        algorithm = repository.object_format.value
        entries = (
            IndexEntry(
                path=one.path,
                mode=one.mode,
                oid=one.object,
                stage=one.stage,
                flags=int(one.flags),
                seen=seen(looks[one.path], one.mode) if one.as_index and one.path in looks else b"\0" * 40,
            )
            for one in built.index
        )
        for name, value in gitdir.sparse_settings(repository):
            git.run("config", name, value)
        if repository.sparse is not None:
            (self.git_dir / "info").mkdir(exist_ok=True)
            self._write("info/sparse-checkout", repository.sparse.patterns)
        for file, content in gitdir.operation_files(repository.operation).items():
            self._write(os.fsdecode(file), content)
        if repository.branch is not None:
            if repository.head is not None:
                git.run(
                    "-c",
                    "core.logAllRefUpdates=false",
                    "update-ref",
                    os.fsdecode(repository.branch),
                    repository.head.hex(),
                )
            self._write("HEAD", b"ref: " + repository.branch + b"\n")
        elif repository.head is not None:
            self._write("HEAD", repository.head.hex().encode() + b"\n")
        if built.index:
            self._write("index", encode(entries, algorithm=algorithm))

    def _write(self, name: str, content: bytes) -> None:
        replace(self.git_dir / name, [content], mode=0o644)


def _share_objects(source: Path, target: Path) -> None:
    """Hard links to all objects of a local repository; copies where it is on another file system."""
    for name in sorted(os.listdir(source)):
        if name != "pack" and not (len(name) == 2 and name.isalnum()):
            continue
        (target / name).mkdir(exist_ok=True)
        for file in sorted(os.listdir(source / name)):
            if file.startswith("tmp_") or file.endswith((".keep", ".lock", ".promisor")):
                continue
            try:
                os.link(source / name / file, target / name / file)
            except OSError:
                shutil.copyfile(source / name / file, target / name / file)
    alternates = source / "info" / "alternates"
    if alternates.exists():
        lines = [line for line in alternates.read_text("utf-8", "surrogateescape").splitlines() if line]
        (target / "info").mkdir(exist_ok=True)
        whole = "".join(f"{(source / line).resolve()}\n" for line in lines)
        (target / "info" / "alternates").write_text(whole, "utf-8", "surrogateescape")


def _sync_tree(tree: Path) -> None:
    folders = []
    for place, names, _ in os.walk(tree):
        folders.append(place)
        if len(folders) > _SYNC_ALL:
            names.clear()
    if len(folders) <= _SYNC_ALL:
        for place in reversed(folders):
            sync_folder(Path(place))
        return
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not sync_file_system(fd):
            os.sync()
    finally:
        os.close(fd)


def _show(tree: Path, folder: Path) -> None:
    """The one step in which it appears."""
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if folder.is_dir():  # An empty one: the system refuses if it is not empty any more.
            os.rename(tree, folder)
        else:
            rename_new(os.fsencode(tree), parent, os.fsencode(folder), parent)
        try:
            os.fsync(parent)
        except OSError as error:
            raise LeftBetween(f"{folder} is there, but may not outlast a power cut ({error.strerror}).") from error
    finally:
        os.close(parent)
