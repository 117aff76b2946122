"""The change of a folder from one state to another: prepared beside it, then made step by step, and resumable at each.

Everything new lies ready, durable, in a stage: a folder on the same file system. A list of changes says what goes
where. From the moment that list is on disk (`pending`), the change is carried on by whoever finds it, until it is done:
each step can see by what lies in the stage whether it was already taken. Where something is found that the list does
not know, a file that a person saved in between, the switch stops and takes every step back; after a crash, when the
person may have worked on in a half-changed folder, it leaves that file alone and says so.

Nothing is overwritten: what is replaced or removed moves into the stage and stays there until all is done. A thing that
is replaced changes places with the new one in one step where the system can (`exchange`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from hhd.base.beneath import CANNOT, Below, LinkInTheWay, Parts, exchange, parts_of, rename_new, stat_at, sync_at
from hhd.base.files import sync_file, write_all
from hhd.workspace.errors import Meddled
from hhd.workspace.git import Git, GitFailed
from hhd.workspace.index_file import filled, places
from hhd.workspace.ref_move import move_head, move_refs
from hhd.workspace.switch import FOLDER, GIT_DIR, NEW, OLD, PUT, Change, Switch, seen


@dataclass
class Switcher:
    """Makes the changes of one switch, or takes them back."""

    switch: Switch
    left: list[str] = field(default_factory=list)
    """What was found changed by someone else and left alone, in sentences."""
    index_at: Mapping[bytes, int] | None = None
    """Where the entries of `switch.unchanged` are in the prepared index, if that is known."""

    def forward(self, *, stubborn: bool = False) -> None:
        """Take every step that was not taken yet. `stubborn`: after a crash; what was meddled with is left alone.

        Raises Meddled, OSError, GitFailed: then some steps are taken (`back` takes them back).
        """
        with self._opened():
            for number, change in enumerate(self.switch.changes):
                if number == self.switch.index:
                    with self._leave(stubborn):
                        self._move_refs()
                    self._fill_index(number, change)
                with self._leave(stubborn):
                    self._step(number, change)
            if self.switch.index is None:
                with self._leave(stubborn):
                    self._move_refs()
            self._sync()

    def back(self) -> None:
        """Take back every step that was taken; what cannot be is in `left`, and stays in the stage."""
        with self._opened():
            with self._leave(True):
                self._move_refs_back()
            for number, change in reversed(list(enumerate(self.switch.changes))):
                with self._leave(True):
                    self._step_back(number, change)
            self._sync()

    @contextlib.contextmanager
    def _leave(self, stubborn: bool) -> Iterator[None]:
        try:
            yield
        except (Meddled, LinkInTheWay, GitFailed) as error:
            if not stubborn:
                raise
            self.left.append(str(error))
        except OSError as error:
            if not stubborn or error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
                raise
            self.left.append(f"{error.strerror} ({error.filename}).")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            self._roots = [stack.enter_context(Below(self.switch.folder))]
            if self.switch.git_dir is not None:
                self._roots.append(stack.enter_context(Below(self.switch.git_dir)))
            stage = stack.enter_context(Below(self.switch.stage))
            self._new, self._old = (self._stage_folder(stage, name, stack) for name in (NEW, OLD))
            self._touched: set[tuple[int, Parts]] = set()
            self._kind = -1
            yield

    def _stage_folder(self, stage: Below, name: bytes, stack: contextlib.ExitStack) -> int:
        fd = os.dup(stage.parent((name, b"x"), create=True))
        stack.callback(os.close, fd)
        return fd

    def _parent(self, change: Change) -> tuple[int, bytes]:
        parts = parts_of(change.path)
        self._touched.add((change.root, parts[:-1]))
        return self._roots[change.root].parent(parts), parts[-1]

    def _step(self, number: int, change: Change) -> None:
        if change.kind != self._kind:
            self._roots[FOLDER].forget()  # A folder that stays open may have been removed by a step of another kind.
            self._kind = change.kind
        _STEPS[change.kind][0](self, b"%d" % number, change)

    def _step_back(self, number: int, change: Change) -> None:
        if change.kind != self._kind:
            self._roots[FOLDER].forget()
            self._kind = change.kind
        try:
            _STEPS[change.kind][1](self, b"%d" % number, change)
        except FileNotFoundError:
            return  # Its folder is not there: the step was never taken.

    def _remove(self, number: bytes, change: Change) -> None:
        if stat_at(number, self._old) is not None:
            return
        try:
            folder, name = self._parent(change)
        except (FileNotFoundError, LinkInTheWay):
            return  # There is nothing to remove where its folder is gone, or is a file.
        found = stat_at(name, folder)
        if found is None:
            return
        _insist(change, found)
        os.rename(name, number, src_dir_fd=folder, dst_dir_fd=self._old)
        moved = stat_at(number, self._old)
        if moved is None or seen(moved) != change.before:
            rename_new(number, self._old, name, folder)
            _meddled(change)

    def _remove_back(self, number: bytes, change: Change) -> None:
        if stat_at(number, self._old) is None:
            return
        folder, name = self._parent(change)
        _rename_back(number, self._old, name, folder, change)

    def _rmdir(self, number: bytes, change: Change) -> None:
        try:
            folder, name = self._parent(change)
            os.rmdir(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return  # It went already, and what comes in its place may be there.
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if change.must:
                _meddled(change)
        self._roots[FOLDER].forget()

    def _rmdir_back(self, number: bytes, change: Change) -> None:
        assert change.before is not None
        folder, name = self._parent(change)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
            os.chmod(name, stat.S_IMODE(change.before[3]), dir_fd=folder)

    def _mkdir(self, number: bytes, change: Change) -> None:
        folder, name = self._parent(change)
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            found = stat_at(name, folder)
            if found is None or not stat.S_ISDIR(found.st_mode):
                _meddled(change)

    def _mkdir_back(self, number: bytes, change: Change) -> None:
        self._rmdir(number, change)

    def _put(self, number: bytes, change: Change) -> None:
        ready, was = stat_at(number, self._new), stat_at(number, self._old)
        folder, name = self._parent(change)
        if change.before is None or was is not None:
            if ready is not None:
                _rename_into(number, self._new, name, folder, change)
            return
        if ready is None or not _is_new(change, ready):
            return
        found = stat_at(name, folder)
        if found is None:
            _meddled(change)
        _insist(change, found)
        if _exchanged(number, self._new, name, folder):
            moved = stat_at(number, self._new)
            if moved is None or seen(moved) != change.before:
                exchange(number, self._new, name, folder)
                _meddled(change)
            return
        self._remove(number, change)
        _rename_into(number, self._new, name, folder, change)

    def _put_back(self, number: bytes, change: Change) -> None:
        ready = stat_at(number, self._new)
        folder, name = self._parent(change)
        here = stat_at(name, folder)
        if ready is None and here is not None and _is_untouched(change, here):
            rename_new(name, folder, number, self._new)
        elif ready is None and here is not None:
            _meddled(change)
        elif ready is not None and not _is_new(change, ready):
            if here is None:
                rename_new(number, self._new, name, folder)
            elif _is_untouched(change, here):
                exchange(number, self._new, name, folder)
            else:
                _meddled(change)
        self._remove_back(number, change)

    def _fill_index(self, number: int, change: Change) -> None:
        """Write into the prepared index, in place, what the files look like now that they are where they belong.

        Only numbers of a fixed width change, so what a crash leaves half-written is filled anew.
        """
        try:
            fd = os.open(b"%d" % number, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._new)
        except FileNotFoundError:
            return
        try:
            found = os.fstat(fd)
            if not _is_new(change, found):
                return
            raw = _read(fd, found.st_size)
            known = {}
            put = {one.path: one.staged for one in self.switch.changes if one.kind == PUT and one.root == FOLDER}
            for path in self.switch.unchanged:
                with contextlib.suppress(LinkInTheWay):
                    there = self._roots[FOLDER].stat(parts_of(path))
                    if there is not None and seen(there) == put[path]:  # Else someone wrote to it already.
                        known[path] = there
            at = self.index_at
            if at is None:
                at = places(raw, known.keys(), algorithm=self.switch.algorithm)
            for begin, piece in filled(raw, known, at, algorithm=self.switch.algorithm):
                os.lseek(fd, begin, os.SEEK_SET)
                write_all(fd, [piece])
            sync_file(fd)
        finally:
            os.close(fd)

    def _move_refs(self) -> None:
        switch = self.switch
        if switch.git_dir is not None:
            git = Git(switch.folder, git_dir=switch.git_dir)
            move_refs(git, switch.refs, reason=switch.reason)
            move_head(git, switch.head_old, switch.head_new, reason=switch.reason)

    def _move_refs_back(self) -> None:
        switch = self.switch
        if switch.git_dir is not None:
            git = Git(switch.folder, git_dir=switch.git_dir)
            move_head(git, switch.head_new, switch.head_old, reason=switch.reason)
            move_refs(git, [one.back for one in reversed(switch.refs)], reason=switch.reason)

    def _sync(self) -> None:
        """Make the names durable: those of the folders that lost or gained some, and of the stage."""
        for root, parts in sorted(self._touched):
            with contextlib.suppress(LinkInTheWay):
                if (fd := self._roots[root].enter(parts)) is not None:
                    sync_at(fd)
        sync_at(self._new)
        sync_at(self._old)


_Step = Callable[[Switcher, bytes, Change], None]
_STEPS: tuple[tuple[_Step, _Step], ...] = (
    (Switcher._remove, Switcher._remove_back),
    (Switcher._rmdir, Switcher._rmdir_back),
    (Switcher._mkdir, Switcher._mkdir_back),
    (Switcher._put, Switcher._put_back),
)


def _is_new(change: Change, found: os.stat_result) -> bool:
    assert change.staged is not None
    return found.st_ino == change.staged[0]


def _is_untouched(change: Change, found: os.stat_result) -> bool:
    """Whether this is the new thing as we put it: a file that somebody made since may have got the same inode.

    The index is filled after it was noted, and git's lock keeps others from it.
    """
    return _is_new(change, found) if change.root == GIT_DIR else seen(found) == change.staged


def _insist(change: Change, found: os.stat_result) -> None:
    if seen(found) != change.before:
        _meddled(change)


def _meddled(change: Change) -> NoReturn:
    raise Meddled(f"{os.fsdecode(change.path)!r} was changed by something else meanwhile.")


def _rename_into(number: bytes, stage: int, name: bytes, folder: int, change: Change) -> None:
    try:
        rename_new(number, stage, name, folder)
    except FileExistsError:
        _meddled(change)


_rename_back = _rename_into


def _exchanged(number: bytes, stage: int, name: bytes, folder: int) -> bool:
    """Let the two change places; False where this file system cannot."""
    try:
        exchange(number, stage, name, folder)
    except OSError as error:
        if error.errno not in CANNOT:
            raise
        return False
    return True


def _read(fd: int, size: int) -> bytes:
    parts = []
    while size > 0 and (part := os.read(fd, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
