"""A session driven in the foreground: of the store, or of a capsule file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import signals

if TYPE_CHECKING:
    from hhd.node.ended import Ended
    from hhd.node.face import Face
    from hhd.node.workbench import Workbench
    from hhd.runtime.outcomes import StopFlag


def begin_capsule(prompt: str, out: Path, *, folder: Path, once: bool) -> None:
    """Make a capsule of the agent with `prompt` at `out`."""
    from hhd.node import start

    start.start(prompt, out, folder=folder, once=once)


@contextmanager
def workbench() -> Iterator[Workbench]:
    """The sessions of this device's store, to be worked at in the foreground."""
    from hhd.node import workbench as door

    with door.opened() as bench:
        yield bench


def go_on_with_capsule(
    path: Path,
    *,
    folder: Path,
    model: str | None,
    face: Face,
    stop: StopFlag,
    module: Path | None = None,
    settle: tuple[str, str] | None = None,
) -> Ended:
    """Drive the capsule at `path` in `folder`: answer what it asks for, until it ends, waits or is interrupted.

    `stop`: set while it is being opened, it pauses it too.
    `settle`: what a person says of an effect that may have run (ran, did-not-run, again), and its output.
    """
    from hhd.node import ended, opening

    word = None if settle is None else ended.Settle(how=settle[0], output=settle[1])
    with opening.opened(path, folder=folder, model=model, face=face, stop=stop, module=module, settle=word) as one:
        return one.go()


def answer_one(path: Path, *, folder: Path, model: str | None, face: Face) -> Ended | None:
    """Answer the effect that the capsule at `path` waits for; None if it now has its reply, or waited for none."""
    with signals.stop_on_signals() as stop:
        from hhd.node import opening

        with opening.opened(path, folder=folder, model=model, face=face, stop=stop) as one:
            return one.answer()
