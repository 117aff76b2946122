"""The agent's machine code, made once for all tests and runs on a machine: it takes two seconds of processor time."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

BASE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hhd-tests" / "compiled"


def warm(cache: Path) -> None:
    """Let the device whose cache folder is `cache` have run the agent before; nothing where it is not built.

    What is kept is found by the digest of the module and what its compiler is, so it is never an older one's.
    """
    from hhd.base.errors import RefusedError
    from hhd.node.programs import find
    from hhd.runtime.compiled import load_compiled

    try:
        _, wasm = find("agent")
    except RefusedError:
        return
    BASE.mkdir(parents=True, exist_ok=True)
    with open(BASE / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        load_compiled(wasm, cache=BASE / "modules")
        shutil.copytree(BASE / "modules", cache / "modules")
