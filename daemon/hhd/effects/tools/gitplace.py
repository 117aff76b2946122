"""Tells git's own files from the person's.

A hook or a setting in `.git` (an editor, a pager, a file system monitor) is a program that runs as the person the
next time they type `git status`. So `write` and `edit` refuse every path through a `.git`, in any spelling that some
file system takes for it; what a session needs of git it does by git, in bash, where it is asked about.
"""

from __future__ import annotations

import unicodedata

from hhd.effects.confine import Inside, PathRefused

_IGNORED_BY_HFS = dict.fromkeys(
    [0x200C, 0x200D, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)  # fmt: skip
"""Code points that HFS+ passes over when it compares names (the list git itself checks)."""


def is_gits_own(place: Inside) -> bool:
    """Whether a component of `place` is a `.git`, as Linux, macOS or Windows would read it."""
    return any(is_git_name(name) for name in place.parts)


def refuse_gits_own(place: Inside) -> None:
    """Raise PathRefused where git keeps its own files: a hook or setting written there runs as the person later."""
    if is_gits_own(place):
        raise PathRefused(f"{place} belongs to git itself and is not written by this tool; use git in bash.")


def is_git_name(name: str) -> bool:
    """Whether some file system takes `name` for `.git`."""
    plain = unicodedata.normalize("NFKC", name).translate(_IGNORED_BY_HFS).casefold()
    plain = plain.partition(":")[0].rstrip(" .")  # NTFS: streams after a colon, and blanks and dots at the end.
    return plain in (".git", "git~1")
