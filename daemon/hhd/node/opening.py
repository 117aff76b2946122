"""Opens a session to be driven here: with its keeper, in one folder, under this device's configuration."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hhd.base.config import load
from hhd.base.errors import RefusedError
from hhd.effects.confine import Workspace
from hhd.effects.executor import HowSettled, Settlement
from hhd.effects.model import warm
from hhd.effects.sandbox import SandboxConfig, detect
from hhd.identity.key import Identity
from hhd.node import files_due, programs, sessions, unfinished
from hhd.node import here as notes
from hhd.node.capsule_session import CapsuleSession
from hhd.node.captures import Captures
from hhd.node.driver import Driver
from hhd.node.ended import Settle
from hhd.node.face import Face
from hhd.node.naming import ID_SHOWN
from hhd.node.run import Here, Run
from hhd.node.stored_session import StoredSession
from hhd.node.words import Words, reply_of
from hhd.runtime.outcomes import StopFlag
from hhd.store.store import Store
from hhd_protocol.bodies import ReleaseBody
from hhd_protocol.ids import SessionId
from hhd_protocol.journal import Entry


@contextlib.contextmanager
def opened(
    path: Path,
    *,
    folder: Path,
    model: str | None,
    face: Face,
    stop: StopFlag,
    module: Path | None = None,
    settle: Settle | None = None,
) -> Iterator[Run]:
    """The capsule at `path`, held and ready to be driven in `folder`, with this device's configuration.

    `settle` is the person's word on an effect that was begun and not heard of again. Raises UserError where the session
    cannot be driven.
    """
    here = here_with(model)
    wasm = None if module is None else programs.read_wasm(module)
    with _at_work(folder, face) as workspace, CapsuleSession(path, module=wasm) as session:
        yield driven(session, here, workspace, face, stop, settle)


@contextlib.contextmanager
def stored(
    store: Store,
    me: Identity,
    session: SessionId,
    *,
    folder: Path | None,
    model: str | None,
    face: Face,
    stop: StopFlag,
    settle: Settle | None = None,
    environ: Mapping[str, str] | None = None,
    here: Here | None = None,
) -> Iterator[Run]:
    """The session `session` of the store, held and ready to be driven, as `opened` has a capsule.

    `folder`: None for the one where it last was at work on this device. `environ`: what its commands get a part of,
    None: of this process's. `here`: what this device brings, found before. Raises UserError where it cannot be driven.
    """
    here = here or here_with(model, environ)
    if folder is None:
        for line in (*_handed_here(store, me, session), *_files_here(store, me, session)):
            face.notice(line)
    where = folder or _folder(store, session)
    with _at_work(where, face) as workspace, StoredSession(store, me, session) as one:
        keeper = one.keeper
        if folder is not None:  # Somebody said where it goes on; else its files appeared.
            with store.transaction():
                notes.goes_on_in(store, session, workspace.folder)
                files_due.forget(store, session)
        elif files_due.are_due(store, session):  # From here on nobody else can have it.
            name = session.hex()[:ID_SHOWN]
            raise RefusedError(
                f"Session {name} came just now, and its files appear first. Try again: hhd resume {name}"
            )
        keeper.stop = stop
        keeper.owner.folder = workspace.folder
        keeper.captures = Captures(store, session, workspace.folder, last=keeper.workspace, say=face.notice)
        run = driven(one, here, workspace, face, stop, settle)
        words, pending = Words(store=store, session=session), one.standing.journal.pending
        if run.settlement is None and pending is not None:
            run.settlement = words.settlement(pending)
        run.said_before = words.answers(lambda: one.standing.journal.pending)
        yield run


@contextlib.contextmanager
def _at_work(folder: Path, face: Face) -> Iterator[Workspace]:
    """`folder`, to be worked in: what a crash had left half-changed there is whole before it is opened."""
    for line in unfinished.ended(folder):
        face.notice(line)
    with Workspace(folder) as workspace:
        yield workspace


def _handed_here(store: Store, me: Identity, session: SessionId) -> tuple[str, ...]:
    """Take a session that a file hands to this device, and whose records came without the file; what to say of it."""
    view = sessions.view(store, me, session)
    signed = None if view.token is None or view.owner != me.id else store.statements.get(session, view.token.id)
    if signed is None or not isinstance(signed.body, ReleaseBody):
        return ()
    from hhd.node import release_file  # With all of handoffs: most sessions were begun here.

    return release_file.take_unread(store, me, signed)


def _files_here(store: Store, me: Identity, session: SessionId) -> tuple[str, ...]:
    """Have the files of a session appear that came to this device without them; what to say of them."""
    if not files_due.are_due(store, session):
        return ()
    from hhd.node import bringing  # With all of workspace: most sessions were begun here.

    return (*unfinished.ended(), *bringing.due(store, me, session))


def _folder(store: Store, session: SessionId) -> Path:
    noted = notes.noted(store, session)
    if noted is None or noted.folder is None:
        raise RefusedError(
            f"Session {session.hex()[:ID_SHOWN]} has not been at work on this device yet; name a folder with -C DIR."
        )
    return noted.folder


def here_with(model: str | None, environ: Mapping[str, str] | None = None) -> Here:
    """What this device brings to a session; raises UserError where its configuration is off."""
    config = load()
    warm(model or config.model.name)
    sandbox = detect(SandboxConfig.from_table(_table(config.policy.get("sandbox", {}))))
    around = os.environ if environ is None else environ
    return Here(config=config, sandbox=sandbox, model=model, today=datetime.date.today, environ=around)


def driven(session: Driver, here: Here, workspace: Workspace, face: Face, stop: StopFlag, settle: Settle | None) -> Run:
    """A run of `session`, with the person's word on what it waits for."""
    settlement = None if settle is None else _settlement(settle, session.standing.journal.pending)
    return Run(session=session, here=here, workspace=workspace, face=face, stop=stop, settlement=settlement)


def _settlement(settle: Settle, pending: Entry | None) -> Settlement:
    return Settlement(how=HowSettled(settle.how), reply=reply_of(settle.output, pending))


def _table(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise RefusedError("[policy.sandbox] must be a table.")
    return found
