"""Damage to what belongs to no session: programs and captures of folders are named, mended, and had anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, BOB, SEED, Memory
from tests.store.small import captured

from hhd.store.check import Check
from hhd.store.folders import Folders
from hhd.store.layout import FILE
from hhd.store.line import Line
from hhd.store.modules import MODULES
from hhd.store.repair import repair
from hhd.store.retention import sweep
from hhd.store.store import Limits, Store
from hhd_protocol.ids import ObjectName, Sha256
from hhd_protocol.workspace import Capture

LIMITS = Limits(free_bytes_min=0)
PROGRAM = b"\0asm the program of a session"


def opened(folder: Path) -> Store:
    return Store.open(folder, seed=SEED, limits=LIMITS)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A store with two sessions, of which the first has a program, and a captured folder."""
    with opened(tmp_path / "store") as store:
        for session, module in ((ALICE, store.modules.put(PROGRAM)), (BOB, None)):
            store.create_session(session)
            Line(store, session).checkpoint(snapshot=Memory(2).snapshot(), module=module, turn=True)
        with store.transaction():
            ref = store.capture_writer(store.commons(), None).finish(Capture(repository=None, entries=()))
            Folders(store).note(Path("/home/alice/work"), store.commons(), ref)
        store.database.fold()
    yield tmp_path / "store"


def damage(folder: Path, name: ObjectName) -> None:
    """Change one byte of an object."""
    with opened(folder) as store:
        sealed = store.objects.raw(name)
    assert sealed is not None
    raw = bytearray((folder / FILE).read_bytes())
    raw[raw.index(sealed[-40:]) + 20] ^= 1
    (folder / FILE).write_bytes(raw)


def damage_program(folder: Path) -> Sha256:
    with opened(folder) as store:
        (digest,) = store.modules.all()
        name = store.modules.ref(digest).name
    damage(folder, name)
    return digest


def test_a_session_whose_program_is_damaged_is_not_called_sound_and_keeps_its_content(folder: Path) -> None:
    damage_program(folder)
    with opened(folder) as store:
        report = Check(store).run()
        assert report.findings and report.sound == [BOB]
        assert report.harmed == {ALICE: set()}, "what the session holds can be read"
    result = repair(folder, seed=SEED, limits=LIMITS)
    assert any("module" in sentence for sentence in result.lost) and result.report.sound == [BOB]
    with opened(folder) as store:
        assert not store.checkpoint(store.heads(ALICE)[0]).thinned
        sweep(store, keep_days=0)
        store.modules.put(PROGRAM)
        assert Check(store, read_data=True).run().sound == [ALICE, BOB], "who has the program puts it again"


def test_a_program_that_can_be_had_elsewhere_is_stored_anew(folder: Path) -> None:
    digest = damage_program(folder)
    result = repair(folder, seed=SEED, limits=LIMITS, module={digest: PROGRAM}.get)
    assert result.report.sound == [ALICE, BOB] and not result.report.findings
    with opened(folder) as store:
        assert store.modules.get(digest) == PROGRAM


def test_a_program_that_its_list_lost_is_missed_and_listed_again(folder: Path) -> None:
    with opened(folder) as store, store.transaction():
        (digest,) = store.modules.all()
        store.rows.remove_log(MODULES, b"")
    with opened(folder) as store:
        assert Check(store).run().sound == [BOB]
    assert not repair(folder, seed=SEED, limits=LIMITS).report.findings
    with opened(folder) as store:
        assert store.modules.all() == [digest] and store.modules.get(digest) == PROGRAM


def test_a_damaged_capture_of_a_folder_is_forgotten_by_repair_and_the_store_is_sound_again(folder: Path) -> None:
    with opened(folder) as store:
        (seen,) = Folders(store).all()
        other = captured(store, ALICE, {b"f": b"1"})
        with store.transaction():
            Folders(store).note(Path("/home/alice/other"), store.session(ALICE).family, other)
    damage(folder, seen.ref.name)
    with opened(folder) as store:
        assert any(seen.ref.name.hex() in finding.what for finding in Check(store).run().findings)
    result = repair(folder, seed=SEED, limits=LIMITS)
    assert not result.report.findings and any("/home/alice/work" in sentence for sentence in result.lost)
    with opened(folder) as store:
        assert [one.folder for one in Folders(store).all()] == [Path("/home/alice/other")]
        sweep(store, keep_days=0)
