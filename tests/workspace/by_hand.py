"""Captures made the plain and slow way, and what a folder looks like in every respect that must survive a move."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from hhd.base.box import Box
from hhd_protocol.ids import PageId
from hhd_protocol.limits import WORKSPACE_PIECE_BYTES
from hhd_protocol.workspace import (
    Capture,
    Content,
    Entry,
    Flag,
    History,
    IndexEntry,
    Kind,
    ObjectFormat,
    Operation,
    OperationKind,
    Repository,
    Sparse,
)

ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "alice",
    "GIT_AUTHOR_EMAIL": "alice@laptop",
    "GIT_COMMITTER_NAME": "alice",
    "GIT_COMMITTER_EMAIL": "alice@laptop",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "LC_ALL": "C",
}


def git(folder: Path, *words: str, stdin: bytes | None = None, check: bool = True) -> bytes:
    """What git prints."""
    return subprocess.run(["git", *words], cwd=folder, check=check, capture_output=True, env=ENV, input=stdin).stdout


def repository(folder: Path, *, commit: bool = True) -> Path:
    """A repository with a commit of some files of each kind."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    if commit:
        (folder / "a.txt").write_text("a\n")
        (folder / "dir").mkdir()
        (folder / "dir/b.txt").write_text("b\n")
        (folder / "dir/run").write_text("#!/bin/sh\n")
        (folder / "dir/run").chmod(0o755)
        (folder / "link").symlink_to("a.txt")
        (folder / "gone.txt").write_text("gone\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "one")
    return folder


BOX = Box(bytes(32))
"""What seals records of what was begun."""


@dataclass
class Pieces:
    """Pieces of contents by id; `get` is what materialising asks."""

    held: dict[PageId, bytes] = field(default_factory=dict)

    def put(self, raw: bytes) -> Content:
        ids = []
        for at in range(0, len(raw), WORKSPACE_PIECE_BYTES):
            piece = raw[at : at + WORKSPACE_PIECE_BYTES]
            ids.append(PageId(hashlib.sha256(piece).digest()))
            self.held[ids[-1]] = piece
        return Content(size=len(raw), pieces=tuple(ids))

    def get(self, piece: PageId) -> bytes:
        return self.held[piece]


def file(path: str, content: Content, mode: int = 0o644) -> Entry:
    """An entry that is a file."""
    return Entry(path=os.fsencode(path), kind=Kind.FILE, mode=mode, content=content)


def capture(folder: Path, pieces: Pieces, *, depth: int | None = 1) -> Capture:
    """Everything in `folder`, read anew; `depth` None: with all the history."""
    if not (folder / ".git").exists():
        return Capture(repository=None, entries=tuple(_all_entries(folder, pieces)))
    algorithm = git(folder, "rev-parse", "--show-object-format").decode().strip()
    head = git(folder, "rev-parse", "--verify", "-q", "HEAD", check=False).strip()
    branch = git(folder, "symbolic-ref", "-q", "HEAD", check=False).strip()
    tree = _tree(folder, head.decode()) if head else {}
    index = _index(folder)
    entries = sorted(_differing(folder, pieces, index, algorithm), key=lambda one: one.path)
    git_dir = folder / git(folder, "rev-parse", "--git-dir").decode().strip()
    return Capture(
        repository=Repository(
            object_format=ObjectFormat(algorithm),
            head=bytes.fromhex(head.decode()) if head else None,
            branch=branch or None,
            index=tuple(_index_entries(folder, pieces, tree, index)),
            history=_history(folder, pieces, head.decode(), depth) if head else History(),
            operation=_operation(git_dir),
            sparse=_sparse(folder, git_dir),
        ),
        entries=tuple(entries),
    )


def _history(folder: Path, pieces: Pieces, head: str, depth: int | None) -> History:
    others = git(folder, "rev-parse", "--verify", "-q", "MERGE_HEAD", check=False).split()
    tips = [head, *(one.decode() for one in others)]
    if depth is None:
        pack = git(folder, "pack-objects", "--revs", "--stdout", "-q", stdin="\n".join(tips).encode() + b"\n")
        return History(packs=(pieces.put(pack),))
    commits = git(folder, "rev-list", f"--max-count={depth}", *tips).decode().split() if len(tips) == 1 else tips
    cut = sorted(
        bytes.fromhex(one)
        for one in commits
        if any(parent not in commits for parent in git(folder, "rev-parse", f"{one}^@").decode().split())
    )
    names = set(commits)
    for one in commits:
        names |= {
            line[: len(one)] for line in git(folder, "rev-list", "--objects", "--no-walk", one).decode().splitlines()
        }
    pack = git(folder, "pack-objects", "--stdout", "-q", stdin="\n".join(sorted(names)).encode() + b"\n")
    return History(packs=(pieces.put(pack),), shallow=tuple(cut))


def _operation(git_dir: Path) -> Operation | None:
    heads = git_dir / "MERGE_HEAD"
    if not heads.exists():
        return None
    return Operation(
        kind=OperationKind.MERGE,
        heads=tuple(bytes.fromhex(line) for line in heads.read_text().split()),
        message=(git_dir / "MERGE_MSG").read_bytes(),
        no_ff=(git_dir / "MERGE_MODE").read_bytes() == b"no-ff",
    )


def _sparse(folder: Path, git_dir: Path) -> Sparse | None:
    if git(folder, "config", "core.sparseCheckout", check=False).strip() != b"true":
        return None
    cone = git(folder, "config", "core.sparseCheckoutCone", check=False).strip() == b"true"
    return Sparse(patterns=(git_dir / "info/sparse-checkout").read_bytes(), cone=cone)


def _tree(folder: Path, head: str) -> dict[bytes, tuple[int, bytes]]:
    found = {}
    for line in git(folder, "ls-tree", "-r", "-z", "--full-tree", head).split(b"\0")[:-1]:
        facts, path = line.split(b"\t", 1)
        mode, _, oid = facts.split()
        found[path] = (int(mode, 8), bytes.fromhex(oid.decode()))
    return found


def _index(folder: Path) -> dict[tuple[bytes, int], tuple[int, bytes, Flag]]:
    found = {}
    intents = set(git(folder, "diff", "--name-only", "-z", "--diff-filter=A", "--no-renames").split(b"\0"))
    for line in git(folder, "ls-files", "-s", "-v", "-z").split(b"\0")[:-1]:
        facts, path = line.split(b"\t", 1)
        tag, mode, oid, stage = facts.split()
        flag = Flag.SKIP_WORKTREE if tag in (b"S", b"s") else Flag.NONE
        flag |= Flag.ASSUME_UNCHANGED if tag.islower() else Flag.NONE
        flag |= Flag.INTENT_TO_ADD if path in intents else Flag.NONE
        found[path, int(stage)] = (int(mode, 8), bytes.fromhex(oid.decode()), flag)
    return found


def _index_entries(
    folder: Path,
    pieces: Pieces,
    tree: dict[bytes, tuple[int, bytes]],
    index: dict[tuple[bytes, int], tuple[int, bytes, Flag]],
) -> list[IndexEntry]:
    found = []
    for (path, stage), (mode, oid, flags) in sorted(index.items()):
        if stage == 0 and not flags and tree.get(path) == (mode, oid):
            continue
        known = (path in tree and tree[path][1] == oid) or mode == 0o160000 or flags & Flag.INTENT_TO_ADD
        content = None if known else pieces.put(git(folder, "cat-file", "blob", oid.hex()))
        found.append(IndexEntry(path=path, stage=stage, mode=mode, object=oid, flags=flags, content=content))
    staged = {path for path, _ in index}
    found += [IndexEntry(path=path, stage=0, mode=0, object=b"") for path in tree if path not in staged]
    return sorted(found, key=lambda one: (one.path, one.stage))


def _differing(
    folder: Path, pieces: Pieces, index: dict[tuple[bytes, int], tuple[int, bytes, Flag]], algorithm: str
) -> list[Entry]:
    ignored = set(git(folder, "ls-files", "-z", "-oi", "--exclude-standard", "--directory").split(b"\0"))
    out = []
    there = set()
    for entry in _all_entries(folder, pieces):
        if (
            entry.path in ignored
            or entry.path + b"/" in ignored
            or any(entry.path.startswith(one) for one in ignored if one.endswith(b"/"))
        ):
            continue
        there.add(entry.path)
        known = index.get((entry.path, 0))
        if known is not None and not known[2] & (Flag.INTENT_TO_ADD | Flag.SKIP_WORKTREE):
            mode, oid, _ = known
            if mode == 0o160000 and entry.kind is Kind.FOLDER:
                continue
            if _as_blob(folder, entry, algorithm) == (mode, oid):
                continue
        out.append(entry)
    gone = {path for (path, _), one in index.items() if not one[2] & Flag.SKIP_WORKTREE} - there
    return out + [Entry(path=path, kind=Kind.GONE) for path in gone]


def _as_blob(folder: Path, entry: Entry, algorithm: str) -> tuple[int, bytes]:
    path = folder / os.fsdecode(entry.path)
    raw = entry.target if entry.kind is Kind.SYMLINK else path.read_bytes() if entry.kind is Kind.FILE else b""
    mode = {Kind.SYMLINK: 0o120000, Kind.FOLDER: 0o040000}.get(entry.kind, 0o100755 if entry.mode & 0o100 else 0o100644)
    return mode, hashlib.new(algorithm, b"blob %d\0" % len(raw) + raw).digest()


def _without_git(folder: Path, place: bytes, names: list[bytes]) -> list[bytes]:
    return [name for name in names if name != b".git" or place != os.fsencode(folder)]


def _all_entries(folder: Path, pieces: Pieces) -> list[Entry]:
    found = []
    for place, names, files in os.walk(os.fsencode(folder)):
        names[:] = _without_git(folder, place, names)
        for name in _without_git(folder, place, [*names, *files]):
            full = os.path.join(place, name)
            path, look = os.path.relpath(full, os.fsencode(folder)), os.lstat(full)
            if stat.S_ISLNK(look.st_mode):
                found.append(Entry(path=path, kind=Kind.SYMLINK, target=os.readlink(full)))
            elif stat.S_ISDIR(look.st_mode):
                if not os.listdir(full):
                    found.append(Entry(path=path, kind=Kind.FOLDER))
            elif stat.S_ISREG(look.st_mode):
                with open(full, "rb") as opened:
                    content = pieces.put(opened.read())
                found.append(Entry(path=path, kind=Kind.FILE, mode=look.st_mode & 0o777, content=content))
    return sorted(found, key=lambda one: one.path)


def looks(folder: Path) -> dict[bytes, object]:
    """Everything below `folder`, `.git` left out: kind, mode, bytes."""
    found: dict[bytes, object] = {}
    for place, names, files in os.walk(os.fsencode(folder)):
        names[:] = _without_git(folder, place, names)
        for name in _without_git(folder, place, [*names, *files]):
            full = os.path.join(place, name)
            path, look = os.path.relpath(full, os.fsencode(folder)), os.lstat(full)
            if stat.S_ISLNK(look.st_mode):
                found[path] = ("link", os.readlink(full))
            elif stat.S_ISREG(look.st_mode):
                with open(full, "rb") as opened:
                    found[path] = ("file", stat.S_IMODE(look.st_mode), opened.read())
            else:
                found[path] = (stat.S_IFMT(look.st_mode),)
    return found


def git_looks(folder: Path) -> dict[str, bytes]:
    """What git says of `folder`: index with flags, HEAD, branches, status, stash, operation in progress."""
    if not (folder / ".git").exists():
        return {}
    git_dir = folder / git(folder, "rev-parse", "--git-dir").decode().strip()
    files = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG")
    return {
        "index": git(folder, "ls-files", "-s", "-v"),
        "head": git(folder, "rev-parse", "-q", "--verify", "HEAD", check=False),
        "branch": git(folder, "symbolic-ref", "-q", "HEAD", check=False),
        "status": git(folder, "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "-uall"),
        **{name: (git_dir / name).read_bytes() for name in files if (git_dir / name).exists()},
    }


def everything(folder: Path) -> tuple[object, ...]:
    """All of the above, and refs, stashes and log: what ten moves there and back must leave alone."""
    if not folder.exists():
        return ()
    if not (folder / ".git").exists():
        return (looks(folder),)
    refs = git(folder, "for-each-ref")
    stash, log = git(folder, "stash", "list"), git(folder, "log", "--all", "--format=%H %s", check=False)
    return looks(folder), git_looks(folder), refs, stash, log
