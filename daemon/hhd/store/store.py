"""The store of one device: sessions, their checkpoints, and whatever else must survive, sealed and durable.

    with Store.open(folder, seed=seed) as store:
        session = store.create_session(session_id)
        with store.advance(session_id):
            line = Line(store, session_id)
            line.checkpoint(snapshot=..., logs={"claude": b"..."}, turn=True)

Everything written inside `store.transaction()` becomes durable together when it ends; each method that writes opens
one of its own if there is none. `store.rows` keeps records for others (logs and listings by table and scope).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.store import locks
from hhd.store.arrived import Arrived
from hhd.store.catalogue import FACTS, HEAD_FACTS, Catalogue
from hhd.store.checkpoints import Checkpoint, decode_checkpoint, record_of, refs_of
from hhd.store.database import Database
from hhd.store.errors import AdvancedError, DamagedStoreError, MissingError, ThinnedError
from hhd.store.families import Families, Family
from hhd.store.freshness import Freshness
from hhd.store.group import GroupDocument
from hhd.store.group_records import GroupRecords
from hhd.store.image_writer import ImageWriter
from hhd.store.log_writer import LogWriter
from hhd.store.modules import Modules
from hhd.store.objects import Objects
from hhd.store.opening import open_database
from hhd.store.openings import Openings
from hhd.store.piles import Piles
from hhd.store.reading import Reader
from hhd.store.room import Limits as Limits
from hhd.store.room import insist_on_room
from hhd.store.rows import Rows, decoded
from hhd.store.shelf import Shelf
from hhd.store.statements import Statements
from hhd_protocol.codec import encode
from hhd_protocol.crypto import derive, device_id, device_text, public_key
from hhd_protocol.ids import (
    CheckpointId,
    DeviceId,
    EpochId,
    FamilyId,
    Incarnation,
    SessionId,
    StatementId,
)
from hhd_protocol.objects import Ref

if TYPE_CHECKING:
    from hhd.store.captures import CaptureReader, CaptureWriter

LOOK_SECONDS = 0.05
"""Who lists sessions takes a lock for some microseconds to see whether it is held."""
_FIRST_EPOCH = b"first epoch of "

DIRECTORY, CHECKPOINT, CHECKPOINTS, SESSION, META = "directory", "checkpoint", "checkpoints", "session", "meta"
CAME = "came"
"""Tables of rows that belong to the store itself; others choose other names."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session in this store and the family whose keys it uses."""

    id: SessionId
    family: FamilyId


def wall_clock_ms() -> int:
    """Return the time of day, which only shows and thins, never decides who is newer."""
    return time.time_ns() // 1_000_000


class Store:
    """An open store. Used by one thread at a time, and never across a fork."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        opened: locks.Lock,
        *,
        seed: bytes,
        limits: Limits,
        random: Callable[[int], bytes],
        now_ms: Callable[[], int],
    ) -> None:
        self.folder, self.limits, self.database, self.now_ms = folder, limits, database, now_ms
        self.random, self._opened = random, opened
        self.public = public_key(seed)
        self.device: DeviceId = device_id(self.public)
        self.incarnation = Incarnation(random(16))
        """Drawn at each opening: what was acknowledged holds for one incarnation."""
        self._lock_key = derive(seed, "locks")
        self.rows = Rows(database, derive(seed, "store"), random)
        self.objects = Objects(database)
        self.catalogue, self.facts = Catalogue(self.rows), Catalogue(self.rows, FACTS)
        self.head_facts = Catalogue(self.rows, HEAD_FACTS)
        self.group = GroupRecords(self.rows)
        self.families = Families(self.rows, random, device=self.device, era=self.group.era)
        database.undone = self.families.reread
        self.statements = Statements(self)
        self.shared = GroupDocument(self.rows, random)
        self.modules = Modules(self)
        self.shelf = Shelf(self)
        self.arrived, self.piles = Arrived(self), Piles(self)
        self.freshness = Freshness(self.rows)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        seed: bytes,
        limits: Limits | None = None,
        random: Callable[[int], bytes] = os.urandom,
        now_ms: Callable[[], int] = wall_clock_ms,
        exclusive: bool = False,
        inspect: bool = False,
    ) -> Store:
        """Open the store in `folder`, making it if there was none; `seed` is the device's private key.

        `inspect`: to look at a damaged one.
        Raises DamagedStoreError, NewerStoreError, BusyError (another process repairs it, or any has it open and we
        asked for `exclusive`), RefusedError if the folder is not this user's.
        """
        database, opened = open_database(folder, device_id(public_key(seed)), exclusive=exclusive, inspect=inspect)
        store = cls(folder, database, opened, seed=seed, limits=limits or Limits(), random=random, now_ms=now_ms)
        try:
            store._insist_on_keys()
        except DamagedStoreError:
            if not inspect:
                store.close()
                raise
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the store; again does nothing."""
        self.database.close()
        self._opened.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transaction(self) -> AbstractContextManager[None]:
        """What is written within becomes durable together at its end, or is not kept at all."""
        return self.database.transaction()

    def part(self) -> AbstractContextManager[None]:
        """Within a transaction: what is written within is undone alone where it fails."""
        return self.database.part()

    def snapshot(self) -> AbstractContextManager[None]:
        """What is read within belongs to one moment."""
        return self.database.snapshot()

    # Sessions

    def sessions(self) -> list[SessionId]:
        """Return the ids of all sessions, oldest first."""
        return [SessionId(StatementId(entry)) for entry in self.rows.listing(DIRECTORY, b"")]

    def session(self, session: SessionId) -> Session:
        """Return a session; raises MissingError."""
        raw = self.rows.get(SESSION, b"", session)
        match decoded(raw, "row of a session") if raw is not None else None:
            case [1, bytes(family), bytes()]:
                return Session(id=session, family=FamilyId(family))
            case None if raw is None:
                raise MissingError(f"There is no session {session.hex()[:16]} in this store.")
        raise DamagedStoreError(f"The row of session {session.hex()[:16]} is not in the form it was written in.")

    def sessions_count(self) -> int:
        """Return how many sessions there are, without reading the list."""
        return self.rows.listing_length(DIRECTORY, b"")

    def create_session(self, session: SessionId, *, family: FamilyId | None = None) -> Session:
        """Make a session, in a family of its own or (a fork) in the `family` of another; again changes nothing."""
        with self.transaction():
            if self.rows.get(SESSION, b"", session) is not None:
                return self.session(session)
            if family is None:
                family = self.families.create(EpochId(hashlib.sha256(_FIRST_EPOCH + session).digest())).id
            self.families.get(family)
            self.rows.put(SESSION, b"", session, encode([1, family, session]))
            self.rows.enlist(DIRECTORY, b"", session)
        return Session(id=session, family=family)

    def remove_session(self, session: SessionId, tables: Iterable[str] = ()) -> None:
        """Remove a session with its checkpoints, and its logs in `tables`; `gc` frees the content."""
        family = self.session(session).family
        with self.transaction():
            for checkpoint in self.checkpoint_ids(session):
                self.rows.delete(CHECKPOINT, b"", checkpoint)
            self.statements.forget(session)
            self.arrived.forget(session)
            self.piles.forget(session)
            for table in (CHECKPOINTS, *tables):
                self.rows.remove_log(table, session)
            self.rows.delete(SESSION, b"", session)
            self.rows.delete(CAME, b"", session)
            self.catalogue.remove(session)
            self.freshness.forget(session)
            left = [one for one in self.sessions() if one != session]
            self.rows.relist(DIRECTORY, b"", [bytes(one) for one in left])
            if not any(self.session(one).family == family for one in left):
                self.families.forget(family)

    def family(self, session: SessionId) -> Family:
        """Return the keys of a session's family."""
        return self.families.get(self.session(session).family)

    def advance(self, session: SessionId) -> locks.Lock:
        """Take the right of this process, among those of this device, to advance a session.

        Raises AdvancedError if another process has it. It ends with `release`, or with the process.
        """
        lock = locks.take_within(self._lock_path(session), LOOK_SECONDS)
        if lock is None:
            raise AdvancedError(
                f"Session {session.hex()[:16]} is being advanced by another process of this device; "
                "nothing was changed."
            )
        return lock

    def hold(self, what: str, *, seconds: float = 0.0, shared: bool = False) -> locks.Lock | None:
        """Take a lock of the store that is no session's, waiting so long for it; None if another process holds it."""
        return locks.take_within(self._lock_path(what.encode(), "part"), seconds, shared=shared)

    def _lock_path(self, name: bytes, kind: str = locks.SESSION) -> Path:
        return locks.path_of(self.folder, self._lock_key, name, kind)

    def is_advanced(self, session: SessionId) -> bool:
        """Say whether a process of this device, this one included, is advancing a session right now."""
        return locks.held(self._lock_path(session))

    # Checkpoints

    def commit(self, checkpoint: Checkpoint) -> CheckpointId:
        """Keep a checkpoint whose objects are here; durable when this returns (or when the transaction around it ends).

        The same checkpoint again changes nothing. Raises MissingError if an object it names is not here, FormatError
        if its record is no statement or does not say what stands beside it.
        """
        signed = checkpoint.signed()
        with self.transaction():
            for ref in refs_of(checkpoint):
                if not self.objects.has(ref.name):
                    raise MissingError(f"Object {ref.name.hex()[:16]} of the checkpoint is not in the store.")
            made = checkpoint.id
            if self.rows.add(CHECKPOINT, b"", made, checkpoint.encoded()):
                self.rows.enlist(CHECKPOINTS, checkpoint.session, made)
                if signed is not None:
                    self.statements.committed(signed)
                    if signed.body.by != self.device:
                        self.rows.put(CAME, b"", checkpoint.session, encode([made, self.now_ms()]))
        return made

    def came(self, session: SessionId) -> tuple[CheckpointId, int] | None:
        """Return the last checkpoint of a session that came from another device, and when, by this device's clock."""
        raw = self.rows.get(CAME, b"", session)
        match decoded(raw, "note of what came") if raw is not None else None:
            case [bytes(made), int(at_ms)]:
                return CheckpointId(StatementId(made)), at_ms
        return None

    def commit_thinned(self, checkpoint: Checkpoint) -> CheckpointId:
        """Keep a checkpoint whose content was given up elsewhere before it came here; within a transaction."""
        signed = checkpoint.signed()
        assert checkpoint.thinned and signed is not None
        if self.rows.add(CHECKPOINT, b"", checkpoint.id, checkpoint.encoded()):
            self.rows.enlist(CHECKPOINTS, checkpoint.session, checkpoint.id)
            self.statements.committed(signed)
        return checkpoint.id

    def checkpoint_ids(self, session: SessionId) -> list[CheckpointId]:
        """Return the ids of a session's checkpoints in the order they came."""
        return [CheckpointId(StatementId(entry)) for entry in self.rows.listing(CHECKPOINTS, session)]

    def checkpoints_count(self, session: SessionId) -> int:
        """Return how many checkpoints of a session are here, without reading the list."""
        return self.rows.listing_length(CHECKPOINTS, session)

    def checkpoint_ids_from(self, session: SessionId, start: int) -> list[CheckpointId]:
        """Return the ids of a session's checkpoints from the `start`-th that came on."""
        return [CheckpointId(StatementId(entry)) for entry in self.rows.listing_from(CHECKPOINTS, session, start)]

    def checkpoint(self, checkpoint: CheckpointId) -> Checkpoint:
        """Return a checkpoint; raises MissingError."""
        raw = self.rows.get(CHECKPOINT, b"", checkpoint)
        if raw is None:
            raise MissingError(f"There is no checkpoint {checkpoint.hex()[:16]} in this store.")
        return decode_checkpoint(raw)

    def record(self, checkpoint: StatementId) -> bytes | None:
        """Return the signed record of a checkpoint, empty if it has none, None if there is no such checkpoint."""
        raw = self.rows.get(CHECKPOINT, b"", checkpoint)
        return None if raw is None else record_of(raw)

    def records(
        self, session: SessionId, known: Container[StatementId] = ()
    ) -> Iterator[tuple[CheckpointId, bytes | None]]:
        """Yield the checkpoints of a session in the order they came, each with what `record` says of it.

        Those that are `known` are not read: None stands beside them.
        """
        ids = self.checkpoint_ids(session)
        rows = self.rows.each_of(CHECKPOINT, b"", [id for id in ids if id not in known])
        for id in ids:
            raw = None if id in known else next(rows)
            yield id, None if raw is None else record_of(raw)

    def heads(self, session: SessionId) -> list[CheckpointId]:
        """Return the checkpoints without a child in their own session, in the order they came."""
        ids = self.checkpoint_ids(session)
        parents = {parent for one in ids for parent in self.checkpoint(one).parents}
        return [one for one in ids if one not in parents]

    def thin(self, checkpoint: CheckpointId) -> None:
        """Give up the content of a checkpoint and keep its record; `gc` frees what nothing else needs."""
        with self.transaction():
            self.rows.put(CHECKPOINT, b"", checkpoint, replace(self.checkpoint(checkpoint), thinned=True).encoded())

    # Content

    def reader(self, family: FamilyId, openings: Openings | None = None) -> Reader:
        """Return a reader of a family's objects; `openings`: where image objects are kept open."""
        return Reader(self.families.get(family), lambda ref: self.objects.raw(ref.name), openings)

    def reader_of(self, checkpoint: Checkpoint) -> Reader:
        """Return a reader for a checkpoint's content; raises ThinnedError if that is gone."""
        if checkpoint.thinned:
            raise ThinnedError(f"The content of checkpoint {checkpoint.id.hex()[:16]} was thinned; its record is kept.")
        return self.reader(self.session(checkpoint.session).family)

    def image_writer(self, family: FamilyId, put: Callable[[Ref, bytes], None], last: Ref | None) -> ImageWriter:
        """Return a writer of images that goes on after `last`, or begins."""
        keys = self.families.current(family)
        if last is None:
            return ImageWriter(keys, put, self.random)
        return ImageWriter.resume(
            keys,
            put,
            self.random,
            reader=self.reader(family),
            last=last,
            size=lambda ref: self.objects.size(ref.name),
        )

    def log_writer(self, family: FamilyId, put: Callable[[Ref, bytes], None], last: Ref | None) -> LogWriter:
        """Return a writer of a log that goes on after `last`, or begins."""
        keys = self.families.current(family)
        if last is None:
            return LogWriter(keys, put, self.random, reader=self.reader(family))
        return LogWriter.resume(keys, put, self.random, reader=self.reader(family), last=last)

    def capture_reader(self, family: FamilyId, ref: Ref) -> CaptureReader:
        """Return a reader of a capture; raises DamagedStoreError if it is none, ThinnedError if it is not here."""
        from hhd.store.captures import CaptureReader  # With all of workspace: most who open a store have no use for it.

        return CaptureReader(self.reader(family), self.families.get(family), ref)

    def capture_writer(self, family: FamilyId, last: Ref | None) -> CaptureWriter:
        """Return a writer of the capture after `last`. Full objects become durable one by one, the last one with
        the transaction that `finish` is called in."""
        from hhd.store.captures import CaptureWriter

        before = None if last is None else self.capture_reader(family, last)
        return CaptureWriter(self.families.current(family), self._keep_capture, self.random, before)

    def _keep_capture(self, ref: Ref, raw: bytes) -> None:
        with self.transaction():
            self.insist_on_room(len(raw))
            self.keep(ref, raw)

    def commons(self) -> FamilyId:
        """Return the family of what belongs to no session: modules, and what is on the shelf."""
        raw = self.rows.get_either(META, b"", b"commons")
        if raw is None:
            raise DamagedStoreError("The keys that modules are sealed under are not in the store.")
        return FamilyId(raw)

    def keep(self, ref: Ref, raw: bytes) -> None:
        """Put an object that a writer made; within a transaction."""
        self.objects.put(raw)

    def insist_on_room(self, size: int) -> None:
        """Raise FullStoreError if `size` more bytes would pass what the configuration leaves free or allows."""
        insist_on_room(self.folder, self.database, self.limits, size)

    def _insist_on_keys(self) -> None:
        """Make what every store has, once; notice a database of another device."""
        if self._has_commons():
            return
        if self.database.first("SELECT 1 FROM rows LIMIT 1") is None:
            self.make_commons()
        elif not self._has_commons():  # Asked once more: two may open a store for the first time in one moment.
            raise DamagedStoreError(
                f"The store in {self.folder} does not open with the key of device {device_text(self.device)}, "
                "or its first row is damaged; nothing was changed. Run `hhd check`."
            )

    def _has_commons(self) -> bool:
        return self.rows.get_either(META, b"", b"commons") is not None

    def make_commons(self) -> None:
        """Make the family of what belongs to no session, unless it is here: what it sealed must stay readable."""
        with self.transaction():
            raw = self.rows.get_either(META, b"", b"commons")
            if raw is not None and self.families.holds(FamilyId(raw)):
                return
            family = self.families.create(EpochId(hashlib.sha256(b"commons").digest()))
            self.rows.put_twice(META, b"", b"commons", family.id)
