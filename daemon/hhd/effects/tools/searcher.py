"""The process that walks and matches for `glob` and `grep`: request on stdin, answer on stdout, both JSON.

A regular expression can be written that runs for years, and nothing within a process can stop Python's `re`; so it runs
here, where hhd can end it. The folder comes as an open descriptor; everything below is opened relative to
it, no link is followed, and only regular files are read. The answer is in order of path and line, so that the same
files give the same answer on every device.

Not entered: `.git`, what .gitignore files in the workspace name (unless the search begins there), hhd's own folders.

It starts for each search, so it imports little (`dataclasses` and `typing` would take as long as the rest), and it
takes from the listing of a folder what it can: a `stat` for each file would cost as much as reading it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pathspec import GitIgnoreSpec

_MEMORY_BYTES_MAX = 2 * 1024 * 1024 * 1024
"""Address space of this process: expressions exist that expand to more."""

_IGNORE_BYTES_MAX = 1024 * 1024
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_FOLDER, _FILE, _OTHER = "folder", "file", "other"

Found = tuple[tuple[str, ...], int, str]
"""Components below the beginning, the open folder it is in, which of the three it is."""


class _Search:
    """One search under way, and what was left out of it."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.begin: tuple[str, ...] = tuple(request["begin"])
        self.hidden = {(dev, ino) for dev, ino in request["hidden"]}
        self.hidden_inodes = {ino for _, ino in self.hidden}
        self.entries_left: int = request["entries_max"]
        self.left_out: dict[str, int] = {}
        from hhd.effects.tools.globs import Glob, folded

        self._passed_over = [Glob(pattern) for pattern in request["passed_over"]]
        self._folded = folded

    def is_passed_over(self, below: tuple[str, ...]) -> bool:
        """Whether a rule of the person keeps searches out of this place."""
        if not self._passed_over:
            return False
        parts = tuple(self._folded(part) for part in (*self.begin, *below))
        if not any(glob.matches(parts) for glob in self._passed_over):
            return False
        self.leave_out("places your rules keep searches out of")
        return True

    def leave_out(self, why: str) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def is_hidden(self, entry: os.DirEntry[str], fd: int) -> bool:
        if entry.inode() not in self.hidden_inodes:
            return False
        found = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
        return (found.st_dev, found.st_ino) in self.hidden


def _walk(search: _Search, root: int, may_enter: Callable[[tuple[str, ...]], bool]) -> Iterator[Found]:
    """Yield what is below the beginning, in order of path; a folder comes before its contents."""
    fd, rules = os.dup(root), [_rules(root)]
    for name in search.begin:
        below = os.open(name, _WALK, dir_fd=fd)
        os.close(fd)
        fd = below
        rules.append(_rules(fd))
    inside = _ignored(search.begin, rules[:-1], folder=True) if search.begin else False
    try:
        yield from _below(search, fd, (), [] if inside else rules, may_enter)
    finally:
        os.close(fd)


def _below(
    search: _Search,
    fd: int,
    parts: tuple[str, ...],
    rules: list[GitIgnoreSpec | None],
    may_enter: Callable[[tuple[str, ...]], bool],
) -> Iterator[Found]:
    ruled = any(spec is not None for spec in rules)
    for key, name, kind in _entries(search, fd):
        search.entries_left -= 1
        if search.entries_left < 0:
            search.left_out["the rest: too many files"] = 1
            return
        here = (*parts, name)
        if name == ".git" or (ruled and _ignored((*search.begin, *here), rules, folder=key[-1:] == b"/")):
            continue
        if search.is_passed_over(here):
            continue
        yield here, fd, kind
        if kind is not _FOLDER or not may_enter(here):
            continue
        try:
            below = os.open(name, _WALK, dir_fd=fd)
        except OSError:
            search.leave_out("folders that cannot be listed")
            continue
        try:
            yield from _below(search, below, here, [*rules, _rules(below)] if rules else rules, may_enter)
        finally:
            os.close(below)
        if search.entries_left < 0:
            return


def _entries(search: _Search, fd: int) -> list[tuple[bytes, str, str]]:
    """What is in the folder, in order: the key makes "a-b/x" come before "a/x", as whole paths do."""
    found = []
    try:
        with os.scandir(fd) as listing:
            for entry in listing:
                folder = entry.is_dir(follow_symlinks=False)
                kind = _FOLDER if folder else _FILE if entry.is_file(follow_symlinks=False) else _OTHER
                if not search.is_hidden(entry, fd):
                    found.append((os.fsencode(entry.name) + b"/" * folder, entry.name, kind))
    except OSError:
        search.leave_out("folders that cannot be listed")
    return sorted(found)


def _rules(folder: int) -> GitIgnoreSpec | None:
    """What the .gitignore right in `folder` says, None if there is none that can be read."""
    raw = _content(".gitignore", folder, _IGNORE_BYTES_MAX)
    if not raw:
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(raw.decode("utf-8", "surrogateescape").splitlines())
    except ValueError:
        return None


def _ignored(parts: tuple[str, ...], rules: list[GitIgnoreSpec | None], *, folder: bool) -> bool:
    """Whether the rules of the folders above leave `parts` out; the nearest rule that speaks decides, as in git."""
    for depth in range(min(len(rules), len(parts)) - 1, -1, -1):
        spec = rules[depth]
        if spec is not None:
            verdict = spec.check_file("/".join(parts[depth:]) + ("/" if folder else "")).include
            if verdict is not None:
                return verdict
    return False


def _content(name: str, folder: int, bytes_max: int) -> bytes | None:
    """The regular file `name` in `folder`; None if it is something else, cannot be opened, or is larger."""
    try:
        fd = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > bytes_max:
            return None
        return os.read(fd, bytes_max)
    except OSError:
        return None
    finally:
        os.close(fd)


def _glob(request: dict[str, Any], search: _Search, root: int) -> list[str]:
    from hhd.effects.tools.globs import Glob

    pattern = Glob(request["pattern"])
    lines: list[str] = []
    for parts, _, kind in _walk(search, root, pattern.may_lead_to):
        folder = kind is _FOLDER
        if (folder and pattern.deep) or not pattern.matches(parts):
            continue
        if len(lines) == request["limit"]:
            search.left_out["paths: the pattern is too wide"] = 1
            break
        lines.append(_said((*search.begin, *parts)) + ("/" if folder else ""))
    return lines


def _grep(request: dict[str, Any], search: _Search, root: int) -> list[str]:
    from hhd.effects.tools import textfile
    from hhd.effects.tools.globs import Glob

    matches = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0).search
    names = Glob(request["glob"]) if request["glob"] else None
    by_name = "/" not in request["glob"]
    lines: list[str] = []
    for parts, folder in _files(search, root):
        if names is not None and not names.matches(parts[-1:] if by_name else parts[len(search.begin) :]):
            continue
        raw = _content(parts[-1], folder, request["file_bytes_max"])
        if raw is None:
            search.leave_out("files too large, unreadable or not plain")
        if not raw or textfile.kind_if_binary(raw[:8192]):
            continue
        wide = textfile.wide(raw)
        text = raw.decode(wide, "replace") if wide else textfile.decode(raw)
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            if matches(line):
                if len(lines) == request["limit"]:
                    search.left_out["lines: there are more"] = 1
                    return lines
                lines.append(f"{_said(parts)}:{number}:{_short(line, request['chars_max'])}")
    return lines


def _files(search: _Search, root: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Regular files below the beginning, or the beginning itself where that is one."""
    if search.begin:
        fd = os.dup(root)
        for name in search.begin[:-1]:
            fd = os.open(name, _WALK, dir_fd=fd)
        if stat.S_ISREG(os.stat(search.begin[-1], dir_fd=fd, follow_symlinks=False).st_mode):
            yield search.begin, fd
            return
    for parts, folder, kind in _walk(search, root, lambda _: True):
        if kind is _FILE:
            yield (*search.begin, *parts), folder


def _said(parts: tuple[str, ...]) -> str:
    from hhd.base.text import visible

    return visible("/".join(parts), one_line=True)


def _short(line: str, chars_max: int) -> str:
    return line if len(line) <= chars_max else f"{line[:chars_max]} [{len(line) - chars_max} characters more]"


def main(root: int, folders: list[str]) -> None:
    """Answer the one request on stdin."""
    sys.path += folders
    warnings.simplefilter("ignore")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    except (ImportError, ValueError, OSError):
        pass
    from hhd.effects.tools.globs import GlobRefused

    request = json.load(sys.stdin)
    search = _Search(request)
    try:
        lines = {"glob": _glob, "grep": _grep}[request["kind"]](request, search, root)
        answer: dict[str, Any] = {"lines": lines, "left_out": search.left_out}
    except (re.error, RecursionError, OverflowError) as error:
        answer = {"refused": f"The pattern is not a regular expression that Python takes: {error}."}
    except GlobRefused as error:
        answer = {"refused": str(error)}
    except MemoryError:
        answer = {"refused": "The pattern needs too much memory."}
    except OSError as error:
        answer = {"refused": f"The path cannot be searched ({error.strerror})."}
    print(json.dumps(answer))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
