"""The commits a target may lack, as git packs cut into pieces."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence

from hhd.base.errors import RefusedError
from hhd.workspace.contents import Put
from hhd.workspace.view import View
from hhd.workspace.wanted import Wanted
from hhd_protocol.limits import WORKSPACE_COMMITS_MAX, WORKSPACE_PACKS_MAX, WORKSPACE_PIECE_BYTES
from hhd_protocol.workspace import Content, History, Operation, Repository

_EMPTY_PACK_COUNT = bytes(4)


def history(view: View, operation: Operation | None, before: Repository | None, wanted: Wanted, put: Put) -> History:
    """Return what makes HEAD and the commits of `operation` readable for who has the commits that `wanted` names.

    With none of them, it is their trees and a history that begins with them; where what is published is small enough to
    come along, with that. What `before` has is added to where that is possible. Raises RefusedError if git cannot read
    the commits.
    """
    tips = _tips(view.head, operation)
    if not tips:
        return History()
    known = {one.hex().encode() for one in wanted.known}
    if wanted.published:
        known.update(view.references("refs/remotes"))
    have = _present(view, sorted(known)[:WORKSPACE_COMMITS_MAX]) if known else []
    assumed = _assumed(view, tips, have) if have else ()
    if before is not None and before.history.assumed in (assumed, ()) and before.head is not None:
        last = _tips(before.head, before.operation)
        if last == tips:
            return before.history
        adds = len(before.history.packs) < WORKSPACE_PACKS_MAX and _adds_to(view, before.history, tips, last)
        if adds and before.history.assumed != assumed:  # What was fetched since may be all that a year went through.
            adds = _fits(view, (), _revisions(tips, last), wanted.trees_bytes_max)
        if adds:
            return _longer(view, before.history, tips, last, put)
    # Also where a published branch parted that is being merged: `tips` may rest on more than what was never published.
    first = (_boundary(view, tips, assumed) or assumed) if assumed else tuple(tips)
    if assumed and not _fits(view, ("--no-walk",), _revisions(first, ()), wanted.trees_bytes_max):
        pack = _pack(view, tips, assumed, put)
        return History(assumed=assumed, packs=() if pack is None else (pack,), shallow=shallow_marks(view))
    packs = (_pack_of_trees(view, first, put), _pack(view, tips, first, put) if assumed else None)
    return History(shallow=_with_parents(view, first), packs=tuple(pack for pack in packs if pack is not None))


def _tips(head: bytes | None, operation: Operation | None) -> list[bytes]:
    found = {head} if head is not None else set()
    return sorted(found | set(operation.heads if operation is not None else ()))


def _present(view: View, commits: Sequence[bytes]) -> list[bytes]:
    out = view.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=b"\n".join(commits) + b"\n")
    return [bytes.fromhex(line[:-7].decode()) for line in out.splitlines() if line.endswith(b" commit")]


def _assumed(view: View, tips: Iterable[bytes], have: Iterable[bytes]) -> tuple[bytes, ...]:
    """What `tips` rest on of what `have` reaches: themselves where it reaches all of them, nothing where none."""
    tips, have = tuple(tips), tuple(have)
    if found := _boundary(view, tips, have):
        return found
    beyond = view.run("rev-list", "--max-count=1", "--stdin", stdin=_revisions(tips, have))
    return () if beyond else tips


def _fits(view: View, words: tuple[str, ...], asked: bytes, bytes_max: int) -> bool:
    """Whether all that rev-list finds by that, with trees, is here, in at most so many bytes as git keeps it."""
    if not bytes_max:
        return False
    try:
        listed = view.run("rev-list", "--objects", "--no-object-names", *words, "--stdin", stdin=asked)
        sizes = view.run("cat-file", "--batch-check=%(objectsize:disk)", stdin=listed)
        return sum(int(size) for size in sizes.split(b"\n") if size) <= bytes_max
    except (RefusedError, ValueError):  # A partial clone: something is at the remote only.
        return False


def _boundary(view: View, tips: Iterable[bytes], have: Iterable[bytes]) -> tuple[bytes, ...]:
    """The commits among those that `have` reaches which the others rest on, ascending."""
    asked = _revisions(tips, have)
    out = view.run("rev-list", "--boundary", "--stdin", stdin=asked)
    found = sorted({bytes.fromhex(line[1:].decode()) for line in out.splitlines() if line.startswith(b"-")})
    return tuple(found[:WORKSPACE_COMMITS_MAX])


def _adds_to(view: View, history: History, tips: Iterable[bytes], last: Iterable[bytes]) -> bool:
    """Whether `history`, which ends with `last`, needs only what `tips` have beyond those.

    A shallow one has nothing of what is before where it begins: what somebody went back to may not be in it.
    """
    tips, last = set(tips), set(last)
    if not set(_boundary(view, tips, last)) <= last:
        return False
    if history.assumed or tips <= last:
        return True
    beyond = view.run("rev-list", "--stdin", stdin=_revisions(tips, last)).split()
    return tips - last <= {bytes.fromhex(one.decode()) for one in beyond}


def _longer(view: View, history: History, tips: list[bytes], last: list[bytes], put: Put) -> History:
    pack = _pack(view, tips, last, put)
    return (
        history
        if pack is None
        else History(assumed=history.assumed, shallow=history.shallow, packs=(*history.packs, pack))
    )


def _pack(view: View, tips: Iterable[bytes], have: Iterable[bytes], put: Put) -> Content | None:
    """What `tips` need besides the commits `have`, with their trees.

    No bitmaps: by them, all that the history of `have` ever held would be left out.
    """
    return _packed(view, ("--revs", "--thin", "--no-use-bitmap-index"), _revisions(tips, have), put)


def _pack_of_trees(view: View, tips: Iterable[bytes], put: Put) -> Content | None:
    listed = view.run("rev-list", "--objects", "--no-walk", "--stdin", stdin=_revisions(tips, ()))
    return _packed(view, (), listed, put)


def _packed(view: View, words: tuple[str, ...], asked: bytes, put: Put) -> Content | None:
    """A pack as a content; None if it holds nothing."""
    with tempfile.TemporaryFile() as source:
        source.write(asked)
        source.seek(0)
        command = ("pack-objects", "--stdout", "--delta-base-offset", "-q", *words)
        pieces, size, empty = [], 0, False
        with view.git.piped(*command, stdin=source, env=view.env) as process:
            assert process.stdout is not None
            while piece := process.stdout.read(WORKSPACE_PIECE_BYTES):
                if not size:
                    empty = piece[8:12] == _EMPTY_PACK_COUNT
                if not empty:
                    pieces.append(put(piece))
                size += len(piece)
        if process.returncode:
            raise view.refused(ValueError("its commits are not whole (git fsck says more)"))
    return None if empty else Content(size=size, pieces=tuple(pieces))


def _with_parents(view: View, tips: Iterable[bytes]) -> tuple[bytes, ...]:
    """Those of `tips` that have parents, which a history that begins with them lacks."""
    out = view.run("rev-list", "--no-walk", "--parents", "--stdin", stdin=_revisions(tips, ()))
    found = {bytes.fromhex(words[0].decode()) for line in out.splitlines() if len(words := line.split()) > 1}
    return tuple(sorted(found | (set(shallow_marks(view)) & set(tips))))


def shallow_marks(view: View) -> tuple[bytes, ...]:
    """Where the repository's own history is cut, ascending."""
    try:
        return tuple(sorted({bytes.fromhex(line.decode("ascii")) for line in view.copied("shallow").split()}))
    except ValueError as error:
        raise view.refused(ValueError("its list of where history is cut holds something else than commits")) from error


def _revisions(tips: Iterable[bytes], have: Iterable[bytes]) -> bytes:
    return b"".join(one.hex().encode() + b"\n" for one in tips) + b"".join(
        b"^" + one.hex().encode() + b"\n" for one in have
    )
