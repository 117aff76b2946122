"""The programs a capsule can be made of: those that come with hhd by name, and any guest module by path."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hhd.base.errors import RefusedError, UsageError
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import Sha256
from hhd_protocol.limits import ARGS_BYTES_MAX, MODULE_BYTES_MAX

_MODULES = Path(__file__).parents[1] / "runtime" / "modules"
_DESCRIBED = {"spin": "a loop that never yields", "agent": "the coding agent"}


def find(program: str) -> tuple[str, bytes]:
    """Return the short name and the instrumented wasm of `program`: a built-in name or a path.

    Raises RefusedError when there is no such program or its module cannot be made pausable.
    """
    if program in _DESCRIBED and (path := _MODULES / f"{program}.wasm").exists():
        return program, path.read_bytes()
    path = Path(program)
    if os.sep not in program and not path.exists():
        known = ", ".join(name for name in _DESCRIBED if (_MODULES / f"{name}.wasm").exists())
        raise RefusedError(f"There is no program {program}; give one of {known} or the path of a .wasm file.")
    return "module", _pausable(read_wasm(path), path)


def read_wasm(path: Path) -> bytes:
    """Return the bytes of a module file, at most `MODULE_BYTES_MAX`; raises RefusedError where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb", buffering=0) as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise RefusedError(f"{path} is not a plain file, so it is not a module.")
            if found.st_size > MODULE_BYTES_MAX:
                raise RefusedError(f"{path} has {found.st_size} bytes, more than the {MODULE_BYTES_MAX} of a module.")
            return file.read(MODULE_BYTES_MAX) or b""
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RefusedError(f"The module {path} cannot be read ({reason}).") from None


def builtin_module(digest: Sha256) -> bytes | None:
    """Return the module that comes with hhd and has this SHA-256, None if there is none."""
    for path in sorted(_MODULES.glob("*.wasm")):
        wasm = path.read_bytes()
        if hashlib.sha256(wasm).digest() == digest:
            return wasm
    return None


def encode_args(given: Mapping[str, str]) -> bytes:
    """Return the arguments as the guest gets them: a JSON object of text to text, keys sorted, without spaces."""
    raw = json.dumps(given, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if len(raw) > ARGS_BYTES_MAX:
        raise UsageError(f"The arguments have {len(raw)} bytes, more than the {ARGS_BYTES_MAX} that are allowed.")
    return raw


def _pausable(wasm: bytes, path: Path) -> bytes:
    """Return `wasm` with interrupt checks and unwinding, as it is where it says to have them."""
    from hhd.runtime.instrument import pausable

    try:
        return pausable(wasm)
    except FormatError as error:
        raise RefusedError(f"The module {path} was refused: {error}.") from error
