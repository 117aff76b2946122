"""The one place that constructs: rooms are made here and handed to the hallway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Each door imports what it opens on, and nothing else.
    from hhd.node.capsules import Report
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
