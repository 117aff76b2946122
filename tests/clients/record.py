"""Writes `oracle.json` anew from the real clients: `python -m tests.clients.record`, then look at the difference."""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.clients import real
from tests.clients.install import installed
from tests.native.cases import ORACLE, Case, cases


def main() -> None:
    """Ask every client about every case."""
    clients = installed()
    chosen = cases()
    assert len({case.name for case in chosen}) == len(chosen)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(3) as pool:

        def ask(case: Case) -> object:
            place = Path(folder) / str(chosen.index(case))
            place.mkdir()
            file = case.file(place)
            try:
                if case.harness == "pi":
                    (one,) = real.pi(clients, [file])
                    return {"refused": True} if isinstance(one, real.ClientRefuses) else one
                return (real.claude if case.harness == "claude" else real.codex)(clients, file)
            except real.ClientRefuses as refusal:
                print(f"{case.name}: refused: {str(refusal)[:200]}", file=sys.stderr)
                return {"refused": True}

        found = dict(zip((case.name for case in chosen), pool.map(ask, chosen), strict=True))
    ORACLE.write_text(json.dumps(found, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
