"""The checkpoints of a session that no other stands on, remembered from one look to the next.

Reading every checkpoint of a long session takes seconds; who asks again reads only what came since. What is remembered
is a copy for speed: it says how many checkpoints it was made of and which was the last, and where that does not fit the
session any more (a repair, a removal) it is made anew. Whether an end is a head is `hhd.node.lineages`'s to say.
"""

from __future__ import annotations

import contextlib

from hhd.base.errors import UserError
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import encode
from hhd_protocol.ids import CheckpointId, SessionId, StatementId

ENDS = "ends"
"""Table of rows, by session: how many checkpoints, the last of them, the ends, parents that are not here."""

SLOW = 256
"""New checkpoints worth remembering: fewer are read again sooner than they are written down."""


def ends(store: Store, session: SessionId) -> list[CheckpointId]:
    """Return the checkpoints of `session` with content that are no other's parent, in the order they came."""
    ids = store.checkpoint_ids(session)
    count, found, missing = _remembered(store, session, ids)
    for id in ids[count:]:
        parents = store.checkpoint(id).parents
        for parent in parents:
            if parent in found:
                del found[parent]
            else:  # It has a child already, or comes later.
                missing.add(parent)
        if id not in missing:
            found[id] = None
    if len(ids) - count >= SLOW:
        with contextlib.suppress(UserError, OSError):  # A full disk costs the copy, not the answer.
            value = encode([1, len(ids), ids[-1], b"".join(found), b"".join(sorted(missing.difference(ids)))])
            store.rows.put(ENDS, b"", session, value)
    return list(found)


def _remembered(
    store: Store, session: SessionId, ids: list[CheckpointId]
) -> tuple[int, dict[CheckpointId, None], set[CheckpointId]]:
    """How many of `ids` are accounted for, the ends among them, and parents that are not among them."""
    try:
        raw = store.rows.get(ENDS, b"", session)
        match decoded(raw, "copy of the ends of a session") if raw is not None else None:
            case [1, int(count), bytes(last), bytes(known), bytes(missing)] if (
                0 < count <= len(ids) and ids[count - 1] == last
            ):
                return count, dict.fromkeys(_cut(known)), set(_cut(missing))
    except DamagedStoreError:
        pass
    return 0, {}, set()


def _cut(joined: bytes) -> list[CheckpointId]:
    return [CheckpointId(StatementId(joined[at : at + 32])) for at in range(0, len(joined), 32)]
