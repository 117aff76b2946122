"""A capture made to appear in a folder that is there: only what differs is touched, all of it or nothing.

What the folder holds is known from a capture of it, made just before, and every file that is to go is read and compared
with that again, under git's own lock; so nothing is replaced that somebody changed. Files that git ignores, and
whatever else a capture leaves out, stay; if one is in the way, the folder is not written to at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hhd.base.beneath import LinkInTheWay
from hhd.workspace.errors import HostileCapture, Meddled, NotOurs, UnfinishedWrite, unclean
from hhd.workspace.git import GitFailed
from hhd.workspace.index_file import UnreadableIndex
from hhd.workspace.objects import Get
from hhd.workspace.pending import Place
from hhd.workspace.work import Work
from hhd.workspace.written import Written
from hhd_protocol.errors import FormatError
from hhd_protocol.workspace import Capture, Kind, Reason, Repository, check

_BLIND = frozenset({Reason.UNREADABLE, Reason.CHANGING})
"""Left out for reasons that keep one from knowing what the folder holds."""


def why_not(now: Capture, last: Capture | None, wanted: Capture) -> str | None:
    """What keeps a folder that is as `now` says from becoming `wanted`, as a sentence; None if nothing does.

    `last`: what hhd last captured or wrote there; if it is still that, nothing of the person is lost.
    """
    if (now.repository is None) != (wanted.repository is None):
        return "One of the two is a repository and the other is not."
    if now.left_out_more or any(one.reason in _BLIND for one in now.left_out):
        return "Not all of the folder could be read."
    if last is not None and same_state(now, last):
        return None
    if now.repository is None:
        return None if not now.entries else "The folder holds files that hhd did not put there."
    if now.repository.index or now.repository.operation or any(one.kind is not Kind.FOLDER for one in now.entries):
        return "The folder has changes that are not committed."
    return None


def same_state(one: Capture, other: Capture) -> bool:
    """Whether two captures show the same folder; their histories and hints may differ."""
    if one.entries != other.entries or (one.repository is None) != (other.repository is None):
        return False
    if one.repository is None or other.repository is None:
        return True
    return _facts(one.repository) == _facts(other.repository)


def _facts(repository: Repository) -> tuple[object, ...]:
    return (
        repository.object_format,
        repository.head,
        repository.branch,
        repository.index,
        repository.sparse,
        repository.operation,
    )


def in_place(
    capture: Capture, get: Get, folder: Path, place: Place, *, now: Capture, last: Capture | None, reason: str = "hhd"
) -> Written:
    """Turn `folder`, which is as `now` says, into `capture`; `last` is what hhd knows it held.

    Raises NotOurs when something of the person's would be lost (write it elsewhere then), HostileCapture,
    UnfinishedWrite, what `get` raises: then the folder is as it was. LeftBetween if somebody wrote to it while a
    failed change was taken back.
    """
    with refusals(folder):
        work = begun(capture, get, folder, now=now, last=last, reason=reason)
        work.begin(place)
        with ending(work, place):
            work.lock()
            work.prepare()
            work.record(place)
            return work.make(place)


def begun(capture: Capture, get: Get, folder: Path, *, now: Capture, last: Capture | None, reason: str = "hhd") -> Work:
    """The work of doing so, none of it done; raises NotOurs, FormatError."""
    problem = why_not(now, last, capture)
    if problem is not None:
        raise NotOurs(f"{folder} is left alone: {problem}")
    check(capture)
    return Work(capture, get, folder, now=now, last=last, reason=reason)


@contextlib.contextmanager
def ending(work: Work, place: Place) -> Iterator[None]:
    """End `work` with the block, however that ends."""
    try:
        yield
    finally:
        try:
            work.end(place)
        except OSError as error:
            raise unclean(work.folder, error) from error


@contextlib.contextmanager
def refusals(folder: Path) -> Iterator[None]:
    """Errors become those of a person."""
    try:
        yield
    except FormatError as error:
        raise HostileCapture(f"The capture breaks a rule: {error}; nothing was written.") from error
    except (Meddled, LinkInTheWay, UnreadableIndex) as error:
        raise NotOurs(f"{folder} is left alone: {str(error).rstrip(chr(46))}.") from error
    except (OSError, GitFailed) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise UnfinishedWrite(f"{folder} could not be written ({words}); it is as it was.") from error
