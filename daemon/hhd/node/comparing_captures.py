"""Two captures of one folder compared: at which paths other things stand.

Captures hold what differs from a commit. Where two stand on different ones, what the commits have is read from the
repository here; where that lacks one, captures cannot tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.store.captures import CaptureReader
from hhd_protocol.ids import PageId
from hhd_protocol.workspace import Capture, Content, Flag, Kind, ObjectFormat

HASHED_BYTES_MAX = 16 * 1024 * 1024
"""Of a file that is hashed to see whether a commit has the same; a larger one counts as changed."""

_EXECUTABLE = 0o100
_NODE = tuple[str, int, "Content | bytes"]
"""What stands at a path: its kind, executable or not, its content, or the object or target that it is."""


def differing(old: Capture, new: Capture, readers: list[CaptureReader], folder: Path | None) -> list[bytes]:
    """Return the paths at which other things stand, ascending; raises RefusedError where that cannot be told.

    `folder`: where the repository is on this device, if it is. Raises UserError, FormatError for what is damaged.
    """
    one, other = old.repository, new.repository
    if (one is None) is not (other is None):
        raise RefusedError("One of two captures is of a repository.")
    heads = [None if each is None else each.head for each in (one, other)]
    alike = heads[0] == heads[1]
    stand = [_stands(old), _stands(new)] if alike else [_committed(each, folder) | _stands(each) for each in (old, new)]
    found = []
    for path in sorted(stand[0].keys() | stand[1].keys()):
        was, now = (nodes.get(path, _AS_COMMITTED if alike else None) for nodes in stand)
        if was != now and not _same_bytes(was, now, readers, old):
            found.append(path)
    return found


_AS_COMMITTED: _NODE = ("", 0, b"")
"""What stands where a capture says nothing: what the commit has."""


def _stands(capture: Capture) -> dict[bytes, _NODE | None]:
    """What a capture says of the folder, beyond its commit; None: nothing is there."""
    found: dict[bytes, _NODE | None] = {}
    for one in capture.repository.index if capture.repository is not None else ():
        if one.stage == 0:
            nothing = not one.mode or one.flags & Flag.SKIP_WORKTREE
            found[one.path] = None if nothing else _of_mode(one.mode, one.content or one.object)
    for entry in capture.entries:
        if entry.kind is Kind.FILE and entry.content is not None:
            found[entry.path] = ("file", bool(entry.mode & _EXECUTABLE), entry.content)
        elif entry.kind is Kind.GONE:
            found[entry.path] = None
        else:
            found[entry.path] = (entry.kind.name.lower(), 0, entry.target or entry.commit)
    return found


def _committed(capture: Capture, folder: Path | None) -> dict[bytes, _NODE | None]:
    """What the commit of a capture has, as the repository of `folder` knows it; raises RefusedError if it does not."""
    from hhd.workspace.comparing import tree_of  # It runs git, which is seldom needed.

    if folder is None:
        raise RefusedError("The commits of two captures are not here.")
    return {path: _of_mode(mode, oid) for path, (mode, oid) in tree_of(folder, capture).items()}


def _of_mode(mode: int, content: Content | bytes) -> _NODE:
    kinds = {0o120000: "symlink", 0o160000: "gitlink"}
    return (kinds.get(mode, "file"), mode == 0o100755, content)


def _same_bytes(was: _NODE | None, now: _NODE | None, readers: list[CaptureReader], capture: Capture) -> bool:
    """Whether a content on one side and a commit's object on the other are the same file."""
    if was is None or now is None or was[:2] != now[:2] or capture.repository is None:
        return False
    for one, other, reader in ((was[2], now[2], readers[0]), (now[2], was[2], readers[1])):
        if isinstance(one, Content) and isinstance(other, bytes) and one.size <= HASHED_BYTES_MAX:
            return _blob(one.size, one.pieces, reader.piece, capture.repository.object_format) == other
    return False


def _blob(size: int, pieces: Iterable[PageId], piece: Callable[[PageId], bytes], format: ObjectFormat) -> bytes:
    """The id that git gives a file's bytes."""
    hashed = hashlib.new(format.value, b"blob %d\0" % size, usedforsecurity=False)
    for one in pieces:
        hashed.update(piece(one))
    return hashed.digest()
