"""A small store whose every byte follows from a seed, what is in it, and what a person is told once it is damaged."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.store.conftest import ALICE, BOB, SEED, Memory, flat

from hhd.base.errors import UserError
from hhd.store.captures import capture_ref, workspace_of
from hhd.store.check import Check, Report
from hhd.store.layout import FILE
from hhd.store.line import Line
from hhd.store.repair import repair
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture, Entry, Kind
from hhd_protocol.workspace import Content as FileContent

LIMITS = Limits(free_bytes_min=0)
Content = dict[SessionId, dict[CheckpointId, object]]


@dataclass(frozen=True, kw_only=True)
class Small:
    """A small store, closed, and what is in it; `seed` is all that its bytes depend on."""

    seed: int
    folder: Path
    raw: bytes
    content: Content

    def put(self, raw: bytes) -> Path:
        """Put `raw` in the file's place, with no log beside it, and return the store's folder."""
        for path in self.folder.glob(f"{FILE}*"):
            path.unlink()
        (self.folder / FILE).write_bytes(raw)
        return self.folder


def dice(seed: int) -> Callable[[int], bytes]:
    """Return what a store draws its keys and nonces from: the same bytes each time for one `seed`."""
    drawn = itertools.count()
    return lambda count: hashlib.shake_256(b"%d %d" % (seed, next(drawn))).digest(count)


@contextlib.contextmanager
def small_store(seed: int) -> Iterator[Small]:
    """Make the store of a seed, in memory where there is such a folder."""
    shared = Path("/dev/shm")
    made = tempfile.mkdtemp(prefix="hhd-small-", dir=shared if shared.is_dir() else None)
    try:
        yield _made(Path(made) / "store", seed)
    finally:
        shutil.rmtree(made)


def _made(base: Path, seed: int) -> Small:
    clock = itertools.count(1_700_000_000_000, 1000)
    with Store.open(base, seed=SEED, limits=LIMITS, random=dice(seed), now_ms=lambda: next(clock)) as store:
        for session, own in ((ALICE, 1), (BOB, 2)):
            store.create_session(session)
            memory, line = Memory(1, own), Line(store, session)
            line.checkpoint(snapshot=memory.snapshot(), logs={"claude": b'{"turn":1}\n'})
            line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), logs={"claude": b'{"turn":2}\n'})
            workspace = workspace_of(captured(store, session, {b"f": b"%d" % own, b"sub/g": bytes(40)}))
            line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), turn=True, workspace=workspace)
            store.rows.append("journal", session, b"asked: run a tool")
        store.database.fold()
        content = everything(store)
    assert not (base / f"{FILE}-wal").exists()
    return Small(seed=seed, folder=base, raw=(base / FILE).read_bytes(), content=content)


def captured(store: Store, session: SessionId, files: dict[bytes, bytes], last: Ref | None = None) -> Ref:
    """Put a capture of a folder that holds `files`, and return it."""
    with store.transaction():
        writer = store.capture_writer(store.session(session).family, last)
        entries = [
            Entry(path=path, kind=Kind.FILE, mode=0o644, content=FileContent(size=len(raw), pieces=(writer.put(raw),)))
            for path, raw in sorted(files.items())
        ]
        return writer.finish(Capture(repository=None, entries=tuple(entries)))


def files_of(store: Store, session: SessionId, ref: Ref) -> dict[bytes, bytes]:
    """Return what a capture says is in the folder."""
    reader = store.capture_reader(store.session(session).family, ref)
    return {
        entry.path: b"".join(map(reader.piece, entry.content.pieces))
        for entry in reader.capture().entries
        if entry.content is not None
    }


def everything(store: Store) -> Content:
    """Return all that can be read, checkpoint by checkpoint."""
    return {session: session_content(store, session) for session in store.sessions()}


def session_content(store: Store, session: SessionId) -> dict[CheckpointId, object]:
    """Return all that can be read of one session."""
    found: dict[CheckpointId, object] = {}
    for one in store.checkpoint_ids(session):
        checkpoint = store.checkpoint(one)
        reader = store.reader_of(checkpoint)
        texts = {name: b"".join(reader.log(ref)) for name, ref in checkpoint.payload.logs.items()}
        capture = capture_ref(checkpoint.workspace)
        files = None if capture is None else files_of(store, session, capture)
        found[one] = flat(Line(store, session, one).snapshot()), texts, checkpoint.turn, files
    found[CheckpointId(b"journal")] = list(store.rows.log("journal", session))
    return found


def examine(small: Small, raw: bytes, *, same: bool = True) -> Report | str:
    """Put `raw` in the file's place and check it: return what a person is told. Anything but a UserError gets out.

    `same`: what is not named must read as it was.
    """
    small.put(raw)
    try:
        with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
            report = Check(store, read_data=True).run()
            if not same:
                return report
            if not report.findings:
                assert everything(store) == small.content, "damage that nobody noticed changed what is read"
                return report
            for session in report.sound:
                assert session_content(store, session) == small.content[session], "a session called sound is not"
            return report
    except UserError as error:
        return str(error)


def mend(small: Small, raw: bytes) -> set[SessionId]:
    """Repair `raw` and return the sessions that are whole after it."""
    small.put(raw)
    result = repair(small.folder, seed=SEED, limits=LIMITS)
    assert not result.report.findings, result.report.findings
    whole = set()
    with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
        for session in store.sessions():
            with contextlib.suppress(UserError):
                content = session_content(store, session)
                for one, value in content.items():
                    assert value == small.content[session].get(one, value) or one == b"journal"
                if content == small.content[session]:
                    whole.add(session)
    for kept in small.folder.glob(f"{FILE}.damaged-*"):
        kept.unlink()
    return whole


def harmless(told: Report | str) -> bool:
    """Say whether nothing was told."""
    return isinstance(told, Report) and not told.findings
