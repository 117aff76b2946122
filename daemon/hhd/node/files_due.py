"""Sessions that came to this device, and whose files have not appeared here yet: none goes on before they did.

    taken, or taken over: due -> they appeared | a person named the folder to go on in | handed on: not due any more

It is noted in the transaction in which the session becomes this device's, so no crash comes in between. One that went
on in a folder as it was here before would work on old files, and have the new ones replaced by them where they are.
"""

from __future__ import annotations

from hhd.store.store import Store
from hhd_protocol.ids import SessionId

_TABLE = "files due"


def note(store: Store, session: SessionId) -> None:
    """They are due, in the caller's transaction if there is one."""
    store.rows.put(_TABLE, b"", session, b"\x01")


def are_due(store: Store, session: SessionId) -> bool:
    """Whether they are."""
    return store.rows.get(_TABLE, b"", session) is not None


def forget(store: Store, session: SessionId) -> None:
    """They are not due any more, in the caller's transaction if there is one."""
    if are_due(store, session):
        store.rows.delete(_TABLE, b"", session)
