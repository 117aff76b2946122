"""Writes `oracle.json` anew from the real clients: `python -m tests.clients.record`, then look at the difference."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.clients import real
from tests.clients.install import installed
from tests.native.cases import ORACLE, cases


def main() -> None:
    """Ask every client about every case."""
    clients = installed()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            assert case.name not in found
            place = Path(folder) / str(len(found))
            place.mkdir()
            file = case.file(place)
            try:
                if case.harness == "pi":
                    (one,) = real.pi(clients, [file])
                    if isinstance(one, real.ClientRefuses):
                        raise one
                    found[case.name] = one
                else:
                    found[case.name] = (real.claude if case.harness == "claude" else real.codex)(clients, file)
            except real.ClientRefuses as refusal:
                print(f"{case.name}: refused: {str(refusal)[:200]}", file=sys.stderr)
                found[case.name] = {"refused": True}
    ORACLE.write_text(json.dumps(found, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
