"""A session handed on, and taken: the one transaction at each side in which it stops to be here, and begins to be.

The journal's record of the stage is written with the statement, so whatever moment a process dies, both are there or
neither is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import files_due, here, listed_step
from hhd.node.doors import Doors, now_ms
from hhd.node.lineages import lineage_of
from hhd.node.members import members
from hhd.node.moment import Moment
from hhd.node.owing import judge_kinds, write_checkpoint
from hhd.node.own import UNKNOWN
from hhd.node.refused import refused, short
from hhd.node.signing import Pen
from hhd.node.stored_session import doubted_by
from hhd.store.captures import capture_ref
from hhd.store.errors import DamagedStoreError
from hhd.store.folders import Folders
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import ReleaseBody
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import Grant
from hhd_protocol.holding import CheckpointDraft, Persist, RecordDraft, Refuse, Release, decide
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId
from hhd_protocol.lineage import Signed


class NotYetError(RefusedError):
    """A release cannot be taken now: what it stands on has not come. It is taken when that came."""


class BeatenError(RefusedError):
    """A record that is here beats the release."""


class MovedError(RefusedError):
    """What had to be on the line before a release moved its head: that is to be brought to the target first."""


def grant_of(signed: Signed) -> Grant:
    """A signed release as a handoff wants it; raises FormatError for a statement of another kind."""
    body = signed.body
    if not isinstance(body, ReleaseBody):
        raise FormatError("the statement is no release")
    return Grant(raw=signed.raw, by=body.by, to=body.to, session=signed.session, transfer=body.transfer, head=body.head)


def verified(store: Store, me: Identity, raw: bytes) -> Grant:
    """The release `raw`, whose signature holds and is a member's; raises FormatError."""
    signed = lineage.decode(raw)
    member = members(store, me).get(signed.body.by)
    if member is None or not lineage.verify(signed, member.public):
        raise FormatError("the release is signed by no device of this group")
    return grant_of(signed)


def release(
    store: Store,
    me: Identity,
    session: SessionId,
    *,
    to: DeviceId,
    transfer: TransferId,
    head: CheckpointId | None,
    then: Callable[[Grant], None],
) -> Grant:
    """Sign the release of `session`, which nobody advances, and write it; `then` writes in the same transaction.

    `head`: where the session was paused, which the target has; None: wherever it is. Raises RefusedError, with nothing
    changed; MovedError, where what this device owed was written first; BusyError where a process advances it.
    """
    with store.advance(session):
        with store.transaction():
            doors = Doors(store, me, session)
            judge_kinds(store, doors, session)
            pen = Pen(store, me, session, doors)
            moved = False
            while True:
                outputs = decide(doors.part, Release(to=to, transfer=transfer), now_ms())
                drafts = [output.draft for output in outputs if isinstance(output, Persist)]
                for output in outputs:
                    if isinstance(output, Refuse):
                        raise refused(session, output.refusal, doors.part.known.view)
                if isinstance(drafts[0], CheckpointDraft):
                    write_checkpoint(store, pen, session, drafts[0])
                    moved = True
                    continue
                break
            draft = drafts[0]
            assert isinstance(draft, RecordDraft) and draft.head is not None, "a session has a checkpoint when it moves"
            now = CheckpointId(draft.head)
            if head is None or head == now:
                signed = pen.release(to=to, prev=draft.prev, number=draft.number, head=now, transfer=transfer)
                grant = grant_of(signed)
                then(grant)
                _left(store, session, now)
                listed_step.handed_on(store, session, to, token=draft.number)
                return grant
        assert moved or head != now
    raise MovedError(f"Session {short(session)} went on meanwhile.")


def _left(store: Store, session: SessionId, head: CheckpointId) -> None:
    """Remember how `session` leaves its folder here: it comes back into that, if nobody changed it meanwhile."""
    if files_due.are_due(store, session):  # It never was in that folder as its head says.
        files_due.forget(store, session)
        return
    ref = capture_ref(store.checkpoint(head).workspace)
    with contextlib.suppress(DamagedStoreError):  # `hhd check` names it; its files appear in a folder of ours then.
        noted = here.noted(store, session)
        if ref is not None and noted is not None and noted.folder is not None:
            Folders(store).note(noted.folder.resolve(), store.session(session).family, ref)


def take(store: Store, me: Identity, raw: bytes, *, then: Callable[[Grant], None], folder: Path | None = None) -> Grant:
    """Take the session that the release `raw` hands to this device; `then` writes in the same transaction.

    `folder`: where it is to work here, None for where it did, or nowhere yet. Raises NotYetError, BeatenError,
    RefusedError, FormatError, with nothing changed.
    """
    grant = verified(store, me, raw)
    if grant.to != me.id:
        raise RefusedError(
            f"This release is for device {device_text(grant.to)[:19]}, and this is {device_text(me.id)[:19]}; nothing "
            "was changed."
        )
    with store.transaction():
        signed = store.statements.add(grant.session, raw)
        found = lineage_of(store, grant.session, members(store, me))
        _insist(store, signed, found.view.held, grant)
        view = found.view
        if view.removed:
            raise RefusedError(f"Session {short(grant.session)} was removed everywhere; nothing was changed.")
        if view.token is None or signed.id in view.refused or signed.id in view.sealed:
            raise RefusedError("The release does not count here: it breaks the rules, or its signer was revoked.")
        if view.token.id != signed.id:
            raise BeatenError(
                f"Session {short(grant.session)} was released to this device, and a newer record beats that."
            )
        assert grant.head is not None
        moment = Moment(store, grant.head)
        standing = doubted_by(view, grant.session, moment.standing)
        then(grant)
        noted = here.noted(store, grant.session)
        place = UNKNOWN if noted is None or noted.place is None else noted.place
        where = folder or (None if noted is None else noted.folder)
        here.note(store, grant.session, here.Note(place=place, folder=where))
        files_due.note(store, grant.session)
        listed_step.taken(
            store,
            grant.session,
            standing,
            token=view.token.number,
            heads=max(1, len(view.heads)),
            folder=str(where or ""),
            at_ms=store.now_ms(),
        )
    return grant


def _insist(store: Store, signed: Signed, held: frozenset[StatementId], grant: Grant) -> None:
    """Raise NotYetError while what the release stands on is not complete here."""
    if signed.id in held:
        raise NotYetError("The records before the release have not come yet.")
    if grant.head is None or grant.head not in store.checkpoint_ids(grant.session):
        raise NotYetError("The checkpoint that the release names has not come yet.")
    if store.checkpoint(grant.head).thinned:
        raise RefusedError("The content of the checkpoint that the release names was thinned here.")
