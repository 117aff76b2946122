"""What the index says of all tracked files: read once for each state of the index, kept as git printed it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from hhd.workspace.view import View
from hhd_protocol.workspace import Flag

_NOTABLE = re.compile(rb"(?:\A|\0)((?![HM] )[^\0]+|. 160000 [^\0]+|[^\0]*[\t/]\.gitattributes(?=\0))")
"""Records of `git ls-files -v --stage` that are more than a plain file."""

SUBMODULE = 0o160000


@dataclass(frozen=True, kw_only=True)
class One:
    """One entry of the index."""

    path: bytes
    mode: int
    object: bytes
    stage: int
    flags: Flag


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """`raw` is all of it; the rest are the entries that need a second look."""

    raw: bytes
    flagged: tuple[One, ...]
    submodules: tuple[bytes, ...]
    attribute_files: tuple[bytes, ...]

    @cached_property
    def files(self) -> list[tuple[bytes, bytes]]:
        """Path and object of each plain file without a flag or a conflict."""
        return [(one.path, one.object) for record in self.raw.split(b"\0")[:-1] if (one := _file(record)) is not None]


def tracked(view: View) -> Tracked:
    """Ask git; raises RefusedError."""
    raw = view.run("ls-files", "--stage", "-v", "-z")
    notable = [_one(hit[1]) for hit in _NOTABLE.finditer(raw)]
    return Tracked(
        raw=raw,
        flagged=tuple(one for one in notable if one.flags and one.stage == 0),
        submodules=tuple(one.path for one in notable if one.mode == SUBMODULE and one.stage == 0),
        attribute_files=tuple(one.path for one in notable if one.path.rpartition(b"/")[2] == b".gitattributes"),
    )


def _file(record: bytes) -> One | None:
    return _one(record) if record.startswith(b"H 100") else None


def _one(record: bytes) -> One:
    head, path = record.split(b"\t", 1)
    letter, mode, object_id, stage = head.split(b" ")
    flags = Flag.SKIP_WORKTREE if letter.upper() == b"S" else Flag.NONE
    if letter.islower():
        flags |= Flag.ASSUME_UNCHANGED
    return One(
        path=path,
        mode=int(mode, 8),
        object=bytes.fromhex(object_id.decode("ascii")),
        stage=int(stage),
        flags=flags,
    )
