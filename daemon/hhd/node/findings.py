"""What looked like a credential in a session's files and texts: found once, when it arose, and remembered.

A finding says where, never what. It holds the session's first way to each other device until the person chose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd.base.secret_scan import Suspect, suspects
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.crypto import content_id
from hhd_protocol.ids import PageId, SessionId

TABLE = "findings"
"""A log for each session."""

FINDINGS_MAX = 1000
"""For one session; a thousand tell a person enough."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A credential shape of `kind` in `line` of `path`; `path` None: in the session's texts, at effect `position`.

    `content`: the content id of what was looked at. For a file of several MiB, `line` counts from `piece` MiB on.
    """

    path: bytes | None
    position: int
    piece: int
    line: int
    kind: str
    content: PageId


def findings(store: Store, session: SessionId) -> list[Finding]:
    """Return what was found in a session so far; raises DamagedStoreError."""
    found = []
    for raw in store.rows.log(TABLE, session):
        match decoded(raw, "finding"):
            case [1, None | bytes() as path, int(position), int(piece), int(line), str(kind), bytes(content)]:
                found.append(
                    Finding(path=path, position=position, piece=piece, line=line, kind=kind, content=PageId(content))
                )
            case _:
                raise DamagedStoreError("A finding is not in the form it was written in.")
    return found


def count(store: Store, session: SessionId) -> int:
    """How many there are."""
    return store.rows.length(TABLE, session)


def remember(store: Store, session: SessionId, found: Iterable[Finding]) -> None:
    """Write findings down, in the caller's transaction if there is one; past the bound nothing more is kept."""
    with store.transaction():
        room = FINDINGS_MAX - count(store, session)
        for one in list(found)[: max(0, room)]:
            fields: list[Value] = [1, one.path, one.position, one.piece, one.line, one.kind, one.content]
            store.rows.append(TABLE, session, encode(fields))


def of_text(store: Store, session: SessionId, position: int, text: bytes) -> list[Suspect]:
    """Look at a text of the session (what a person said, what a tool gave) and remember what was found."""
    found = suspects(text)
    if found:
        keys = store.family(session)
        content = content_id(keys.page_key, b"piece", text)
        remember(
            store,
            session,
            (
                Finding(path=None, position=position, piece=0, line=one.line, kind=one.kind, content=content)
                for one in found
            ),
        )
    return found
