"""The sessions of Claude Code, Codex and Pi on this device: read, kept, converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.native.archive import Kept, Original
    from hhd.native.cards import Card
    from hhd.native.reading import Reading
    from hhd.node.native import Hit, Steps
    from hhd.node.native_convert import Converted
    from hhd_protocol.transcript import Header, Item


def listed(*, harness: str | None, cwd: Path | None, steps: Steps) -> list[Card]:
    """The sessions of Claude Code, Codex and Pi on this device, newest first."""
    from hhd.node import native
    from hhd_protocol.transcript import Harness

    return native.listed(harness=Harness(harness) if harness else None, cwd=cwd, steps=steps)


def file(name: str, *, steps: Steps) -> Path:
    """The session file that `name` means: a path, or an id or the begin of one."""
    from hhd.node import native

    return native.found(name, steps=steps)


def opened(path: Path, *, progress: Callable[[int], None]) -> Reading:
    """Open the native session in `path`; close it, or use it as a context."""
    from hhd.node import native

    return native.opened(path, progress=progress)


def shown(
    path: Path, *, turn: int | None, progress: Callable[[int], None]
) -> tuple[Header, Iterator[tuple[int, Item]]]:
    """The header of the session in `path`, and its items with their turns, from prompt number `turn` on."""
    from hhd.node import native

    if turn is not None and turn < 0:
        reading = native.last_turns(path, -turn)
    else:
        reading = native.opened(path, progress=progress)
    return reading.header, native.from_turn(reading, 0 if turn is None else turn)


def facts(header: Header) -> list[tuple[str, str]]:
    """The facts of a session's header in words."""
    from hhd.node import native

    return native.facts(header)


def spoken(item: Item) -> tuple[str, str]:
    """Who speaks in an item of a transcript, and its text."""
    from hhd.node import native

    return native.spoken(item)


def search(text: str, *, harness: str | None, cwd: Path | None, steps: Steps) -> Iterator[Hit]:
    """Where `text` stands in any native session."""
    from hhd.node import native
    from hhd_protocol.transcript import Harness

    return native.search(text, harness=Harness(harness) if harness else None, cwd=cwd, steps=steps)


def keep(path: Path) -> Kept:
    """Keep the originals of the session in `path` in the archive."""
    from hhd.node import native

    return native.keep(path)


def keep_all(*, steps: Steps) -> Iterator[tuple[Card, Kept | str]]:
    """Keep the originals of every native session."""
    from hhd.node import native

    return native.keep_all(steps)


def kept() -> Iterator[Original]:
    """The newest original of every session in the archive."""
    from hhd.node import native

    return native.kept()


def restore(name: str, folder: Path) -> list[Path]:
    """Write the newest original of the session `name` below `folder`."""
    from hhd.node import native

    return native.restore(name, folder)


def check() -> list[str]:
    """Read the whole archive; the damages found."""
    from hhd.node import native

    return native.check()


def convert(
    path: Path,
    *,
    target: str,
    cwd: Path | None,
    out: Path | None,
    install: bool,
    strict: tuple[str, ...],
    redact: bool,
    anew: bool,
    manifest: Path | None,
) -> Converted:
    """Convert the native session in `path`; raises UsageError for a kind of loss that does not exist."""
    from hhd.base.errors import UsageError
    from hhd.node import native_convert as door
    from hhd_protocol.transcript import Harness, LossKind

    known = {kind.value: kind for kind in LossKind}
    for name in strict:
        if name not in known:
            raise UsageError(f"--strict knows no kind {name}; there are: {', '.join(sorted(known))}.")
    return door.convert(
        path,
        target=Harness(target),
        cwd=cwd,
        out=out,
        install=install,
        strict=tuple(known[name] for name in strict),
        redact=redact,
        anew=anew,
        manifest=manifest,
    )


def conversion_summary(done: Converted) -> dict[str, object]:
    """A conversion as one JSON object."""
    from hhd.node import native_convert as door

    return door.summary(done.manifest)


def verify(path: Path, *, with_client: bool) -> dict[str, object]:
    """What a reading of the native session in `path` finds, by name."""
    from hhd.node import native_convert as door

    return door.verify(path, with_client=with_client)


def resume(path: Path, *, target: str, run: bool) -> tuple[list[str], Path]:
    """The command to go on with the native session in `path`, and where to run it.

    `run`: it will be run, so that nothing is converted for a client that is not installed (RefusedError).
    """
    from hhd.node import native_convert as door
    from hhd_protocol.transcript import Harness

    if run:
        door.insist_on_client(Harness(target))
    return door.resume_command(path, target=Harness(target))


def run_client(target: str, command: list[str], cwd: Path) -> None:
    """Become the client."""
    from hhd.node import native_convert as door
    from hhd_protocol.transcript import Harness

    door.run_client(Harness(target), command, cwd)
