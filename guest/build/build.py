"""Builds the guest programs: Rust to WebAssembly, wasm-opt -O3, interrupt checks and unwinding; writes the manifest.

    python guest/build/build.py [--check] [PROGRAM...]

`--check` builds into a temporary folder and compares with what is committed. It needs Debian's rustc, cargo,
libstd-rust-dev-wasm32, lld-14, binaryen and the librust packages of `.ci/run`; with rustup, set RUSTC and CARGO (the
modules then differ from the committed ones, as another compiler lays them out in another way).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = ROOT / "guest"
MODULES = ROOT / "daemon" / "hhd" / "runtime" / "modules"
FIXTURES = ROOT / "tests" / "fixtures"
TARGET = "wasm32-unknown-unknown"
DEBIAN_CRATES = Path("/usr/share/cargo/registry")

sys.path[:0] = [str(ROOT / "daemon"), str(ROOT / "protocol")]


@dataclass(frozen=True, kw_only=True)
class Program:
    """One row of the table: a crate of the workspace and the folders it is made of.

    Instrumented modules of shipped programs go with the package; the plain module of another is a test fixture.
    `features` are WebAssembly features beyond FEATURES.
    """

    crate: str
    folders: tuple[str, ...]
    shipped: bool = True
    features: tuple[str, ...] = ()

    def path(self) -> Path:
        """Where its module is kept."""
        return MODULES / f"{self.crate}.wasm" if self.shipped else FIXTURES / f"{self.crate}.plain.wasm"


PROGRAMS = (
    Program(crate="agent", folders=("hhd-guest", "agent")),
    Program(crate="spin", folders=("hhd-guest", "spin")),
    Program(crate="bench", folders=("hhd-guest", "bench"), shipped=False, features=("simd128",)),
)
"""Every guest program. A row, a workspace member and `make guest` are all that a new one needs."""

FEATURES = ("mutable-globals", "bulk-memory", "nontrapping-fptoint")
RUSTFLAGS = (
    "-Clinker-flavor=wasm-ld",
    "-Clink-arg=--export=__stack_pointer",
    "-Clink-arg=-zstack-size=131072",
)
WASM_OPT = (
    "-O3",
    "--strip-dwarf",
    "-g",
    "--enable-mutable-globals",
    "--enable-bulk-memory",
    "--enable-sign-ext",
    "--enable-nontrapping-float-to-int",
    "--enable-simd",
)


def tool(variable: str, name: str) -> str:
    """The path of a tool: from the environment, Debian's, or the first on PATH; exits with a sentence without one."""
    debian = f"/usr/bin/{name}"
    path = os.environ.get(variable) or (debian if os.path.exists(debian) else shutil.which(name))
    if not path:
        sys.exit(f"build: {name} is not installed; see guest/README.md for the packages")
    return path


def version(path: str) -> str:
    """The first line that a tool says of its version."""
    said = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
    return said.splitlines()[0].strip()


def compile_crates(target_folder: Path, crates: list[str], features: tuple[str, ...] = ()) -> None:
    """Compile crates to plain modules under `target_folder`."""
    enabled = "-Ctarget-feature=" + ",".join(f"+{one}" for one in (*FEATURES, *features))
    linker = next((name for name in ("wasm-ld-14", "wasm-ld", "rust-lld") if shutil.which(name)), "rust-lld")
    settings = {
        f"target.{TARGET}.linker": f'"{linker}"',
        f"target.{TARGET}.rustflags": json.dumps([enabled, *RUSTFLAGS]),
    }
    if DEBIAN_CRATES.is_dir():
        settings["source.crates-io.replace-with"] = '"debian"'
        settings["source.debian.directory"] = f'"{DEBIAN_CRATES}"'
    command = [tool("CARGO", "cargo"), "build", "--release", "--locked", "--target", TARGET]
    command += ["--target-dir", str(target_folder)]
    command += ["--offline"] if DEBIAN_CRATES.is_dir() else []
    for key, value in settings.items():
        command += ["--config", f"{key}={value}"]
    for crate in crates:
        command += ["-p", crate]
    environment = {key: value for key, value in os.environ.items() if key not in ("RUSTFLAGS", "CARGO_TARGET_DIR")}
    subprocess.run(command, check=True, cwd=WORKSPACE, env={**environment, "RUSTC": tool("RUSTC", "rustc")})


def optimise(source: Path, target: Path) -> None:
    """Run wasm-opt over one module, keeping the names that tell the pass which functions are bounded."""
    subprocess.run([tool("WASM_OPT", "wasm-opt"), str(source), *WASM_OPT, "-o", str(target)], check=True)


def plain_module(target_folder: Path, crate: str) -> bytes:
    """The optimised, not yet instrumented module of a crate that was compiled."""
    built = target_folder / TARGET / "release" / f"{crate.replace('-', '_')}.wasm"
    optimised = built.with_suffix(".opt.wasm")
    optimise(built, optimised)
    return optimised.read_bytes()


def source_hash(program: Program) -> str:
    """SHA-256 over the names and bytes of all that a module is made from."""
    files = [WORKSPACE / "Cargo.toml", WORKSPACE / "Cargo.lock"]
    for folder in program.folders:
        crate = WORKSPACE / folder
        files += [crate / "Cargo.toml", *sorted((crate / "src").rglob("*.rs"))]
    digest = hashlib.sha256()
    for path in files:
        raw = path.read_bytes()
        digest.update(f"{path.relative_to(WORKSPACE).as_posix()} {len(raw)}\n".encode() + raw)
    return digest.hexdigest()


def build(programs: list[Program], target_folder: Path) -> dict[Path, bytes]:
    """Build programs; return what they are made into, by where it goes."""
    from hhd.runtime.instrument import instrument

    built = {}
    for features in sorted({program.features for program in programs}):
        group = [program for program in programs if program.features == features]
        folder = target_folder.joinpath(*features)
        compile_crates(folder, [program.crate for program in group], features)
        for program in group:
            plain = plain_module(folder, program.crate)
            built[program.path()] = instrument(plain, trusted=True) if program.shipped else plain
    return built


def manifest_entry(program: Program, module: bytes) -> dict[str, object]:
    """What the manifest says of one module."""
    return {
        "bytes": len(module),
        "sha256": hashlib.sha256(module).hexdigest(),
        "sources_sha256": source_hash(program),
    }


def manifest(built: dict[Path, bytes], before: dict[str, object]) -> dict[str, object]:
    """The manifest: the rows of what was built anew, the others as they were."""
    from hhd.runtime.instrument.passes import PASS_VERSION

    kept = before.get("modules", {})
    assert isinstance(kept, dict)
    fresh = [program for program in PROGRAMS if program.path() in built]
    rows = {program.crate: manifest_entry(program, built[program.path()]) for program in fresh}
    tools = {name: version(tool(name.upper().replace("-", "_"), name)) for name in ("rustc", "wasm-opt")}
    return {"modules": dict(sorted({**kept, **rows}.items())), "pass": PASS_VERSION, "tools": tools}


def differences(built: dict[Path, bytes]) -> list[str]:
    """What is not as committed."""
    return [path.name for path, raw in built.items() if not path.exists() or path.read_bytes() != raw]


def main() -> None:
    """Build what was named, or everything that is shipped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    parser.add_argument("program", nargs="*", help="crates to build; all when none is named")
    options = parser.parse_args()
    known = {program.crate: program for program in PROGRAMS}
    if unknown := [name for name in options.program if name not in known]:
        parser.error(f"there is no program named {unknown[0]}; there is: {', '.join(known)}")
    chosen = [known[name] for name in options.program] or list(PROGRAMS)
    if options.check:
        with tempfile.TemporaryDirectory() as folder:
            if wrong := differences(build(chosen, Path(folder))):
                sys.exit(f"build: not as committed: {', '.join(wrong)} (run `make guest` and commit)")
        print("build: every module is as committed")
        return
    built = build(chosen, WORKSPACE / "target")
    path = MODULES / "manifest.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    for place, raw in built.items():
        place.write_bytes(raw)
        print(f"build: {place.name}, {len(raw)} bytes")
    path.write_text(json.dumps(manifest(built, before), indent=2) + "\n")


if __name__ == "__main__":
    main()
