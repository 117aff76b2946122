"""`hhd diff` of two heads of 5,000 turns each, a whole process, and the same without what the store costs."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.harness import paired, process, report

TURNS = 5_000
N = 7


def transcript_of(n: int) -> tuple[bytes, bytes]:
    """What one turn says: the model's words and its call, then the result; 700 bytes, as turns of sessions have."""
    from tests.node.lines import event

    words = f"Turn {n}: I look at what the parser does with an empty line and compare it with the grammar. " * 2
    asked = event("turn", n=n) + event("text", text=words)
    asked += event(
        "call", id=f"call_{n}", name="edit", input={"path": f"src/part{n % 40}.py", "old": "a", "new": f"b{n}"}
    )
    return asked, event("result", id=f"call_{n}", output="Replaced one place.\n" * 8, is_error=False, ran=True)


def made(folder: Path, turns: int) -> str:
    """A store in `folder` with a session of two heads, so many turns each; its id."""
    from tests.node.lines import apart

    from hhd.node import store as door

    for kind in ("CONFIG", "DATA", "CACHE"):
        os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
    with door.opened() as store, store.transaction():
        sides = [[part for n in range(2, turns + 2) for part in transcript_of(2 * n + side)] for side in (0, 1)]
        return apart(store, sides[0], sides[1], by=None).made.id.hex()


def spending(act: Callable[[], object], into: list[float]) -> Callable[[], object]:
    """The same, noting how many milliseconds of processor its process takes: what a busy machine hardly changes."""

    def spent() -> object:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        act()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        into.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
        return None

    return spent


def main() -> None:
    """Report the figure, with heads named and not, beside an interpreter that imports click."""
    hhd = (sys.executable, "-m", "hhd")
    bare = process(sys.executable, "-c", "import click")
    with tempfile.TemporaryDirectory() as folder:
        session = made(Path(folder), TURNS)
        heads = _heads(session)
        cases: dict[str, tuple[str, ...]] = {
            "hhd diff S HEAD HEAD": (*hhd, "diff", session, *heads),
            "hhd diff S HEAD HEAD --json": (*hhd, "diff", session, *heads, "--json"),
            "hhd diff S": (*hhd, "diff", session),
        }
        for command, words in cases.items():
            processor: list[float] = []
            measured: dict[str, Any] = paired(spending(process(*words), processor), bare, n=N)
            measured["processor_ms"] = round(statistics.median(processor), 1)
            report(
                f"two heads of {TURNS} turns",
                command,
                "warm",
                target_ms=500,
                other="python -c 'import click'",
                **measured,
            )


def _heads(session: str) -> list[str]:
    from hhd.node import store as door
    from hhd_protocol.ids import SessionId, StatementId

    with door.opened() as store:
        return [one.hex() for one in store.heads(SessionId(StatementId(bytes.fromhex(session))))]


if __name__ == "__main__":
    main()
