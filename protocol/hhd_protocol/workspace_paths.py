"""Which names of a workspace may travel: one rule for who captures, receives and writes (`workspace.md`, Names).

A path is bytes relative to the workspace's folder, components joined by `/`. The rule does not ask on which system it
runs: a name that would be harmless on Linux but is an escape or a repository on a file system of macOS or Windows
does not travel, so that a capture means the same wherever it arrives.
"""

from __future__ import annotations

import re
import unicodedata

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import WORKSPACE_COMPONENT_BYTES_MAX, WORKSPACE_PATH_BYTES_MAX

_HFS_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF, 0x00AD, 0x200B, 0x2060]
)
"""Characters that HFS+ (and our caution) leaves out when it compares names."""

_NTFS_GIT = re.compile(rb"(?:\.git|git~[0-9]+)[ .]*(?::.*)?", re.DOTALL)
"""`.git` to NTFS: its short name, dots and blanks at the end, a stream behind a colon."""

_ORDINARY = re.compile(rb"[\w+,=@-][\w+,=@.-]{0,254}(?:/[\w+,=@-][\w+,=@.-]{0,254})*")
"""Of nearly all names one look is enough: no component begins with a dot, none holds a colon, a tilde or a blank."""


def path_problem(path: bytes) -> str | None:
    """Return what keeps `path` from travelling, as half a sentence, or None if nothing does."""
    if len(path) <= WORKSPACE_PATH_BYTES_MAX and _ORDINARY.fullmatch(path):
        return None
    return unusual_path_problem(path)


def unusual_path_problem(path: bytes) -> str | None:
    """The same of any path, component by component."""
    if not path:
        return "is empty"
    if len(path) > WORKSPACE_PATH_BYTES_MAX:
        return f"is longer than {WORKSPACE_PATH_BYTES_MAX} bytes"
    if b"\0" in path:
        return "holds a NUL byte"
    if b"\\" in path:
        return "holds a backslash, which separates folders on other systems"
    if path.startswith(b"/") or (len(path) > 1 and path[1:2] == b":" and path[:1].isalpha()):
        return "is absolute"
    plain = path.isascii() and b"git" not in path.lower()
    for component in path.split(b"/"):
        if component in (b"", b"."):
            return "has an empty component"
        if component == b"..":
            return "leads out of its folder"
        if len(component) > WORKSPACE_COMPONENT_BYTES_MAX:
            return f"has a component longer than {WORKSPACE_COMPONENT_BYTES_MAX} bytes"
        if not plain and is_dot_git(component):
            return "names a repository's own folder"
    return None


def is_dot_git(component: bytes) -> bool:
    """Whether some file system takes `component` for `.git`: in any case, with what HFS+ or NTFS leave out."""
    if component.isascii():
        return _NTFS_GIT.fullmatch(component.lower()) is not None
    text = unicodedata.normalize("NFKC", component.decode("utf-8", "surrogateescape").translate(_HFS_IGNORED))
    return _NTFS_GIT.fullmatch(text.casefold().encode("utf-8", "surrogateescape")) is not None


def check_path(path: bytes) -> None:
    """Raise FormatError (TooLargeError for one that is too long) unless `path` may travel."""
    problem = path_problem(path)
    if problem is not None:
        raise (TooLargeError if "longer" in problem else FormatError)(f"a path of a workspace {problem}")
