"""Turns guest/testguests/*.wat into tests/fixtures/guests/*.wasm: plain, but for those that only claim to be more."""

from __future__ import annotations

import sys
from pathlib import Path

import wasmtime

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "guest" / "testguests"
FIXTURES = ROOT / "tests" / "fixtures" / "guests"


def translate(source: Path) -> bytes:
    """The binary form of one text module."""
    return bytes(wasmtime.wat2wasm(source.read_text()))


def main() -> None:
    """Write every fixture."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.wat")):
        try:
            raw = translate(source)
        except wasmtime.WasmtimeError as error:
            sys.exit(f"testguests: {source.name}: {error}")
        (FIXTURES / f"{source.stem}.wasm").write_bytes(raw)
        print(f"testguests: {source.stem}.wasm, {len(raw)} bytes")


if __name__ == "__main__":
    main()
