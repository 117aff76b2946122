"""One session being advanced: each checkpoint is stored as what changed since the one before.

Who advances holds the session's lock (`Store.advance`) for as long as the line is used. A checkpoint is one
transaction: objects, row and list become durable together, or the store is as before, and the line goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hhd.store.checkpoints import Checkpoint, Payload, Sign
from hhd.store.errors import MissingError
from hhd.store.image_writer import ImageWriter
from hhd.store.log_writer import LogWriter
from hhd.store.reading import Image
from hhd.store.snapshots import SnapshotPages, snapshot_of, state_of
from hhd.store.store import Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.ids import CheckpointId, EpochId, ObjectName, SessionId, Sha256
from hhd_protocol.objects import Ref


class Line:
    """Advances `session` from the checkpoint `head` (None: from nothing, or from the content of a fork's origin)."""

    def __init__(
        self, store: Store, session: SessionId, head: CheckpointId | None = None, *, origin: Payload | None = None
    ) -> None:
        self._store, self.session, self.head = store, session, head
        self._family = store.session(session).family
        self._payload = store.checkpoint(head).payload if head is not None else origin or Payload()
        self._images: ImageWriter | None = None
        self._logs: dict[str, LogWriter] = {}
        self._made: list[ObjectName] = []
        self._numbers: Sequence[int] = []
        self._before: dict[int, bytes] | None = None
        self._epoch: EpochId | None = None

    @property
    def payload(self) -> Payload:
        """The content at the head."""
        return self._payload

    def snapshot(self) -> Snapshot:
        """Return the snapshot at the head; raises MissingError if it has none, ThinnedError if it was thinned."""
        if self._payload.image is None:
            raise MissingError("There is no memory image at this point of the session.")
        return snapshot_of(self._image(self._payload.image))

    def checkpoint(
        self,
        *,
        snapshot: Snapshot | None = None,
        changed: Sequence[int] | None = None,
        logs: Mapping[str, bytes] | None = None,
        module: Sha256 | None = None,
        journal: int = 0,
        workspace: bytes | None = None,
        brought: Sequence[ObjectName] = (),
        turn: bool = False,
        sign: Sign | None = None,
        reserve: bool = False,
    ) -> CheckpointId:
        """Store the next checkpoint, durable when this returns, and make it the head.

        `changed`: numbers of the pages of `snapshot` that may differ from the checkpoint before (None: all are
        compared). `logs`: what was appended to each record log. `workspace`: the capture of its moment (`captures.
        workspace_of`), whose new objects are `brought`. `sign` is given the checkpoint without its record and
        returns that record, within the transaction, so what it adds to the store becomes durable with the checkpoint.
        `reserve`: it holds what cannot be had again, so it may take of the room that is to stay free.
        Raises FullStoreError, with the head as it was.
        """
        try:
            with self._store.transaction():
                self._made = []
                self._in_this_epoch()
                if not reserve:
                    self._store.insist_on_room(0)
                payload = Payload(
                    image=self._payload.image if snapshot is None else self._step(snapshot, changed),
                    logs={**self._payload.logs, **{n: self._append(n, text) for n, text in (logs or {}).items()}},
                    module=module or self._payload.module,
                )
                bare = Checkpoint(
                    session=self.session,
                    parents=() if self.head is None else (self.head,),
                    payload=payload,
                    objects=(*brought, *self._made),
                    journal=journal,
                    workspace=workspace,
                    at_ms=self._store.now_ms(),
                    turn=turn,
                )
                made = replace(bare, record=sign(bare)) if sign else bare
                self._store.commit(made)
        except BaseException:
            self._images, self._logs, self._numbers, self._before = None, {}, [], None
            raise
        self.head, self._payload = made.id, payload
        return made.id

    def _in_this_epoch(self) -> None:
        """Seal under another key where a revocation came since the last checkpoint: the writers begin anew."""
        epoch = self._store.families.current(self._family).epoch
        if epoch != self._epoch:
            self._images, self._logs, self._epoch = None, {}, epoch

    def _step(self, snapshot: Snapshot, changed: Sequence[int] | None) -> Ref:
        pages = SnapshotPages(snapshot)
        if self._images is None:
            self._images = self._store.image_writer(self._family, self._keep, self._payload.image)
            self._numbers = self._images.numbers()
        gone: list[int] = []
        fresh: set[int] = set()
        if pages.numbers is not self._numbers and pages.numbers != self._numbers:
            known, now = set(self._numbers), set(pages.numbers)
            gone, fresh = sorted(known - now), now - known
            self._numbers = list(pages.numbers)  # A copy: the caller's may change under us.
        if changed is None:
            numbers = set(self._compared(pages))
        else:
            numbers = fresh.union(changed)
            self._before = None
        content = pages.chosen(sorted(numbers))
        return self._images.step(content, gone, state_of(snapshot), lambda: pages)

    def _compared(self, pages: Mapping[int, memoryview]) -> list[int]:
        """Return the numbers of pages that differ from the ones before, remembering these."""
        before = self._before
        if before is None:
            last = self._payload.image
            stored = self._image(last) if last is not None else None
            before = {n: bytes(p) for n, p in zip(stored.numbers, stored.pages, strict=True)} if stored else {}
        numbers = [number for number, page in pages.items() if bytes(page) != before.get(number)]
        kept = {number: content for number, content in before.items() if number in pages}
        self._before = kept | {number: bytes(pages[number]) for number in numbers}
        return numbers

    def _append(self, name: str, text: bytes) -> Ref:
        if name not in self._logs:
            self._logs[name] = self._store.log_writer(self._family, self._keep, self._payload.logs.get(name))
        return self._logs[name].append(text)

    def _image(self, ref: Ref) -> Image:
        return self._store.reader(self._family).image(ref)

    def _keep(self, ref: Ref, raw: bytes) -> None:
        self._store.keep(ref, raw)
        self._made.append(ref.name)
