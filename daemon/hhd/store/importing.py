"""Takes a whole record log into the store, however long, without holding it in memory.

Objects become durable in batches; the checkpoint that refers to them comes last. An import that is cut off leaves
objects that nothing refers to, and `hhd gc` frees them (it leaves them alone while the session's lock is held).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hhd.store.checkpoints import Checkpoint, Payload, Sign
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId, ObjectName, SessionId
from hhd_protocol.objects import Ref

BATCH_BYTES = 16 * 1024 * 1024
"""Sealed bytes in one transaction: the write-ahead log stays of that size."""


def import_log(
    store: Store,
    session: SessionId,
    name: str,
    pieces: Iterable[bytes],
    *,
    parent: CheckpointId | None = None,
    turn: bool = True,
    sign: Sign | None = None,
) -> CheckpointId:
    """Append `pieces` to the record log `name` of `session` and return the checkpoint that has it.

    Raises FullStoreError, with the session as it was.
    """
    before = store.checkpoint(parent).payload if parent is not None else Payload()
    objects: list[ObjectName] = []
    waiting: list[bytes] = []
    size = 0

    def keep(ref: Ref, raw: bytes) -> None:
        nonlocal size
        objects.append(ref.name)
        waiting.append(raw)
        size += len(raw)

    def store_waiting() -> None:
        nonlocal size
        store.insist_on_room(size)
        with store.transaction():
            for raw in waiting:
                store.objects.put(raw)
        waiting.clear()
        size = 0

    writer = store.log_writer(store.session(session).family, keep, before.logs.get(name))
    with store.advance(session):
        for _ in writer.extend(pieces):
            if size >= BATCH_BYTES:
                store_waiting()
        last = writer.last if writer.last is not None else writer.append(b"")
        with store.transaction():
            store_waiting()
            bare = Checkpoint(
                session=session,
                parents=() if parent is None else (parent,),
                payload=Payload(image=before.image, logs={**before.logs, name: last}, module=before.module),
                objects=tuple(objects),
                at_ms=store.now_ms(),
                turn=turn,
            )
            return store.commit(replace(bare, record=sign(bare)) if sign else bare)
