"""The one place that constructs: rooms are made here and handed to the hallway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Each door imports what it opens on, and nothing else.
    from hhd.node.capsules import Report
    from hhd.node.face import Face
    from hhd.node.run import Ended
    from hhd.runtime.outcomes import StopFlag


def capsule_new(program: str, out: Path, *, args: Mapping[str, str], embed: bool, force: bool) -> Report:
    """Make a capsule of `program` at `out`."""
    from hhd.node import capsules

    return capsules.new(program, out, args=args, embed=embed, force=force)


def capsule_step(
    path: Path, *, milliseconds: float | None, checks: int | None, reply: bytes | None, module: Path | None
) -> Report:
    """Advance the capsule at `path` by one slice; SIGINT and SIGTERM end the slice early."""
    with stop_on_signals() as stop:
        from hhd.node import capsules

        return capsules.step(path, milliseconds=milliseconds, checks=checks, reply=reply, module=module, stop=stop)


def capsule_run(path: Path, *, module: Path | None) -> Report:
    """Advance the capsule at `path` until it ends or waits; SIGINT and SIGTERM pause it."""
    with stop_on_signals() as stop:
        from hhd.node import capsules

        return capsules.run(path, module=module, stop=stop)


def capsule_info(path: Path) -> Report:
    """Look at the capsule at `path`."""
    from hhd.node import capsules

    return capsules.info(path)


def capsule_transcript(path: Path) -> Iterator[bytes]:
    """The transcript of the capsule at `path`, in parts."""
    from hhd.node import capsules

    return capsules.transcript(path)


def capsule_fork(path: Path, target: Path) -> Report:
    """Copy the capsule at `path` to `target`, where there must be nothing."""
    from hhd.node import capsules

    return capsules.fork(path, target)


def run_new(prompt: str, out: Path | None, *, folder: Path, once: bool) -> Path:
    """Make a capsule of the agent with `prompt`, at `out` or in hhd's own folder, and return where it is."""
    from hhd.node import capsules, run

    path = out or run.new_path(prompt)
    args = {"prompt": prompt, **({"once": "true"} if once else {})}
    capsules.new("agent", path, args=args, embed=True, force=False, path_hint=str(folder.resolve()))
    return path


def run_on(
    path: Path,
    *,
    folder: Path,
    model: str | None,
    face: Face,
    module: Path | None = None,
    settle: tuple[str, str] | None = None,
) -> Ended:
    """Drive the capsule at `path` in `folder`: answer what it asks for, until it ends, waits or is interrupted.

    `settle`: what a person says of an effect that may have run (ran, did-not-run, again), and its output.
    """
    from hhd.node import run

    word = None if settle is None else run.Settle(how=settle[0], output=settle[1])
    with run.opened(path, folder=folder, model=model, face=face, module=module, settle=word) as one:
        return one.go()


def answer_one(path: Path, *, folder: Path, model: str | None, face: Face) -> Ended | None:
    """Answer the effect that the capsule at `path` waits for; None if it now has its reply, or waited for none."""
    from hhd.node import run

    with run.opened(path, folder=folder, model=model, face=face) as one:
        return one.answer()


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """A stop flag that SIGINT and SIGTERM set, while it lasts; for the main thread of a command."""
    import signal

    from hhd.runtime.outcomes import StopFlag

    stop = StopFlag()
    chosen = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.set()) for number in chosen]
    try:
        yield stop
    finally:
        for number, handler in zip(chosen, before, strict=True):
            signal.signal(number, handler)
