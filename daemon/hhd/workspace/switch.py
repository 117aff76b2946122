"""The change of a folder from one state to another as a value: its steps, what each replaces, and where it is prepared.

How it is made, resumed and taken back is `switcher`'s.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hhd.workspace.ref_move import RefMove
from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError

NEW, OLD = b"new", b"old"
"""Folders of a stage: what is to come, numbered, and what was, by the same numbers."""

FOLDER, GIT_DIR = 0, 1
"""Roots of a change: the folder itself, and the repository's own folder."""

REMOVE, RMDIR, MKDIR, PUT = 0, 1, 2, 3
"""Kinds of changes, in the order in which they are made."""

Seen = tuple[int, int, int, int]
"""What tells one version of a file from another: inode, size, time of change in ns, mode."""


def seen(found: os.stat_result) -> Seen:
    """What identifies the thing `found`."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One step. `before`: what is there now, None for nothing. `staged`: the new thing in the stage (PUT only).

    RMDIR: `before` gives the mode to make it with again; `must`: it is in the way of something.
    """

    kind: int
    path: bytes
    root: int = FOLDER
    before: Seen | None = None
    staged: Seen | None = None
    must: bool = False


@dataclass(frozen=True, kw_only=True)
class Switch:
    """The whole change. `head_old`, `head_new`: a ref's full name, or a commit in hex for a detached head.

    `index`: which change puts the index; before it, what those of the files put that are `unchanged` against the index
    look like is written into it.
    """

    folder: Path
    git_dir: Path | None
    stage: Path
    changes: tuple[Change, ...]
    refs: tuple[RefMove, ...] = ()
    head_old: str | None = None
    head_new: str | None = None
    index: int | None = None
    unchanged: tuple[bytes, ...] = ()
    algorithm: str = "sha1"
    reason: str = "hhd"

    def value(self) -> Value:
        """As a value of canonical CBOR."""
        return [
            os.fsencode(self.folder),
            None if self.git_dir is None else os.fsencode(self.git_dir),
            os.fsencode(self.stage),
            [[c.kind, c.path, c.root, list(c.before or ()), list(c.staged or ()), c.must] for c in self.changes],
            [[move.ref, move.old, move.new] for move in self.refs],
            self.head_old,
            self.head_new,
            self.index,
            list(self.unchanged),
            self.algorithm,
            self.reason,
        ]

    @classmethod
    def parse(cls, value: Value) -> Switch:
        """The switch that `value` stands for; raises FormatError. It is from hhd's own folder: not hostile, perhaps
        damaged."""
        try:
            fields: Any = value
            folder, git_dir, stage, changes, refs, old, new, index, unchanged, algorithm, reason = fields
            return cls(
                folder=Path(os.fsdecode(folder)),
                git_dir=None if git_dir is None else Path(os.fsdecode(git_dir)),
                stage=Path(os.fsdecode(stage)),
                changes=tuple(
                    Change(kind=k, path=p, root=r, before=tuple(b) or None, staged=tuple(s) or None, must=m)
                    for k, p, r, b, s, m in changes
                ),
                refs=tuple(RefMove(ref=ref, old=a, new=b) for ref, a, b in refs),
                head_old=old,
                head_new=new,
                index=index,
                unchanged=tuple(unchanged),
                algorithm=algorithm,
                reason=reason,
            )
        except (TypeError, ValueError) as error:
            raise FormatError("a switch has another form") from error
