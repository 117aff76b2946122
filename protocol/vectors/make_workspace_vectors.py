"""Writes workspace.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol.crypto import content_id
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
    ObjectFormat,
    Operation,
    OperationKind,
    Reason,
    Remote,
    Repository,
    Sparse,
)
from hhd_protocol.workspace_encoding import encode_capture

PIECE_KEY = bytes(range(32, 64))


def _content(raw: bytes) -> Content:
    return Content(size=len(raw), pieces=(content_id(PIECE_KEY, b"piece", raw),))


def cases() -> dict[str, Capture]:
    """Return captures that between them use every field."""
    plain = Capture(
        repository=None,
        entries=(
            Entry(path=b"empty", kind=Kind.FOLDER),
            Entry(path=b"link", kind=Kind.SYMLINK, target=b"../elsewhere"),
            Entry(path=b"notes/\xff.txt", kind=Kind.FILE, mode=0o640, content=_content(b"bytes\r\n")),
            Entry(path=b"zero", kind=Kind.FILE, mode=0o755, content=EMPTY),
        ),
        left_out=(
            LeftOut(path=b".env", reason=Reason.CREDENTIALS, size=12),
            LeftOut(path=b"pipe", reason=Reason.SPECIAL),
        ),
    )
    many = Capture(
        repository=None,
        entries=tuple(
            Entry(path=b"f%04d" % i, kind=Kind.FILE, mode=0o644, content=_content(b"%d" % i)) for i in range(600)
        ),
        left_out_more=3,
    )
    sha1 = Capture(
        repository=Repository(
            object_format=ObjectFormat.SHA1,
            head=b"h" * 20,
            branch=b"refs/heads/topic/one",
            index=(
                IndexEntry(path=b"both", stage=1, mode=0o100644, object=b"1" * 20, content=_content(b"base")),
                IndexEntry(path=b"both", stage=2, mode=0o100644, object=b"2" * 20, content=_content(b"ours")),
                IndexEntry(path=b"gone", stage=0, mode=0, object=b""),
                IndexEntry(path=b"later", stage=0, mode=0o100644, object=b"e" * 20, flags=Flag.INTENT_TO_ADD),
                IndexEntry(path=b"module", stage=0, mode=0o160000, object=b"m" * 20),
                IndexEntry(path=b"outside", stage=0, mode=0o100755, object=b"s" * 20, flags=Flag.SKIP_WORKTREE),
            ),
            sparse=Sparse(patterns=b"/*\n!/*/\n", cone=True),
            operation=Operation(kind=OperationKind.MERGE, heads=(b"o" * 20,), message=b"Merge\n", no_ff=True),
            history=History(assumed=(b"a" * 20,), shallow=(b"b" * 20,), packs=(_content(b"PACK"),)),
            shallow=(b"c" * 20,),
            roots=(b"r" * 20,),
            remotes=(Remote(name=b"origin", url=b"https://example.test/x.git"),),
        ),
        entries=(
            Entry(path=b"gone-too", kind=Kind.GONE),
            Entry(path=b"module", kind=Kind.GITLINK, commit=b"n" * 20),
        ),
        left_out=(LeftOut(path=b"module/", reason=Reason.SUBMODULE),),
    )
    unborn = Capture(
        repository=Repository(object_format=ObjectFormat.SHA256, head=None, branch=b"refs/heads/main"), entries=()
    )
    return {"a folder": plain, "a listing with levels": many, "a repository": sha1, "an unborn branch": unborn}


def main() -> None:
    """Write the file."""
    written = []
    for name, capture in cases().items():
        pieces: dict[PageId, bytes] = {}

        def put(raw: bytes, pieces: dict[PageId, bytes] = pieces) -> PageId:
            found = content_id(PIECE_KEY, b"piece", raw)
            pieces[found] = raw
            return found

        root = encode_capture(capture, put)
        shown = {one.hex(): raw.hex() for one, raw in pieces.items()}
        written.append({"name": name, "root": root.hex(), "pieces": shown})
    target = Path(__file__).parent / "workspace.json"
    version_1 = json.loads(target.read_text())["captures_of_version_1"]  # Read for ever, written no more.
    document = {"piece_key": PIECE_KEY.hex(), "captures": written, "captures_of_version_1": version_1}
    target.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
