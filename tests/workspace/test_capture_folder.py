"""A folder that is no repository arrives whole, but for what its ignore rules name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.workspace.lab import Pieces, device, made_from, repository, seen, untouched

from hhd.base.errors import RefusedError
from hhd.workspace.capture import capture
from hhd.workspace.memory import Memory
from hhd.workspace.wanted import Wanted
from hhd_protocol.workspace import Kind, Reason


def _folder(folder: Path) -> Path:
    (folder / "deep/er").mkdir(parents=True)
    (folder / "empty/inner").mkdir(parents=True)
    (folder / "deep/er/file").write_bytes(os.urandom(2_500_000))
    (folder / "zero").write_bytes(b"")
    (folder / "run").write_bytes(b"#!/bin/sh\n")
    (folder / "run").chmod(0o750)
    (folder / "link").symlink_to("/etc")
    os.link(folder / "run", folder / "twin")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")).write_bytes(b"x")
    return folder


def test_a_folder_arrives_bit_for_bit(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "source")
    before = untouched(folder)
    pieces = Pieces()
    made = capture(folder, None, pieces.put)
    assert untouched(folder) == before
    assert made.repository is None
    assert seen(made_from(made, pieces, tmp_path / "target")) == seen(folder)
    assert capture(folder, made, pieces.put) == made


def test_ignore_rules_nest_and_can_be_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    for name in ("a.log", "keep.log", "sub/b.log", "sub/c.txt", "build/x", "sub/build/y", "other/d.log", "other/z"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / ".gitignore").write_text("*.log\n/build/\n!keep.log\n")
    (folder / "sub/.gitignore").write_text("!b.log\n")
    (folder / "other/.hhdignore").write_text("z\n")
    made = capture(folder, None, Pieces().put)
    taken = [one.path for one in made.entries if one.kind is Kind.FILE and not one.path.endswith(b"ignore")]
    assert taken == [b"keep.log", b"sub/b.log", b"sub/build/y", b"sub/c.txt"]
    assert {one.path for one in made.left_out} == {b"a.log", b"build/", b"other/d.log", b"other/z"}
    named = capture(folder, None, Pieces().put, wanted=Wanted(named=frozenset({b"build/x"})))
    assert b"build/x" in [one.path for one in named.entries]


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    repository(folder / "nested", {"x": b"x"})
    (folder / "sub").mkdir()
    (folder / "sub/.env.local").write_bytes(b"TOKEN=1")
    (folder / "sub/.env.example").write_bytes(b"TOKEN=")
    os.mkfifo(folder / "pipe")
    device(folder / "device")
    (folder / "a\\b").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder)
        server.bind("socket")
        os.chdir(here)
    made = capture(folder, None, Pieces().put)
    assert {one.path: one.reason for one in made.left_out} == {
        b"nested/": Reason.REPOSITORY,
        b"sub/.env.local": Reason.CREDENTIALS,
        b"pipe": Reason.SPECIAL,
        b"device": Reason.SPECIAL,
        b"socket": Reason.SPECIAL,
        b"a\\b": Reason.NAME,
    }
    assert [one.path for one in made.entries] == [b"sub/.env.example"]


def test_a_folder_that_is_too_large_is_asked_about(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "large").write_bytes(bytes(50_000))
    (folder / "small").write_bytes(bytes(10))
    pieces = Pieces()
    with pytest.raises(RefusedError, match=r"large .*--max-bytes"):
        capture(folder, None, pieces.put, wanted=Wanted(bytes_max=50_000))
    assert not pieces
    capture(folder, None, pieces.put, wanted=Wanted(bytes_max=50_010))


def test_a_second_capture_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    folder = tmp_path / "source"
    folder.mkdir()
    for n in range(300):
        (folder / f"f{n:03}").write_bytes(b"%d" % n)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10**10)
    pieces, memory = Pieces(), Memory()
    first = capture(folder, None, pieces.put, memory=memory)
    pieces.puts.clear()
    (folder / "f007").write_bytes(b"other")
    second = capture(folder, first, pieces.put, memory=memory)
    assert [pieces[one] for one in pieces.puts] == [b"other"]
    assert len(second.entries) == 300
    monkeypatch.setattr(time, "time_ns", real)
    (folder / "f008").write_bytes(b"x")
    third = capture(folder, second, pieces.put, memory=memory)
    pieces.puts.clear()
    assert capture(folder, third, pieces.put, memory=memory) == third
    assert [pieces[one] for one in pieces.puts] == [b"x"], "what changed within the last seconds is read again"


UNREADABLE = """
import os, sys, concurrent.futures.thread
from pathlib import Path
from hhd.workspace.capture import capture
os.setgid(65534); os.setuid(65534)
made = capture(Path(sys.argv[1]), None, lambda raw: b"p" * 32)
for one in made.left_out: print(one.path.decode(), int(one.reason))
for one in made.entries: print(one.path.decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give up root's right to read everything")
@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_what_may_not_be_read_is_said(kind: str, tmp_path: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / "source"
        if kind == "folder":
            folder.mkdir()
        else:
            repository(folder)
        (folder / "secret").write_bytes(b"x")
        (folder / "closed").mkdir()
        (folder / "closed/x").write_bytes(b"x")
        (folder / "open").write_bytes(b"x")
        subprocess.run(["chown", "-R", "65534:65534", place], check=True)
        (folder / "secret").chmod(0)
        (folder / "closed").chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", UNREADABLE, str(folder)], capture_output=True, text=True, check=False,
            env={**os.environ, "HOME": place, "TMPDIR": "/tmp"},
        )  # fmt: skip
        assert done.stdout.split("\n")[:-1] == ["closed/ 3", "secret 3", "open"], done.stderr


@pytest.mark.parametrize("is_repository", [False, True])
def test_what_is_hhds_own_is_never_taken_whoever_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_repository: bool
) -> None:
    folder = repository(tmp_path / "home") if is_repository else tmp_path / "home"
    own = folder / "of/hhd"
    (own / "data/identity").mkdir(parents=True)
    (own / "data/empty").mkdir()
    (own / "data/identity/device.key").write_bytes(b"a key")
    (own / "data/store.db").write_bytes(b"a store")
    (own / "database").write_bytes(b"not ours")
    (folder / "notes").write_bytes(b"mine")
    wanted = Wanted(named=frozenset({b"of/hhd/data", b"of/hhd/data/store.db"}))

    def taken() -> set[bytes]:
        made = capture(folder, None, Pieces().put, wanted=wanted)
        files = {one.path for one in made.entries}
        assert made.left_out == () or {one.reason for one in made.left_out} == {Reason.CREDENTIALS}
        return {path for path in files if path.startswith(b"of/hhd/data")} | (files & {b"notes"})

    assert {b"of/hhd/data/identity/device.key", b"of/hhd/data/store.db", b"notes"} <= taken()
    monkeypatch.setenv("HHD_DATA_HOME", str(own / "data"))
    assert taken() == {b"of/hhd/database", b"notes"}
    with pytest.raises(RefusedError, match="hhd's own"):
        capture(own / "data/identity", None, Pieces().put)
