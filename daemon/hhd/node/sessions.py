"""Sessions of the store: made, forked, looked at. Who advances one uses `hhd.node.stored_session`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import here, listed_step, programs
from hhd.node.doors import Doors, known
from hhd.node.kinds import kind_of
from hhd.node.members import members
from hhd.node.moment import Moment
from hhd.node.own import UNKNOWN
from hhd.node.recording import first
from hhd.node.signing import Pen
from hhd.node.standing import Standing, Step
from hhd.node.step_log import LOG
from hhd.node.stored_session import StoredSession
from hhd.node.transcripts import TRANSCRIPT
from hhd.store.checkpoints import Checkpoint, Payload
from hhd.store.errors import MissingError
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol import bodies, fencing, lineage
from hhd_protocol.abi import Snapshot
from hhd_protocol.capsule import Capsule
from hhd_protocol.ids import CheckpointId, EpochId, FamilyId, Incarnation, SessionId, Sha256
from hhd_protocol.journal import State
from hhd_protocol.lineage import Signed, effect_id
from hhd_protocol.paused import At, Limits
from hhd_protocol.statements import EffectKind, Progress, Role
from hhd_protocol.steps import Opening, encode_opening

__all__ = ["Content", "Moment", "StoredSession", "create", "create_fork", "create_imported", "loaded", "view"]


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a session holds that begins with a past from elsewhere; `snapshot`: None where its program does not run."""

    module: Sha256
    snapshot: Snapshot | None
    transcript: bytes


def create(
    store: Store,
    me: Identity,
    *,
    program: str,
    args: bytes,
    folder: Path | None = None,
    limits: Limits | None = None,
) -> SessionId:
    """Make a session of `program`, not begun, that this device owns from the first moment.

    `args`: as the guest gets them. `folder`: where it is to work, noted here only. Durable when this returns. Raises
    RefusedError where there is no such program, FullStoreError.
    """
    name, wasm = programs.find(program)
    with store.transaction():
        store.insist_on_room(len(wasm))
        module = store.modules.put(wasm)
        opening = Opening(program=name, module=module, module_bytes=len(wasm), args=args, limits=limits or Limits())
        session = _created(store, me, None, None, None)
        here.note(store, session, here.Note(folder=folder))
        listed_step.created(store, session, program=name, args=args, folder=str(folder or ""), at_ms=store.now_ms())
        appended, _ = first(encode_opening(opening), At.FRESH)
        _begin(store, me, session, Payload(module=module), appended, None)
    return session


def create_fork(store: Store, me: Identity, session: SessionId, checkpoint: CheckpointId) -> SessionId:
    """Make a session of the same family that begins as `session` was at `checkpoint`, owned by this device.

    An effect that was pending there, and may not be repeated, may have run: the fork waits for a person's word on it.
    Raises MissingError, ThinnedError.
    """
    with store.transaction():
        origin = _of(store, session, checkpoint)
        standing = doubted(origin.standing)
        begun = bodies.Origin(session=session, checkpoint=checkpoint)
        made = _created(store, me, store.session(session).family, begun, standing)
        noted = here.noted(store, session)
        if noted is not None:
            here.note(store, made, here.Note(place=None if noted.place is None else UNKNOWN, folder=noted.folder))
        listed_step.forked(store, session, made, standing, at_ms=store.now_ms())
        appended, _ = origin.recorded.after(Step(standing=standing))
        workspace = origin.checkpoint.workspace
        _begin(store, me, made, origin.checkpoint.payload, appended, standing, workspace=workspace)
    return made


def create_imported(
    store: Store, me: Identity, origin: bodies.Origin, standing: Standing, log: bytes, content: Content
) -> SessionId:
    """Make a session that begins at `standing`, with the `log` of steps that led there; it has a family of its own.

    Within a transaction. Raises FullStoreError.
    """
    session = _created(store, me, None, origin, standing)
    _begin(store, me, session, Payload(module=content.module), log, standing, content)
    return session


def view(store: Store, me: Identity, session: SessionId) -> fencing.View:
    """Return what the statements of `session` that are here mean: owner, token, heads, uncertain effects.

    A head is known before its content comes: until then an effect that it waits with counts as one that may not be done
    twice. Raises MissingError where the session is not here, DamagedStoreError.
    """
    found = known(store, me, session)
    if not found.view.uncertain or found.view.main is None:
        return found.view
    try:
        pending = Moment(store, CheckpointId(found.view.main)).standing.journal.pending
    except MissingError:
        return found.view
    kinds = {} if pending is None else {effect_id(session, pending.index): kind_of(pending)}
    return found.of_kinds(kinds).view


def loaded(store: Store, session: SessionId, checkpoint: CheckpointId, *, embed: bool = False) -> Capsule:
    """Return `session` as it was at `checkpoint`, as a paused value; with `embed` its module is inside.

    Raises MissingError, ThinnedError where its content is gone, DamagedStoreError.
    """
    return _of(store, session, checkpoint).capsule(embed=embed)


def _of(store: Store, session: SessionId, checkpoint: CheckpointId) -> Moment:
    found = Moment(store, checkpoint)
    if found.checkpoint.session != session:
        raise RefusedError(f"Checkpoint {checkpoint.hex()[:12]} is not one of session {session.hex()[:12]}.")
    return found


def _created(
    store: Store, me: Identity, family: FamilyId | None, origin: bodies.Origin | None, standing: Standing | None
) -> SessionId:
    """Sign the record that creates a session, and write it; without a `family` that is here, one begins with it.

    `standing`: where a fork begins; an effect that waits there and may not be repeated is named as unanswered. Raises
    RefusedError where this device is no full member of its group.
    """
    _insist_on_full(store, me)
    pending = None if standing is None else standing.journal.pending
    of = family or FamilyId(store.random(16))
    body = bodies.CreateBody(
        session=None,
        by=me.id,
        after=None,
        seq=0,
        incarnation=Incarnation(store.incarnation),
        at_ms=store.now_ms(),
        family=of,
        origin=origin,
        pending=() if pending is None or kind_of(pending) is not EffectKind.TOOL else (pending.index,),
    )
    signed = lineage.sign(body, me.seed)
    session = signed.session
    if family is None:
        store.families.create(EpochId(session), of)
    store.create_session(session, family=of)
    store.statements.add(session, signed.raw)
    return session


def _insist_on_full(store: Store, me: Identity) -> None:
    """A session is its device's own from its first record, and that counts of full members only."""
    now = members(store, me)[me.id].now
    if now is None:
        raise RefusedError(
            "This device was put out of its group, so no session begins on it; nothing was changed. Pair it again with "
            "`hhd pair`, or begin a group of its own with `hhd devices refound`."
        )
    if now is not Role.FULL:
        raise RefusedError(f"This device is {now.value} in its group, so no session begins on it; nothing was changed.")


def _begin(
    store: Store,
    me: Identity,
    session: SessionId,
    payload: Payload,
    appended: bytes,
    standing: Standing | None,
    content: Content | None = None,
    *,
    workspace: bytes | None = None,
) -> None:
    """Write the first checkpoint of a session, which goes on from `payload`; `standing`: where a fork begins.

    `content`: what is not in the payload yet. `workspace`: the capture it begins with, of the same family.
    """
    doors = Doors(store, me, session)
    pen = Pen(store, me, session, doors)
    token = doors.part.known.view.token
    assert token is not None and doors.may_append() is None, "who creates a session owns it"
    pending = None if standing is None else standing.journal.pending
    effects = {}
    if pending is not None and kind_of(pending) is not EffectKind.TOOL:
        effects[pending.index] = Progress.ASKED
    signed: list[Signed] = []

    def sign(bare: Checkpoint) -> bytes:
        signed.append(pen.checkpoint(bare, token=token.id, effects=effects))
        return signed[0].raw

    settled = 0 if standing is None else standing.journal.settled
    logs = {LOG: appended}
    if content is not None and content.transcript:
        logs[TRANSCRIPT] = content.transcript
    line = Line(store, session, origin=payload)
    line.checkpoint(
        snapshot=None if content is None else content.snapshot,
        logs=logs,
        module=payload.module,
        journal=settled,
        workspace=workspace,
        turn=True,
        sign=sign,
    )


def doubted(standing: Standing) -> Standing:
    """Where a fork of `standing` begins: what waited there and may not be repeated may have run in the origin."""
    entry = standing.journal.pending
    if entry is None or kind_of(entry) is not EffectKind.TOOL or entry.state is State.UNCERTAIN:
        return standing
    begun = standing.journal.start() if entry.state is State.ASKED else standing.journal
    return replace(standing, journal=begun.doubt())
