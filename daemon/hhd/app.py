"""The one place that constructs: rooms are made here and handed to the hallway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Each door imports what it opens on, and nothing else.
    from hhd.control.client import Connection
    from hhd.native.archive import Kept, Original
    from hhd.native.cards import Card
    from hhd.native.reading import Reading
    from hhd.node.answers.made import Exported, Forked
    from hhd.node.answers.status import Status
    from hhd.node.capsules import Report
    from hhd.node.control import ControlService
    from hhd.node.ended import Ended
    from hhd.node.face import Face
    from hhd.node.listed import Overview
    from hhd.node.native import Hit, Steps
    from hhd.node.native_convert import Converted
    from hhd.node.remote import Remote
    from hhd.node.rules import Judged, Rules
    from hhd.node.sealed_file import SealedReport
    from hhd.node.store import StoreUsage
    from hhd.node.workbench import Workbench
    from hhd.node.workspaces import Workspaces
    from hhd.runtime.outcomes import StopFlag
    from hhd.store.check import Report as StoreReport
    from hhd.store.repair import Repaired
    from hhd.store.retention import Swept
    from hhd_protocol.transcript import Header, Item


def capsule_new(program: str, out: Path, *, args: Mapping[str, str], embed: bool, force: bool) -> Report:
    """Make a capsule of `program` at `out`."""
    from hhd.node import capsules

    return capsules.new(program, out, args=args, embed=embed, force=force)


def capsule_step(
    path: Path, *, milliseconds: float | None, checks: int | None, reply: bytes | None, module: Path | None
) -> Report:
    """Advance the capsule at `path` by one slice; Ctrl-C ends the slice early."""
    with stop_on_signals() as stop:
        from hhd.node import capsules

        return capsules.step(path, milliseconds=milliseconds, checks=checks, reply=reply, module=module, stop=stop)


def capsule_run(path: Path, *, module: Path | None, stop: StopFlag) -> Report:
    """Advance the capsule at `path` until it ends or waits; `stop` pauses it."""
    from hhd.node import capsules

    return capsules.run(path, module=module, stop=stop)


def capsule_info(path: Path) -> Report:
    """Look at the capsule at `path`."""
    from hhd.node import capsules

    return capsules.info(path)


def capsule_seal(path: Path) -> SealedReport | None:
    """What the capsule at `path` says of its seal; None if it has none."""
    from hhd.node import capsule_file

    if not capsule_file.is_sealed(path):
        return None
    from hhd.node import sealed_file

    return sealed_file.report(capsule_file.read_bytes(path), path)


def capsule_transcript(path: Path) -> Iterator[bytes]:
    """The transcript of the capsule at `path`, in parts."""
    from hhd.node import capsules

    return capsules.transcript(path)


def capsule_fork(path: Path, target: Path) -> Report:
    """Copy the capsule at `path` to `target`, where there must be nothing."""
    from hhd.node import capsules

    return capsules.fork(path, target)


def run_new(prompt: str, out: Path, *, folder: Path, once: bool) -> None:
    """Make a capsule of the agent with `prompt` at `out`."""
    from hhd.node import start

    start.start(prompt, out, folder=folder, once=once)


@contextmanager
def workbench() -> Iterator[Workbench]:
    """The sessions of this device's store, to be worked at in the foreground."""
    from hhd.node import workbench as door

    with door.opened() as bench:
        yield bench


def run_on(
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
    with stop_on_signals() as stop:
        from hhd.node import opening

        with opening.opened(path, folder=folder, model=model, face=face, stop=stop) as one:
            return one.answer()


@contextmanager
def control() -> Iterator[ControlService | Remote]:
    """The verbs on the sessions of this device, asked of the daemon if one runs, else done in this process."""
    link = daemon_link()
    if link is None:
        with _control_here() as verbs:
            yield verbs
        return
    from hhd.node.remote import Remote

    with link:
        yield Remote(link, _control_here)


def daemon_link() -> Connection | None:
    """A connection to the daemon; None where none runs. It imports no asyncio, which takes as long as click."""
    from hhd.base.paths import data_folder
    from hhd.control import address

    path = address.said(data_folder())
    if path is None:
        return None
    from hhd.base.release import RELEASE
    from hhd.control import client

    return client.connect(path, hhd=RELEASE)


def daemon_run(ready: Callable[[], None]) -> None:
    """Be the daemon until it is told to end; `ready` is called once it listens."""
    from hhd.node import daemon, overview

    daemon.run(
        opened=_control_here,
        overview=lambda query, with_archived: overview.overview(query, with_archived=with_archived),
        ready=ready,
    )


def daemon_up() -> tuple[Status, bool]:
    """Start the daemon unless one runs; what it says of itself, and whether it was started now."""
    from hhd.node import starting

    return starting.up(daemon_link)


def detach() -> None:
    """Let go of the terminal that a daemon was started from."""
    from hhd.node import starting

    starting.detached()


def daemon_down() -> bool:
    """End the daemon, and wait until it has ended; False where none runs."""
    from hhd.node import starting

    return starting.down(daemon_link)


def daemon_status() -> Status | None:
    """What the daemon says of itself; None where none runs."""
    from hhd.node import starting

    return starting.status(daemon_link)


@contextmanager
def _control_here() -> Iterator[ControlService]:
    """The verbs, in this process."""
    from hhd.node import store
    from hhd.node.control import ControlService

    me = store.identity()
    with store.opened(me) as opened:
        yield ControlService(store=opened, me=me)


def session_export(
    name: str,
    path: Path,
    *,
    head: str | None,
    to: str | None,
    passphrase_fd: int | None,
    embed: bool,
    force: bool,
) -> tuple[Exported, int]:
    """Write a session to the capsule file `path`; what it is, and how many bytes it has."""
    from hhd.node import capsule_file, sealed_file

    capsule_file.insist_on_new(path, force=force)
    words = None if passphrase_fd is None else sealed_file.passphrase_from(passphrase_fd)
    with control() as verbs:
        made = verbs.export(name, head=head, to=to, passphrase=words, embed=embed)
        return made, capsule_file.write_parts(path, list(made.parts), own=not made.sealed, force=force)


def session_import(path: Path, *, passphrase_fd: int | None, module: Path | None) -> Forked:
    """Make a session of the capsule file `path`."""
    from hhd.node import capsule_file, programs, sealed_file

    raw = capsule_file.read_bytes(path)
    wasm = None if module is None else programs.read_wasm(module)
    words = None if passphrase_fd is None else sealed_file.passphrase_from(passphrase_fd)
    with control() as verbs:
        return verbs.import_capsule(raw, path, passphrase=words, module=wasm)


@contextmanager
def workspaces() -> Iterator[Workspaces]:
    """The verbs on working folders; what a crash had left in one is ended first."""
    from hhd.node import workspaces

    with workspaces.opened() as verbs:
        yield verbs


def policy_in_force() -> Rules:
    """What a session may do on this device."""
    from hhd.node import rules

    return rules.in_force()


def policy_judge(tool: str, what: str, *, folder: Path) -> Judged:
    """What would become of one call of a tool."""
    from hhd.node import rules

    return rules.judge(tool, what, folder)


def native_sessions(*, harness: str | None, cwd: Path | None, steps: Steps) -> list[Card]:
    """The sessions of Claude Code, Codex and Pi on this device, newest first."""
    from hhd.node import native
    from hhd_protocol.transcript import Harness

    return native.listed(harness=Harness(harness) if harness else None, cwd=cwd, steps=steps)


def native_file(name: str, *, steps: Steps) -> Path:
    """The session file that `name` means: a path, or an id or the begin of one."""
    from hhd.node import native

    return native.found(name, steps=steps)


def native_open(path: Path, *, progress: Callable[[int], None]) -> Reading:
    """Open the native session in `path`; close it, or use it as a context."""
    from hhd.node import native

    return native.opened(path, progress=progress)


def native_show(
    path: Path, *, turn: int | None, progress: Callable[[int], None]
) -> tuple[Header, Iterator[tuple[int, Item]]]:
    """The header of the session in `path`, and its items with their turns, from prompt number `turn` on."""
    from hhd.node import native

    if turn is not None and turn < 0:
        reading = native.last_turns(path, -turn)
    else:
        reading = native.opened(path, progress=progress)
    return reading.header, native.from_turn(reading, 0 if turn is None else turn)


def native_facts(header: Header) -> list[tuple[str, str]]:
    """The facts of a session's header in words."""
    from hhd.node import native

    return native.facts(header)


def native_spoken(item: Item) -> tuple[str, str]:
    """Who speaks in an item of a transcript, and its text."""
    from hhd.node import native

    return native.spoken(item)


def native_search(text: str, *, harness: str | None, cwd: Path | None, steps: Steps) -> Iterator[Hit]:
    """Where `text` stands in any native session."""
    from hhd.node import native
    from hhd_protocol.transcript import Harness

    return native.search(text, harness=Harness(harness) if harness else None, cwd=cwd, steps=steps)


def native_keep(path: Path) -> Kept:
    """Keep the originals of the session in `path` in the archive."""
    from hhd.node import native

    return native.keep(path)


def native_keep_all(*, steps: Steps) -> Iterator[tuple[Card, Kept | str]]:
    """Keep the originals of every native session."""
    from hhd.node import native

    return native.keep_all(steps)


def native_kept() -> Iterator[Original]:
    """The newest original of every session in the archive."""
    from hhd.node import native

    return native.kept()


def native_restore(name: str, folder: Path) -> list[Path]:
    """Write the newest original of the session `name` below `folder`."""
    from hhd.node import native

    return native.restore(name, folder)


def native_check() -> list[str]:
    """Read the whole archive; the damages found."""
    from hhd.node import native

    return native.check()


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """A stop flag that Ctrl-C, and being told to end, set while it lasts; for the main thread of a command."""
    from hhd.effects.interrupts import Interrupts
    from hhd.runtime.outcomes import StopFlag

    stop = StopFlag()
    with Interrupts(stop.set).caught():
        yield stop


def native_convert(
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


def native_convert_summary(done: Converted) -> dict[str, object]:
    """A conversion as one JSON object."""
    from hhd.node import native_convert as door

    return door.summary(done.manifest)


def native_verify(path: Path, *, with_client: bool) -> dict[str, object]:
    """What a reading of the native session in `path` finds, by name."""
    from hhd.node import native_convert as door

    return door.verify(path, with_client=with_client)


def native_resume(path: Path, *, target: str, run: bool) -> tuple[list[str], Path]:
    """The command to go on with the native session in `path`, and where to run it.

    `run`: it will be run, so that nothing is converted for a client that is not installed (RefusedError).
    """
    from hhd.node import native_convert as door
    from hhd_protocol.transcript import Harness

    if run:
        door.insist_on_client(Harness(target))
    return door.resume_command(path, target=Harness(target))


def native_run_client(target: str, command: list[str], cwd: Path) -> None:
    """Become the client."""
    from hhd.node import native_convert as door
    from hhd_protocol.transcript import Harness

    door.run_client(Harness(target), command, cwd)


def store_check(*, read_data: bool) -> StoreReport:
    """Read the whole store and say what is damaged."""
    from hhd.node import store

    return store.check(read_data=read_data)


def store_repair() -> Repaired:
    """Mend the store; raises BusyError while another process has it open."""
    from hhd.node import store

    return store.repaired()


def store_gc(*, dry_run: bool) -> tuple[Swept, int]:
    """Thin old checkpoints and free what nothing needs; what was done, and by how many bytes the file shrank."""
    from hhd.node import store

    return store.collect(dry_run=dry_run)


def store_usage() -> StoreUsage:
    """What uses how much of the store."""
    from hhd.node import store

    return store.usage()


def store_paths() -> dict[str, Path]:
    """Where hhd keeps things on this device."""
    from hhd.node import store

    return store.paths()


def sessions(query: str, *, with_archived: bool) -> Overview:
    """The sessions of this device that `query` means, newest first."""
    link = daemon_link()
    if link is not None:
        from hhd.node import listed

        with link:
            return listed.asked(link, query, with_archived=with_archived)
    from hhd.node import overview

    return overview.overview(query, with_archived=with_archived)
