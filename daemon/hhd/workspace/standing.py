"""What of a repository's own files a change that is prepared ahead stands on, read without running git.

Where HEAD and its branch stand, the index, the settings, an operation in progress: all of them as bytes. As long as
those are the same, what git said of them when the change was prepared still holds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hhd.base.files import open_plain
from hhd.workspace import gitdir
from hhd.workspace.errors import Unready
from hhd.workspace.index_file import BYTES_MAX
from hhd.workspace.place import Place

_OWN = ("HEAD", "index", "config.worktree", "info/sparse-checkout", *map(os.fsdecode, gitdir.OPERATION_FILES))
_SHARED = ("config", "packed-refs", "shallow", "reftable/tables.list", "objects/info/alternates")
_BYTES_MAX = 64 * 1024 * 1024
"""Of one of those files, the index apart: whatever has larger ones is not prepared ahead."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`files`: what each of them holds, None: it is not there; `refused`: what is there of `gitdir.REFUSED`."""

    files: tuple[bytes | None, ...]
    refused: tuple[bytes, ...]


def standing(place: Place, branch: bytes | None) -> Standing:
    """Read all of it; `branch`: the full name of the one that HEAD is on. Raises Unready where files do not tell."""
    files = [_read(place.git_dir / name) for name in _OWN] + [_read(place.common / name) for name in _SHARED]
    ref = None
    if branch is not None:
        ref = _read(place.common / os.fsdecode(branch))
        if ref is not None and ref.startswith(b"ref:"):
            raise Unready("a branch stands for another one")
    for config in (files[_OWN.index("config.worktree")], files[len(_OWN) + _SHARED.index("config")]):
        if config is not None and b"include" in config.lower():
            raise Unready("the settings of the repository are in several files")
    refused = tuple(name for name in gitdir.REFUSED if os.path.lexists(place.git_dir / os.fsdecode(name)))
    return Standing(files=(*files, ref), refused=refused)


def _read(file: Path) -> bytes | None:
    bytes_max = BYTES_MAX if file.name == "index" else _BYTES_MAX
    try:
        with open_plain(file) as opened:
            raw = opened.read(bytes_max + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None  # An empty folder may stand where a branch has been packed away.
    if len(raw) > bytes_max:
        raise Unready(f"{file.name} is too large")
    return raw
