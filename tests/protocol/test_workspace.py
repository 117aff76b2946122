"""Captures are those of the vectors; what breaks a rule is refused, whatever the bytes are."""

from __future__ import annotations

import dataclasses
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd_protocol import codec
from hhd_protocol.crypto import content_id
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import PageId
from hhd_protocol.workspace import (
    EMPTY,
    Capture,
    Content,
    Entry,
    Flag,
    History,
    IndexEntry,
    Kind,
    LeftOut,
    Operation,
    OperationKind,
    Reason,
    Remote,
    check,
    check_ref,
)
from hhd_protocol.workspace_encoding import decode_capture, encode_capture

FOLDER = Path(__file__).parents[2] / "protocol/vectors"
VECTORS = json.loads((FOLDER / "workspace.json").read_text())
KEY = bytes.fromhex(VECTORS["piece_key"])
CASES: dict[str, Capture] = runpy.run_path(str(FOLDER / "make_workspace_vectors.py"))["cases"]()
PLAIN, REPOSITORY = CASES["a folder"], CASES["a repository"]


class Pieces(dict[PageId, bytes]):
    """A store of pieces in memory."""

    def put(self, raw: bytes) -> PageId:
        found = content_id(KEY, b"piece", raw)
        self[found] = raw
        return found

    def get_piece(self, one: PageId) -> bytes:
        if one not in self:
            raise FormatError("a piece is missing")
        return self[one]


@pytest.mark.parametrize("case", VECTORS["captures"], ids=lambda case: case["name"])
def test_captures_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    given_pieces = _pieces(case)
    assert decode_capture(bytes.fromhex(case["root"]), given_pieces.get_piece) == CASES[case["name"]]
    made = Pieces()
    assert encode_capture(CASES[case["name"]], made.put).hex() == case["root"]
    assert made == given_pieces


@pytest.mark.parametrize("case", VECTORS["captures_of_version_1"], ids=lambda case: case["name"])
def test_captures_that_an_earlier_version_wrote_are_read(case: dict[str, Any]) -> None:
    root = bytes.fromhex(case["root"])
    assert decode_capture(root, _pieces(case).get_piece) == CASES[case["name"]]
    fields = codec.decode(root)
    assert isinstance(fields, list) and fields[0] == 1
    with pytest.raises(FormatError):
        decode_capture(codec.encode([2, *fields[1:]]), _pieces(case).get_piece)


def _pieces(case: dict[str, Any]) -> Pieces:
    return Pieces({PageId(bytes.fromhex(k)): bytes.fromhex(v) for k, v in case["pieces"].items()})


def test_a_change_in_one_place_writes_one_small_piece_a_level() -> None:
    entries = [
        Entry(path=b"d/%05d" % i, kind=Kind.FILE, mode=0o644, content=Content(size=1, pieces=(PageId(b"%032d" % i),)))
        for i in range(8_000)
    ]
    before, after = Pieces(), Pieces()
    encode_capture(Capture(repository=None, entries=tuple(entries)), before.put)
    entries[3000] = dataclasses.replace(entries[3000], mode=0o755)
    del entries[6_000]
    encode_capture(Capture(repository=None, entries=tuple(entries)), after.put)
    fresh = [after[one] for one in set(after) - set(before)]
    assert len(before) > 300
    assert sum(isinstance(codec.decode(raw), list) for raw in fresh) <= 2, "rows"
    assert len(fresh) <= 2 + 2 and sum(map(len, fresh)) < 8_000, "and ids above them"


def _entry(**changed: Any) -> Callable[[Capture], Capture]:
    return lambda one: dataclasses.replace(one, entries=(dataclasses.replace(one.entries[2], **changed),))


def _entries(*entries: Entry) -> Callable[[Capture], Capture]:
    return lambda one: dataclasses.replace(one, entries=entries)


def _repository(**changed: Any) -> Callable[[Capture], Capture]:
    def change(one: Capture) -> Capture:
        assert one.repository is not None
        return dataclasses.replace(one, repository=dataclasses.replace(one.repository, **changed))

    return change


def _indexed(**changed: Any) -> IndexEntry:
    good = IndexEntry(path=b"a", stage=0, mode=0o100644, object=b"1" * 20)
    return dataclasses.replace(good, **changed)


FILE = Entry(path=b"a", kind=Kind.FILE, mode=0o644, content=EMPTY)
LINK = Entry(path=b"a", kind=Kind.SYMLINK, target=b"x")
BELOW = Entry(path=b"a/b/c", kind=Kind.FILE, mode=0o644, content=EMPTY)
BAD_PLAIN = {
    "a path out of the folder": _entry(path=b"../x"),
    "mode bits beyond nine": _entry(mode=0o4755),
    "a mode below zero": _entry(mode=-1),
    "a file without a content": _entry(content=None),
    "a file with a target": _entry(target=b"x"),
    "a size without pieces": _entry(content=Content(size=1, pieces=())),
    "pieces without a size": _entry(content=Content(size=0, pieces=(PageId(bytes(32)),))),
    "a size past the bound": _entry(content=Content(size=2**40, pieces=())),
    "a piece id of another length": _entry(content=Content(size=1, pieces=(PageId(b"x"),))),
    "a link without a target": _entries(Entry(path=b"a", kind=Kind.SYMLINK)),
    "a link to NUL": _entries(Entry(path=b"a", kind=Kind.SYMLINK, target=b"a\0")),
    "an endless link": _entries(Entry(path=b"a", kind=Kind.SYMLINK, target=b"a" * 8193)),
    "a deletion in a folder": _entries(Entry(path=b"a", kind=Kind.GONE)),
    "a submodule in a folder": _entries(Entry(path=b"a", kind=Kind.GITLINK, commit=b"c" * 20)),
    "a folder with a content": _entries(Entry(path=b"a", kind=Kind.FOLDER, content=EMPTY)),
    "twice the same path": _entries(FILE, FILE),
    "paths out of order": _entries(BELOW, FILE),
    "a file below a link": _entries(LINK, BELOW),
    "a file below a file": _entries(FILE, BELOW),
    "a file below an empty folder": _entries(Entry(path=b"a", kind=Kind.FOLDER), BELOW),
    "a file below a link, with others between": _entries(LINK, dataclasses.replace(FILE, path=b"a-"), BELOW),
    "left out twice": lambda one: dataclasses.replace(one, left_out=(one.left_out[0],) * 2),
    "left out without a name": lambda one: dataclasses.replace(
        one, left_out=(LeftOut(path=b"", reason=Reason.IGNORED),)
    ),
    "a negative count": lambda one: dataclasses.replace(one, left_out_more=-1),
}
BAD_REPOSITORY = {
    "neither commit nor branch": _repository(head=None, branch=None),
    "a head of another length": _repository(head=b"h" * 32),
    "a branch elsewhere": _repository(branch=b"refs/hhd/x"),
    "index out of order": _repository(index=(_indexed(path=b"b"), _indexed())),
    "an index entry twice": _repository(index=(_indexed(), _indexed())),
    "an index entry in conflict and not": _repository(index=(_indexed(), _indexed(stage=1))),
    "a stage 4": _repository(index=(_indexed(stage=4),)),
    "a mode of its own": _repository(index=(_indexed(mode=0o100600),)),
    "an object where nothing is": _repository(index=(_indexed(mode=0),)),
    "no object where something is": _repository(index=(_indexed(object=b""),)),
    "an index path that is .git": _repository(index=(_indexed(path=b".GIT/config"),)),
    "a flag on nothing": _repository(index=(_indexed(mode=0, object=b"", flags=Flag.SKIP_WORKTREE),)),
    "a submodule with a content": _repository(index=(_indexed(mode=0o160000, content=EMPTY),)),
    "a merge of nothing": _repository(operation=Operation(kind=OperationKind.MERGE, heads=(), message=b"")),
    "a revert of two": _repository(
        operation=Operation(kind=OperationKind.REVERT, heads=(b"a" * 20, b"b" * 20), message=b"")
    ),
    "a merge of half a commit": _repository(operation=Operation(kind=OperationKind.MERGE, heads=(b"a",), message=b"")),
    "a revert without fast-forward": _repository(
        operation=Operation(kind=OperationKind.REVERT, heads=(b"a" * 20,), message=b"", no_ff=True)
    ),
    "roots out of order": _repository(roots=(b"b" * 20, b"a" * 20)),
    "a shallow mark of another length": _repository(history=History(shallow=(b"a",))),
    "too many packs": _repository(history=History(packs=(EMPTY,) * 65)),
    "a remote without a name": _repository(remotes=(Remote(name=b"", url=b"x"),)),
    "a remote twice": _repository(remotes=(Remote(name=b"o", url=b"x"), Remote(name=b"o", url=b"y"))),
    "a submodule with half a commit": _entries(Entry(path=b"a", kind=Kind.GITLINK, commit=b"c")),
    "a file with a commit": _entries(dataclasses.replace(FILE, commit=b"c" * 20)),
}


@pytest.mark.parametrize("name", BAD_PLAIN)
def test_a_folder_that_breaks_a_rule_is_refused(name: str) -> None:
    check(PLAIN)
    with pytest.raises(FormatError):
        check(BAD_PLAIN[name](PLAIN))


@pytest.mark.parametrize("name", BAD_REPOSITORY)
def test_a_repository_that_breaks_a_rule_is_refused(name: str) -> None:
    check(REPOSITORY)
    with pytest.raises(FormatError):
        check(BAD_REPOSITORY[name](REPOSITORY))


def test_what_was_checked_before_stands_and_anything_else_is_checked() -> None:
    bad = Entry(path=b"notes/../x", kind=Kind.FILE, mode=0o644, content=EMPTY)
    worse = dataclasses.replace(PLAIN, entries=tuple(sorted((*PLAIN.entries, bad), key=lambda one: one.path)))
    check(PLAIN, PLAIN)
    for before in (PLAIN, REPOSITORY, None):
        with pytest.raises(FormatError):
            check(worse, before)
    like = dataclasses.replace(
        PLAIN, entries=tuple(dataclasses.replace(one, path=b".git") for one in PLAIN.entries[:1])
    )
    with pytest.raises(FormatError):
        check(like, PLAIN)
    with pytest.raises(FormatError):
        check(dataclasses.replace(REPOSITORY, entries=worse.entries), worse)


def test_a_deleted_file_may_have_become_a_folder() -> None:
    check(dataclasses.replace(REPOSITORY, entries=(Entry(path=b"a", kind=Kind.GONE), BELOW)))


@pytest.mark.parametrize("name", ["main", "a/b", "feature/ü", "v1.0", "a@b", "x.locks"])
def test_a_branch_of_git_is_taken(name: str) -> None:
    check_ref(b"refs/heads/" + name.encode())


@pytest.mark.parametrize(
    "name",
    ["", "/", "a//b", "../../hooks/x", "a..b", "a b", "a\n", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", ".a", "a/.b",
     "a.", "a.lock", "a.lock/b", "a@{1}", "-a", "a\x7f"],
)  # fmt: skip
def test_a_branch_git_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        check_ref(b"refs/heads/" + name.encode())


def test_a_newer_capture_says_so() -> None:
    with pytest.raises(NewerVersionError):
        decode_capture(codec.encode([3, "new"]), Pieces().get_piece)


def test_a_listing_cut_elsewhere_is_refused() -> None:
    """Its rows, its ids, and the levels: one of them less, and one more than an encoder makes."""
    pieces = Pieces()
    fields = codec.decode(encode_capture(CASES["a listing with levels"], pieces.put))
    assert isinstance(fields, list)
    height, joined = fields[2]
    top = _split(joined)
    below = [one for piece in top for one in _split(codec.decode(pieces[piece]))]
    assert height == 1 and len(below) > 32 > len(top) > 1
    rows = [row for one in below for row in codec.decode(pieces[one])]  # type: ignore[union-attr]
    for listing in (
        [0, pieces.put(codec.encode(rows))],
        [1, pieces.put(codec.encode(b"".join(below)))],
        [0, b"".join(below)],
        [2, pieces.put(codec.encode(joined))],
        [1, joined[:-32] + joined[:32]],
    ):
        with pytest.raises(FormatError):
            decode_capture(codec.encode([*fields[:2], listing, *fields[3:]]), pieces.get_piece)
    assert decode_capture(codec.encode(fields), pieces.get_piece) == CASES["a listing with levels"]


def test_levels_that_unfold_without_end_are_refused_before_they_are_held() -> None:
    """A few pieces of ids, each of the one below 256 times: a million ids, and a million times that."""
    pieces = Pieces()
    one = pieces.put(codec.encode([[b"x", 2]]))
    for _ in range(5):
        one = pieces.put(codec.encode(one * 256))
    asked = 0

    def get(piece: PageId) -> bytes:
        nonlocal asked
        asked += 1
        return pieces.get_piece(piece)

    with pytest.raises(FormatError):
        decode_capture(codec.encode([2, None, [5, one], [0, b""], 0]), get)
    assert asked < 10_000


@given(rows=st.integers(0, 40), least=st.booleans())
@settings(max_examples=50, deadline=None)
def test_ids_that_would_cut_everywhere_end_in_a_listing_all_the_same(rows: int, least: bool) -> None:
    """Whatever the ids are, a level is smaller than the one below."""
    made: dict[PageId, bytes] = {}

    def put(raw: bytes) -> PageId:
        one = PageId(len(made).to_bytes(31, "big") + (b"\0" if least else b"\1"))
        made[one] = raw
        return one

    names = sorted({b"%08d" % (i * 7919) for i in range(rows * 50)})
    capture = Capture(repository=None, entries=tuple(Entry(path=name, kind=Kind.FOLDER) for name in names))
    assert decode_capture(encode_capture(capture, put), made.__getitem__) == capture


def _split(joined: Any) -> list[PageId]:
    return [PageId(joined[at : at + 32]) for at in range(0, len(joined), 32)]


def _whole(capture: Capture) -> tuple[list[Any], Pieces]:
    """A capture's root and pieces as values that can be changed anywhere."""
    pieces = Pieces()
    root = codec.decode(encode_capture(capture, pieces.put))
    assert isinstance(root, list)
    return root, pieces


def _places(value: Any) -> list[tuple[list[Any], int]]:
    found = []
    if isinstance(value, list):
        for i, one in enumerate(value):
            found.append((value, i))
            found += _places(one)
    return found


NASTY = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=64), st.text(max_size=8),
    st.just([]), st.just({}), st.just(b"../x"), st.just(b".git/config"), st.sampled_from(range(8)),
)  # fmt: skip


@given(data=st.data(), name=st.sampled_from(sorted(CASES)))
@settings(max_examples=150, deadline=None)
def test_a_field_that_lies_is_refused_or_means_something(data: st.DataObject, name: str) -> None:
    """Half of the mutations: well-formed encodings in which fields are others."""
    root, pieces = _whole(CASES[name])
    if data.draw(st.booleans()) and pieces:
        old = data.draw(st.sampled_from(sorted(pieces)))
        rows = [codec.decode(pieces[old])]
        holder, at = data.draw(st.sampled_from(_places(rows)[:200]))
        holder[at] = data.draw(NASTY)
        raw = _in_place_of(codec.encode(root), pieces, old, pieces.put(codec.encode(rows[0])))
    else:
        holder, at = data.draw(st.sampled_from(_places(root)))
        holder[at] = data.draw(NASTY)
        raw = codec.encode(root)
    _refused_or_same(raw, pieces)


def _in_place_of(root: bytes, pieces: Pieces, old: PageId, new: PageId) -> bytes:
    """A root that leads to `new` where it led to `old`: the levels between are written anew."""
    for above, raw in list(pieces.items()):
        if old in raw and old != new:
            root = _in_place_of(root, pieces, above, pieces.put(raw.replace(old, new)))
    return root.replace(old, new)


@given(data=st.data(), name=st.sampled_from(sorted(CASES)))
@settings(max_examples=150, deadline=None)
def test_bytes_that_are_damaged_are_refused_or_mean_something(data: st.DataObject, name: str) -> None:
    root, pieces = _whole(CASES[name])
    raw = bytearray(codec.encode(root))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                raw[at] ^= 1 << data.draw(st.integers(0, 7))
            case 1:
                del raw[at:]
            case 2:
                raw[at:at] = data.draw(st.binary(min_size=1, max_size=9))
            case 3:
                del raw[at]
        if not raw:
            break
    _refused_or_same(bytes(raw), pieces)


def _refused_or_same(raw: bytes, pieces: Pieces) -> None:
    try:
        capture = decode_capture(raw, pieces.get_piece)
    except FormatError:
        return
    assert encode_capture(capture, Pieces().put) == raw
