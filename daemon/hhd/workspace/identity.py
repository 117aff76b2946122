"""Which folder of this device a capture belongs to, by hints; where they do not decide, the person is asked.

First commits (roots) that two repositories share make them one. Addresses of remotes are compared as text, never used:
they are only hints, since a fork keeps its origin's and anybody can write any. A folder that the person mapped wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hhd_protocol.workspace import Repository

_URL = re.compile(rb"^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?([^/:]+)(?::[0-9]+(?=/))?[:/]+(.*)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Known:
    """A folder of this device, with the hints of its last capture."""

    folder: Path
    roots: tuple[bytes, ...]
    remotes: frozenset[bytes]


@dataclass(frozen=True, kw_only=True)
class Guess:
    """`folder`: the one that it is. None: `candidates` are to be shown to the person (none: it was never here)."""

    folder: Path | None
    candidates: tuple[Path, ...] = ()


def known(folder: Path, repository: Repository) -> Known:
    """What is remembered of a folder."""
    return Known(folder=folder, roots=repository.roots, remotes=_remotes(repository))


def guess(wanted: Repository, folders: Sequence[Known], *, mapped: Path | None = None) -> Guess:
    """Say which of `folders` the repository `wanted` is."""
    if mapped is not None:
        return Guess(folder=mapped)
    same = [one.folder for one in folders if set(one.roots) & set(wanted.roots)]
    if len(same) == 1:
        return Guess(folder=same[0])
    if same:
        return Guess(folder=None, candidates=tuple(same))
    own = _remotes(wanted)
    near = [
        one.folder
        for one in folders
        if one.remotes & own and not (one.roots and wanted.roots)  # Roots that differ are another history.
    ]
    return Guess(folder=None, candidates=tuple(near))


def _remotes(repository: Repository) -> frozenset[bytes]:
    return frozenset(canonical(one.url) for one in repository.remotes)


def canonical(url: bytes) -> bytes:
    """An address as host and path, so that `git@host:a/b.git` and `https://host/a/b` are one."""
    hit = _URL.match(url.strip())
    if hit is None or (b"://" not in url and b"@" not in url and b":" not in url.partition(b"/")[0]):
        return url.strip().rstrip(b"/")
    path = hit[2].strip(b"/").removesuffix(b".git").rstrip(b"/")
    return hit[1].lower() + b"/" + path
