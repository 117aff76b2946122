"""Whatever byte of a store is changed or cut off: it is noticed and named, or everything reads as before."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, BOB, SEED, Memory, flat

from hhd.base.errors import UserError
from hhd.store.check import Check, Report
from hhd.store.database import FILE
from hhd.store.errors import DamagedStoreError
from hhd.store.line import Line
from hhd.store.repair import repair
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId, SessionId

LIMITS = Limits(free_bytes_min=0)
Content = dict[SessionId, dict[CheckpointId, object]]


@dataclass(frozen=True, kw_only=True)
class Small:
    """A small store, closed, and what is in it."""

    folder: Path
    raw: bytes
    content: Content


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    # Not a name out of `random`: hypothesis seeds it alike in every process.
    shared = Path("/dev/shm")
    made = tempfile.mkdtemp(prefix="hhd-damage-", dir=shared) if shared.is_dir() else tmp_path_factory.mktemp("small")
    base = Path(made) / "store"
    with Store.open(base, seed=SEED, limits=LIMITS) as store:
        for session, seed in ((ALICE, 1), (BOB, 2)):
            store.create_session(session)
            memory, line = Memory(1, seed), Line(store, session)
            line.checkpoint(snapshot=memory.snapshot(), logs={"claude": b'{"turn":1}\n'})
            line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), logs={"claude": b'{"turn":2}\n'})
            line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot(), turn=True)
            store.rows.append("journal", session, b"asked: run a tool")
        store.database.fold()
        content = everything(store)
    assert not (base / f"{FILE}-wal").exists()
    yield Small(folder=base, raw=(base / FILE).read_bytes(), content=content)
    shutil.rmtree(made)


def everything(store: Store) -> Content:
    """Return all that can be read, checkpoint by checkpoint, with errors in the places of what cannot."""
    return {session: session_content(store, session) for session in store.sessions()}


def session_content(store: Store, session: SessionId) -> dict[CheckpointId, object]:
    found: dict[CheckpointId, object] = {}
    for one in store.checkpoint_ids(session):
        checkpoint = store.checkpoint(one)
        reader = store.reader_of(checkpoint)
        texts = {name: b"".join(reader.log(ref)) for name, ref in checkpoint.payload.logs.items()}
        found[one] = flat(Line(store, session, one).snapshot()), texts, checkpoint.turn
    found[CheckpointId(b"journal")] = list(store.rows.log("journal", session))
    return found


def examine(small: Small, raw: bytes) -> Report | str:
    """Put `raw` in the file's place and check it: return what a person is told."""
    for ending in ("-wal", "-shm"):
        (small.folder / f"{FILE}{ending}").unlink(missing_ok=True)
    (small.folder / FILE).write_bytes(raw)
    try:
        with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
            report = Check(store, read_data=True).run()
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
    examine(small, raw)
    for ending in ("-wal", "-shm"):
        (small.folder / f"{FILE}{ending}").unlink(missing_ok=True)
    (small.folder / FILE).write_bytes(raw)
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


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes((raw[at] ^ 1 << at % 8,)) + raw[at + 1 :]


def test_an_undamaged_store_has_no_findings(small: Small) -> None:
    report = examine(small, small.raw)
    assert isinstance(report, Report) and not report.findings and report.sound == [ALICE, BOB]
    assert report.orphans == 0 and report.objects >= 8


def test_sampled_flips_are_noticed_or_harmless(small: Small) -> None:
    dice = random.Random(5)
    noticed = sum(not _harmless(examine(small, flipped(small.raw, dice.randrange(len(small.raw))))) for _ in range(150))
    assert noticed > 20


def test_every_flip_of_the_files_header_is_noticed_or_harmless(small: Small) -> None:
    noticed = [at for at in range(100) if not _harmless(examine(small, flipped(small.raw, at)))]
    assert noticed


def test_flips_of_the_description_of_tables_are_noticed(small: Small) -> None:
    begin, end = small.raw.index(b"CREATE TABLE objects"), small.raw.index(b"CREATE TABLE objects") + 60
    for at in range(begin, end):
        assert not _harmless(examine(small, flipped(small.raw, at))), at


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_every_flip_is_noticed_or_harmless(small: Small, part: int) -> None:
    noticed = 0
    for at in range(part, len(small.raw), 4):
        noticed += not _harmless(examine(small, flipped(small.raw, at)))
    print(f"{noticed} of {len(small.raw) // 4} flips were noticed, the others changed nothing that is read")
    assert noticed > len(small.raw) // 40


def test_sampled_truncations_are_noticed_or_harmless(small: Small) -> None:
    for size in [0, 1, 99, 100, 512, *range(4096, len(small.raw), 4096), len(small.raw) - 1]:
        assert not _harmless(examine(small, small.raw[:size])), size


@pytest.mark.long
def test_every_truncation_is_noticed(small: Small) -> None:
    for size in range(0, len(small.raw), 7):
        assert not _harmless(examine(small, small.raw[:size])), size


def test_one_damaged_session_leaves_the_other_usable(small: Small) -> None:
    with Store.open(_put(small, small.raw), seed=SEED, limits=LIMITS) as store:
        head = store.checkpoint(store.heads(ALICE)[0])
        raw = store.objects.raw(head.objects[-1])
    assert raw is not None
    at = small.raw.index(raw[-60:]) + 30
    report = examine(small, flipped(small.raw, at))
    assert isinstance(report, Report)
    assert report.sound == [BOB] and report.harmed[ALICE] == {head.id}
    assert head.objects[-1].hex() in report.findings[0].what


def test_a_lost_row_is_missed_by_the_tally(small: Small) -> None:
    with Store.open(_put(small, small.raw), seed=SEED, limits=LIMITS) as store:
        with store.transaction():
            store.database.write("DELETE FROM rows WHERE name=?", store.rows.name("other", ALICE, b"key"))
        assert not Check(store).run().findings
        store.rows.put("other", ALICE, b"key", b"value")
        assert not Check(store).run().findings
        with store.transaction():
            store.database.write("DELETE FROM rows WHERE name=?", store.rows.name("other", ALICE, b"key"))
        findings = Check(store).run().findings
        assert [finding.what for finding in findings] == ["rows"]


def test_a_lost_row_of_a_log_is_missed_in_its_session(small: Small) -> None:
    with Store.open(_put(small, small.raw), seed=SEED, limits=LIMITS) as store:
        with store.transaction():
            store.database.write("DELETE FROM rows WHERE name=?", store.rows.name("journal", ALICE, bytes(8)))
        report = Check(store).run()
        assert report.sound == [BOB] and any("journal" in finding.what for finding in report.findings)
    small_again = _put(small, small.raw)
    with Store.open(small_again, seed=SEED, limits=LIMITS) as store:
        store.rows.remove_log("journal", ALICE)
        assert not Check(store).run().findings, "a row that was removed rightly is not missed"


@pytest.mark.parametrize("page", range(1, 10))
def test_repair_after_a_page_was_lost_keeps_what_other_pages_hold(small: Small, page: int) -> None:
    at = (page - 1) * 4096
    if at >= len(small.raw):
        pytest.fail("the small store has fewer pages than the test thinks")
    mended = mend(small, small.raw[:at] + bytes(4096) + small.raw[at + 4096 :])
    if page in (1, 2, 3):
        assert mended == {ALICE, BOB}, "a page without rows of sessions was lost, and a session with it"


def test_repair_mends_sampled_flips(small: Small) -> None:
    dice, whole = random.Random(6), 0
    for _ in range(12):
        mended = mend(small, flipped(small.raw, dice.randrange(len(small.raw))))
        assert mended, "a flip within one session's rows harmed the other's too"
        whole += len(mended)
    assert whole > 12


def test_repair_of_a_sound_store_does_nothing(small: Small) -> None:
    result = repair(_put(small, small.raw), seed=SEED, limits=LIMITS)
    assert not result.done and not result.lost and result.kept is None
    assert (small.folder / FILE).read_bytes() == small.raw


@pytest.mark.parametrize("content", [b"", b"hhd-store 1\n", b"hhd-store 1 abcd\n", b"hhd-store x y\n"])
def test_a_damaged_note_of_the_format_is_named_and_repaired(small: Small, content: bytes) -> None:
    note = _put(small, small.raw) / "format"
    whole = note.read_bytes()
    note.write_bytes(content)
    with pytest.raises(DamagedStoreError):
        Store.open(small.folder, seed=SEED, limits=LIMITS)
    repair(small.folder, seed=SEED, limits=LIMITS)
    assert note.read_bytes() == whole
    with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
        assert everything(store) == small.content


def test_a_store_whose_file_is_gone_is_not_taken_for_a_new_one(small: Small) -> None:
    _put(small, small.raw)
    (small.folder / FILE).unlink()
    with pytest.raises(DamagedStoreError, match="lost its file"):
        Store.open(small.folder, seed=SEED, limits=LIMITS)
    _put(small, b"")
    with pytest.raises(DamagedStoreError, match="lost its file"):
        Store.open(small.folder, seed=SEED, limits=LIMITS)


def test_another_devices_key_does_not_open_it(small: Small) -> None:
    with pytest.raises(DamagedStoreError, match="belongs to device"):
        Store.open(_put(small, small.raw), seed=bytes(32), limits=LIMITS)


def _harmless(told: Report | str) -> bool:
    return isinstance(told, Report) and not told.findings


def _put(small: Small, raw: bytes) -> Path:
    for path in small.folder.glob(f"{FILE}*"):
        path.unlink()
    (small.folder / FILE).write_bytes(raw)
    return small.folder
