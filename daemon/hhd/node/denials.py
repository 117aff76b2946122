"""Releases that this device had taken before its store was rolled back: nothing is done under them any more.

The source of such a handoff has this device's acknowledgement, and said so when it was asked once more. What was done
under the release may have been lost with the store; only a new record, by a takeover, lets the session go on here.
"""

from __future__ import annotations

from collections.abc import Iterable

from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.ids import SessionId, StatementId

_TABLE = "denials"
DENIED_MAX = 4096
"""A peer says which: more releases to one device than a session has in its life."""


def denied(store: Store, session: SessionId) -> frozenset[StatementId]:
    """Return the releases of `session` that are denied to this device."""
    raw = store.rows.get_either(_TABLE, b"", session) or b""
    return frozenset(StatementId(raw[at : at + 32]) for at in range(0, len(raw), 32))


def deny(store: Store, session: SessionId, release: bytes) -> None:
    """Note that nothing is to be done under `release`; within a transaction. Raises FormatError if it is none."""
    deny_tokens(store, session, (lineage.decode(release).id,))


def deny_tokens(store: Store, session: SessionId, tokens: Iterable[StatementId]) -> None:
    """Note the same of releases by their ids, which may come later; within a transaction."""
    known = denied(store, session)
    if not known.issuperset(tokens):
        store.rows.put_twice(_TABLE, b"", session, b"".join(sorted({*known, *tokens})[:DENIED_MAX]))
