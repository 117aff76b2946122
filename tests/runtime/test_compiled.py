"""The cache of compiled modules: what it trusts, and what it makes anew."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.runtime import wat

from hhd.base.errors import RefusedError
from hhd.runtime import compiled
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Slice, Waiting

WASM = wat.module(
    run="(drop (call $effect (i32.const 64) (i32.const 1) (i32.const 0) (i32.const 0)))",
    program='(data (i32.const 64) "a")',
)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one at each compilation."""
    counted: list[int] = []
    real = compiled._compile_apart

    def compile_apart(wasm: bytes) -> bytes:
        counted.append(len(wasm))
        return real(wasm)

    monkeypatch.setattr(compiled, "_compile_apart", compile_apart)
    return counted


def entry(folder: Path) -> Path:
    [found] = folder.iterdir()
    return found


def works(folder: Path) -> bool:
    return isinstance(Guest.start(Module.load(WASM, cache=folder), args=b"").run(Slice()), Waiting)


def test_a_module_is_compiled_once(tmp_path: Path, compilations: list[int]) -> None:
    folder = tmp_path / "a" / "modules"
    assert works(folder) and works(folder)
    assert len(compilations) == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


def _flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def _link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "cut to its head": lambda path: os.truncate(path, 40),
    "empty": lambda path: os.truncate(path, 0),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a flipped bit in the code": lambda path: _flip(path, 5000),
    "a flipped bit in the digest": lambda path: _flip(path, 20),
    "another magic": lambda path: _flip(path, 0),
    "writable to others": lambda path: path.chmod(0o622),
    "readable to others": lambda path: path.chmod(0o644),
    "a link": _link,
    "a pipe": _pipe,
}


@pytest.mark.parametrize("what", DAMAGES)
def test_an_entry_that_is_damaged_or_foreign_is_made_anew(tmp_path: Path, compilations: list[int], what: str) -> None:
    folder = tmp_path / "modules"
    assert works(folder)
    DAMAGES[what](entry(folder))
    assert works(folder)
    assert len(compilations) == 2
    assert works(folder)
    assert len(compilations) == 2, "it was replaced"


def test_an_entry_with_a_right_digest_that_is_no_code_is_made_anew(tmp_path: Path, compilations: list[int]) -> None:
    folder = tmp_path / "modules"
    assert works(folder)
    path = entry(folder)
    handle = os.open(folder, os.O_RDONLY)
    compiled._write(handle, path.name, b"\x7fELF no code at all")
    os.close(handle)
    assert works(folder)
    assert len(compilations) == 2


def test_an_entry_of_another_user_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[int]
) -> None:
    folder = tmp_path / "modules"
    assert works(folder)
    real = os.fstat

    def others(fd: int) -> object:
        found = real(fd)
        if not stat.S_ISREG(found.st_mode):
            return found
        return SimpleNamespace(st_mode=found.st_mode, st_size=found.st_size, st_uid=found.st_uid + 1)

    monkeypatch.setattr(os, "fstat", others)
    assert works(folder)
    assert len(compilations) == 2


def test_nothing_is_read_from_or_written_to_a_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[int]
) -> None:
    folder = tmp_path / "modules"
    assert works(folder)
    entry(folder).touch()
    before = entry(folder).stat()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert works(folder) and works(folder)
    assert len(compilations) == 3
    assert entry(folder).stat() == before


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path, compilations: list[int]) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "modules").symlink_to(tmp_path / "real")
    assert works(tmp_path / "modules")
    assert list((tmp_path / "real").iterdir()) == []


def test_a_folder_that_cannot_be_made_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert works(tmp_path / "file" / "modules")


def test_the_newest_entries_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[int]) -> None:
    monkeypatch.setattr(compiled, "ENTRIES_MAX", 3)
    folder = tmp_path / "modules"
    assert works(folder)
    first = entry(folder)
    os.utime(first, (1, 1))
    for n in range(3):
        (folder / f"{n}.tmp").touch()
        os.utime(folder / f"{n}.tmp", (2 + n, 2 + n))
    Module.load(wat.module(), cache=folder)
    assert not first.exists() and len(list(folder.iterdir())) == 3
    assert works(folder) and len(compilations) == 3


def test_the_key_depends_on_the_module_and_on_what_code_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[int]
) -> None:
    folder = tmp_path / "modules"
    assert works(folder)
    Module.load(wat.module(), cache=folder)
    monkeypatch.setattr(compiled, "engine_identity", lambda: "another processor")
    assert works(folder)
    assert len(compilations) == 3 == len(list(folder.iterdir()))


BUSY = (
    "import hhd.runtime.engine as e\ndef busy(**_):\n    while True: pass\ne.make_engine = busy; c.CPU_SECONDS_MAX = 0"
)


CRAMPED = """
import hhd.runtime.module
c.ADDRESS_BYTES_MAX = int(open("/proc/self/statm").read().split()[0]) * 4096 + 3_000_000
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is enforced on Linux")
@pytest.mark.parametrize("tightened", [BUSY, CRAMPED], ids=("time", "memory"))
def test_a_compilation_past_its_limits_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tightened: str
) -> None:
    code = f"import sys, hhd.runtime.compile as c\n{tightened}\nsys.argv[1:] = ['100000000']; sys.exit(c.main())"
    real = subprocess.run

    def run(command: list[str], **more: object) -> object:
        assert command[:4] == [sys.executable, "-P", "-m", "hhd.runtime.compile"]
        return real([sys.executable, "-c", code], **more)  # type: ignore[call-overload]

    steps = "(i32.const 7) (i32.mul) (local.tee 0) (local.get 0) (i32.add)" * 3000
    functions = "".join(f'(func (export "f{n}") (param i32) (result i32) (local.get 0) {steps})' for n in range(60))
    wasm = wat.raw_module(f"(module {functions})")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RefusedError, match="more time or memory than is allowed"):
        compiled.load_compiled(wasm, cache=tmp_path / "modules")


def test_a_compilation_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "COMPILE_SECONDS_MAX", 0.001)
    with pytest.raises(RefusedError, match="took more than"):
        compiled.load_compiled(WASM, cache=tmp_path / "modules")
