"""Whether a session can run on another device, asked before anything of it is stopped: what it needs, what is there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from hhd.base.config import Config, load
from hhd.base.errors import RefusedError, UserError
from hhd.base.text import visible
from hhd.effects.sandbox import SandboxConfig, detect
from hhd.identity.key import Identity
from hhd.node import here
from hhd.node.moment import Moment
from hhd.node.refused import short
from hhd.store.captures import capture_ref
from hhd.store.checkpoints import refs_of
from hhd.store.store import Store
from hhd_protocol.handoff import Needs
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.limits import HANDOFF_NAMES_MAX, HANDOFF_TEXT_BYTES_MAX
from hhd_protocol.paused import At

SCRIPTED = "scripted:"
"""Models that are scripts of this device: a name that says nothing elsewhere."""


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
    config = load()
    sandbox = detect(SandboxConfig.from_table(_table(config)))
    chosen = model or config.model.name
    return Needs(
        size_bytes=size,
        memory_bytes=standing.limits.memory_bytes,
        module=standing.module,
        tools=tuple(tools),
        model=None if chosen.startswith(SCRIPTED) else chosen[:HANDOFF_TEXT_BYTES_MAX],
        sandboxed=sandbox.program is not None,
        folder="" if noted is None or noted.folder is None else noted.folder.name[:255],
        remotes=tuple(one[:1024] for one in remotes[:HANDOFF_NAMES_MAX]),
        root=root,
    )


def look(store: Store, me: Identity, session: SessionId, needs: Needs) -> Fit:
    """See whether a session with these `needs` can run here; raises UserError, which says what to do about it."""
    store.insist_on_room(needs.size_bytes)
    for tool in needs.tools:
        if shutil.which(tool) is None:
            raise RefusedError(f"It needs {visible(tool, one_line=True)}, which is not on this device; install it.")
    config = load()
    notes = [*_of_model(config, needs), *_of_walls(config, needs)]
    noted = here.noted(store, session)
    where = "" if noted is None or noted.folder is None else str(noted.folder)
    if where and noted is not None and noted.folder is not None and not noted.folder.is_dir():
        notes.append(f"the folder {visible(where, one_line=True)} is gone; its files appear in it anew")
    return Fit(where=where, notes=tuple(notes))


def _of_model(config: Config, needs: Needs) -> list[str]:
    ours = config.model.name
    if not ours.startswith(SCRIPTED):
        try:
            config.model.credential()
        except UserError as error:
            raise RefusedError(
                f"No model can be asked on this device: {error} Keys do not travel with a session."
            ) from error
    if needs.model is not None and needs.model != ours:
        return [f"the model there is {visible(ours, one_line=True)}, not {visible(needs.model, one_line=True)}"]
    return []


def _of_walls(config: Config, needs: Needs) -> list[str]:
    sandbox = detect(SandboxConfig.from_table(_table(config)))
    if sandbox.program is not None:
        return []
    if sandbox.required:
        raise RefusedError(f"Its commands may only run behind walls on this device, and {sandbox.reason}.")
    if needs.sandboxed:
        return [f"its commands ran behind walls, and here {sandbox.reason}"]
    return []


def _table(config: Config) -> dict[str, object]:
    found = config.policy.get("sandbox", {})
    if not isinstance(found, dict):
        raise RefusedError("[policy.sandbox] must be a table.")
    return found
