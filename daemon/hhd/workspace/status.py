"""What git says of a working tree: where index and HEAD differ, where files and index do, what is not tracked.

`git status` is asked for the tracked part and `git ls-files` for the rest at the same time. What is not tracked is then
sorted into new and ignored: plain files by `git check-ignore`, which looks at nothing but the patterns, and where there
are folders among it by a second `git status`, which looks at all of the index again. In sum that is the work of one
`git status`, and unlike that it also finds empty folders.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hhd.workspace.git import GitFailed
from hhd.workspace.view import View

_STATUS = ("status", "--porcelain=v2", "-z", "--no-renames", "--no-ahead-behind", "--ignore-submodules=dirty")
_SORTED_ONE_BY_ONE_MAX = 200
"""Things not tracked that the second `git status` is asked about by name; with more it looks at everything."""

_UNREADABLE = re.compile(rb"(?:warning: )?(?:could not open directory ')?(.+?)'?: Permission denied")
_TOO_DEEP = re.compile(rb"warning: could not open directory '(.{2000,}?)(?:': File name too long)?")
"""git cuts what it says at 4,096 bytes, so that the end may be missing."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """One tracked path that differs. `staged`, `unstaged`: git's letters, `.` for none; the rest as in the index.

    `head_object` and `object` are of HEAD and the index (all zero: none); `head_mode`, `mode`, `file_mode` of HEAD, the
    index and the file.
    """

    path: bytes
    staged: str
    unstaged: str
    is_submodule: bool
    moved: bool
    head_mode: int
    mode: int
    file_mode: int
    head_object: bytes
    object: bytes


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """One path in conflict: mode and object of each stage that is there."""

    path: bytes
    stages: dict[int, tuple[int, bytes]]


@dataclass
class Status:
    """All of it. Folders in `untracked` (nested repositories), `ignored` and `bare_folders` end in a slash."""

    changed: list[Changed] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    untracked: list[bytes] = field(default_factory=list)
    ignored: list[bytes] = field(default_factory=list)
    untracked_folders: list[bytes] = field(default_factory=list)
    """Folders without a tracked file."""
    unreadable: list[bytes] = field(default_factory=list)


def status(view: View) -> Status:
    """Return how the working tree, the index and HEAD of `view` differ; raises RefusedError."""
    found = Status()
    with ThreadPoolExecutor(1) as beside:
        others = beside.submit(_run, view, "ls-files", "--others", "--directory", "-z")
        tracked = _run(view, *_STATUS, "--untracked-files=no")
        here = others.result()
    _parse(tracked[0], found)
    loose = [*here[0].split(b"\0")[:-1], *_folders_in_place_of_files(view, found)]
    if loose and not any(one.endswith(b"/") for one in loose) and (sorted_out := _sorted_out(view, loose)) is not None:
        found.untracked, found.ignored = sorted_out
    elif loose:
        asked = loose if len(loose) <= _SORTED_ONE_BY_ONE_MAX else []
        sorting = _run(view, *_STATUS, "--untracked-files=all", "--ignored=matching", "--", *map(_text, asked))
        rest = Status()
        _parse(sorting[0], rest)
        found.untracked, found.ignored = rest.untracked, rest.ignored
        found.untracked_folders = [one for one in loose if one.endswith(b"/")]
        tracked = (tracked[0], tracked[1] + sorting[1])
    found.unreadable = sorted(set(_unreadable(tracked[1] + here[1])))
    return found


def _sorted_out(view: View, files: list[bytes]) -> tuple[list[bytes], list[bytes]] | None:
    """Those of `files`, none of them tracked, that are new, and those that are ignored; None where git cannot tell."""
    named = [b"./" + one for one in files]  # So that none begins like a word to git (`:(top)`).
    words = ("check-ignore", "--no-index", "--verbose", "--non-matching", "-z", "--stdin")
    env = {**view.env, "GIT_LITERAL_PATHSPECS": "0"}  # It takes paths as they are, and fails where it is told to.
    try:
        said, _ = view.git.ended(*words, stdin=b"\0".join((*named, b"")), env=env, statuses=(0, 1))  # 1: all are new.
    except GitFailed:
        return None
    fields = said.split(b"\0")[:-1]
    if fields[3::4] != named:
        return None
    new: list[bytes] = []
    ignored: list[bytes] = []
    for source, pattern, path in zip(fields[0::4], fields[2::4], files, strict=True):
        (ignored if source and not pattern.startswith(b"!") else new).append(path)
    return new, ignored


def _folders_in_place_of_files(view: View, found: Status) -> Iterator[bytes]:
    """Folders where the index has a file: `ls-files --directory` does not see those."""
    gone = [one.path for one in found.changed if one.unstaged in "DT" and not one.is_submodule]
    for path in gone + [one.path for one in found.conflicts]:
        try:
            look = os.lstat(os.path.join(os.fsencode(view.place.top), path))
        except OSError:
            continue
        if stat.S_ISDIR(look.st_mode):
            yield path + b"/"


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _run(view: View, *words: str) -> tuple[bytes, bytes]:
    try:
        return view.git.ended(*words, env=view.env)
    except GitFailed as error:
        raise view.refused(error) from error


def _unreadable(said: bytes) -> Iterator[bytes]:
    for line in said.splitlines():
        if hit := _UNREADABLE.fullmatch(line) or _TOO_DEEP.fullmatch(line):
            yield hit[1]


def _parse(raw: bytes, into: Status) -> None:
    for record in raw.split(b"\0")[:-1]:
        match record[:2]:
            case b"1 ":
                into.changed.append(_changed(record))
            case b"u ":
                into.conflicts.append(_conflict(record))
            case b"? ":
                into.untracked.append(record[2:])
            case b"! ":
                into.ignored.append(record[2:])


def _changed(record: bytes) -> Changed:
    _, letters, sub, head_mode, mode, file_mode, head_object, object_id, path = record.split(b" ", 8)
    return Changed(
        path=path,
        staged=chr(letters[0]),
        unstaged=chr(letters[1]),
        is_submodule=sub[:1] == b"S",
        moved=sub[1:2] == b"C",
        head_mode=int(head_mode, 8),
        mode=int(mode, 8),
        file_mode=int(file_mode, 8),
        head_object=bytes.fromhex(head_object.decode("ascii")),
        object=bytes.fromhex(object_id.decode("ascii")),
    )


def _conflict(record: bytes) -> Conflict:
    _, _, _, *rest = record.split(b" ", 10)
    modes, objects, path = rest[:3], rest[4:7], rest[7]
    stages = {
        stage: (int(mode, 8), bytes.fromhex(one.decode("ascii")))
        for stage, (mode, one) in enumerate(zip(modes, objects, strict=True), 1)
        if int(mode, 8)
    }
    return Conflict(path=path, stages=stages)
