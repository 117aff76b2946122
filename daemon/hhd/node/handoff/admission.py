"""Whether a session can run on another device, asked before anything of it is stopped: what it needs, what is there."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hhd.base.config import Config, load
from hhd.base.errors import RefusedError, UserError
from hhd.base.paths import workspaces_folder
from hhd.base.release import RELEASE
from hhd.base.text import visible
from hhd.effects import shellwords
from hhd.effects.policy import Policy
from hhd.effects.sandbox import SandboxConfig, detect
from hhd.identity.key import Identity
from hhd.node import files_due, here
from hhd.node.moment import Moment
from hhd.node.refused import short
from hhd.store.captures import capture_ref
from hhd.store.checkpoints import refs_of
from hhd.store.errors import FullStoreError
from hhd.store.store import Store
from hhd_protocol import abi, images, steps, workspace_encoding
from hhd_protocol.handoff import Needs
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.journal import Entry
from hhd_protocol.limits import HANDOFF_NAMES_MAX, HANDOFF_TEXT_BYTES_MAX
from hhd_protocol.paused import At

SCRIPTED = "scripted:"
"""Models that are scripts of this device: a name that says nothing elsewhere."""


FORMATS = {
    "guest-abi": abi.ABI_VERSION,
    "steps": steps.VERSION,
    "image": images.VERSION,
    "workspace": workspace_encoding.VERSION,
}
"""What a session is kept in, and the newest version of each that is known here: older ones are read, too."""
_PROGRAM = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """It can run here: in the folder `where` ("": a new one of hhd's), and `notes` says what will be otherwise."""

    where: str
    notes: tuple[str, ...]


def needs_of(store: Store, session: SessionId, head: CheckpointId, model: str | None) -> Needs:
    """What `session`, which stands at `head`, wants of a device; `model`: the one chosen for it, None for the device's.

    Raises RefusedError for a session that is over: there is nothing to go on with.
    """
    moment = Moment(store, head)
    standing, checkpoint = moment.standing, moment.checkpoint
    if standing.at is At.FINISHED:
        name = short(session)
        raise RefusedError(f"Session {name} has finished, so nothing of it can go on elsewhere; hhd fork {name} does.")
    reader = store.reader_of(checkpoint)
    size = sum(store.objects.size(ref.name) for ref in reader.needs(refs_of(checkpoint)))
    noted = here.noted(store, session)
    tools, remotes, root = [], [], None
    ref = capture_ref(checkpoint.workspace)
    if ref is not None:
        repository = store.capture_reader(store.session(session).family, ref).capture().repository
        if repository is not None:
            tools.append("git")
            remotes = [visible(one.url.decode("utf-8", "replace"), one_line=True) for one in repository.remotes]
            root = next(iter(repository.roots), None)
    pending = _program_of(standing.journal.pending)
    tools += [name for name in ("bash", pending) if name and shutil.which(name) is not None and name not in tools]
    config = load()
    named = sorted(name for name in _named(config) - set(tools) if shutil.which(name) is not None)
    sandbox = detect(SandboxConfig.from_table(_table(config)))
    chosen = model or config.model.name
    return Needs(
        size_bytes=size,
        memory_bytes=standing.limits.memory_bytes,
        module=standing.module,
        tools=tuple(tools),
        model=None if chosen.startswith(SCRIPTED) else chosen[:HANDOFF_TEXT_BYTES_MAX],
        sandboxed=sandbox.program is not None,
        folder="" if noted is None or noted.folder is None else here.called(noted.folder)[:255],
        remotes=tuple(one[:1024] for one in remotes[:HANDOFF_NAMES_MAX]),
        root=root,
        formats=tuple(f"{name} {version}" for name, version in FORMATS.items()),
        named=tuple(named[:HANDOFF_NAMES_MAX]),
    )


def insist_on_files(store: Store, session: SessionId) -> None:
    """Raise RefusedError where the files of `session` could not go along as they are: elsewhere it would stand there
    without them, or with those of another moment.

    One that works in no folder here, in one that is gone, or where its files never appeared, has none to bring but
    those of its last capture.
    """
    from hhd.node.captures import insist_on_capturable

    noted = here.noted(store, session)
    if noted is None or noted.folder is None or not noted.folder.is_dir() or files_due.are_due(store, session):
        return
    try:
        insist_on_capturable(noted.folder)
    except RefusedError as error:
        shown, name = visible(str(noted.folder), one_line=True), short(session)
        raise RefusedError(
            f"Session {name} works in {shown}, and its files cannot go along: {error} It was not handed on. Mend that, "
            f"or have it work in another folder: hhd workspace map {name} DIR"
        ) from error


def _program_of(entry: Entry | None) -> str:
    """The program of the command that waits to be run, "" where none does, or it is not a plain one."""
    if entry is None or entry.op != "tool":
        return ""
    try:
        command = json.loads(entry.request).get("input", {}).get("command")
    except (ValueError, AttributeError):
        return ""
    found = shellwords.words(command) if isinstance(command, str) else None
    return found[0] if found and _PROGRAM.fullmatch(found[0]) else ""


def _named(config: Config) -> set[str]:
    """The programs that rules of the person name."""
    table = {key: value for key, value in config.policy.items() if key != "sandbox"}
    rules = Policy.from_table(table).rules
    return {rule.words[0] for rule in rules if rule.words and _PROGRAM.fullmatch(rule.words[0])}


def look(store: Store, me: Identity, session: SessionId, needs: Needs) -> Fit:
    """See whether a session with these `needs` can run here.

    Raises UserError, which says what to do about it: to a person at the source, for whom this device is "there".
    """
    _insist_on_formats(needs)
    noted = here.noted(store, session)
    folder = None if noted is None else noted.folder
    _insist_on_room(store, needs, folder)
    for tool in needs.tools:
        if shutil.which(tool) is None:
            raise RefusedError(f"It needs {visible(tool, one_line=True)}, which is not there; install it there.")
    config = load()
    notes = [*_of_model(config, needs), *_of_walls(config, needs), *_of_folder(folder)]
    if missing := [visible(name, one_line=True) for name in needs.named if shutil.which(name) is None]:
        notes.append(f"not there, though rules here name it: {', '.join(missing)}")
    return Fit(where="" if folder is None else str(folder), notes=tuple(notes))


def _insist_on_formats(needs: Needs) -> None:
    for one in needs.formats:
        name, _, version = one.partition(" ")
        known, wanted = FORMATS.get(name), int(version) if version.isascii() and version.isdecimal() else None
        if known is None or wanted is None or wanted > known:
            raise RefusedError(
                f"It is kept in a form ({visible(one, one_line=True)}) that hhd {RELEASE} there does not know; upgrade "
                "hhd there."
            )


def _insist_on_room(store: Store, needs: Needs, folder: Path | None) -> None:
    """Raise RefusedError unless the store and the disk of its files have room for all of it."""
    mib = -(-needs.size_bytes // 2**20)
    try:
        store.insist_on_room(needs.size_bytes)
    except FullStoreError as error:
        raise RefusedError(
            f"The store there has no room for it ({mib} MiB): free some of that disk, run hhd gc there, or raise "
            "store.bytes_max there."
        ) from error
    _insist_on_disk(store, needs.size_bytes, folder)


def insist_on_disk(store: Store, session: SessionId, size_bytes: int) -> None:
    """Raise RefusedError unless the disk on which the files of `session` are to appear here has room for so much."""
    noted = here.noted(store, session)
    _insist_on_disk(store, size_bytes, None if noted is None else noted.folder)


def _insist_on_disk(store: Store, size_bytes: int, folder: Path | None) -> None:
    where = folder or workspaces_folder()
    while not where.exists():
        where = where.parent
    if shutil.disk_usage(where).free < size_bytes + store.limits.free_bytes_min:
        mib = -(-size_bytes // 2**20)
        raise RefusedError(f"The disk of its files there has no room for it ({mib} MiB): free some of it.")


def _of_folder(folder: Path | None) -> list[str]:
    """What is to be said of the folder where it works here; raises RefusedError where nothing can be written there."""
    if folder is None:
        return []
    shown = visible(str(folder), one_line=True)
    if not folder.exists():
        return [f"the folder {shown} is gone; its files appear in it anew"]
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise RefusedError(
            f"It works in {shown} there, which is no folder that can be written; mend that, or give it another one "
            "there: hhd workspace map SESSION DIR"
        )
    return []


def _of_model(config: Config, needs: Needs) -> list[str]:
    ours = config.model.name
    if not ours.startswith(SCRIPTED):
        try:
            config.model.credential()
        except UserError as error:
            raise RefusedError(f"No model can be asked there: {error} Keys do not travel with a session.") from error
    if needs.model is not None and needs.model != ours:
        return [f"the model there is {visible(ours, one_line=True)}, not {visible(needs.model, one_line=True)}"]
    return []


def _of_walls(config: Config, needs: Needs) -> list[str]:
    sandbox = detect(SandboxConfig.from_table(_table(config)))
    if sandbox.program is not None:
        return []
    if sandbox.required:
        raise RefusedError(
            f"Its commands may only run behind walls there, and {sandbox.reason}; mend that, or let go of "
            'use = "require" under [policy.sandbox] there.'
        )
    if needs.sandboxed:
        return [f"its commands ran behind walls, and here {sandbox.reason}"]
    return []


def _table(config: Config) -> dict[str, object]:
    found = config.policy.get("sandbox", {})
    if not isinstance(found, dict):
        raise RefusedError("[policy.sandbox] must be a table.")
    return found
