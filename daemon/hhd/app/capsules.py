"""A capsule file: made, looked at, advanced by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import signals

if TYPE_CHECKING:
    from hhd.node.capsules import Report
    from hhd.node.sealed_file import SealedReport
    from hhd.runtime.outcomes import StopFlag


def new(program: str, out: Path, *, args: Mapping[str, str], embed: bool, force: bool) -> Report:
    """Make a capsule of `program` at `out`."""
    from hhd.node import capsules

    return capsules.new(program, out, args=args, embed=embed, force=force)


def step(
    path: Path, *, milliseconds: float | None, checks: int | None, reply: bytes | None, module: Path | None
) -> Report:
    """Advance the capsule at `path` by one slice; Ctrl-C ends the slice early."""
    with signals.stop_on_signals() as stop:
        from hhd.node import capsules

        return capsules.step(path, milliseconds=milliseconds, checks=checks, reply=reply, module=module, stop=stop)


def run(path: Path, *, module: Path | None, stop: StopFlag) -> Report:
    """Advance the capsule at `path` until it ends or waits; `stop` pauses it."""
    from hhd.node import capsules

    return capsules.run(path, module=module, stop=stop)


def info(path: Path) -> Report:
    """Look at the capsule at `path`."""
    from hhd.node import capsules

    return capsules.info(path)


def seal(path: Path) -> SealedReport | None:
    """What the capsule at `path` says of its seal; None if it has none."""
    from hhd.node import capsule_file

    if not capsule_file.is_sealed(path):
        return None
    from hhd.node import sealed_file

    return sealed_file.report(capsule_file.read_bytes(path), path)


def transcript(path: Path) -> Iterator[bytes]:
    """The transcript of the capsule at `path`, in parts."""
    from hhd.node import capsules

    return capsules.transcript(path)


def fork(path: Path, target: Path) -> Report:
    """Copy the capsule at `path` to `target`, where there must be nothing."""
    from hhd.node import capsules

    return capsules.fork(path, target)
