"""Kills hhd by SIGKILL around each of its saves, goes on afterwards, and says what came of it, as JSON.

A process of its own: it imports everything once and forks a child for each command line, which is cheap, and safe
because it never runs a guest, nor opens a store, itself. Arguments: a folder, a script, the number of the first and of
the last save to be killed at (0: all), "sound" or "rash", the mutant that takes a begun tool for one that may be
repeated (it ends where a tool ran twice), and where the session is kept: "file" or "store".
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hhd.node.opening
import hhd.node.workbench
from hhd.base import files
from hhd.cli import _by_click, run
from hhd.effects import executor
from hhd.store.database import Database

UNCERTAIN = 5
SAVES_MAX = 200

Kill = tuple[int, str]


def main() -> None:
    folder, model, first, last, kind, kept = sys.argv[1:]
    place: InFile | InStore = (InFile if kept == "file" else InStore)(folder=Path(folder), model=model)
    found = [one(place, None, kind)]
    for number in range(int(first), (int(last) or SAVES_MAX) + 1):
        cases = [one(place, (number, when), kind) for when in ("before", "after")]
        found += [case for case in cases if case["killed"]]
        if not any(case["killed"] for case in cases) or (kind == "rash" and any(_twice(case) for case in cases)):
            break
    print(json.dumps(found))


def _twice(case: dict[str, object]) -> bool:
    return isinstance(runs := case["runs"], int) and runs > 1


def one(place: InFile | InStore, kill: Kill | None, kind: str) -> dict[str, object]:
    """One session, killed at one point, gone on with until it waits for the person."""
    repo = place.fresh()

    def killed_run() -> int:
        if kill is not None:
            place.kill_at(*kill)
        return _by_click(place.begin())

    statuses = [in_child(repo, killed_run)]
    runs_then = count(repo)
    if kill is not None:
        statuses.append(in_child(repo, lambda: rash_or_sound(place.on() or place.begin(), kind)))
    if statuses[-1] == UNCERTAIN:
        heard = place.transcript().count('"output":"one\\n"')
        word = ["--ran", "one\n"] if runs_then > heard else ["--did-not-run"]
        statuses.append(in_child(repo, lambda: _by_click([*(place.on() or []), *word])))
    return {
        "kill": kill,
        "killed": statuses[0] == -signal.SIGKILL,
        "statuses": statuses,
        "runs_at_kill": runs_then,
        "runs": count(repo),
        "transcript": place.transcript(),
        "left": place.left(),
    }


@dataclass
class Place:
    folder: Path
    model: str

    def __post_init__(self) -> None:
        self.work = self.folder / "work"
        self.repo = self.work / "repo"

    def fresh(self) -> Path:
        shutil.rmtree(self.work, ignore_errors=True)
        self.repo.mkdir(parents=True)
        return self.repo

    def printed(self, act: Callable[[], int]) -> str:
        out = self.work / "out"
        in_child(self.repo, act, out)
        return out.read_text()


@dataclass
class InFile(Place):
    """A session in a capsule."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._base, self._capsule = self.folder / "base.hhd", self.work / "c.hhd"
        words = ["capsule", "new", "agent", "-o", str(self._base), "--arg", "prompt=go"]
        in_child(self.folder, lambda: run(words))

    def fresh(self) -> Path:
        super().fresh()
        shutil.copy(self._base, self._capsule)
        return self.repo

    def begin(self) -> list[str]:
        return ["capsule", "run", str(self._capsule), "--model", self.model]

    on = begin

    def transcript(self) -> str:
        return self.printed(lambda: run(["capsule", "transcript", str(self._capsule)]))

    def left(self) -> list[str]:
        """What lies beside the capsule that should not."""
        return [path.name for path in self.work.iterdir() if path.name not in ("repo", "out", "c.hhd")]

    def kill_at(self, number: int, when: str) -> None:
        """Let this process be killed before or after its save of that number."""
        real, saves = files.replace, iter(range(1, 10_000))

        def replace(*given: object, **named: object) -> int:
            this = next(saves)
            die(this, "before", number, when)
            done = real(*given, **named)  # type: ignore[arg-type]
            die(this, "after", number, when)
            return done

        files.replace = replace


@dataclass
class InStore(Place):
    """A session in the store of a device, which has a key and an empty store before it."""

    _found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._data = Path(os.environ["HHD_DATA_HOME"])
        self._base = self.folder / "base"
        in_child(self.folder, lambda: run(["du"]))
        shutil.copytree(self._data, self._base)

    def fresh(self) -> Path:
        shutil.rmtree(self._data)
        shutil.copytree(self._base, self._data)
        return super().fresh()

    def begin(self) -> list[str]:
        return ["run", "go", "--model", self.model]

    def on(self) -> list[str] | None:
        """How to go on; None where the kill came before there was a session."""
        ids = self.sessions()
        assert len(ids) <= 1
        return ["resume", ids[0], "--model", self.model] if ids else None

    def sessions(self) -> list[str]:
        def told() -> int:
            with hhd.node.workbench.opened() as bench:
                print("\n".join(one.hex() for one in bench.store.sessions()))
            return 0

        return self.printed(told).split()

    def transcript(self) -> str:
        def told() -> int:
            with hhd.node.workbench.opened() as bench:
                for session in bench.store.sessions():
                    (head,) = bench.store.heads(session)
                    sys.stdout.write(b"".join(hhd.node.workbench.Moment(bench.store, head).transcript()).decode())
            return 0

        return self.printed(told)

    def left(self) -> list[str]:
        """What the store finds wrong with itself."""
        said = self.printed(lambda: run(["check", "--read-data", "--json"]))
        return [str(finding) for finding in json.loads(said)["findings"]] if said else ["no answer"]

    def kill_at(self, number: int, when: str) -> None:
        """Let this process be killed just before or just after the commit of that number."""
        real, commits = Database.transaction, iter(range(1, 10_000))

        @contextlib.contextmanager
        def transaction(self: Database) -> Iterator[None]:
            if self._depth:
                with real(self):
                    yield
                return
            this = next(commits)
            with real(self):
                yield
                die(this, "before", number, when)
            die(this, "after", number, when)

        Database.transaction = transaction  # type: ignore[method-assign]


def die(this: int, then: str, number: int, when: str) -> None:
    if (this, then) == (number, when):
        os.kill(os.getpid(), signal.SIGKILL)


def rash_or_sound(words: list[str], kind: str) -> int:
    if kind == "rash":
        executor._is_open = lambda entry, kind: False  # type: ignore[assignment]
    return _by_click(words)


def count(repo: Path) -> int:
    """How often the tool ran."""
    return len((repo / "runs").read_text().splitlines()) if (repo / "runs").exists() else 0


def in_child(folder: Path, act: Callable[[], int], out: Path | None = None) -> int:
    """Do `act` in a forked process with that current folder; return its exit status, or minus the signal."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 99
        try:
            os.chdir(folder)
            to = os.open(out or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(to, 1)
            status = act()
            sys.stdout.flush()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
