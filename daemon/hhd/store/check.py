"""`hhd check`: reads everything there is and says what does not hold, and for which sessions that matters.

What is checked: SQLite's own structure; that no row is missing (the tally); each row's seal; each object's name,
which is the hash of its bytes; that every object that a checkpoint needs is here and opens under the key its
reference says; that every signed statement is here, in form, and says what stands beside it, its signature where
the key is known; with `read_data` also that every page and chunk decodes to what its id names.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hhd.store.checkpoints import Checkpoint, refs_of
from hhd.store.closure import Closure, Head
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.families import FAMILY, Family
from hhd.store.folders import Folders
from hhd.store.layout import FILE, OBJECTS, ROWS, SPARE, TABLES
from hhd.store.objects import row_number, tally_name
from hhd.store.reading import Reader, either_head
from hhd.store.rows import NAME_BYTES
from hhd.store.shelf import Item
from hhd.store.statement_check import Fault, faults, record_fault
from hhd.store.store import CHECKPOINT, SESSION, Store
from hhd.store.wal import read_log
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, FamilyId, ObjectName, SessionId, Sha256
from hhd_protocol.images import ImageHead
from hhd_protocol.lineage import Signed
from hhd_protocol.logs import LogHead
from hhd_protocol.objects import Ref, SealedObject, object_name


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that does not hold: `what` it is, and why."""

    what: str
    problem: str


@dataclass
class Report:
    """What a check found; `harmed`: sessions that something is wrong with, and the checkpoints that cannot be read."""

    findings: list[Finding] = field(default_factory=list)
    sessions: list[SessionId] = field(default_factory=list)
    harmed: dict[SessionId, set[CheckpointId]] = field(default_factory=dict)
    rows: int = 0
    objects: int = 0
    orphans: int = 0
    bytes: int = 0

    @property
    def sound(self) -> list[SessionId]:
        """The sessions with which nothing is wrong."""
        return [session for session in self.sessions if session not in self.harmed]

    def add(self, what: str, problem: object) -> None:
        """Note a finding."""
        self.findings.append(Finding(what=what, problem=str(problem).rstrip(".")))

    def harm(self, session: SessionId, checkpoint: CheckpointId | None = None) -> None:
        """Note that a session is not sound."""
        self.harmed.setdefault(session, set()).update(() if checkpoint is None else (checkpoint,))


class Check:
    """One check of one store; `report` fills as it goes."""

    def __init__(self, store: Store, *, read_data: bool = False, keys: Mapping[DeviceId, bytes] | None = None) -> None:
        """`keys`: public keys of other devices, so that their signatures are checked as this device's own are."""
        self._store, self._read_data = store, read_data
        self._keys = {**(keys or {}), store.device: store.public}
        self.report = Report()
        self.bad_rows: set[bytes] = set()
        self.bad_objects: set[ObjectName] = set()
        self.whole = True
        """False when rows may be missing or the file does not hold together: repair must salvage."""
        self.kept_lists: list[tuple[Item, dict[Sha256, Ref | None]]] = []
        """What is on the shelf, and where its content is."""
        self.modules: dict[Sha256, Ref] = {}
        """Where modules are whose rows can be read."""
        self._checkpoints: dict[CheckpointId, tuple[Checkpoint, FamilyId]] = {}

    def run(self) -> Report:
        """Check everything and return the report."""
        with self._store.snapshot(), self._store.rows.remembering():
            self._structure()
            self._rows(ROWS)
            self._rows(SPARE)
            self._lists()
            self._objects_by_hash(self._reachable())
            self._sessions()
        return self.report

    def _structure(self) -> None:
        hidden = read_log(self._store.folder / f"{FILE}-wal").hidden
        if hidden:
            self.report.add("write-ahead log", f"damaged, with {hidden} pages of later commits behind the damage")
        for problem in self._store.database.integrity():
            self.whole = False
            self.report.add("file", problem)

    def _rows(self, table: int) -> None:
        count, mixed = 0, 0
        try:
            for name, sealed in self._store.database.each(f"SELECT name, sealed FROM {TABLES[table]}"):
                count += 1
                if not isinstance(name, bytes) or len(name) != NAME_BYTES or not isinstance(sealed, bytes):
                    self.whole = False
                    self.report.add(TABLES[table], "a row holds something else than a name and sealed bytes")
                    continue
                mixed ^= int.from_bytes(name, "big")
                try:
                    value = self._store.rows.opened(name, sealed)
                    if table == ROWS:
                        self._store.rows.remember(name, sealed, value)
                except DamagedStoreError:
                    self.bad_rows.add(name)
                    self.report.add(f"row {name.hex()} of {TABLES[table]}", "its seal does not hold")
        except DamagedStoreError as error:
            self.whole = False
            self.report.add(TABLES[table], error)
        self.report.rows += count
        self._tally(table, count, mixed)

    def _tally(self, table: int, count: int, mixed: int) -> None:
        try:
            if self._store.database.tally(table) != (count, mixed):
                self.whole = False
                expected = self._store.database.tally(table)[0]
                self.report.add(TABLES[table], f"{count} are there where {expected} should be, or not the same ones")
        except DamagedStoreError as error:
            self.whole = False
            self.report.add(TABLES[table], error)

    def _lists(self) -> None:
        """Read the directory, sessions and checkpoints, noting each that is missing or unreadable."""
        store, report = self._store, self.report
        try:
            report.sessions = store.sessions()
        except DamagedStoreError as error:
            report.add("list of sessions", error)
        self._ledger(b"", "the store")
        for session in report.sessions:
            if not self._ledger(session, f"session {session.hex()[:16]}"):
                report.harm(session)
            try:
                family = store.session(session).family
                store.families.get(family)
                ids = store.checkpoint_ids(session)
            except (DamagedStoreError, MissingError) as error:
                report.add(f"session {session.hex()[:16]}", error)
                report.harm(session)
                continue
            for one in ids:
                try:
                    checkpoint = store.checkpoint(one)
                    if checkpoint.id != one or checkpoint.session != session:
                        raise DamagedStoreError("it is not what its id names")
                    if fault := record_fault(checkpoint, self._keys):
                        raise DamagedStoreError(fault)
                    self._checkpoints[one] = checkpoint, family
                except (DamagedStoreError, MissingError) as error:
                    report.add(f"checkpoint {one.hex()[:16]}", error)
                    report.harm(session, one)
            kept = [self._checkpoints[one][0] for one in ids if one in self._checkpoints]
            signed = [made for checkpoint in kept if (made := checkpoint.signed()) is not None]
            self._statements(session, signed if len(kept) == len(ids) else None)
        try:
            for session in set(store.statements.removed()) - set(report.sessions):
                self._statements(session, [])
        except DamagedStoreError as error:
            report.add("list of removed sessions", error)

    def _statements(self, session: SessionId, records: list[Signed] | None) -> None:
        """Check what devices signed in a session; `records`: of its checkpoints, None if some are not sound."""
        try:
            found = list(faults(self._store, session, records, self._keys))
        except DamagedStoreError as error:
            found = [Fault(what=f"statements of session {session.hex()[:16]}", problem=str(error))]
        for fault in found:
            self.report.add(fault.what, fault.problem)
            self.report.harm(session)

    def _ledger(self, scope: bytes, whose: str) -> bool:
        """Check that every row of a scope's logs and listings is here and opens."""
        rows, sound = self._store.rows, True
        try:
            ledger = rows.ledger(scope)
        except DamagedStoreError as error:
            self.report.add(f"ledger of {whose}", error)
            return False
        for table, length in ledger.items():
            missing = max(0, length - self.report.rows)  # More than are here need not be looked for one by one.
            for position in range(length - missing):
                try:
                    missing += rows.at(table, scope, position) is None
                except DamagedStoreError:
                    sound = False  # Named with the rows.
            if missing:
                sound = False
                self.report.add(f"{table} of {whose}", f"{missing} of {length} rows are missing")
        return sound

    def _reachable(self) -> set[int]:
        """Open every object that a checkpoint or module needs; return their row numbers."""
        roots: dict[FamilyId, list[Ref]] = {}
        for checkpoint, family in self._checkpoints.values():
            if not checkpoint.thinned:
                roots.setdefault(family, []).extend(refs_of(checkpoint))
        try:
            roots.setdefault(self._store.commons(), []).extend(self._modules())
        except (DamagedStoreError, MissingError) as error:
            self.report.add("modules", error)
        try:
            roots.setdefault(self._store.commons(), []).extend(self._shelf())
        except (DamagedStoreError, MissingError) as error:
            self.report.add("kept lists", error)
        try:
            roots.setdefault(self._store.commons(), []).extend(Folders(self._store).roots())
        except (DamagedStoreError, MissingError) as error:
            self.report.add("captures of folders", error)
        numbers: set[int] = set()
        for family, refs in roots.items():
            try:
                keys = self._store.families.get(family)
            except (DamagedStoreError, MissingError) as error:
                self.report.add(f"keys of family {family.hex()}", error)
                continue
            reader = self._store.reader(family)
            closure = Closure(functools.partial(self._opened, reader, keys))
            closure.add(refs)
            numbers.update(row_number(ref.name) for ref in closure.needed)
        return numbers

    def _modules(self) -> list[Ref]:
        """Return where modules are, noting rows that are not."""
        for digest in self._store.modules.all():
            try:
                self.modules[digest] = self._store.modules.ref(digest)
            except (DamagedStoreError, MissingError) as error:
                self.report.add(f"module {digest.hex()[:16]}", error)
        return list(self.modules.values())

    def broken(self, family: FamilyId, refs: Iterable[Ref]) -> bool:
        """Say whether some of what `refs` need is damaged or missing."""
        try:
            return any(ref.name in self.bad_objects for ref in self._store.reader(family).needs(refs))
        except (DamagedStoreError, MissingError):
            return True

    def _shelf(self) -> list[Ref]:
        """Return where what is on the shelf is, noting what is not there."""
        shelf = self._store.shelf
        found: dict[Ref, None] = {}
        for digest in shelf.digests():
            try:
                item = shelf.item(digest)
                places = shelf.places(item)
            except DamagedStoreError as error:
                self.report.add(f"kept list {digest.hex()[:16]}", error)
                continue
            found.update(dict.fromkeys(ref for ref in places.values() if ref is not None))
            self.kept_lists.append((item, places))
            missing = sum(ref is None for ref in places.values())
            if missing and not item.broken:
                self.report.add(f"kept list {item.label}", f"{missing} pieces of its content are missing")
        return list(found)

    def _opened(self, reader: Reader, keys: Family, ref: Ref) -> Head | None:
        """Check one object from outside in; return its head, None if something is wrong with it."""
        try:
            raw = self._store.objects.raw(ref.name)
            if raw is None:
                raise DamagedStoreError("it is missing")
            self.report.objects += 1
            self.report.bytes += len(raw)
            if object_name(raw) != ref.name:
                raise DamagedStoreError("its bytes are not those of its name")
            sealed = SealedObject(raw)
            head = either_head(sealed.segment(keys.key(ref.epoch), 0))
            for number in range(1, sealed.count):
                sealed.segment(keys.key(ref.epoch), number)
            if self._read_data:
                self._data(reader, ref, head)
            return head
        except (DamagedStoreError, MissingError, FormatError) as error:
            self.bad_objects.add(ref.name)
            self.report.add(f"object {ref.name.hex()}", error)
            return None

    def _data(self, reader: Reader, ref: Ref, head: Head) -> None:
        """Decode what an object holds; of a capture, everything that it names."""
        if isinstance(head, ImageHead):
            reader.own_pages(ref)
        elif isinstance(head, LogHead):
            reader.check_log_object(ref)
        else:
            reader.check_pieces_object(ref)

    def _objects_by_hash(self, reached: set[int]) -> None:
        """Check the names of objects that nothing refers to, and the tally of all."""
        count, mixed = 0, 0
        numbers: list[int] = []
        try:
            for number in self._store.objects.numbers():
                numbers.append(number)
        except DamagedStoreError as error:
            self.whole = False
            self.report.add("objects", error)
        for number in numbers:
            count, mixed = count + 1, mixed ^ int.from_bytes(tally_name(number), "big")
            if number in reached:
                continue
            self.report.orphans += 1
            try:
                raw = self._store.database.blob("SELECT sealed FROM objects WHERE n=?", number)
            except DamagedStoreError as error:
                self.whole = False
                self.report.add(f"unused object {number:x}", error)
                continue
            if raw is None or row_number(object_name(raw)) != number:
                self.whole = False
                self.report.add(f"unused object {number:x}", "its bytes are not those of its name")
        self._tally(OBJECTS, count, mixed)

    def _sessions(self) -> None:
        """Say which sessions the damage reaches."""
        report = self.report
        if self.bad_rows:
            for session in report.sessions:
                if self.bad_rows & self._row_names(session):
                    report.harm(session)
        self._programs()
        if not self.bad_objects:
            return
        for one, (checkpoint, family) in self._checkpoints.items():
            if not checkpoint.thinned and self.broken(family, refs_of(checkpoint)):
                report.harm(checkpoint.session, one)

    def _programs(self) -> None:
        """Say which sessions have lost their program: their content is whole, and they cannot go on."""
        needed: dict[Sha256, set[SessionId]] = {}
        for checkpoint, _ in self._checkpoints.values():
            if checkpoint.payload.module is not None and not checkpoint.thinned:
                needed.setdefault(checkpoint.payload.module, set()).add(checkpoint.session)
        for digest, sessions in needed.items():
            ref = self.modules.get(digest)
            if ref is None:
                self.report.add(f"module {digest.hex()[:16]}", f"it is missing, and {len(sessions)} sessions run it")
            elif not self.bad_objects or not self.broken(self._store.commons(), [ref]):
                continue
            for session in sessions:
                self.report.harm(session)

    def _row_names(self, session: SessionId) -> set[bytes]:
        """Return the names of the rows that this session cannot do without."""
        rows = self._store.rows
        names = {rows.name(SESSION, b"", session)}
        try:
            names.add(rows.name(FAMILY, b"", self._store.session(session).family))
            names.update(rows.name(CHECKPOINT, b"", one) for one in self._store.checkpoint_ids(session))
        except (DamagedStoreError, MissingError):
            pass
        return names
