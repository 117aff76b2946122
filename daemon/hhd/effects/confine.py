"""The workspace: one folder, below which every path of a tool is opened component by component.

Paths come from a model, links from a repository; both are hostile. The rules:

* `resolve` walks a path from the folder's descriptor, one component at a time, and follows a link only by walking its
  target from there. What is absolute, climbs above the folder or has more links than `LINKS_MAX` is refused. The
  result names no link, so that policy judges the file that is really meant.
* Everything that opens a resolved path walks again and follows no link at all (O_NOFOLLOW on each component), so a
  link swapped in after the check makes the act fail; it never leads outside.
* Only regular files are opened: a FIFO, socket or device is recognised before it is opened, because opening one may
  block or act, and checked again afterwards.
* hhd's own folders are recognised by device and inode, whatever name leads to them.
* A file is replaced, not overwritten: a hard link to something outside keeps its content. Reading through one is not
  stopped: nothing tells it from the file itself, and whoever made it could read that.

Rejected: openat2 with RESOLVE_BENEATH. It is Linux only and has no binding in Python, so the walk would have to exist
and be tested beside it; one way that works everywhere is easier to trust, and costs microseconds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from hhd.base.beneath import LOOK, NEW, READ, WALK, stat_at, sync_at
from hhd.base.errors import RefusedError
from hhd.base.files import sync_file, write_all
from hhd.base.paths import own_folders
from hhd.base.text import visible
from hhd.effects.limits import LINKS_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX


class PathRefused(Exception):
    """A path a tool may not use; the message is one sentence that names it relative to the workspace."""


class OutsideWorkspace(PathRefused):
    """A path that leads, or may lead, out of the workspace."""


@dataclass(frozen=True, kw_only=True)
class Inside:
    """A place in the workspace that was reached without a link; it need not exist. No parts: the folder itself."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(self.parts) or "."

    def child(self, name: str) -> Inside:
        """The place `name` right below this one."""
        return Inside(parts=(*self.parts, name))


class Workspace:
    """One folder of this device and the only way tools reach files in it."""

    def __init__(self, folder: Path, *, hidden: Sequence[Path] | None = None) -> None:
        """Open `folder`, which the person chose (links in its own path are theirs).

        `hidden` folders (None: hhd's own) are refused wherever a path meets them. Raises RefusedError if `folder` is
        not one, cannot be opened, or is hidden itself.
        """
        try:
            self.folder = folder.resolve(strict=True)
            self.fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
            raise RefusedError(f"The folder {folder} cannot be used as a workspace: {reason}.") from None
        self.hidden = frozenset(
            _identity(found)
            for path in (own_folders() if hidden is None else hidden)
            if (found := _stat_path(path)) is not None
        )
        if _identity(os.fstat(self.fd)) in self.hidden:
            self.close()
            raise RefusedError(f"The folder {folder} is hhd's own; a session cannot work in it.")

    def close(self) -> None:
        """Give the folder's descriptor back."""
        os.close(self.fd)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def writable(self) -> bool:
        """Whether this user may create files in the folder."""
        return os.access(self.folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)

    def resolve(self, path: str) -> Inside:
        """Return the place that `path` means, links within the workspace followed.

        Raises OutsideWorkspace, or PathRefused for a path that cannot be one.
        """
        todo = _components(path, path)[::-1]
        parts: list[str] = []
        links = 0
        with contextlib.ExitStack() as opened:
            trail = [self.fd]
            while todo:
                name = todo.pop()
                if name == "..":
                    if not parts:
                        raise OutsideWorkspace(f"{_said(path)} leads out of the workspace.")
                    parts.pop()
                    trail.pop()
                    continue
                found = stat_at(name, trail[-1])
                if found is None:
                    return Inside(parts=_missing(path, parts, name, todo))
                if stat.S_ISLNK(found.st_mode):
                    links += 1
                    if links > LINKS_MAX:
                        raise PathRefused(f"{_said(path)} goes through more than {LINKS_MAX} links.")
                    todo += _components(os.readlink(name, dir_fd=trail[-1]), path, link=True)[::-1]
                    continue
                self._insist_on_ours(found, path)
                parts.append(name)
                if todo:
                    trail.append(_enter(name, trail[-1], path, opened))
        return Inside(parts=tuple(parts))

    def stat(self, place: Inside) -> os.stat_result | None:
        """Return what is at `place`, None where nothing is; raises PathRefused if a link stands in the way."""
        if not place.parts:
            return os.fstat(self.fd)
        with self._parent(place) as parent:
            return None if parent is None else stat_at(place.parts[-1], parent)

    def open_file(self, place: Inside) -> int:
        """Return a descriptor to read the regular file at `place`.

        Raises FileNotFoundError, PathRefused for anything that is not a regular file reached without links, OSError.
        """
        if not place.parts:
            raise PathRefused("The workspace itself is a folder, not a file.")
        with self._parent(place) as parent:
            found = None if parent is None else stat_at(place.parts[-1], parent)
            if parent is None or found is None:
                raise FileNotFoundError(f"There is no file {_said(str(place))}.")
            _insist_on_file(found, place)
            fd = _open(place.parts[-1], READ, parent, place)
            try:
                _insist_on_file(os.fstat(fd), place)
            except BaseException:
                os.close(fd)
                raise
            return fd

    def open_folder(self, place: Inside) -> int:
        """Return a descriptor to list the folder at `place`; raises FileNotFoundError, PathRefused, OSError."""
        if not place.parts:
            return os.open(".", LOOK, dir_fd=self.fd)
        with self._parent(place) as parent:
            found = None if parent is None else stat_at(place.parts[-1], parent)
            if parent is None or found is None:
                raise FileNotFoundError(f"There is no folder {_said(str(place))}.")
            self._insist_on_ours(found, str(place))
            return _open(place.parts[-1], LOOK, parent, place)

    def replace_file(self, place: Inside, content: bytes, *, seen: os.stat_result | None = None) -> bool:
        """Make the file at `place` hold `content` in one durable step; return whether it is new.

        Missing parents are created. An existing file keeps its mode and, where this user may set it, its owner. `seen`:
        what the file was when `content` was made from it; if it is another by now it is left alone (PathRefused).
        Raises PathRefused if something else than a regular file is there, OSError; then the file is as it was.
        """
        if not place.parts:
            raise PathRefused("The workspace itself is a folder, not a file.")
        with self._parent(place, create=True) as parent:
            assert parent is not None
            before = stat_at(place.parts[-1], parent)
            if before is not None:
                _insist_on_file(before, place)
            _replace(place, parent, content, before, seen)
            return before is None

    @contextlib.contextmanager
    def _parent(self, place: Inside, *, create: bool = False) -> Iterator[int | None]:
        """The folder that holds `place`, for the length of the block; None if it does not exist."""
        with contextlib.ExitStack() as opened:
            fd: int = self.fd
            for name in place.parts[:-1]:
                found = stat_at(name, fd)
                if found is not None:
                    self._insist_on_ours(found, str(place))
                elif create:
                    _make_folder(name, fd)
                else:
                    yield None
                    return
                fd = _enter(name, fd, str(place), opened)
            yield fd

    def _insist_on_ours(self, found: os.stat_result, path: str) -> None:
        if _identity(found) in self.hidden:
            raise PathRefused(f"{_said(path)} belongs to hhd itself; tools do not reach it.")


def _components(path: str, whole: str, *, link: bool = False) -> list[str]:
    if path.startswith("/"):
        if link:
            raise OutsideWorkspace(f"{_said(whole)} goes through a link to an absolute path; tools follow none.")
        raise OutsideWorkspace(f"{_said(whole)} is an absolute path; paths are relative to the workspace.")
    if not path or "\0" in path:
        raise PathRefused("A path is empty or contains a NUL character.")
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise PathRefused(f"{_said(whole)} cannot be a file name.") from None
    names = [name for name in path.split("/") if name not in ("", ".")]
    if len(raw) > PATH_BYTES_MAX or any(len(os.fsencode(name)) > NAME_BYTES_MAX for name in names):
        raise PathRefused(f"A path has more than {PATH_BYTES_MAX} bytes or a name in it more than {NAME_BYTES_MAX}.")
    return names


def _missing(path: str, parts: list[str], name: str, todo: list[str]) -> tuple[str, ...]:
    rest = (name, *reversed(todo))
    if ".." in rest:
        raise PathRefused(f"{_said(path)} goes up from a folder that does not exist.")
    return (*parts, *rest)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Whether nobody wrote in between, as far as the file system tells."""
    if other is None:
        return False
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)


def _stat_path(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _enter(name: str, folder: int, whole: str, opened: contextlib.ExitStack) -> int:
    try:
        fd = os.open(name, WALK, dir_fd=folder)
    except OSError as error:
        raise _explained(error, name, whole) from None
    opened.callback(os.close, fd)
    return fd


def _open(name: str, flags: int, folder: int, place: Inside) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _explained(error, name, str(place)) from None


def _explained(error: OSError, name: str, whole: str) -> Exception:
    """Both ELOOP and ENOTDIR are what O_NOFOLLOW says to a link, depending on system and flags."""
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{_said(whole)} is gone.")
    if isinstance(error, PermissionError):
        return PermissionError(f"This user may not open {_said(whole)}.")
    return PathRefused(
        f"{_said(name)} in {_said(whole)} is not a folder or not a plain file (it may have become a link)."
    )


def _insist_on_file(found: os.stat_result, place: Inside) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise PathRefused(f"{_said(str(place))} is a folder, not a file.")
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(f"{_said(str(place))} has become a link.")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{_said(str(place))} is a pipe, socket or device, not a file.")


def _make_folder(name: str, folder: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    sync_at(folder)


def _replace(
    place: Inside, folder: int, content: bytes, before: os.stat_result | None, seen: os.stat_result | None
) -> None:
    name = place.parts[-1]
    temp = f".{name[:50]}.{secrets.token_hex(6)}.tmp"
    fd = os.open(temp, NEW, 0o666 if before is None else 0o600, dir_fd=folder)
    try:
        try:
            write_all(fd, [content])
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    with contextlib.suppress(PermissionError):
                        os.fchown(fd, before.st_uid, before.st_gid)
                os.fchmod(fd, stat.S_IMODE(before.st_mode))
            sync_file(fd)
        finally:
            os.close(fd)
        if seen is not None and not _same(seen, stat_at(name, folder)):
            raise PathRefused(f"{_said(str(place))} was changed by something else meanwhile; read it again.")
        os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp, dir_fd=folder)
        raise
    sync_at(folder)


def _said(path: str) -> str:
    return repr(visible(path[:200], one_line=True))
