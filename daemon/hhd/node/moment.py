"""One checkpoint of a stored session, read: where the session stood, its memory, what it had said."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property

from hhd.node import transcripts
from hhd.node.recording import Recorded
from hhd.node.standing import Standing
from hhd.node.step_log import LOG, StepLog
from hhd.store.checkpoints import Checkpoint
from hhd.store.errors import DamagedStoreError
from hhd.store.snapshots import snapshot_of
from hhd.store.store import Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.capsule import Capsule, Execution, Module
from hhd_protocol.compression import LEVEL_ONCE
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, LineId
from hhd_protocol.journal import encode_settled
from hhd_protocol.packed import pack
from hhd_protocol.paused import At, Origin
from hhd_protocol.steps import Opening, StepRecord
from hhd_protocol.stream import Stream

STANDINGS_KEPT = 8
"""Where sessions stood at checkpoints that were read: a handoff asks at each side three times, and each time the whole
memory would be read for it."""

STANDING_BYTES_KEPT = 64 * 1024
"""Of the request and the reply that one of them holds: a larger one is read each time."""

_STANDING: OrderedDict[CheckpointId, Standing] = OrderedDict()
"""By the id of the checkpoint, a digest of all that it names: it means the same in whichever store."""


class Moment:
    """The checkpoint `checkpoint`, read as it is asked for.

    Its methods raise ThinnedError where the content was thinned, DamagedStoreError where it is not what it should be.
    """

    def __init__(self, store: Store, checkpoint: CheckpointId) -> None:
        self._store = store
        self.checkpoint: Checkpoint = store.checkpoint(checkpoint)
        self._reader = store.reader_of(self.checkpoint)
        ref = self.checkpoint.payload.logs.get(LOG)
        if ref is None:
            raise DamagedStoreError(f"Checkpoint {checkpoint.hex()[:16]} holds no session of a program.")
        self._log = StepLog(self._reader, ref)

    @cached_property
    def record(self) -> StepRecord:
        """Where the session stood."""
        return self._log.last()

    @property
    def recorded(self) -> Recorded:
        """The record, for who goes on with the log."""
        return Recorded(record=self.record, size=self._log.size)

    @cached_property
    def opening(self) -> Opening:
        """What stays the same for the life of the session."""
        return self._log.opening(self.record)

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The memory; None where the program has not begun, or is over."""
        if self.record.at not in (At.INTERRUPTED, At.EFFECT):
            return None
        image = self.checkpoint.payload.image
        if image is None:
            raise DamagedStoreError("A session stands in the middle of a run, and its memory is not there.")
        return snapshot_of(self._reader.image(image))

    @cached_property
    def standing(self) -> Standing:
        """Where the session stood, with its journal whole."""
        if (known := _STANDING.get(self.checkpoint.id)) is not None:
            return known
        record, opening = self.record, self.opening
        found = Standing(
            at=record.at,
            program=opening.program,
            module=opening.module,
            module_bytes=opening.module_bytes,
            args=opening.args,
            journal=self._log.journal(record, self.snapshot),
            limits=opening.limits,
            transcript_bytes=record.transcript_bytes,
            checks=record.checks,
            steps=record.steps,
        )
        if _bytes_of(found) <= STANDING_BYTES_KEPT:
            _STANDING[self.checkpoint.id] = found
        if len(_STANDING) > STANDINGS_KEPT:
            with contextlib.suppress(KeyError):  # Another thread may have been quicker.
                _STANDING.popitem(last=False)
        return found

    def transcript(self, start: int = 0) -> Iterator[bytes]:
        """What the session had said, from byte `start` on, in parts."""
        return transcripts.parts(self._store, self.checkpoint, start)

    def capsule(self, *, embed: bool) -> Capsule:
        """The session as a capsule, with its module inside if `embed`."""
        standing = self.standing
        module = Module(digest=standing.module, length=standing.module_bytes, packed=None)
        if embed:
            module = Module(
                digest=standing.module,
                length=standing.module_bytes,
                packed=pack(self._store.modules.get(standing.module), LEVEL_ONCE),
            )
        history = b"".join(encode_settled(record.closed) for record in self._oldest_first() if record.closed)
        try:
            return Capsule(
                at=standing.at,
                program=standing.program,
                module=module,
                args=standing.args,
                line=LineId(self.checkpoint.id[:16]),
                execution=None if self.snapshot is None else Execution.of(self.snapshot),
                journal=standing.journal,
                history=Stream().append(history),
                transcript=Stream().append(b"".join(self.transcript())),
                limits=standing.limits,
                checks=standing.checks,
                steps=standing.steps,
                origin=Origin(
                    session=self.checkpoint.session,
                    checkpoint=self.checkpoint.id,
                    device=device_text(self._store.device),
                ),
            )
        except FormatError as error:
            raise DamagedStoreError(f"A checkpoint is no session that could be gone on with: {error}.") from error

    def _oldest_first(self) -> list[StepRecord]:
        return list(self._log.records())[::-1]


def _bytes_of(standing: Standing) -> int:
    live = standing.journal.live
    return len(standing.args) + (0 if live is None else len(live.request) + len(live.reply or b""))
