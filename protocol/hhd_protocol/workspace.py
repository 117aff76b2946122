"""A capture: the state of a working folder at one instant, as a value (`workspace.md`).

Of a git repository it holds what a checkout of its HEAD commit lacks: the index where it differs from HEAD, the
working tree where it differs from the index, and the commits that the target may not have, as packs. Of any other
folder it holds every file. Contents are named, not held: a `Content` lists the pieces of a file, by content id.

Bytes of the working tree are those on disk, before any conversion of git's; object ids are git's own. What was left
out is said, with the reason: a capture is never silently less than the folder.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import PageId
from hhd_protocol.limits import (
    WORKSPACE_COMMITS_MAX,
    WORKSPACE_ENTRIES_MAX,
    WORKSPACE_FILE_BYTES_MAX,
    WORKSPACE_LEFT_OUT_MAX,
    WORKSPACE_PACKS_MAX,
    WORKSPACE_PIECE_BYTES,
    WORKSPACE_REMOTES_MAX,
    WORKSPACE_TEXT_BYTES_MAX,
)
from hhd_protocol.workspace_paths import check_path

MODES = (0o100644, 0o100755, 0o120000, 0o160000)
"""What an index entry can be: file, executable file, symbolic link, submodule. 0 stands for "not in the index"."""


class ObjectFormat(enum.Enum):
    """The hash that names a repository's objects."""

    SHA1 = "sha1"
    SHA256 = "sha256"

    @property
    def bytes(self) -> int:
        """The length of an object id."""
        return 20 if self is ObjectFormat.SHA1 else 32


class Kind(enum.IntEnum):
    """What stands at a path of the working tree. FOLDER: an empty one. GONE: in the index, but not there."""

    FILE = 0
    SYMLINK = 1
    FOLDER = 2
    GITLINK = 3
    GONE = 4


class Flag(enum.IntFlag):
    """What an index entry carries beside its content."""

    NONE = 0
    INTENT_TO_ADD = 1
    SKIP_WORKTREE = 2
    ASSUME_UNCHANGED = 4


class Reason(enum.IntEnum):
    """Why something of the folder is not in its capture."""

    IGNORED = 0
    CREDENTIALS = 1
    SPECIAL = 2
    UNREADABLE = 3
    TOO_LARGE = 4
    REPOSITORY = 5
    NAME = 6
    CHANGING = 7
    SUBMODULE = 8
    """The own changes of a submodule: only the commit it stands on travels."""


class OperationKind(enum.Enum):
    """What can be carried of git's operations in progress; any other is refused at capture."""

    MERGE = "merge"
    CHERRY_PICK = "cherry-pick"
    REVERT = "revert"
    SQUASH = "squash"
    """`merge --squash`: no heads, only the message prepared for the commit."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """The `size` bytes of a file: `pieces` of WORKSPACE_PIECE_BYTES each, the last one with the rest, none if empty."""

    size: int
    pieces: tuple[PageId, ...]


EMPTY = Content(size=0, pieces=())


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What stands at `path`.

    FILE has `mode` (its nine permission bits) and `content`; SYMLINK has `target`; GITLINK (a submodule whose checkout
    is not on the commit the index names) has `commit`; FOLDER and GONE have nothing more. In a repository the entries
    are where the working tree differs from the index, untracked files among them; in a plain folder they are all of it.
    """

    path: bytes
    kind: Kind
    mode: int = 0
    content: Content | None = None
    target: bytes = b""
    commit: bytes = b""


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """One entry of the index that differs from HEAD, has a conflict stage or carries a flag.

    `stage` is 0, or 1 to 3 in a conflict. `mode` 0: HEAD has the path and the index has not (then `object` is empty).
    `content` is the object's bytes; None: HEAD's tree holds the object, or it is a submodule's commit, or the index
    entry is only an intent to add.
    """

    path: bytes
    stage: int
    mode: int
    object: bytes
    flags: Flag = Flag.NONE
    content: Content | None = None


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """A sparse checkout: the patterns as git stores them, and whether they are cones."""

    patterns: bytes
    cone: bool


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation in progress: the commits being taken in, the message prepared, `no_ff` for such a merge."""

    kind: OperationKind
    heads: tuple[bytes, ...]
    message: bytes
    no_ff: bool = False


@dataclass(frozen=True, kw_only=True)
class History:
    """The commits that travel, as git packs to be unpacked in this order.

    A pack may leave out bases that are in packs before it or in `assumed`: commits (with all they reach) that the
    target was said to have. `shallow`: commits in the packs whose parents are not: the target has a shallow history.
    """

    assumed: tuple[bytes, ...] = ()
    shallow: tuple[bytes, ...] = ()
    packs: tuple[Content, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A remote as a hint of which repository this is; `url` holds no credentials and is compared, never fetched."""

    name: bytes
    url: bytes


@dataclass(frozen=True, kw_only=True)
class Repository:
    """What makes the folder a repository.

    `head` None: an unborn branch. `branch`: the full name of the ref HEAD stands on, None if detached; a repository
    without a commit has one. `shallow`: marks of the source's own shallow history. `roots`: first commits, ascending,
    empty if unknown.
    """

    object_format: ObjectFormat
    head: bytes | None
    branch: bytes | None
    index: tuple[IndexEntry, ...] = ()
    sparse: Sparse | None = None
    operation: Operation | None = None
    history: History = History()
    shallow: tuple[bytes, ...] = ()
    roots: tuple[bytes, ...] = ()
    remotes: tuple[Remote, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Something of the folder that is not in the capture. A folder's `path` ends in `/`; `size` 0: not known."""

    path: bytes
    reason: Reason
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Capture:
    """The state of a working folder. `repository` None: no repository, `entries` are all of it.

    `entries` ascend by path, `left_out` too; `left_out_more` counts what was left out beyond the list's bound.
    """

    repository: Repository | None
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()
    left_out_more: int = 0

    def contents(self) -> Iterable[Content]:
        """Every content that the capture names, packs first."""
        if self.repository is not None:
            yield from self.repository.history.packs
            yield from (one.content for one in self.repository.index if one.content is not None)
        yield from (one.content for one in self.entries if one.content is not None)

    def pieces(self) -> set[PageId]:
        """The pieces of files that it names (not those of its own encoding)."""
        return {piece for content in self.contents() for piece in content.pieces}


def check(capture: Capture, before: Capture | None = None) -> None:
    """Raise FormatError unless `capture` follows every rule of `workspace.md`: what arrived is hostile until then.

    Entries that are the very objects of `before`, a capture of a folder that was checked, are not checked one by one
    again.
    """
    if len(capture.entries) > WORKSPACE_ENTRIES_MAX:
        raise TooLargeError(f"a capture of {len(capture.entries)} entries passes the bound of {WORKSPACE_ENTRIES_MAX}")
    _check_ascending([one.path for one in capture.entries], "entries")
    plain = before is not None and before.repository is None and capture.repository is None
    checked = set(map(id, before.entries)) if plain and before is not None else set()
    for entry in capture.entries:
        if id(entry) not in checked:
            _check_entry(entry, capture.repository)
    _check_nesting(capture.entries)
    if len(capture.left_out) > WORKSPACE_LEFT_OUT_MAX:
        raise TooLargeError("a capture lists more that was left out than its bound")
    if not 0 <= capture.left_out_more < 1 << 48 or any(not 0 <= one.size < 1 << 63 for one in capture.left_out):
        raise FormatError("a number of what was left out passes its bound")
    if any(not 0 < len(one.path) <= WORKSPACE_TEXT_BYTES_MAX for one in capture.left_out):
        raise FormatError("a name of what was left out is empty or too long")
    if list(capture.left_out) != sorted(set(capture.left_out), key=lambda one: (one.path, one.reason, one.size)):
        raise FormatError("what was left out does not ascend")
    if capture.repository is not None:
        _check_repository(capture.repository)


def _check_entry(entry: Entry, repository: Repository | None) -> None:
    check_path(entry.path)
    if not 0 <= entry.mode <= (0o777 if entry.kind is Kind.FILE else 0):
        raise FormatError("an entry has other mode bits than its kind allows")
    if (entry.kind is Kind.FILE) != (entry.content is not None):
        raise FormatError("a file has no content, or something else has one")
    if entry.content is not None:
        check_content(entry.content)
    if (entry.kind is Kind.SYMLINK) != bool(entry.target) or len(entry.target) > WORKSPACE_TEXT_BYTES_MAX:
        raise FormatError("a symbolic link has no target or one that is too long, or something else has one")
    if b"\0" in entry.target:
        raise FormatError("the target of a symbolic link holds a NUL byte")
    if repository is None and entry.kind in (Kind.GITLINK, Kind.GONE):
        raise FormatError("a folder that is no repository has neither submodules nor deletions")
    length = repository.object_format.bytes if repository is not None and entry.kind is Kind.GITLINK else 0
    if len(entry.commit) != length:
        raise FormatError("a submodule's commit has the wrong length, or something else has one")


def _check_nesting(entries: tuple[Entry, ...]) -> None:
    """Nothing may lie below what is no folder: a link as a parent is how a path leads elsewhere."""
    leaves = {one.path for one in entries if one.kind is not Kind.GONE}
    seen: set[bytes] = set()
    for entry in entries:
        if entry.kind is Kind.GONE:
            continue
        at = entry.path.rfind(b"/")
        while at > 0 and (parent := entry.path[:at]) not in seen:
            if parent in leaves:
                raise FormatError("an entry lies below one that is no folder, or an empty one")
            seen.add(parent)
            at = entry.path.rfind(b"/", 0, at)


def check_content(content: Content) -> None:
    """Raise FormatError unless size and number of pieces belong together and are within bounds."""
    if not 0 <= content.size <= WORKSPACE_FILE_BYTES_MAX:
        raise TooLargeError(f"a file of {content.size} bytes passes the bound of {WORKSPACE_FILE_BYTES_MAX}")
    if len(content.pieces) != -(-content.size // WORKSPACE_PIECE_BYTES) or any(len(p) != 32 for p in content.pieces):
        raise FormatError("the pieces of a file do not belong to its size")


def _check_repository(repository: Repository) -> None:
    length = repository.object_format.bytes
    if repository.head is None and repository.branch is None:
        raise FormatError("a repository has neither a commit nor a branch")
    if repository.branch is not None:
        check_ref(repository.branch)
    _check_index(repository.index, length)
    if repository.sparse is not None and len(repository.sparse.patterns) > WORKSPACE_TEXT_BYTES_MAX * 64:
        raise TooLargeError("the patterns of a sparse checkout pass their bound")
    _check_operation(repository.operation, length)
    history = repository.history
    for commits in (history.assumed, history.shallow, repository.shallow, repository.roots):
        if len(commits) > WORKSPACE_COMMITS_MAX:
            raise TooLargeError("a capture names more commits than its bound")
        _check_ascending(commits, "commits")
        _check_ids(commits, length)
    if repository.head is not None:
        _check_ids([repository.head], length)
    if len(history.packs) > WORKSPACE_PACKS_MAX:
        raise TooLargeError("a capture has more packs than its bound")
    for pack in history.packs:
        check_content(pack)
    if len(repository.remotes) > WORKSPACE_REMOTES_MAX:
        raise TooLargeError("a capture names more remotes than its bound")
    _check_ascending([one.name for one in repository.remotes], "remotes")
    for remote in repository.remotes:
        if max(len(remote.name), len(remote.url)) > WORKSPACE_TEXT_BYTES_MAX or not remote.name:
            raise FormatError("a remote's name or address is empty or too long")


def _check_index(index: tuple[IndexEntry, ...], length: int) -> None:
    if len(index) > WORKSPACE_ENTRIES_MAX:
        raise TooLargeError("a capture has more index entries than its bound")
    places = [(one.path, one.stage) for one in index]
    if any(left >= right for left, right in pairwise(places)):
        raise FormatError("the index entries do not ascend")
    if any(left[0] == right[0] and left[1] == 0 for left, right in pairwise(places)):
        raise FormatError("a path of the index is in conflict, and is not")
    for one in index:
        check_path(one.path)
        if one.mode not in (0, *MODES) or one.stage not in range(4) or one.flags & ~Flag(7):
            raise FormatError("an index entry has a mode, a stage or a flag that git does not know")
        if len(one.object) != (length if one.mode else 0):
            raise FormatError("an index entry names an object of the wrong length")
        if one.content is not None:
            check_content(one.content)
        if (one.content is not None and one.mode in (0, 0o160000)) or (not one.mode and (one.flags or one.stage)):
            raise FormatError("an index entry that is no file has a content, a flag or a stage")


def _check_operation(operation: Operation | None, length: int) -> None:
    if operation is None:
        return
    _check_ids(operation.heads, length)
    count = len(operation.heads)
    least, most = {
        OperationKind.MERGE: (1, 64),
        OperationKind.SQUASH: (0, 0),
    }.get(operation.kind, (1, 1))
    if not least <= count <= most or (operation.no_ff and operation.kind is not OperationKind.MERGE):
        raise FormatError("an operation in progress has another number of heads than its kind")
    if len(operation.message) > WORKSPACE_TEXT_BYTES_MAX * 64:
        raise TooLargeError("the message of an operation in progress passes its bound")


def check_ref(name: bytes) -> None:
    """Raise FormatError unless `name` is a branch's full name as git would take it, and no path out of its folder."""
    if not name.startswith(b"refs/heads/") or len(name) > WORKSPACE_TEXT_BYTES_MAX:
        raise FormatError("a branch has a name that is none, or too long")
    bad = any(byte <= 32 or byte == 127 or byte in b"~^:?*[\\" for byte in name)
    parts = name.split(b"/")
    if bad or b".." in name or b"@{" in name or any(_bad_part(part) for part in parts):
        raise FormatError("a branch has a name that git would not take")


def _bad_part(part: bytes) -> bool:
    return not part or part.startswith((b".", b"-")) or part.endswith((b".", b".lock"))


def _check_ids(ids: Iterable[bytes], length: int) -> None:
    if any(len(one) != length for one in ids):
        raise FormatError("an object id has the wrong length")


def _check_ascending(values: Iterable[bytes], what: str) -> None:
    if any(left >= right for left, right in pairwise(values)):
        raise FormatError(f"the {what} of a capture do not ascend")
