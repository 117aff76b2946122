"""Figures of materialising a workspace: a 200 MB repository that is new to the target, against a shallow clone."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench.harness import paired, report

from hhd.base.box import Box
from hhd.store.store import Limits, Store
from hhd.workspace.capture import capture
from hhd.workspace.materialise import held, materialise

BOX = Box(bytes(32))
COMMAND = "python -m tests.bench workspace_materialise"
FILES, FILE_BYTES = 8000, 25_000
"""8,000 files of 25 KB: 200 MB in a tree of the usual kind."""
CHANGED = 10


def main() -> None:
    """Print both figures."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["HHD_DATA_HOME"] = str(place / "data")
        source = _repository(place / "source")
        with Store.open(place / "store", seed=bytes(32), limits=Limits(free_bytes_min=0)) as store:
            writer = store.capture_writer(store.commons(), None)
            made = capture(source, None, writer.put)
            with store.transaction():
                reader = store.capture_reader(store.commons(), writer.finish(made))
            _new(place, source, made, reader.piece)
            _in_place(place, source, store)


def _new(place: Path, source: Path, made: object, get: object) -> None:
    number = 0

    def ours() -> None:
        nonlocal number
        number += 1
        target = place / f"ours-{number}"
        with held(target, BOX) as hold:
            materialise(made, get, target, hold)  # type: ignore[arg-type]
        _away(place, target)

    def theirs() -> None:
        nonlocal number
        number += 1
        target = place / f"theirs-{number}"
        _git(place, "clone", "-q", "--depth", "1", f"file://{source}", str(target))
        _away(place, target)

    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    measured = paired(_counting(ours, spent["ours"]), _counting(theirs, spent["theirs"]), n=5)
    processor = {name: round(statistics.median(times), 2) for name, times in spent.items()}
    report(
        "materialise 200 MB new / git clone --depth 1",
        COMMAND,
        "warm",
        target="at most 2",
        processor_seconds=processor,
        processor_ratio=round(processor["ours"] / processor["theirs"], 2),
        **measured,
    )


def _counting(act: Callable[[], None], spent: list[float]) -> Callable[[], None]:
    """`act`, and the processor time that it and its children take: other load does not move it much."""

    def counted() -> None:
        before = os.times()
        act()
        spent.append(sum(os.times()[:4]) - sum(before[:4]))

    return counted


def _in_place(place: Path, source: Path, store: Store) -> None:
    """Ten changed files there and back in a checkout; the captures are not counted, they have figures of their own."""
    target = place / "checkout"
    _git(place, "clone", "-q", str(source), str(target))
    family, pieces = store.commons(), {}

    def put(raw: bytes) -> object:
        one = writer.put(raw)
        pieces[one] = raw
        return one

    writer = store.capture_writer(family, None)
    clean = capture(target, None, put)  # type: ignore[arg-type]
    for number in range(CHANGED):
        (source / f"d{number}" / "f0").write_bytes(b"changed\n" * 1250)
    dirty = capture(source, None, put)  # type: ignore[arg-type]

    def there() -> None:
        with held(target, BOX) as hold:
            materialise(dirty, pieces.__getitem__, target, hold, now=clean)

    def back() -> None:
        with held(target, BOX) as hold:
            materialise(clean, pieces.__getitem__, target, hold, now=dirty, last=dirty)

    measured = paired(there, back, n=9)
    report("ten changed files into a checkout of 8,000 / back", COMMAND, "warm", **measured)


def _away(place: Path, target: Path) -> None:
    """Out of the way in no time; what a removal costs is nobody's figure."""
    gone = place / "gone"
    gone.mkdir(exist_ok=True)
    target.rename(gone / target.name)
    if len(list(gone.iterdir())) > 4:
        shutil.rmtree(gone)


def _repository(source: Path) -> Path:
    dice = random.Random(1)
    words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(3, 9))) for _ in range(3000)]
    pool = " ".join(dice.choices(words, k=400_000)).encode()
    source.mkdir()
    _git(source, "init", "-q", "-b", "main")
    for number in range(FILES):
        folder = source / f"d{number % 200}"
        folder.mkdir(exist_ok=True)
        parts = (dice.randrange(len(pool) - 1000) for _ in range(FILE_BYTES // 1000))
        (folder / f"f{number // 200}").write_bytes(b"".join(pool[at : at + 1000] for at in parts))
    _git(source, "add", "-A")
    _git(source, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0", "commit", "-qm", "one")
    _git(source, "gc", "-q")  # As a repository that has been in use: a clone copies its deltas.
    return source


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
