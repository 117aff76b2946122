"""Originals of native sessions lie sealed in the store; what an earlier hhd kept in plain text is moved there."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.native.native import claude_record, lines
from tests.store.phrase import leaks

from hhd.base import files
from hhd.base.errors import UserError
from hhd.base.paths import data_folder
from hhd.cli import run
from hhd.native import plain_archive
from hhd.native.archive import Archive, KeptFile, Original, encode_original
from hhd.node import native, originals
from hhd.node import store as stores
from hhd.store.check import Check
from hhd.store.shelf import Shelf
from hhd.store.store import Store
from hhd_protocol.limits import ARCHIVE_PIECE_BYTES
from hhd_protocol.transcript import Harness

ROOT = Path(__file__).parents[2]
IDS = [f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in (1, 2, 3)]


@pytest.fixture(autouse=True)
def _clients_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = Path(os.environ["HHD_CONFIG_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text("[store]\nfree_bytes_min = 0\n")


def session(tmp_path: Path, number: int = 0, *words: str) -> Path:
    path = tmp_path / "client" / f"{IDS[number]}.jsonl"
    path.parent.mkdir(exist_ok=True)
    records = [claude_record(i + 1, i or None, "user", word) for i, word in enumerate(words or ("hello",))]
    path.write_bytes(lines(*records))
    return path


def plain(path: Path, harness: Harness = Harness.CLAUDE) -> str:
    """Keep a session of one file as hhd did before there was a store; return the name of its original."""
    raw = path.read_bytes()
    cut = [raw[at : at + ARCHIVE_PIECE_BYTES] for at in range(0, len(raw), ARCHIVE_PIECE_BYTES)]
    file = KeptFile(
        path=path.name,
        size=len(raw),
        mtime_ns=1_700_000_000_000_000_000,
        sha256=hashlib.sha256(raw).digest(),
        pieces=tuple(hashlib.sha256(piece).digest() for piece in cut),
    )
    made = encode_original(Original(name="", harness=harness, id=path.stem, source=str(path), files=(file,)))
    for content in (*cut, made):
        name = hashlib.sha256(content).hexdigest()
        place = originals.plain_folder() / "objects" / name[:2] / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(zstandard.ZstdCompressor().compress(content))
    index = originals.plain_folder() / "sessions" / harness.value / path.stem
    index.parent.mkdir(parents=True, exist_ok=True)
    with open(index, "ab") as out:
        out.write(hashlib.sha256(made).hexdigest().encode() + b"\n")
    return hashlib.sha256(made).hexdigest()


def restored(tmp_path: Path, number: int = 0, version: int = -1) -> bytes:
    """Return what the archive gives back of a session."""
    with originals.opened() as archive:
        original = archive.originals(Harness.CLAUDE, IDS[number])[version]
        folder = tmp_path / "back"
        shutil.rmtree(folder, ignore_errors=True)
        return archive.restore(original, folder)[0].read_bytes()


def test_a_kept_session_survives_gc_is_counted_and_comes_back_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = random.Random(1).randbytes(2 * ARCHIVE_PIECE_BYTES).hex()
    path = session(tmp_path, 0, noise)
    before, first = path.read_bytes(), native.keep(path)
    path.write_bytes(before + lines(claude_record(2, 1, "assistant", "more")))
    grown = native.keep(path)
    assert first.new and grown.new and grown.written < ARCHIVE_PIECE_BYTES + 10_000 < first.written
    assert not native.keep(path).new and native.keep(path).written == 0
    assert run(["gc"]) == 0
    assert restored(tmp_path) == path.read_bytes() and restored(tmp_path, version=0) == before
    capsys.readouterr()
    assert run(["du", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["originals"] == 2 and 2 * ARCHIVE_PIECE_BYTES < told["originals_bytes"] < len(noise)
    assert run(["check", "--read-data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["objects"] >= 7


def test_what_is_on_no_list_is_freed_but_not_while_somebody_keeps(tmp_path: Path) -> None:
    with stores.opened() as store:
        raw = b"a piece of a process that was killed"
        digest = hashlib.sha256(raw).digest()
        with store.shelf.held():
            store.shelf.put(digest, raw)
            assert stores.collect(dry_run=False)[0].objects == 0
        assert stores.collect(dry_run=False)[0].objects == 1
        assert store.shelf.put(digest, raw) > 0 and store.shelf.get(digest) == raw


def test_nothing_of_a_kept_session_is_readable_from_the_files(tmp_path: Path) -> None:
    phrase = "".join(random.SystemRandom().choices("abcdefghijkmnpqrstuvwxyz", k=24))
    folder = tmp_path / phrase
    folder.mkdir()
    path = folder / f"{IDS[0]}.jsonl"
    path.write_bytes(lines(claude_record(1, None, "user", f"so {phrase} said")))
    native.keep(path)
    with stores.opened() as store:
        store.database.fold()
        assert phrase.encode() in restored(tmp_path)
    assert leaks(data_folder(), phrase) == leaks(data_folder(), IDS[0]) == []
    plain(path)
    assert leaks(data_folder(), phrase), "the control: in the old folder it can be read"
    originals.check()
    assert leaks(data_folder(), phrase) == leaks(data_folder(), IDS[0]) == []


def test_an_archive_in_plain_text_is_named_by_check_and_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [session(tmp_path, number, f"text {number}") for number in range(3)]
    names = [plain(path) for path in paths]
    paths[0].write_bytes(paths[0].read_bytes() + lines(claude_record(2, 1, "assistant", "more")))
    names.append(plain(paths[0]))
    assert run(["check"]) == 1 and "in plain text" in capsys.readouterr().out
    assert run(["gc"]) == 0
    assert not originals.plain_folder().exists()
    assert run(["check"]) == 0
    with originals.opened() as archive:
        found = [one.name for h, s in archive.sessions() for one in archive.originals(h, s)]
    assert sorted(found) == sorted(names), "the same originals under the same names"
    assert [restored(tmp_path, number) for number in range(3)] == [path.read_bytes() for path in paths]
    assert not native.keep(paths[0]).new


class Crash(Exception):
    """The process ends here."""


def _crashing(patch: pytest.MonkeyPatch, owner: object, name: str, left: list[int]) -> None:
    real: Callable[..., object] = getattr(owner, name)

    def act(*given: object, **named: object) -> object:
        if left[0] == 0:
            raise Crash
        left[0] -= 1
        return real(*given, **named)

    patch.setattr(owner, name, act)


def test_a_crash_at_any_step_of_the_move_leaves_every_original_here_or_there(tmp_path: Path) -> None:
    paths = [session(tmp_path, number, f"text {number}") for number in range(2)]
    whole = [path.read_bytes() for path in paths]
    for path in paths:
        plain(path)
    aside = tmp_path / "aside"
    shutil.copytree(originals.plain_folder(), aside)
    for step in range(100):
        shutil.rmtree(data_folder() / "store", ignore_errors=True)
        shutil.rmtree(originals.plain_folder(), ignore_errors=True)
        shutil.rmtree(data_folder() / "originals.moved", ignore_errors=True)
        shutil.copytree(aside, originals.plain_folder())
        left = [step]
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (
                (Shelf, "put"), (Shelf, "enter"), (os, "rename"), (os, "unlink"), (Path, "unlink"),
                (os, "rmdir"), (files, "replace"), (files, "sync_folder"), (Archive, "read"),
            ):  # fmt: skip
                _crashing(patch, owner, name, left)
            try:
                with stores.opened() as store:
                    originals.move_in(store)
                crashed = False
            except Crash:
                crashed = True
        for number, raw in enumerate(whole):
            assert _sealed(number) == raw or _plain(number) == raw, f"crashed at step {step}"
        assert [restored(tmp_path, number) for number in range(2)] == whole
        assert not originals.plain_folder().exists() and not (data_folder() / "originals.moved").exists()
        if not crashed:
            break
    assert step > 12


def _sealed(number: int) -> bytes | None:
    with stores.opened() as store:
        archive = Archive(store.shelf)
        found = archive.originals(Harness.CLAUDE, IDS[number])
        return b"".join(archive.read(found[-1].files[0])) if found else None


def _plain(number: int) -> bytes | None:
    index = originals.plain_folder() / "sessions" / "claude" / IDS[number]
    if not index.exists():
        return None
    archive = plain_archive.PlainArchive(originals.plain_folder())
    (file,) = archive.original(index.read_text().split()[-1]).files
    return b"".join(plain_archive.verified(file, lambda piece: archive._get(piece.hex())))


def test_what_does_not_read_back_from_the_store_stays_in_plain_text(tmp_path: Path) -> None:
    path = session(tmp_path)
    plain(path)
    before = {one: one.read_bytes() for one in originals.plain_folder().rglob("*") if one.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shelf, "put", lambda self, digest, raw: 0)  # A disk that forgets.
        with pytest.raises(UserError):
            originals.check()
    assert {one: one.read_bytes() for one in originals.plain_folder().rglob("*") if one.is_file()} == before
    assert originals.check() == [] and restored(tmp_path) == path.read_bytes()


@pytest.mark.parametrize("damage", ["piece", "list", "piece gone"])
def test_a_damaged_original_in_plain_text_stays_and_is_named_while_the_others_move(tmp_path: Path, damage: str) -> None:
    sound, bad = session(tmp_path, 0, "sound"), session(tmp_path, 1, "bad")
    plain(sound)
    name = plain(bad)
    piece = hashlib.sha256(bad.read_bytes()).hexdigest()
    name = name if damage == "list" else piece
    victim = originals.plain_folder() / "objects" / name[:2] / name
    raw = victim.read_bytes()
    victim.unlink() if damage == "piece gone" else victim.write_bytes(raw[:-2])
    for _ in range(2):
        assert len(originals.check()) == 1
        assert restored(tmp_path) == sound.read_bytes()
        left = {path.name for path in originals.plain_folder().rglob("*") if path.is_file()}
        assert IDS[1] in left and IDS[0] not in left
        assert hashlib.sha256(sound.read_bytes()).hexdigest() not in left
    victim.write_bytes(raw)  # Restored by a person.
    assert originals.check() == [] and restored(tmp_path, 1) == bad.read_bytes()
    assert not originals.plain_folder().exists()


def _break(store: Store, number: int) -> None:
    """Lose the object of a session's first piece."""
    archive = Archive(store.shelf)
    piece = next(archive.originals(Harness.CLAUDE, IDS[number])[-1].pieces)
    raw = store.objects.raw(store.shelf.ref(piece).name)  # type: ignore[arg-type]
    assert raw is not None
    with store.transaction():
        store.database.write("UPDATE objects SET sealed=? WHERE sealed=?", raw[:-1] + bytes((raw[-1] ^ 1,)), raw)


def test_damage_to_a_piece_is_named_repaired_away_and_healed_by_keeping_again(tmp_path: Path) -> None:
    paths = [session(tmp_path, number, f"text {number}") for number in range(2)]
    for path in paths:
        native.keep(path)
    with stores.opened() as store:
        _break(store, 0)
        assert any("object" in finding.what for finding in Check(store).run().findings)
    assert len(originals.check()) == 1
    result = stores.repaired()
    assert not result.report.findings and any(IDS[0] in lost for lost in result.lost)
    assert not stores.check(read_data=True).findings
    assert restored(tmp_path, 1) == paths[1].read_bytes() and len(originals.check()) == 1
    native.keep(paths[0])
    assert restored(tmp_path, 0) == paths[0].read_bytes() and originals.check() == []
    with stores.opened() as store:
        _break(store, 0)
        assert Check(store).run().findings, "an original that was healed is watched again"


@pytest.mark.parametrize("table", ["items", "label"])
def test_lists_of_originals_that_were_lost_are_made_again(tmp_path: Path, table: str) -> None:
    path = session(tmp_path)
    native.keep(path)
    with stores.opened() as store:
        name = store.rows.name(
            *{"items": ("items", b"", bytes(8)), "label": ("label", b"", f"claude/{IDS[0]}".encode())}[table]
        )
        with store.transaction():
            assert store.database.write("UPDATE rows SET sealed=zeroblob(90) WHERE name=?", name)
    assert stores.check(read_data=False).findings
    assert not stores.repaired().report.findings
    assert stores.collect(dry_run=False)[0].objects == 0
    assert restored(tmp_path) == path.read_bytes()
    with originals.opened() as archive:
        assert list(archive.sessions()) == [(Harness.CLAUDE, IDS[0])]


KEEP = """
import sys
from pathlib import Path
from hhd.node import native, originals
from hhd_protocol.transcript import Harness
from tests.memory import peak_kib
path, target = Path(sys.argv[1]), Path(sys.argv[2])
before = peak_kib()
native.keep(path)
native.restore(path.stem, target)
assert originals.check() == []
print(peak_kib(), before)
"""


@pytest.mark.long
def test_a_large_session_is_kept_and_restored_in_little_memory(tmp_path: Path) -> None:
    path = session(tmp_path)
    dice = random.Random(1)
    with open(path, "ab") as out:
        for number in range(2, 202):
            out.write(lines(claude_record(number, number - 1, "user", dice.randbytes(1 << 19).hex())))
    assert path.stat().st_size > 200 << 20
    told = subprocess.run(
        [sys.executable, "-c", KEEP, str(path), str(tmp_path / "out")], cwd=ROOT, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    peak, before = map(int, told.stdout.split())
    assert peak < 100 * 1024, f"{peak >> 10} MiB at the highest, {before >> 10} MiB before"
    assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
