"""The committed modules are what their sources and tools make of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wasmtime
from tests.guest.test_agent_native import QUICK
from tests.guest.test_fixtures import ROOT, build_script
from tests.runtime.instrument.host import ENGINE, Run

from hhd.runtime.instrument import insist_on_instrumented, instrument
from hhd.runtime.instrument.passes import PASS_VERSION
from hhd_protocol import limits

BUILD = build_script("build")
MANIFEST = json.loads((BUILD.MODULES / "manifest.json").read_text())
AUTHORS = (ROOT / "protocol" / "spec" / "guest-authors.md").read_text()
ABI = (ROOT / "protocol" / "spec" / "guest-abi.md").read_text()
RUST = all(os.path.exists(f"/usr/bin/{name}") for name in ("rustc", "cargo", "wasm-ld-14", "wasm-opt"))


@pytest.mark.parametrize("program", BUILD.PROGRAMS, ids=lambda program: program.crate)
def test_the_manifest_tells_what_is_committed(program: object) -> None:
    row = MANIFEST["modules"][program.crate]  # type: ignore[attr-defined]
    raw = program.path().read_bytes()  # type: ignore[attr-defined]
    assert row["sha256"] == hashlib.sha256(raw).hexdigest()
    assert row["bytes"] == len(raw)
    assert row["sources_sha256"] == BUILD.source_hash(program), "sources changed: run `make guest` and commit"


def test_the_manifest_names_the_pass_and_every_module() -> None:
    assert MANIFEST["pass"] == PASS_VERSION
    assert {path.stem for path in BUILD.MODULES.glob("*.wasm")} < MANIFEST["modules"].keys()


@pytest.mark.parametrize("program", [one for one in BUILD.PROGRAMS if one.shipped], ids=lambda program: program.crate)
def test_what_is_shipped_is_instrumented_and_valid(program: object) -> None:
    raw = program.path().read_bytes()  # type: ignore[attr-defined]
    insist_on_instrumented(raw)
    wasmtime.Module.validate(ENGINE, raw)


def test_a_changed_source_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(BUILD.WORKSPACE, tmp_path / "guest", ignore=shutil.ignore_patterns("target"))
    monkeypatch.setattr(BUILD, "WORKSPACE", tmp_path / "guest")
    program = next(one for one in BUILD.PROGRAMS if one.crate == "spin")
    assert BUILD.source_hash(program) == MANIFEST["modules"]["spin"]["sources_sha256"]
    source = tmp_path / "guest" / "spin" / "src" / "lib.rs"
    source.write_text(source.read_text() + "\n")
    assert BUILD.source_hash(program) != MANIFEST["modules"]["spin"]["sources_sha256"]


@pytest.mark.long
@pytest.mark.rebuild
@pytest.mark.skipif(not RUST, reason="needs Debian's rustc, cargo, lld-14 and binaryen")
def test_a_rebuild_gives_the_same_bytes(tmp_path: Path) -> None:
    built = BUILD.build(list(BUILD.PROGRAMS), tmp_path)
    assert BUILD.differences(built) == []
    path, raw = next(iter(built.items()))
    assert BUILD.differences({path: raw + b"\0"}) == [path.name], "one byte more is noticed"


@pytest.mark.long
@pytest.mark.rebuild
@pytest.mark.skipif(not RUST, reason="needs Debian's rustc and cargo")
def test_the_rust_tests_of_library_and_spin_pass() -> None:
    settings = [f"--config=source.crates-io.replace-with={json.dumps('debian')}"]
    settings += [f"--config=source.debian.directory={json.dumps(str(BUILD.DEBIAN_CRATES))}"]
    command = ["/usr/bin/cargo", "test", "--quiet", "--offline", "--locked", "-p", "hhd-guest", "-p", "spin", *settings]
    environment = {**os.environ, **QUICK, "RUSTC": "/usr/bin/rustc"}
    result = subprocess.run(command, cwd=BUILD.WORKSPACE, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def example(language: str) -> str:
    """The example of the authors' page in one language."""
    found = re.search(rf"```{language}\n(.*?)```", AUTHORS, re.DOTALL)
    assert found
    return found[1]


def runs(plain: bytes) -> set[bytes]:
    """Transcripts of an example: plain, and cut after each check."""
    replies = [b"hello yourself\n"]
    pausable = wasmtime.Module(ENGINE, instrument(plain))
    cut = Run(pausable, replies=list(replies))
    return {Run(wasmtime.Module(ENGINE, plain), replies=list(replies)).to_end(), cut.to_end(0)}


def test_the_example_in_text_runs() -> None:
    assert runs(bytes(wasmtime.wat2wasm(example("wat")))) == {b"hello yourself\n"}


@pytest.mark.skipif(
    not (shutil.which("clang-14") or shutil.which("clang")) or not shutil.which("wasm-ld-14"),
    reason="needs clang and lld-14",
)
def test_the_example_in_c_runs(tmp_path: Path) -> None:
    source = tmp_path / "guest.c"
    source.write_text(example("c"))
    clang = shutil.which("clang-14") or shutil.which("clang")
    flags = ["--target=wasm32", "-O2", "-nostdlib", "-Wl,--no-entry", f"-fuse-ld={shutil.which('wasm-ld-14')}"]
    subprocess.run([str(clang), *flags, "-o", tmp_path / "guest.wasm", source], check=True)
    assert runs((tmp_path / "guest.wasm").read_bytes()) == {b"hello yourself\n144\n"}


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| ([A-Z_]+_MAX)[^|]*\| (\d+) \|$", ABI, re.MULTILINE)
    assert len(rows) == 8
    assert [(name, int(value)) for name, value in rows] == [(name, getattr(limits, name)) for name, _ in rows]
