"""Kills hhd by SIGKILL around each of its saves, goes on afterwards, and says what came of it, as JSON.

A process of its own: it imports everything once and forks a child for each command line, which is cheap, and safe
because it never runs a guest itself. Arguments: a folder, a script, the number of the first and of the last save to be
killed at (0: all), and "sound" or "rash", the mutant that takes a begun tool for one that may be repeated.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import hhd.node.opening  # noqa: F401 (imported before the forks)
from hhd.base import files
from hhd.cli import _by_click, run
from hhd.effects import executor

UNCERTAIN = 5
SAVES_MAX = 200


def main() -> None:
    folder, model, first, last, kind = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    base = folder / "base.hhd"
    in_child(folder, lambda: run(["capsule", "new", "agent", "-o", str(base), "--arg", "prompt=go"]))
    whole = one(folder, base, model, None, kind)
    found = [whole]
    for number in range(first, (last or SAVES_MAX) + 1):
        cases = [one(folder, base, model, (number, when), kind) for when in ("before", "after")]
        found += [case for case in cases if case["killed"]]
        if not any(case["killed"] for case in cases):
            break
    print(json.dumps(found))


def one(folder: Path, base: Path, model: str, kill: tuple[int, str] | None, kind: str) -> dict[str, object]:
    """One session, killed at one point, gone on with until it waits for the person."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "repo").mkdir(parents=True)
    capsule = shutil.copy(base, work / "c.hhd")
    words = ["capsule", "run", str(capsule), "--model", model]

    def killed_run() -> int:
        if kill is not None:
            kill_at(*kill)
        return _by_click(words)

    repo, statuses = work / "repo", []
    statuses.append(in_child(repo, killed_run))
    runs_then = count(repo)
    if kill is not None:
        statuses.append(in_child(repo, lambda: rash_or_sound(words, kind)))
    if statuses[-1] == UNCERTAIN:
        heard = printed(repo, ["capsule", "transcript", str(capsule)]).count('"output":"one\\n"')
        word = ["--ran", "one\n"] if runs_then > heard else ["--did-not-run"]
        statuses.append(in_child(repo, lambda: _by_click([*words, *word])))
    return {
        "kill": kill,
        "killed": statuses[0] == -signal.SIGKILL,
        "statuses": statuses,
        "runs_at_kill": runs_then,
        "runs": count(repo),
        "transcript": printed(repo, ["capsule", "transcript", str(capsule)]),
    }


def rash_or_sound(words: list[str], kind: str) -> int:
    if kind == "rash":
        executor._is_open = lambda entry, kind: False  # type: ignore[assignment]
    return _by_click(words)


def kill_at(number: int, when: str) -> None:
    """Let this process be killed before or after its save of that number."""
    real, saves = files.replace, iter(range(1, 10_000))

    def replace(*given: object, **named: object) -> int:
        this = next(saves)
        if (this, when) == (number, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*given, **named)  # type: ignore[arg-type]
        if (this, when) == (number, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    files.replace = replace


def count(repo: Path) -> int:
    """How often the tool ran."""
    return len((repo / "runs").read_text().splitlines()) if (repo / "runs").exists() else 0


def printed(repo: Path, words: list[str]) -> str:
    out = repo.parent / "out"
    in_child(repo, lambda: run(words), out)
    return out.read_text()


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
