"""Captures a folder that lies in no repository: every file, but for what ignore rules name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from hhd.base.beneath import Below
from hhd.workspace.contents import Contents, Put
from hhd.workspace.credential_files import is_for_credentials
from hhd.workspace.leaving_out import LeftOuts
from hhd.workspace.memory import Memory
from hhd.workspace.walk import open_below
from hhd.workspace.wanted import Wanted
from hhd_protocol.workspace import Capture, Entry, Kind, LeftOut, Reason
from hhd_protocol.workspace_paths import path_problem

IGNORE_FILES = (".gitignore", ".hhdignore")
"""Both are read in each folder; what the second says comes later, so it wins."""

_IGNORE_BYTES_MAX = 1024 * 1024


@dataclass
class _Walk:
    files: list[tuple[bytes, os.stat_result]] = field(default_factory=list)
    folders: list[bytes] = field(default_factory=list)
    left_out: LeftOuts = field(default_factory=LeftOuts)


Rules = tuple[tuple[str, GitIgnoreSpec], ...]
"""Ignore files from the top down: the folder each stands in (ending in a slash, or empty) and what it says."""


def capture_folder(folder: Path, before: Capture | None, put: Put, memory: Memory, wanted: Wanted) -> Capture:
    """Return the state of `folder`; raises RefusedError if it is larger than `wanted` allows, or keeps changing."""
    known = {one.path: one for one in before.entries} if before is not None and before.repository is None else {}
    walk = _Walk()
    with Below(folder) as below:
        _walk(os.dup(below.fd), b"", (), wanted, walk)
        walk.files.sort()
        wanted.insist((found.st_size, path) for path, found in walk.files)
        contents = Contents(below, put, before=known, memory=memory)
        entries = []
        for path, found in walk.files:
            one = contents.entry(path, found)
            if isinstance(one, LeftOut):
                walk.left_out.add(one)
            elif one is not None:
                entries.append(one)
    inhabited = _parents([*(one.path for one in entries), *walk.folders])
    entries += [Entry(path=path, kind=Kind.FOLDER) for path in walk.folders if path not in inhabited]
    left_out, more = walk.left_out.listed()
    made = Capture(
        repository=None,
        entries=tuple(sorted(entries, key=lambda one: one.path)),
        left_out=left_out,
        left_out_more=more,
    )
    memory.stamps = contents.stamps
    return made


def _walk(fd: int, prefix: bytes, rules: Rules, wanted: Wanted, walk: _Walk) -> None:
    """Look at everything below one folder, whose descriptor ends with this; deeper ones wait their turn."""
    waiting: list[tuple[bytes, Rules]] = [(prefix, rules)]
    top = fd
    try:
        while waiting:
            prefix, rules = waiting.pop()
            try:
                here = open_below(top, prefix)
            except PermissionError:
                walk.left_out.add(LeftOut(path=prefix, reason=Reason.UNREADABLE))
                continue
            except OSError:
                continue  # It went away, or became something else, after it was listed.
            try:
                waiting += _look(here, prefix, rules, wanted, walk)
            finally:
                os.close(here)
    finally:
        os.close(top)


def _look(here: int, prefix: bytes, rules: Rules, wanted: Wanted, walk: _Walk) -> Iterator[tuple[bytes, Rules]]:
    """Sort what one folder holds; return the folders in it that are to be looked at."""
    with os.scandir(here) as found:
        children = list(found)
    if prefix and any(child.name == ".git" for child in children):
        walk.left_out.add(LeftOut(path=prefix, reason=Reason.REPOSITORY))
        return iter(())
    rules = _with_own(here, prefix, rules, {child.name for child in children})
    if prefix:
        walk.folders.append(prefix.rstrip(b"/"))
    inner: list[tuple[bytes, Rules]] = []
    for child in children:
        path = prefix + os.fsencode(child.name)
        try:
            is_folder = child.is_dir(follow_symlinks=False)
            looks = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        reason = _reason(path, is_folder, rules, wanted)
        if reason is not None:
            walk.left_out.add(
                LeftOut(path=path + b"/" * is_folder, reason=reason, size=0 if is_folder else looks.st_size)
            )
        elif is_folder:
            inner.append((path + b"/", rules))
        else:
            walk.files.append((path, looks))
    return iter(inner)


def _reason(path: bytes, is_folder: bool, rules: Rules, wanted: Wanted) -> Reason | None:
    if path_problem(path):
        return Reason.NAME
    if wanted.keeps_off(path):
        return Reason.CREDENTIALS
    if wanted.names(path) or (is_folder and wanted.within(path + b"/")):
        return None
    if rules and _ignored(path, is_folder, rules):
        return Reason.IGNORED
    return Reason.CREDENTIALS if not is_folder and is_for_credentials(path) else None


def _ignored(path: bytes, is_folder: bool, rules: Rules) -> bool:
    text = os.fsdecode(path) + "/" * is_folder
    for base, spec in reversed(rules):
        verdict = spec.check_file(text.removeprefix(base)).include
        if verdict is not None:
            return verdict
    return False


def _with_own(here: int, prefix: bytes, rules: Rules, names: set[str]) -> Rules:
    lines: list[str] = []
    for name in IGNORE_FILES:
        if name not in names:
            continue
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
        except OSError:
            continue
        with open(fd, "rb") as source:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                lines += source.read(_IGNORE_BYTES_MAX).decode("utf-8", "surrogateescape").splitlines()
    return (*rules, (os.fsdecode(prefix), GitIgnoreSpec.from_lines(lines))) if lines else rules


def _parents(paths: Iterable[bytes]) -> set[bytes]:
    found: set[bytes] = set()
    for path in paths:
        at = path.rfind(b"/")
        while at > 0 and (parent := path[:at]) not in found:
            found.add(parent)
            at = path.rfind(b"/", 0, at)
    return found
