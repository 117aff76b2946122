"""`hhd check --repair`: makes a sound store out of a damaged one, from what is in it twice or proves itself.

The damaged file is not written to (a whole write-ahead log is folded into it, a damaged one stays as it is): what can
be read goes into a new one, which takes its place (`swap.py`), and the old one stays beside it. What is in the store
twice: the ways to rows (each row proves itself, so a salvage needs none), the tally, the list of sessions and the lists
of checkpoints (each checkpoint names its session and parents), the row of a session (a key of its family opens its
objects), the note of the format. What is in it once and gone is named; a checkpoint whose content is gone keeps its
record and is marked as thinned.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hhd.base.paths import private_folder
from hhd.store import locks
from hhd.store.catalogue import CATALOGUE, FACTS, HEAD_FACTS
from hhd.store.check import Check, Report
from hhd.store.checkpoints import Checkpoint, decode_checkpoint, refs_of
from hhd.store.database import Database
from hhd.store.errors import BusyError, DamagedStoreError, MissingError
from hhd.store.families import FAMILY
from hhd.store.folders import Folders
from hhd.store.freshness import FRESHNESS
from hhd.store.layout import FILE, OBJECTS, ROWS
from hhd.store.note import FORMAT_FILE, note_device
from hhd.store.objects import row_number, tally_name
from hhd.store.rows import BLOCK_ENTRIES, Rows
from hhd.store.salvage import Column, File
from hhd.store.shelf import ITEM, ITEMS, Item, read_item
from hhd.store.statement_repair import mend_statements, own_families, part_with_false_rows, statement_of
from hhd.store.store import (
    CHECKPOINT,
    CHECKPOINTS,
    DIRECTORY,
    META,
    SESSION,
    Limits,
    Store,
)
from hhd.store.swap import swap, unfinished
from hhd.store.wal import read_log
from hhd_protocol.codec import decode, encode
from hhd_protocol.crypto import derive, device_id, public_key
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, FamilyId, SessionId, Sha256, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.objects import SealedObject, object_name


@dataclass
class Repaired:
    """What a repair did: `kept`: where the damaged file is; `done` and `lost`: sentences; `report`: the check after."""

    kept: Path | None = None
    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    report: Report = field(default_factory=Report)


def repair(
    folder: Path,
    *,
    seed: bytes,
    limits: Limits,
    random: Callable[[int], bytes] = os.urandom,
    module: Callable[[Sha256], bytes | None] = lambda digest: None,
) -> Repaired:
    """Repair the store in `folder`, which no other process may have open; raises BusyError if one has.

    `module`: returns a module that can be had elsewhere.
    """
    private_folder(folder)
    alone = locks.take(folder / "repair.lock")
    if alone is None:
        raise BusyError(f"Another process repairs the store in {folder}; nothing was changed. Try again when it ended.")
    with alone:
        return _repair(folder, seed, limits, random, module)


def _repair(
    folder: Path,
    seed: bytes,
    limits: Limits,
    random: Callable[[int], bytes],
    module: Callable[[Sha256], bytes | None],
) -> Repaired:
    result = Repaired()
    device = device_id(public_key(seed))
    if (folder / FILE).exists() or (folder / FORMAT_FILE).exists():  # Else there is no store yet, and one is begun.
        note_device(folder, device)
    if kept := unfinished(folder):
        result.kept = kept
        result.done.append("a repair that was cut off was carried to its end")
    try:
        if hidden := read_log(folder / f"{FILE}-wal").hidden:
            raise DamagedStoreError(f"{hidden} pages of its write-ahead log are behind damage")
        with Store.open(folder, seed=seed, limits=limits, random=random, exclusive=True, inspect=True) as store:
            check = Check(store, read_data=True)
            report = check.run()
        if not report.findings:
            result.report = report
            return result
        whole = check.whole and not check.bad_rows and not check.bad_objects
    except DamagedStoreError as error:
        result.done.append(f"the file did not open ({error})")
        whole = False
    if not whole or (folder / f"{FILE}-wal").exists():
        _salvage(folder, seed, random, result)
    with Store.open(folder, seed=seed, limits=limits, random=random, exclusive=True, inspect=True) as store:
        _rebuild(store, result)
        _give_up_lost_content(store, result)
        _mend_modules(store, module, result)
        store.database.fold()
    with Store.open(folder, seed=seed, limits=limits, random=random, exclusive=True) as store:
        result.report = Check(store, read_data=True).run()
    return result


def _salvage(folder: Path, seed: bytes, random: Callable[[int], bytes], result: Repaired) -> None:
    """Put every row that proves itself into a new file, and that file in place of the old one."""
    building = folder / "repair"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700)
    database = Database.create(building)
    rows = Rows(database, derive(seed, "store"), random)
    names: set[bytes] = set()
    numbers: set[int] = set()

    def accept(number: int, columns: list[Column]) -> None:
        match columns:
            case [bytes(name), bytes(sealed)] if len(name) == 16 and name not in names and number == 0:
                try:
                    rows.opened(name, sealed)
                except DamagedStoreError:
                    return
                names.add(name)
                database.write("INSERT INTO rows VALUES(?,?)", name, sealed)
                database.count(ROWS, name, 1)
            case [None, bytes(raw)] if _is_object(raw):
                found = row_number(object_name(raw))
                if found == number and found not in numbers:
                    numbers.add(found)
                    database.write("INSERT INTO objects VALUES(?,?)", found, raw)
                    database.count(OBJECTS, tally_name(found), 1)

    with database.transaction():
        File(folder).records(accept)
    database.fold()
    database.close()
    result.kept = swap(folder, building / FILE)
    shutil.rmtree(building, ignore_errors=True)
    result.done.append(f"{len(names)} rows and {len(numbers)} objects were taken over into a new file")


def _is_object(raw: bytes) -> bool:
    try:
        SealedObject(raw)
    except FormatError:
        return False
    return True


def _rebuild(store: Store, result: Repaired) -> None:
    """Make the lists and session rows again that are missing, out of the checkpoints and families that are here."""
    found: dict[SessionId, dict[CheckpointId, Checkpoint]] = {}
    families: list[FamilyId] = []
    sessions: dict[SessionId, FamilyId] = {}
    items: list[Item] = []
    statements: dict[StatementId, Signed] = {}
    keys = {store.device: store.public}
    for name, value in _values(store):
        if signed := statement_of(store, name, value):
            statements[signed.id] = signed
            continue
        fields = _decoded(value)
        match fields:
            case [1, bytes(), bytes(), list(), bytes(one)] if name == store.rows.name(FAMILY, b"", one):
                families.append(FamilyId(one))
            case [1, bytes(one), bytes(named)] if name == store.rows.name(SESSION, b"", named):
                sessions[SessionId(StatementId(named))] = FamilyId(one)
            case [1, str(), bytes(), bytes(one), bool()] if name == store.rows.name(ITEM, b"", one):
                items += [item] if (item := read_item(fields)) else []
            case [1, bytes(named), *rest] if len(rest) == 9:
                try:
                    checkpoint = decode_checkpoint(value)
                except DamagedStoreError:
                    continue
                if name == store.rows.name(CHECKPOINT, b"", checkpoint.id):
                    found.setdefault(SessionId(StatementId(named)), {})[checkpoint.id] = checkpoint
    with store.transaction():
        for one in families:
            store.families.copy(one)
        commons = store.rows.get_either(META, b"", b"commons")
        if commons is not None and commons in families:
            store.rows.put_twice(META, b"", b"commons", commons)
        else:
            store.make_commons()
            result.lost.append("the keys of modules: each is stored anew when a session next needs it")
        for signed in part_with_false_rows(store, found, keys, result.lost.append):
            statements[signed.id] = signed
        created = own_families(store, statements.values())
        for session in (found.keys() | created.keys()) - sessions.keys():
            family = _family_of(store, found.get(session, {}).values(), families)
            if family is None and created.get(session) in families:
                family = created[session]
            if family is not None:
                store.rows.put(SESSION, b"", session, encode([1, family, session]))
                sessions[session] = family
                result.done.append(f"the row of session {session.hex()[:16]} was made again")
        for scope in (b"", *sessions):
            for table, length in _ledger(store, scope).items():
                lost = store.rows.mend_log(table, scope, length)
                if lost and table in (CATALOGUE, FACTS, HEAD_FACTS):
                    store.rows.cut(table, scope, 0)
                    store.shared.show(b"")
                    result.done.append("the catalogue of sessions was emptied; the next list makes it again")
                elif lost and table == FRESHNESS:
                    store.rows.cut(table, scope, 0)
                    result.done.append("what other devices have was forgotten; they say it again when they are linked")
                elif lost and table not in (DIRECTORY, CHECKPOINTS, ITEMS):
                    whose = f"session {scope.hex()[:16]}" if scope else "the store"
                    result.lost.append(f"{lost} of {length} rows of {table} of {whose}")
        if store.shelf.remake(items):
            result.done.append("the lists of kept content were made again")
        listed = _listed(store, DIRECTORY, b"")
        for gone in set(listed) - sessions.keys():
            result.lost.append(f"session {gone.hex()[:16]}: neither its row nor a checkpoint with a known key is left")
        entries = [one for one in listed if one in sessions]
        entries += [session for session in sessions if session not in listed]
        if entries != listed or store.rows.length(DIRECTORY, b"") != -(-len(entries) // BLOCK_ENTRIES):
            store.rows.relist(DIRECTORY, b"", list(entries))
            result.done.append("the list of sessions was made again")
        for session in sessions:
            _relist_checkpoints(store, session, found.get(session, {}), result)
        here = {session: found.get(session, {}) for session in sessions}
        mend_statements(store, statements.values(), here, keys, result.done.append, result.lost.append)


def _relist_checkpoints(
    store: Store, session: SessionId, found: dict[CheckpointId, Checkpoint], result: Repaired
) -> None:
    listed = _listed(store, CHECKPOINTS, session)
    for gone in set(listed) - found.keys():
        result.lost.append(f"checkpoint {gone.hex()[:16]} of session {session.hex()[:16]}: its row is gone")
    kept = [CheckpointId(StatementId(one)) for one in listed if one in found]
    missing = sorted((one for one in found if one not in kept), key=lambda one: (found[one].at_ms, one))
    ordered: list[CheckpointId] = list(kept)
    for one in missing:  # Behind its parents, before its children.
        after = max((ordered.index(p) + 1 for p in found[one].parents if p in ordered), default=0)
        before = [i for i, other in enumerate(ordered) if one in found[other].parents]
        ordered.insert(min(before, default=max(after, len(ordered))), one)
    if [bytes(one) for one in ordered] != listed:
        store.rows.relist(CHECKPOINTS, session, [bytes(one) for one in ordered])
        result.done.append(f"the list of checkpoints of session {session.hex()[:16]} was made again")


def _ledger(store: Store, scope: bytes) -> dict[str, int]:
    """Return the ledger of a scope, written anew in both places; empty if both copies are lost."""
    try:
        ledger = store.rows.ledger(scope)
    except DamagedStoreError:
        ledger = {}
    store.rows.keep_ledger(scope, ledger)
    return ledger


def _listed(store: Store, table: str, scope: bytes) -> list[bytes]:
    """Return the entries of a listing, as far as they were saved."""
    try:
        return store.rows.listing(table, scope)
    except DamagedStoreError:
        return []


def _family_of(store: Store, checkpoints: Iterable[Checkpoint], families: list[FamilyId]) -> FamilyId | None:
    """Return the family whose keys open an object of these checkpoints."""
    for checkpoint in checkpoints:
        for ref in refs_of(checkpoint):
            for family in families:
                try:
                    store.reader(family).head(ref)
                    return family
                except (DamagedStoreError, MissingError):
                    continue
    return None


def _give_up_lost_content(store: Store, result: Repaired) -> None:
    """Mark checkpoints whose content cannot be read as thinned, and free the objects that are damaged."""
    check = Check(store, read_data=True)
    report = check.run()
    with store.transaction():
        for session, checkpoints in report.harmed.items():
            for one in checkpoints:
                store.thin(one)
            if checkpoints:
                result.lost.append(
                    f"the content of {len(checkpoints)} checkpoints of session {session.hex()[:16]}; their "
                    "records are kept"
                )
        for item, places in check.kept_lists:
            gone = [digest for digest, ref in places.items() if ref is None or ref.name in check.bad_objects]
            if gone and not (item.broken and all(places[digest] is None for digest in gone)):
                store.shelf.mark_broken(item, gone)
                result.lost.append(f"{len(gone)} pieces of {item.label}, which can be kept again where it still is")
        commons = store.commons()
        forgotten = Folders(store).keep(lambda seen: seen.family != commons or not check.broken(commons, [seen.ref]))
        result.lost += [f"a capture of {seen.folder}, which can be captured again" for seen in forgotten]
        for name in check.bad_objects:
            store.objects.remove(row_number(name))


def _mend_modules(store: Store, module: Callable[[Sha256], bytes | None], result: Repaired) -> None:
    """List the modules that are whole, and store those anew that are not and can be had elsewhere."""

    def is_whole(digest: Sha256) -> bool:
        try:
            return bool(store.modules.get(digest))
        except (DamagedStoreError, MissingError):
            return False

    listed = store.modules.all()
    checkpoints = (store.checkpoint(one) for session in store.sessions() for one in store.checkpoint_ids(session))
    named = dict.fromkeys([*listed, *(one.payload.module for one in checkpoints if one.payload.module)])
    whole = [digest for digest in named if is_whole(digest)]
    gone = [digest for digest in named if digest not in set(whole)]
    with store.transaction():
        if whole != listed:
            store.modules.relist(whole, gone)
        for digest in gone:
            if (found := module(digest)) is not None:
                store.modules.put(found)
                result.done.append(f"module {digest.hex()[:16]} was stored anew")
            elif digest in listed:
                result.lost.append(f"module {digest.hex()[:16]}, which a session of the same program brings again")


def _values(store: Store) -> Iterable[tuple[bytes, bytes]]:
    for name, sealed in list(store.database.each("SELECT name, sealed FROM rows")):
        if not isinstance(name, bytes) or not isinstance(sealed, bytes):
            continue
        try:
            yield name, store.rows.opened(name, sealed)
        except DamagedStoreError:
            continue


def _decoded(value: bytes) -> object:
    try:
        return decode(value)
    except FormatError:
        return None
