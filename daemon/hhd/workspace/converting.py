"""Whether git may call a file unchanged whose bytes are not those of its object, and which files those are.

Line ends, `ident`, encodings and filters make git compare a converted form. What travels are the bytes on disk, so
where any of these may be in force, files are compared with their objects as they are.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from hhd.base.beneath import Below, LinkInTheWay
from hhd.base.files import open_plain
from hhd.workspace.memory import Memory, is_settled, stamp_of
from hhd.workspace.view import View

_CONVERTS = re.compile(rb"(?m)^(?!\s*#).*(?:\[attr\]|\s(?:text|crlf|eol|ident|filter|working-tree-encoding)(?:=|\s|$))")
"""A line of attributes that may set a conversion: `-text` and `binary` do not."""

_ANY = b"* text"
_ATTRIBUTE_BYTES_MAX = 1024 * 1024
_CHUNK = 1024 * 1024


def may_convert(view: View, attribute_files: Iterable[bytes], below: Below) -> bool:
    """Whether some setting or attribute of the repository or the person may make git convert a file."""
    if view.settings.values.get(b"core.autocrlf", b"false").lower() in (b"true", b"input", b"yes", b"on", b"1"):
        return True
    return any(_CONVERTS.search(text) for text in _attributes(view, attribute_files, below))


def _attributes(view: View, files: Iterable[bytes], below: Below) -> Iterator[bytes]:
    yield view.copied("info/attributes")
    named = view.settings.values.get(b"core.attributesfile")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    own = os.path.expanduser(os.fsdecode(named)) if named is not None else os.path.join(base, "git", "attributes")
    for path in (own, "/etc/gitattributes"):
        try:
            with open_plain(Path(path)) as source:
                yield source.read(_ATTRIBUTE_BYTES_MAX)
        except OSError:
            continue
    for file in files:
        yield _in_tree(file, below)


def _in_tree(file: bytes, below: Below) -> bytes:
    """The attributes of a file that the index or the folder has; for one that cannot be read, some that convert.

    git takes those of the index then, and reads more than we do.
    """
    try:
        fd = below.open(tuple(file.split(b"/")))
    except (OSError, LinkInTheWay, ValueError):
        return _ANY
    with open(fd, "rb") as source:
        text = source.read(_ATTRIBUTE_BYTES_MAX + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else _ANY
    return text if len(text) <= _ATTRIBUTE_BYTES_MAX else _ANY


def differing(
    tracked: Iterable[tuple[bytes, bytes]], below: Below, memory: Memory, *, sha256: bool, now_ns: int
) -> Iterator[bytes]:
    """Yield the paths of `tracked` (path, object id) whose files hold other bytes than their objects.

    What is not a readable file is left to git's own comparison. A look at each file goes by its path, which is fast,
    since only what it tells of a file seen before is trusted; what is read is reached without following a link.
    """
    top, before, kept = os.fsencode(below.folder) + b"/", memory.raw, {}
    for path, object_id in tracked:
        try:
            stamp = stamp_of(os.lstat(top + path))
            known = before.get(path)
            if known is None or known[0] != stamp or known[1] != object_id:
                parts = tuple(path.split(b"/"))
                found = below.stat(parts)
                if found is None or not stat.S_ISREG(found.st_mode):
                    continue
                stamp = stamp_of(found)
                if _object_id(below.open(parts), found.st_size, sha256=sha256) != object_id:
                    yield path
                    continue
                if not is_settled(stamp, now_ns):
                    continue
                known = (stamp, object_id)
            kept[path] = known
        except (OSError, LinkInTheWay, ValueError):
            continue
    memory.raw = kept


def _object_id(fd: int, size: int, *, sha256: bool) -> bytes:
    digest = (hashlib.sha256 if sha256 else hashlib.sha1)(b"blob %d\0" % size)
    with open(fd, "rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()
