"""The process that walks and matches for `glob` and `grep`: request on stdin, answer on stdout, both JSON.

A regular expression can be written that runs for years, and nothing within a process can stop Python's `re`; so it runs
here, where hhd can end it. The folder comes as an open descriptor; everything below is opened relative to
it, no link is followed, and only regular files are read. The answer is in order of path and line, so that the same
files give the same answer on every device.

Not entered: `.git`, what .gitignore files in the workspace name (unless the search begins there), hhd's own folders.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MEMORY_BYTES_MAX = 2 * 1024 * 1024 * 1024
"""Address space of this process: expressions exist that expand to more."""

_IGNORE_BYTES_MAX = 1024 * 1024
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(kw_only=True)
class _Search:
    """One search under way, and what was left out of it."""

    begin: tuple[str, ...]
    hidden: set[tuple[int, int]]
    entries_max: int
    looked: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, why: str) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A place that is no folder, or a folder after which its contents come. `folder` is its open parent."""

    parts: tuple[str, ...]
    folder: int
    mode: int


def _walk(search: _Search, root: int, may_enter: Any) -> Iterator[_Found]:
    """Yield what is below the beginning, in order of path."""
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
    search: _Search, fd: int, parts: tuple[str, ...], rules: list[GitIgnoreSpec | None], may_enter: Any
) -> Iterator[_Found]:
    try:
        with os.scandir(fd) as listing:
            entries = [(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name) for entry in listing]
    except OSError:
        search.leave_out("folders that cannot be listed")
        return
    for entry in sorted(entries, key=os.fsencode):
        name, here = entry.rstrip("/"), (*parts, entry.rstrip("/"))
        search.looked += 1
        if search.looked > search.entries_max:
            search.left_out["the rest: too many files"] = 1
            return
        if name == ".git" or _ignored((*search.begin, *here), rules, folder=entry.endswith("/")):
            continue
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in search.hidden:
            continue
        yield _Found(parts=here, folder=fd, mode=found.st_mode)
        if stat.S_ISDIR(found.st_mode) and may_enter(here):
            try:
                below = os.open(name, _WALK, dir_fd=fd)
            except OSError:
                search.leave_out("folders that cannot be listed")
                continue
            try:
                yield from _below(search, below, here, [*rules, _rules(below)] if rules else rules, may_enter)
            finally:
                os.close(below)
        if search.looked > search.entries_max:
            return


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
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > bytes_max:
            return None
        return file.read(bytes_max) or b""


def _glob(request: dict[str, Any], search: _Search, root: int) -> list[str]:
    from hhd.effects.tools.globs import Glob

    pattern = Glob(request["pattern"])
    lines: list[str] = []
    for found in _walk(search, root, pattern.may_lead_to):
        folder = stat.S_ISDIR(found.mode)
        if pattern.matches(found.parts) and not (folder and pattern.deep):
            if len(lines) == request["limit"]:
                search.left_out["paths: the pattern is too wide"] = 1
                break
            lines.append(_said((*search.begin, *found.parts)) + ("/" if folder else ""))
    return lines


def _grep(request: dict[str, Any], search: _Search, root: int) -> list[str]:
    from hhd.effects.tools import textfile
    from hhd.effects.tools.globs import Glob

    expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
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
        path = _said(parts)
        for number, line in enumerate(text.split("\n"), 1):
            line = line.removesuffix("\r")
            if expression.search(line):
                if len(lines) == request["limit"]:
                    search.left_out["lines: there are more"] = 1
                    return lines
                lines.append(f"{path}:{number}:{_short(line, request['chars_max'])}")
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
    for found in _walk(search, root, lambda _: True):
        if stat.S_ISREG(found.mode):
            yield (*search.begin, *found.parts), found.folder


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
    request = json.load(sys.stdin)
    search = _Search(
        begin=tuple(request["begin"]),
        hidden={(dev, ino) for dev, ino in request["hidden"]},
        entries_max=request["entries_max"],
    )
    from hhd.effects.tools.globs import GlobRefused

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
        answer = {"refused": f"The folder cannot be searched ({error.strerror})."}
    print(json.dumps(answer))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
