"""The one encoding of a capture: a small root, and listings cut into pieces that later captures share (`workspace.md`).

A listing is cut where the names themselves say so, so a change in one place leaves all other pieces as they were, and
two captures of one folder share them. Where the pieces are many, their ids are cut into pieces in turn: a tree, of
which a change writes anew one small piece a level. Pieces are kept like those of files: `put` gives a piece its
content id, `get` gives it back, proven.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import PageId
from hhd_protocol.limits import (
    WORKSPACE_ENTRIES_MAX,
    WORKSPACE_FILE_BYTES_MAX,
    WORKSPACE_LISTING_ROWS_MAX,
    WORKSPACE_PIECE_BYTES,
    WORKSPACE_ROOT_BYTES_MAX,
)
from hhd_protocol.workspace import (
    Capture,
    Content,
    Entry,
    Flag,
    History,
    IndexEntry,
    Kind,
    LeftOut,
    ObjectFormat,
    Operation,
    OperationKind,
    Reason,
    Remote,
    Repository,
    Sparse,
    check,
)

VERSION = 2
"""What is written. Version 1, which is read too, had listings without levels, cut into pieces of 256 rows."""

_ROWS_MASK = {1: 255, 2: 15}
"""By version: a listing is cut after a name whose CRC-32 has these bits zero, so pieces hold one more on average."""

_IDS_MASK = 15
_IDS_MIN, _IDS_MAX = 2, 256
"""Of a piece of ids. Two at least, so that each level is smaller than the one below, whatever the ids are."""

_TOP_MAX = 32
"""Ids that stand in the root; more make another level."""

Put = Callable[[bytes], PageId]
Get = Callable[[PageId], bytes]


def encode_capture(capture: Capture, put: Put) -> bytes:
    """Return the root of `capture`'s encoding; its listings are `put` piece by piece (each at most 1 MiB)."""
    check(capture)
    repository = capture.repository
    return encode(
        [
            VERSION,
            None if repository is None else _repository_fields(repository, put),
            _put_listing([_entry_row(one) for one in capture.entries], put),
            _put_listing([[one.path, int(one.reason), one.size] for one in capture.left_out], put),
            capture.left_out_more,
        ]
    )


def decode_capture(root: bytes, get: Get) -> Capture:
    """Return the capture that `root` and the pieces it names encode.

    Raises FormatError for anything an encoder here would not have written; whatever `get` raises passes through.
    """
    fields = decode(root, bytes_max=WORKSPACE_ROOT_BYTES_MAX)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise FormatError("a capture is not a list that begins with its version")
    if fields[0] > VERSION:
        raise NewerVersionError("a capture is of a newer version than this program knows")
    match fields:
        case [1 | 2, None | list() as repository, entries, left_out, int(more)] if type(more) is int:
            rows = partial(_listing, version=fields[0], get=get)
            capture = Capture(
                repository=None if repository is None else _repository(repository, rows),
                entries=tuple(_entry(row) for row in rows(entries)),
                left_out=tuple(_left_out(row) for row in rows(left_out)),
                left_out_more=more,
            )
        case _:
            raise FormatError("the fields of a capture are not as its version says")
    check(capture)
    return capture


def _repository_fields(one: Repository, put: Put) -> list[Value]:
    operation: Value = None
    if one.operation is not None:
        operation = [
            one.operation.kind.value,
            list(one.operation.heads),
            one.operation.message,
            one.operation.no_ff,
        ]
    return [
        one.object_format.value,
        one.head,
        one.branch,
        _put_listing([_index_row(entry) for entry in one.index], put),
        None if one.sparse is None else [one.sparse.patterns, one.sparse.cone],
        operation,
        [list(one.history.assumed), list(one.history.shallow), [_content_value(p) for p in one.history.packs]],
        list(one.shallow),
        list(one.roots),
        [[remote.name, remote.url] for remote in one.remotes],
    ]


def _repository(fields: list[Value], rows: Callable[[Value], Iterable[list[Value]]]) -> Repository:
    match fields:
        case [
            str(object_format),
            None | bytes() as head,
            None | bytes() as branch,
            index,
            None | list() as sparse,
            None | list() as operation,
            [list(assumed), list(cut), list(packs)],
            list(shallow),
            list(roots),
            list(remotes),
        ] if object_format in {one.value for one in ObjectFormat}:
            return Repository(
                object_format=ObjectFormat(object_format),
                head=head,
                branch=branch,
                index=tuple(_index_entry(row) for row in rows(index)),
                sparse=None if sparse is None else _sparse(sparse),
                operation=None if operation is None else _operation(operation),
                history=History(
                    assumed=_all_bytes(assumed),
                    shallow=_all_bytes(cut),
                    packs=tuple(_content(one) for one in packs),
                ),
                shallow=_all_bytes(shallow),
                roots=_all_bytes(roots),
                remotes=tuple(_remote(one) for one in remotes),
            )
    raise FormatError("the repository of a capture is not as its version says")


def _sparse(fields: list[Value]) -> Sparse:
    match fields:
        case [bytes(patterns), bool(cone)]:
            return Sparse(patterns=patterns, cone=cone)
    raise FormatError("the sparse checkout of a capture is not as its version says")


def _operation(fields: list[Value]) -> Operation:
    match fields:
        case [str(kind), list(heads), bytes(message), bool(no_ff)] if kind in {one.value for one in OperationKind}:
            return Operation(kind=OperationKind(kind), heads=_all_bytes(heads), message=message, no_ff=no_ff)
    raise FormatError("the operation in progress of a capture is not as its version says")


def _remote(value: Value) -> Remote:
    match value:
        case [bytes(name), bytes(url)]:
            return Remote(name=name, url=url)
    raise FormatError("a remote of a capture is not as its version says")


def _all_bytes(values: list[Value]) -> tuple[bytes, ...]:
    found = tuple(one for one in values if isinstance(one, bytes))
    if len(found) != len(values):
        raise FormatError("an object id of a capture is not a byte string")
    return found


def _content_value(content: Content | None) -> Value:
    return None if content is None else [content.size, b"".join(content.pieces)]


def _content(value: Value) -> Content:
    match value:
        case [int(size), bytes(joined)] if type(size) is int and 0 <= size <= WORKSPACE_FILE_BYTES_MAX:
            return Content(size=size, pieces=tuple(_ids(joined)))
    raise FormatError("a content of a capture is not a size and the ids of its pieces")


def _ids(joined: bytes) -> list[PageId]:
    if len(joined) % 32:
        raise FormatError("the ids of pieces are cut short")
    return [PageId(joined[at : at + 32]) for at in range(0, len(joined), 32)]


def _entry_row(one: Entry) -> list[Value]:
    match one.kind:
        case Kind.FILE:
            return [one.path, 0, one.mode, _content_value(one.content)]
        case Kind.SYMLINK:
            return [one.path, 1, one.target]
        case Kind.GITLINK:
            return [one.path, 3, one.commit]
    return [one.path, int(one.kind)]


def _entry(row: list[Value]) -> Entry:
    match row:
        case [bytes(path), 0, int(mode), list() as content] if _whole(row[1:3]):
            return Entry(path=path, kind=Kind.FILE, mode=mode, content=_content(content))
        case [bytes(path), 1, bytes(target)] if _whole(row[1:2]):
            return Entry(path=path, kind=Kind.SYMLINK, target=target)
        case [bytes(path), 3, bytes(commit)] if _whole(row[1:2]):
            return Entry(path=path, kind=Kind.GITLINK, commit=commit)
        case [bytes(path), 2 | 4 as kind] if type(kind) is int:
            return Entry(path=path, kind=Kind(kind))
    raise FormatError("an entry of a capture is not as its version says")


def _index_row(one: IndexEntry) -> list[Value]:
    return [one.path, one.stage, one.mode, one.object, int(one.flags), _content_value(one.content)]


def _index_entry(row: list[Value]) -> IndexEntry:
    match row:
        case [bytes(path), int(stage), int(mode), bytes(object_id), int(flags), None | list() as content] if (
            _whole([stage, mode, flags]) and 0 <= flags <= 7
        ):
            return IndexEntry(
                path=path,
                stage=stage,
                mode=mode,
                object=object_id,
                flags=Flag(flags),
                content=None if content is None else _content(content),
            )
    raise FormatError("an index entry of a capture is not as its version says")


def _left_out(row: list[Value]) -> LeftOut:
    match row:
        case [bytes(path), int(reason), int(size)] if _whole([reason, size]) and 0 <= reason <= max(Reason):
            return LeftOut(path=path, reason=Reason(reason), size=size)
    raise FormatError("what a capture says of something left out is not as its version says")


def _whole(values: Sequence[Value]) -> bool:
    return all(type(one) is int for one in values)


def _put_listing(rows: list[list[Value]], put: Put) -> Value:
    ids = [put(encode(list(piece))) for piece in _cut(rows, _ROWS_MASK[VERSION])]
    height = 0
    while len(ids) > _TOP_MAX:
        ids = [put(encode(b"".join(piece))) for piece in _cut_ids(ids)]
        height += 1
    return [height, b"".join(ids)]


def _cut(rows: list[list[Value]], mask: int) -> Iterator[list[list[Value]]]:
    """Yield the rows of each piece of a listing."""
    held: list[list[Value]] = []
    held_bytes = 0
    for row in rows:
        # What a row takes is estimated, from above: it need not be exact, but alike for every encoder.
        row_bytes = _weight(row)
        if held and (held_bytes + row_bytes > WORKSPACE_PIECE_BYTES - 64 or len(held) >= WORKSPACE_LISTING_ROWS_MAX):
            yield held
            held, held_bytes = [], 0
        held.append(row)
        held_bytes += row_bytes
        if not zlib.crc32(row[0]) & mask:  # type: ignore[arg-type]  # a row begins with its path
            yield held
            held, held_bytes = [], 0
    if held:
        yield held


def _cut_ids(ids: list[PageId]) -> Iterator[list[PageId]]:
    """Yield the ids of each piece of a level."""
    held: list[PageId] = []
    for one in ids:
        held.append(one)
        if len(held) >= _IDS_MAX or (len(held) >= _IDS_MIN and not one[-1] & _IDS_MASK):
            yield held
            held = []
    if held:
        yield held


def _weight(row: list[Value]) -> int:
    weight = 16
    for one in row:  # A call for each field would be a third of what encoding takes.
        if isinstance(one, bytes):
            weight += len(one) + 5
        else:
            weight += _weight(one) if isinstance(one, list) else 9
    return weight


def _listing(value: Value, version: int, get: Get) -> Iterator[list[Value]]:
    """Yield the rows of a listing; raises FormatError if it is cut elsewhere than an encoder would."""
    rows: list[list[Value]] = []
    lengths = []
    for piece in _row_pieces(value, version, get):
        found = decode(get(piece), bytes_max=WORKSPACE_PIECE_BYTES)
        if not isinstance(found, list) or not found:
            raise FormatError("a piece of a listing is not a list of rows")
        for row in found:
            if not isinstance(row, list) or not row or not isinstance(row[0], bytes):
                raise FormatError("a row of a listing does not begin with a path")
            rows.append(row)
        if len(rows) > WORKSPACE_ENTRIES_MAX:
            raise TooLargeError("a listing passes its bound")
        lengths.append(len(found))
    if lengths != [len(one) for one in _cut(rows, _ROWS_MASK[version])]:
        raise FormatError("a listing is cut where no encoder would")
    yield from rows


def _row_pieces(value: Value, version: int, get: Get) -> list[PageId]:
    """Return the pieces of a listing that hold rows, down all its levels."""
    match value:
        case bytes(joined) if version == 1:
            return _ids(joined)
        case [int(height), bytes(joined)] if version == 2 and type(height) is int and height >= 0:
            ids = _ids(joined)
        case _:
            raise FormatError("a listing is not as its version says")
    if len(ids) > _TOP_MAX:
        raise FormatError("a listing has more pieces in its root than an encoder would leave there")
    for _ in range(height):
        below: list[PageId] = []
        lengths = []
        for one in ids:
            found = decode(get(one), bytes_max=_IDS_MAX * 32 + 16)
            if not isinstance(found, bytes) or not found:
                raise FormatError("a level of a listing is not made of ids")
            below += _ids(found)
            lengths.append(len(found) // 32)
            if len(below) > WORKSPACE_ENTRIES_MAX:
                raise TooLargeError("a listing passes its bound")
        if len(below) <= _TOP_MAX or lengths != [len(piece) for piece in _cut_ids(below)]:
            raise FormatError("a listing is cut where no encoder would")
        ids = below
    return ids
