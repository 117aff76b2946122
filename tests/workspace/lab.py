"""Repositories for tests, a store of pieces in memory, and the plainest way to make a folder from a capture."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

from hhd_protocol.crypto import content_id
from hhd_protocol.ids import PageId
from hhd_protocol.workspace import Capture, Content, Flag, Kind
from hhd_protocol.workspace_encoding import decode_capture, encode_capture

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Alice",
    "GIT_AUTHOR_EMAIL": "alice@laptop.test",
    "GIT_COMMITTER_NAME": "Alice",
    "GIT_COMMITTER_EMAIL": "alice@laptop.test",
    "GIT_AUTHOR_DATE": "2026-11-01T12:00:00Z",
    "GIT_COMMITTER_DATE": "2026-11-01T12:00:00Z",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
}


def device(at: Path) -> None:
    """The one device that anybody may make: of no driver, what overlays put in the place of a removed file."""
    os.mknod(at, stat.S_IFCHR | 0o600, os.makedev(0, 0))


def git(folder: Path, *words: str, stdin: bytes | None = None, check: bool = True) -> bytes:
    """What git prints, with no settings but the repository's own."""
    done = subprocess.run(
        ["git", *words], cwd=folder, input=stdin, capture_output=True, env=ENVIRONMENT, check=False, timeout=120
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def repository(folder: Path, files: dict[str, bytes] | None = None, *, object_format: str = "sha1") -> Path:
    """A repository in `folder` with one commit that holds `files`."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", f"--object-format={object_format}")
    for name, content in (files or {"one": b"1\n", "sub/two": b"2\n", "sub/three": b"3\n", "four": b"4\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


class Pieces(dict[PageId, bytes]):
    """Pieces in memory, by the ids of one family."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[PageId] = []

    def put(self, raw: bytes) -> PageId:
        assert 0 < len(raw) <= 1024 * 1024
        found = content_id(b"k" * 32, b"piece", raw)
        self[found] = raw
        self.puts.append(found)
        return found

    def content(self, content: Content) -> bytes:
        raw = b"".join(self[piece] for piece in content.pieces)
        assert len(raw) == content.size
        return raw


def through_its_encoding(capture: Capture) -> Capture:
    """The capture, encoded and decoded: what arrives is what was taken, and follows every rule."""
    pieces = Pieces()
    again = decode_capture(encode_capture(capture, pieces.put), pieces.__getitem__)
    assert again == capture
    return again


def seen(folder: Path) -> dict[bytes, object]:
    """Everything in a working tree but `.git`: kind, permission bits and bytes of each thing; empty folders too."""
    found: dict[bytes, object] = {}
    for at, folders, files in os.walk(os.fsencode(folder)):
        folders[:] = [one for one in folders if one != b".git"]
        for one in [*files, *folders]:
            path = os.path.join(at, one)
            name = os.path.relpath(path, os.fsencode(folder))
            look = os.lstat(path)
            if one == b".git":
                continue
            if stat.S_ISLNK(look.st_mode):
                found[name] = ("link", os.readlink(path))
            elif stat.S_ISDIR(look.st_mode):
                if not os.listdir(path):
                    found[name] = "empty"
            elif stat.S_ISREG(look.st_mode):
                found[name] = (
                    stat.S_IMODE(look.st_mode),
                    hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest(),
                )
        if at != os.fsencode(folder):
            folders[:] = [one for one in folders if not os.path.islink(os.path.join(at, one))]
    return found


def index(folder: Path) -> bytes:
    """The index as git lists it, flags and stages too."""
    return git(folder, "ls-files", "--stage", "-v", "-z")


def untouched(folder: Path) -> dict[str, object]:
    """Everything of a repository that a capture must leave alone: names, bytes and times of every file, git's too."""
    found: dict[str, object] = {}
    for at, folders, files in os.walk(folder):
        for one in [*files, *folders, "."]:
            path = os.path.join(at, one)
            look = os.lstat(path)
            raw = Path(path).read_bytes() if stat.S_ISREG(look.st_mode) else b""
            found[path] = (look.st_ino, look.st_mtime_ns, look.st_ctime_ns, look.st_mode, hashlib.sha256(raw).digest())
    return found


def made_from(capture: Capture, pieces: Pieces, target: Path, *, origin: Path | None = None) -> Path:
    """The folder that a capture describes, made without any care: for comparing, never for what came from outside.

    `origin`: where the commits come from that the target is said to have.
    """
    capture = through_its_encoding(capture)
    target.mkdir(parents=True)
    if capture.repository is not None:
        _make_repository(capture, pieces, target, origin)
    for entry in capture.entries:
        path = os.path.join(os.fsencode(target), entry.path)
        if entry.kind is Kind.GONE:
            _remove(path)
    for entry in capture.entries:
        path = os.path.join(os.fsencode(target), entry.path)
        if entry.kind is Kind.GONE:
            continue
        if entry.kind is not Kind.GITLINK:
            _remove(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if entry.kind is Kind.FILE:
            assert entry.content is not None
            Path(os.fsdecode(path)).write_bytes(pieces.content(entry.content))
            os.chmod(path, entry.mode)
        elif entry.kind is Kind.SYMLINK:
            os.symlink(entry.target, path)
        elif entry.kind is Kind.FOLDER:
            os.makedirs(path, exist_ok=True)
    return target


def _remove(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        if not os.listdir(path):
            os.rmdir(path)
    elif os.path.lexists(path):
        os.remove(path)


def _make_repository(capture: Capture, pieces: Pieces, target: Path, origin: Path | None) -> None:
    repository = capture.repository
    assert repository is not None
    git(target, "init", "-q", "-b", "unused", f"--object-format={repository.object_format.value}")
    if repository.history.assumed:
        assert origin is not None
        git(target, "fetch", "-q", str(origin), "+refs/*:refs/origin/*")
        for one in repository.history.assumed:
            git(target, "cat-file", "-e", one.hex())
    marks = sorted({*repository.history.shallow, *repository.shallow})
    if repository.history.shallow:
        (target / ".git/shallow").write_bytes(b"".join(one.hex().encode() + b"\n" for one in marks))
    for pack in repository.history.packs:
        git(target, "index-pack", "--stdin", "--fix-thin", stdin=pieces.content(pack))
    if repository.branch is not None:
        git(target, "symbolic-ref", "HEAD", os.fsdecode(repository.branch))
    if repository.head is not None:
        git(
            target,
            "update-ref",
            "HEAD" if repository.branch else "--no-deref",
            *([] if repository.branch else ["HEAD"]),
            repository.head.hex(),
        )
        git(target, "fsck", "--connectivity-only")
        git(target, "read-tree", "HEAD")
    zero = "0" * 2 * repository.object_format.bytes
    for entry in repository.index:
        git(target, "update-index", "--index-info", stdin=f"0 {zero}\t".encode() + entry.path + b"\n")
    for entry in repository.index:
        if not entry.mode:
            continue
        if entry.content is not None:
            made = git(target, "hash-object", "-w", "--stdin", "--no-filters", stdin=pieces.content(entry.content))
            assert made.strip().decode() == entry.object.hex()
        line = f"{entry.mode:o} {entry.object.hex()} {entry.stage}\t".encode() + entry.path + b"\n"
        git(target, "update-index", "--index-info", stdin=line)
    if repository.index and any(one.flags & Flag.INTENT_TO_ADD for one in repository.index):
        for entry in repository.index:
            if entry.flags & Flag.INTENT_TO_ADD:
                git(target, "update-index", "--force-remove", os.fsdecode(entry.path))
    skipped = {one.path for one in repository.index if one.flags & Flag.SKIP_WORKTREE}
    for record in git(target, "ls-files", "--stage", "-z").split(b"\0")[:-1]:
        head, path = record.split(b"\t", 1)
        mode, oid, stage = head.split(b" ")
        full = os.path.join(os.fsencode(target), path)
        if stage != b"0" or path in skipped:
            continue
        if mode == b"160000":
            os.makedirs(full, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(full), exist_ok=True)
        raw = git(target, "cat-file", "blob", oid.decode())
        if mode == b"120000":
            os.symlink(raw, full)
        else:
            Path(os.fsdecode(full)).write_bytes(raw)
            os.chmod(full, 0o755 if mode == b"100755" else 0o644)
    for flag, word in ((Flag.SKIP_WORKTREE, "--skip-worktree"), (Flag.ASSUME_UNCHANGED, "--assume-unchanged")):
        for entry in repository.index:
            if entry.flags & flag:
                git(target, "update-index", word, os.fsdecode(entry.path))


def intend(capture: Capture, target: Path) -> None:
    """Set the intents to add, which need the files."""
    assert capture.repository is not None
    for entry in capture.repository.index:
        if entry.flags & Flag.INTENT_TO_ADD:
            git(target, "add", "-N", os.fsdecode(entry.path))


def copied(folder: Path, target: Path) -> Path:
    """A copy of a repository, links and all."""
    shutil.copytree(folder, target, symlinks=True)
    return target
