"""Objects of git that arrived: taken in apart, judged by git's strictest rules, read back without any conversion."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hhd.base.beneath import NEW
from hhd.base.files import write_all
from hhd.workspace.errors import HostileCapture
from hhd.workspace.git import Git, GitFailed, said
from hhd.workspace.states import parse_tree
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import PageId
from hhd_protocol.limits import WORKSPACE_ENTRIES_MAX, WORKSPACE_FILE_BYTES_MAX, WORKSPACE_PIECE_BYTES
from hhd_protocol.workspace import Content, Flag, ObjectFormat, Repository

Get = Callable[[PageId], bytes]
"""Gives a piece of content, verified against its id; what it raises passes through."""

_CHUNK = 1 << 20
_TREE_BYTES_MAX = 512 * 1024 * 1024
"""A listing of the largest tree allowed: a million paths of 500 bytes. Trees within trees can spell out far more."""
STRICT = "--strict=badFilemode=error"
"""git then refuses a tree with `.git` of any spelling, `..`, doubled entries, odd modes, or anything that it lacks."""


MEMORY_MAX = "1g"
"""What git may take at once for an object that came: a few MB of a pack can unfold to as many GB. Files above
`core.bigFileThreshold`, which is half of that, it does not hold in memory."""


def pieces(content: Content, get: Get) -> Iterator[bytes]:
    """Yield the bytes of `content`; raises FormatError if a piece has another length than its place asks for."""
    left = content.size
    for piece in content.pieces:
        raw = get(piece)
        if len(raw) != min(left, WORKSPACE_PIECE_BYTES):
            raise FormatError("a piece of a file has another length than the file's size asks for")
        left -= len(raw)
        yield raw


def take_packs(git: Git, packs: Iterable[Content], get: Get) -> None:
    """Unpack `packs` into the object folder that `git` has; raises HostileCapture for one that git refuses."""
    for pack in packs:
        words = ["index-pack", "--stdin", "--fix-thin", f"--max-input-size={pack.size}"]
        with subprocess.Popen(
            git.command([*words, STRICT] if STRICT else words),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=git.folder,
            env=git.environment({"GIT_ALLOC_LIMIT": MEMORY_MAX}),
        ) as process:
            assert process.stdin is not None and process.stderr is not None
            try:
                with suppress(BrokenPipeError):
                    for piece in pieces(pack, get):
                        process.stdin.write(piece)
                with suppress(BrokenPipeError):
                    process.stdin.close()
                words_of_git = process.stderr.read()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise HostileCapture(f"git refuses the history that came: {said(words_of_git)}.")


def store_blobs(git: Git, repository: Repository, get: Get, stage: Path) -> None:
    """Store the objects of the index that travel beside the packs; raises HostileCapture if one is not what it says."""
    if any(one.flags & Flag.INTENT_TO_ADD for one in repository.index):
        git.run("hash-object", "-w", "-t", "blob", "--stdin", stdin=b"")  # What such an entry names.
    wanted = [one for one in repository.index if one.content is not None]
    if not wanted:
        return
    stage.mkdir()
    names = []
    for number, entry in enumerate(wanted):
        assert entry.content is not None
        names.append(stage / str(number))
        fd = os.open(names[-1], NEW, 0o600)
        try:
            for piece in pieces(entry.content, get):
                write_all(fd, [piece])
        finally:
            os.close(fd)
    listed = b"".join(os.fsencode(name) + b"\n" for name in names)
    said_ids = git.run("hash-object", "-w", "-t", "blob", "--no-filters", "--stdin-paths", stdin=listed).split()
    for name in names:
        os.unlink(name)
    stage.rmdir()
    for entry, oid in zip(wanted, said_ids, strict=True):
        insist_on_object(entry.path, entry.object, bytes.fromhex(oid.decode("ascii")))


def insist_on_object(path: bytes, said_id: bytes, is_id: bytes) -> None:
    """Raise HostileCapture unless the content that came for `path` is the object it is said to be."""
    if said_id != is_id:
        raise HostileCapture(f"The content that came for {os.fsdecode(path)!r} is not the object it is said to be.")


def insist_on_present(git: Git, oids: Iterable[bytes], kind: str) -> None:
    """Raise HostileCapture unless each of `oids` is here and of `kind` (blob, commit)."""
    unique = sorted(set(oids))
    if not unique:
        return
    asked = b"".join(oid.hex().encode() + b"\n" for oid in unique)
    for line in git.run("cat-file", "--batch-check", stdin=asked).splitlines():
        words = line.split()
        if len(words) != 3 or words[1] != kind.encode():
            raise HostileCapture(
                f"The capture names the {kind} {words[0].decode()}, which did not come and is not here."
            )


def read_tree(git: Git, commit: bytes, object_format: ObjectFormat) -> dict[bytes, tuple[int, bytes]]:
    """The tree of `commit`; raises FormatError (TooLargeError) for one that may not be written."""
    parts, size = [], 0
    with git.piped("ls-tree", "-r", "-z", "--full-tree", commit.hex(), stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        count = 0
        while part := process.stdout.read(_CHUNK):
            size, count = size + len(part), count + part.count(b"\0")
            if size > _TREE_BYTES_MAX or count > WORKSPACE_ENTRIES_MAX:
                raise TooLargeError(f"the tree of the commit has more than {WORKSPACE_ENTRIES_MAX} entries")
            parts.append(part)
    if process.returncode:
        raise HostileCapture("git cannot list the tree of the commit that came.")
    return parse_tree(b"".join(parts), object_format.bytes)


class Blobs:
    """Objects read one after the other, in the order they were asked for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._out = process.stdout

    def next(self, oid: bytes) -> tuple[int, Iterator[bytes]]:
        """The size of the next object, which must be the blob `oid`, and its bytes, to be read to the end."""
        words = self._out.readline().split()
        if len(words) != 3 or words[0] != oid.hex().encode() or words[1] != b"blob":
            raise HostileCapture(f"The file {oid.hex()} of the commit did not come and is not here.")
        size = int(words[2])
        if size > WORKSPACE_FILE_BYTES_MAX:
            raise TooLargeError(f"a file of {size} bytes passes the bound of {WORKSPACE_FILE_BYTES_MAX}")
        return size, self._bytes(size)

    def _bytes(self, size: int) -> Iterator[bytes]:
        while size > 0:
            part = self._out.read(min(size, _CHUNK))
            if not part:
                raise GitFailed("git ended while it was read from")
            size -= len(part)
            yield part
        self._out.read(1)


@contextmanager
def blobs(git: Git, oids: Sequence[bytes]) -> Iterator[Blobs]:
    """Read `oids` while the block lasts, in their order."""
    with git.piped("cat-file", "--batch", "--buffer") as process:
        feeder = threading.Thread(target=_feed, args=(process, oids), daemon=True)
        feeder.start()
        try:
            yield Blobs(process)
        finally:
            process.kill()
            feeder.join()
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]


def _feed(process: subprocess.Popen[bytes], oids: Sequence[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, OSError):
        for at in range(0, len(oids), 1000):
            process.stdin.write(b"".join(oid.hex().encode() + b"\n" for oid in oids[at : at + 1000]))
        process.stdin.close()


def blob_id(size: int, chunks: Iterable[bytes], algorithm: str) -> bytes:
    """git's name for a file of these bytes."""
    digest = hashlib.new(algorithm, b"blob %d\0" % size)
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
