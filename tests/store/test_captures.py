"""Captures in the store: each piece once, few objects, kept while a checkpoint names them, checked like the rest."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED
from tests.store.small import LIMITS, captured, files_of

from hhd.store.captures import SMALL_OBJECTS_MAX, capture_ref, workspace_of
from hhd.store.check import Check
from hhd.store.checkpoints import refs_of
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.line import Line
from hhd.store.objects import row_number
from hhd.store.retention import sweep
from hhd.store.store import Store
from hhd_protocol import pieces
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import EpochId, ObjectName, PageId
from hhd_protocol.limits import PIECES_FRAMES_MAX, WORKSPACE_PIECE_BYTES
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture, Content, Entry, Kind


@pytest.fixture
def session(store: Store) -> Store:
    store.create_session(ALICE)
    return store


def test_a_capture_comes_back_as_it_was(session: Store) -> None:
    dice = random.Random(1)
    files = {b"f%d" % n: dice.randbytes(dice.choice([1, 100, 10_000, 400_000])) for n in range(50)}
    ref = captured(session, ALICE, files)
    assert files_of(session, ALICE, ref) == files


def test_the_same_again_is_the_same_object(session: Store) -> None:
    files = {b"a": b"1", b"b": b"2"}
    first = captured(session, ALICE, files)
    count = len(list(session.objects.numbers()))
    assert captured(session, ALICE, files, first) == first
    assert len(list(session.objects.numbers())) == count


def test_a_piece_is_sealed_once(session: Store) -> None:
    large = os.urandom(500_000)
    last = captured(session, ALICE, {b"large": large, b"n": b"0"})
    for n in range(1, 20):
        before = sum(map(session.objects.size_of, session.objects.numbers()))
        last = captured(session, ALICE, {b"moved%d" % n: large, b"n": b"%d" % n}, last)
        assert sum(map(session.objects.size_of, session.objects.numbers())) - before < 3_000
    assert files_of(session, ALICE, last) == {b"moved19": large, b"n": b"19"}


def test_the_objects_of_a_capture_stay_few_however_many_captures_there_were(session: Store) -> None:
    files: dict[bytes, bytes] = {}
    last = None
    for n in range(3 * SMALL_OBJECTS_MAX):
        files[b"%d" % n] = b"content %d" % n
        last = captured(session, ALICE, files, last)
        refs = session.capture_reader(session.session(ALICE).family, last).head(last).refs
        assert len(refs) <= SMALL_OBJECTS_MAX
    assert last is not None and files_of(session, ALICE, last) == files


def test_what_a_checkpoint_names_is_kept_and_the_rest_freed(session: Store) -> None:
    line = Line(session, ALICE)
    first = captured(session, ALICE, {b"a": b"1", b"b": b"2"})
    second = captured(session, ALICE, {b"a": b"1", b"b": b"3"}, first)
    line.checkpoint(logs={"l": b"x"}, workspace=workspace_of(second))
    captured(session, ALICE, {b"c": b"of nobody"}, second)
    assert Check(session, read_data=True).run().orphans == 1
    assert sweep(session, keep_days=30).objects == 1
    assert files_of(session, ALICE, second) == {b"a": b"1", b"b": b"3"}
    third = captured(session, ALICE, {b"z": b"9"}, second)
    line.checkpoint(logs={"l": b"y"}, workspace=workspace_of(third))
    sweep(session, keep_days=0)
    assert files_of(session, ALICE, third) == {b"z": b"9"}
    report = Check(session, read_data=True).run()
    assert not report.findings and not report.orphans
    with pytest.raises(MissingError):
        files_of(session, ALICE, second)


def test_a_checkpoint_of_a_capture_that_is_not_here_is_refused(session: Store) -> None:
    line = Line(session, ALICE)
    with pytest.raises(MissingError):
        line.checkpoint(logs={"l": b"x"}, workspace=b"n" * 64)
    assert capture_ref(b"another kind of name") is None


def test_a_lost_object_of_a_capture_is_named_with_the_session_it_harms(session: Store) -> None:
    first = captured(session, ALICE, {b"a": b"1"})
    second = captured(session, ALICE, {b"a": b"1", b"b": b"2"}, first)
    Line(session, ALICE).checkpoint(logs={"l": b"x"}, workspace=workspace_of(second))
    with session.transaction():
        session.objects.remove(row_number(first.name))
    report = Check(session).run()
    assert report.findings and ALICE in report.harmed


def test_pieces_that_are_not_those_of_their_ids_are_noticed(session: Store) -> None:
    keys = session.families.get(session.session(ALICE).family)
    writer = session.capture_writer(keys.id, None)
    one = writer.put(b"right")
    writer._waiting = [b"wrong"]
    with session.transaction():
        ref = writer.finish(
            Capture(
                repository=None,
                entries=(Entry(path=b"f", kind=Kind.FILE, mode=0o644, content=Content(size=5, pieces=(one,))),),
            )
        )
    Line(session, ALICE).checkpoint(logs={"l": b"x"}, workspace=workspace_of(ref))
    assert not Check(session).run().findings
    assert Check(session, read_data=True).run().findings
    with pytest.raises(DamagedStoreError):
        files_of(session, ALICE, ref)


def test_a_capture_that_names_a_piece_nobody_put_is_refused(session: Store) -> None:
    writer = session.capture_writer(session.session(ALICE).family, None)
    content = Content(size=5, pieces=(PageId(bytes(32)),))
    entries = (Entry(path=b"f", kind=Kind.FILE, mode=0o644, content=content),)
    with pytest.raises(DamagedStoreError), session.transaction():
        writer.finish(Capture(repository=None, entries=entries))


def test_refs_of_a_checkpoint_hold_its_capture(session: Store) -> None:
    ref = captured(session, ALICE, {b"a": b"1"})
    head = Line(session, ALICE).checkpoint(logs={"l": b"x"}, workspace=workspace_of(ref))
    assert ref in refs_of(session.checkpoint(head))


GOOD = pieces.PiecesHead(
    refs=[Ref(name=ObjectName(b"n" * 32), epoch=EpochId(b"e" * 32))],
    ids=[PageId(b"a" * 32), PageId(b"b" * 32)],
    lengths=[5, 7],
    frames=[1, 1],
    root=b"root",
)


def test_a_head_survives_and_one_that_breaks_a_rule_is_refused() -> None:
    import dataclasses

    again = pieces.decode_head(pieces.encode_head(GOOD))
    assert (list(again.ids), list(again.lengths), list(again.frames), again.root) == (
        GOOD.ids, GOOD.lengths, GOOD.frames, GOOD.root,
    )  # fmt: skip
    for change in (
        {"ids": [PageId(b"a" * 32)]},
        {"ids": [PageId(b"a" * 32)] * 2},
        {"lengths": [5]},
        {"lengths": [0, 7]},
        {"lengths": [5, WORKSPACE_PIECE_BYTES + 1]},
        {"lengths": [WORKSPACE_PIECE_BYTES, 1], "frames": [2]},
        {"frames": [1]},
        {"frames": [0, 2]},
        {"frames": [3]},
        {"root": bytes(4 * 1024 * 1024 + 1)},
        {"ids": [PageId(b"%032d" % n) for n in range(255)], "lengths": [1] * 255, "frames": [1] * 255},
    ):
        with pytest.raises(FormatError):
            pieces.decode_head(pieces.encode_head(dataclasses.replace(GOOD, **change)))  # type: ignore[arg-type]
    assert PIECES_FRAMES_MAX == 254


LARGE = """
import sys
from pathlib import Path
from hhd.store.store import Store
from hhd.workspace.capture import capture
from tests.memory import peak_kib
from tests.store.conftest import ALICE, SEED
from tests.store.small import LIMITS
with Store.open(Path(sys.argv[1]), seed=SEED, limits=LIMITS) as store:
    store.create_session(ALICE)
    writer = store.capture_writer(store.session(ALICE).family, None)
    before = peak_kib()
    made = capture(Path(sys.argv[2]), None, writer.put)
    with store.transaction():
        writer.finish(made)
    print(peak_kib() - before)
"""


def test_a_large_file_passes_through_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with open(tmp_path / "work/large", "wb") as target:
        for _ in range(96):
            target.write(os.urandom(1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "store"), str(tmp_path / "work")],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert int(done.stdout) < 80_000, "KiB that a capture of 96 MiB took"
    with Store.open(tmp_path / "store", seed=SEED, limits=LIMITS) as store:
        assert len(list(store.objects.numbers())) > 10
