"""The files of a session made to appear on the device that it came to, in one step, before it runs there.

They appear where the person mapped the session, or where it was at work here before; the first time on a device in a
folder of ours. A folder that holds something of the person's own is left alone, and they appear in one of ours instead.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hhd.base.errors import RefusedError, UserError
from hhd.identity.key import Identity
from hhd.node import files_due, here, listing, sessions
from hhd.node.appearing import Appearing
from hhd.node.looked import Looked
from hhd.node.readied import Readied
from hhd.node.refused import short
from hhd.node.workspace_answers import Applied
from hhd.store.captures import capture_ref
from hhd.store.errors import BusyError
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId, SessionId, StatementId
from hhd_protocol.objects import Ref


def look(store: Store, me: Identity, session: SessionId, *, called: str = "") -> Looked | None:
    """Look at the folder in which `bring` would make the files of `session` appear; None where there is nothing yet.

    Raises UserError where it cannot be told what is there.
    """
    ref = _captured(store, sessions.view(store, me, session).main)
    if ref is None:
        return None
    noted = here.noted(store, session)
    mapped = None if noted is None else noted.folder
    return Appearing(store=store, me=me).look(session, ref, mapped, called=called or _called(mapped))


def why_elsewhere(store: Store, me: Identity, session: SessionId) -> str:
    """Why the files of `session`, as far as it is known here, would not appear in its folder here; "" where they would.

    Raises UserError where it cannot be told what is there.
    """
    noted = here.noted(store, session)
    if noted is None or noted.folder is None:  # It never was here: nothing of it may be, not even a record.
        return ""
    ref = _captured(store, sessions.view(store, me, session).main)
    if ref is None:
        return ""
    return Appearing(store=store, me=me).why_elsewhere(session, ref, noted.folder)


def ready(
    store: Store, me: Identity, session: SessionId, head: CheckpointId, *, called: str, looked: Looked | None
) -> Readied | None:
    """Prepare all of `bring` but the switch, for `head`; None where it cannot be, or another head leads here.

    Raises UserError, with nothing left of it.
    """
    ref = _captured(store, head)
    if ref is None or sessions.view(store, me, session).main != head:
        return None
    noted = here.noted(store, session)
    mapped = None if noted is None else noted.folder
    return Appearing(store=store, me=me).ready(session, ref, mapped, called=called or _called(mapped), looked=looked)


def bring(
    store: Store,
    me: Identity,
    session: SessionId,
    *,
    called: str = "",
    looked: Looked | None = None,
    readied: Readied | None = None,
    then: Callable[[], None] = lambda: None,
) -> Applied | None:
    """Make the files of the main head of `session` appear, and note where; None where it has none captured.

    `called`: what its folder is called elsewhere. `looked`: what was found in the folder shortly before. `readied`:
    what was prepared there, which the caller drops. `then` writes in the transaction of that note. Raises UserError,
    with nothing changed.
    """
    ref = _captured(store, sessions.view(store, me, session).main)
    if ref is None:
        files_due.forget(store, session)
        return None
    noted = here.noted(store, session)
    mapped = None if noted is None else noted.folder
    before = noted or here.Note(place=None)

    def note(folder: Path) -> None:
        files_due.forget(store, session)
        here.note(store, session, replace(before, folder=folder))
        listing.change(store, session, folder=str(folder))
        then()

    return Appearing(store=store, me=me).bring(
        session, ref, mapped, called=called or _called(mapped), looked=looked, readied=readied, then=note
    )


def told(store: Store, me: Identity, session: SessionId) -> tuple[str, str, tuple[str, ...]]:
    """Do so where the session is this device's already, whatever comes of its files: the folder ("": none), why it is
    not the one where they belong, and what else to say."""
    try:
        done = bring(store, me, session)
    except (UserError, OSError) as error:
        return "", "", (_not_here(session, error),)
    return ("", "", ()) if done is None else (done.folder, done.instead, done.notes)


def due(store: Store, me: Identity, session: SessionId) -> tuple[str, ...]:
    """Do so if the session may not go on here before, and return what to say; raises RefusedError, BusyError."""
    if not files_due.are_due(store, session) or sessions.view(store, me, session).owner != me.id:
        return ()
    try:
        done = bring(store, me, session)
    except BusyError:
        raise
    except (UserError, OSError) as error:
        raise RefusedError(_not_here(session, error)) from error
    return () if done is None else (f"Its files are in {done.folder}.", *filter(None, (done.instead, *done.notes)))


def _not_here(session: SessionId, error: UserError | OSError) -> str:
    """Why its files did not appear, and the way on."""
    why = str(error) if isinstance(error, UserError) else f"{error.strerror or error}."
    name = short(session)
    return (
        f"Its files did not appear: {why} It goes on once they do: hhd resume {name}; with a folder as it is, that is: "
        f"hhd resume {name} -C DIR"
    )


def insist(store: Store, session: SessionId, head: CheckpointId) -> None:
    """Raise UserError where the files that `head` names could not appear here: before it is given up elsewhere."""
    checkpoint = store.checkpoint(head)
    ref = capture_ref(checkpoint.workspace)
    if ref is None:
        return
    reader = store.capture_reader(store.session(session).family, ref)
    wanted = reader.capture()
    missing = [one for content in wanted.contents() for one in content.pieces if one not in reader.places()]
    if missing:
        raise RefusedError(f"{len(missing)} pieces of the session's files are not here yet.")
    if wanted.repository is not None and shutil.which("git") is None:
        raise RefusedError("The session works in a git repository, and there is no git on this device.")


def _captured(store: Store, head: StatementId | None) -> Ref | None:
    """The capture that a checkpoint names."""
    return None if head is None else capture_ref(store.checkpoint(CheckpointId(head)).workspace)


def _called(folder: Path | None) -> str:
    return "workspace" if folder is None else here.called(folder)
