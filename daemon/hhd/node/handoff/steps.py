"""What of a handoff is done with the store: each function blocks, and is one transaction where it writes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.errors import RefusedError, UserError
from hhd.base.release import RELEASE
from hhd.base.text import visible
from hhd.identity.key import Identity
from hhd.node import denials, files_due, here, naming, registry, sessions, should_run
from hhd.node.devices import Devices
from hhd.node.doors import known as known_of
from hhd.node.handoff import handing_on, held_back
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import notes as handoff_notes
from hhd.node.handoff.words import REMOVED, TARGET_OUT
from hhd.node.members import members
from hhd.node.moment import Moment
from hhd.node.refused import short
from hhd.store.checkpoints import refs_of
from hhd.store.store import Store
from hhd_protocol import handoff, lineage
from hhd_protocol.fencing import View
from hhd_protocol.handoff import (
    PENDING,
    UNTAKEN,
    Event,
    Grant,
    Handoff,
    Happening,
    Needs,
    Offer,
    Output,
    Persist,
    Record,
    Side,
    Stage,
)
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId
from hhd_protocol.objects import Ref
from hhd_protocol.statements import Record as Ownership
from hhd_protocol.statements import Role

if TYPE_CHECKING:
    from hhd.node.handoff.admission import Fit
    from hhd.node.looked import Looked
    from hhd.node.readied import Readied
    from hhd.node.workspace_answers import Applied

_OPENED = b"opened"
_BROUGHT, _BEGUN = b"\x00", b"\x01"
"""What a row of these says: the files are here and the session should run; it was begun, and its source was told."""


def offer_to(
    store: Store, me: Identity, session: SessionId, transfer: TransferId, model: str | None, to: DeviceId, name: str
) -> Offer:
    """As `offer_of`, for the device `to`, called `name`.

    Raises RefusedError too where it is kept back from that device, or its files could not go along.
    """
    from hhd.node.handoff import admission as handoff_admission
    from hhd.node.sync import wishes as syncing_wishes

    offer = offer_of(store, me, session, transfer, model)
    handoff_admission.insist_on_files(store, session)
    syncing_wishes.insist_wanted(store, me.id, session, to, name)
    return offer


def offer_of(store: Store, me: Identity, session: SessionId, transfer: TransferId, model: str | None) -> Offer:
    """What this device says of `session`, which it has, to a device that is to have it.

    Raises RefusedError where another device has it, or it has nothing that could go on.
    """
    from hhd.node.handoff import admission as handoff_admission

    view = sessions.view(store, me, session)
    if view.owner != me.id or view.token is None or view.main is None:
        raise RefusedError(f"Session {short(session)} is not this device's to hand on; nothing was changed.")
    head = CheckpointId(view.main)
    needs = handoff_admission.needs_of(store, session, head, model)
    return Offer(transfer=transfer, session=session, hhd=RELEASE, token=view.token.id, head=head, needs=needs)


def devices_of(store: Store, me: Identity) -> Devices:
    """The devices of the group, and what they are called."""
    names, _ = registry.device_names(store.shared)
    return Devices(me=me.id, members=members(store, me), names=names)


def device_named(store: Store, me: Identity, name: str) -> DeviceId:
    """The device that `name` means: its name or its id, or a begin of either; raises UsageError, RefusedError."""
    return naming.device(devices_of(store, me).all(), name)


def insist_on_target(store: Store, me: Identity, to: DeviceId) -> None:
    """Raise RefusedError where `to` is no device that could be handed a session."""
    member = members(store, me).get(to)
    if member is None or not member.full:
        raise RefusedError("Only a device of yours that is paired, and full, can be handed a session.")


def insist_on_asker(store: Store, me: Identity, peer: DeviceId) -> None:
    """Raise RefusedError where `peer` may not ask for a session to move, or whether it could: it only stores."""
    member = members(store, me).get(peer)
    if member is None or member.now not in (Role.FULL, Role.CONTROLLER):
        raise RefusedError("A device that only stores may not ask this; nothing was changed.")


def owner_of(store: Store, me: Identity, session: SessionId) -> DeviceId:
    """The device that has `session`; raises RefusedError where no record here says."""
    owner = sessions.view(store, me, session).owner
    if owner is None:
        raise RefusedError(f"No record here says which device has session {short(session)}.")
    return owner


def fit(store: Store, me: Identity, session: SessionId, needs: Needs) -> Fit:
    """As `handoff_admission.look`."""
    from hhd.node.handoff import admission as handoff_admission

    return handoff_admission.look(store, me, session, needs)


def fit_closely(store: Store, me: Identity, session: SessionId, needs: Needs) -> Fit:
    """As `fit`, and with a look at the folder in which it works here: for who only asks, and moves nothing.

    A folder of very many files takes a while to look at; a handoff does that beside all else, and says it at its end.
    """
    from hhd.node import bringing
    from hhd.node.handoff import admission as handoff_admission

    found = fit(store, me, session, needs)
    if not (why := bringing.why_elsewhere(store, me, session)):
        return found
    note = f"its files will be in a new folder of hhd's there: {visible(why, one_line=True)}"
    return handoff_admission.Fit(where="", notes=(*found.notes, note))


def head_of(store: Store, me: Identity, session: SessionId) -> CheckpointId:
    """Where `session` stands now; raises RefusedError where that is not one place, or another process advances it."""
    if store.is_advanced(session):
        raise RefusedError(f"Another process of this device advances session {short(session)}; end that first.")
    return main_of(store, me, session)


def main_of(store: Store, me: Identity, session: SessionId) -> CheckpointId:
    """The last checkpoint of `session`; raises RefusedError where it has none that leads."""
    main = sessions.view(store, me, session).main
    if main is None:
        raise RefusedError(f"No head of session {short(session)} leads; choose one: hhd heads {short(session)}")
    return CheckpointId(main)


def warm(store: Store, me: Identity, session: SessionId) -> None:
    """Have at hand what the release of `session` will ask about it, where all is as it is now."""
    for head in sessions.view(store, me, session).heads:
        with contextlib.suppress(UserError):  # It is met again, and told, when it counts.
            _ = Moment(store, CheckpointId(head)).standing


def load(store: Store, session: SessionId, head: CheckpointId) -> tuple[bytes, Ref | None]:
    """Read all of `head`, as a run would; nothing runs. Raises UserError where it is not as it should be.

    Returns which program in which memory that is: heads that differ only in the files have the same.
    """
    from hhd.node import bringing

    moment = Moment(store, head)
    checkpoint = moment.checkpoint
    for ref in store.reader_of(checkpoint).needs(refs_of(checkpoint)):
        if not store.objects.has(ref.name):
            raise RefusedError("Not all of the session has come yet.")
    standing, _ = moment.standing, moment.snapshot
    store.modules.get(standing.module)
    bringing.insist(store, session, head)
    return standing.module, checkpoint.payload.image


def held_by(store: Store, transfer: TransferId, to: TransferId) -> None:
    """Let the handoff `to` hold back what `transfer` did; where that one is over or released, nobody does."""
    with store.transaction():
        record = handoff_journal.last(store, to)
        if record is not None and record.stage in PENDING:
            held_back.pass_on(store, transfer, to)
        else:
            held_back.drop(store, transfer)


def held_by_none(store: Store) -> list[Record]:
    """Return the handoffs that are over, and what they held back does not run yet: a crash came before it."""
    found = [handoff_journal.last(store, transfer) for transfer in held_back.every(store)]
    return [one for one in found if one is not None and one.stage in (Stage.ABORTED, Stage.SUPERSEDED)]


def persist(store: Store, record: Record, event: Event) -> None:
    """Make a stage durable, in one transaction with the statement that came with it."""
    with store.transaction():
        came = event.grant is not None and event.what in (Happening.TOOK, Happening.ALREADY)
        if came and record.session in store.sessions():  # It may be removed everywhere meanwhile.
            assert event.grant is not None
            store.statements.add(record.session, event.grant.raw)
        if record.denied and record.release is not None:
            denials.deny(store, record.session, record.release)
        handoff_journal.keep(store, record)


def sign(
    store: Store, me: Identity, one: Handoff, at_ms: int, ready: Record | None = None
) -> tuple[Handoff, list[Output]]:
    """Sign the release, with the journal's record, and with that of the stage before (`ready`) if it is not kept yet.

    All is one transaction. Raises as `handing_on.release`, with none of it kept.
    """
    done: list[tuple[Handoff, list[Output]]] = []

    def journal(grant: Grant) -> None:
        if ready is not None:
            handoff_journal.keep(store, ready)
        done.append(_kept(store, one, Event(what=Happening.SIGNED, grant=grant, at_ms=at_ms)))

    record = one.record
    handing_on.release(store, me, record.session, to=record.peer, transfer=record.transfer, head=one.head, then=journal)
    return done[0]


def take(store: Store, me: Identity, one: Handoff, raw: bytes, at_ms: int) -> tuple[Handoff, list[Output]]:
    """Take the session with the release `raw`, with the journal's record; raises as `handing_on.take`."""
    done: list[tuple[Handoff, list[Output]]] = []

    def journal(grant: Grant) -> None:
        done.append(_kept(store, one, Event(what=Happening.RELEASE, grant=grant, at_ms=at_ms)))

    handing_on.take(store, me, raw, then=journal)
    return done[0]


def _kept(store: Store, one: Handoff, event: Event) -> tuple[Handoff, list[Output]]:
    """The step of `event`, its record kept in the transaction around; the outputs that are left to do."""
    after, outputs = handoff.handle(one, event)
    if not outputs or not isinstance(outputs[0], Persist):
        raise RefusedError("The release is not of this handoff; nothing was changed.")
    handoff_journal.keep(store, outputs[0].record)
    return after, outputs[1:]


def news(store: Store, me: Identity, one: Handoff, at_ms: int) -> Event | None:
    """What the records here, whichever way they came, mean for a handoff; None: nothing new."""
    record = one.record
    if one.stage is Stage.NONE or one.over:
        return None
    removed = Event(what=Happening.BEATEN, why=REMOVED, at_ms=at_ms)
    if record.session not in store.sessions() and record.session in store.statements.removed():
        return removed  # Nothing is here of it but the tombstone.
    known = known_of(store, me, record.session)
    view = known.view
    if view.removed:
        return removed
    if view.token is None:
        return None
    beaten = Event(what=Happening.BEATEN, why="Another record of the session beats it.", at_ms=at_ms)
    if one.side is Side.SOURCE and one.stage in PENDING:
        if view.token.id == record.token:
            return Event(what=Happening.FAILED, why=TARGET_OUT, at_ms=at_ms) if record.peer in view.revoked else None
        grant = _grant(store, record, view)
        return beaten if grant is None else Event(what=Happening.SIGNED, grant=grant, at_ms=at_ms)
    if one.side is Side.TARGET and one.stage in UNTAKEN:
        if (grant := _grant(store, record, view)) is not None:
            return Event(what=Happening.RELEASE, grant=grant, at_ms=at_ms)
        return Event(what=Happening.FAILED, why=TARGET_OUT, at_ms=at_ms) if me.id in view.revoked else None
    if record.release is None or one.stage not in (Stage.RELEASED, Stage.TAKEN):
        return None
    release = lineage.decode(record.release)
    if view.token.id == release.id:
        return None
    if (after := _following(known.statements, view.token.id, release.id)) is not None:
        if one.side is Side.TARGET:
            return None
        if after.by == record.peer:  # Who was handed it acted under it; a takeover by another does not say that.
            return Event(what=Happening.TOOK, grant=handing_on.grant_of(release), at_ms=at_ms)
    return beaten


def settle(store: Store, me: Identity, session: SessionId) -> None:
    """Let what the records here say decide the open handoffs of `session`, where no daemon does."""
    for record in handoff_journal.unfinished(store):
        one = handoff.recovered(record, me=me.id)
        if record.session != session or (event := news(store, me, one, store.now_ms())) is None:
            continue
        if event.what in (Happening.TOOK, Happening.BEATEN):
            _, outputs = handoff.handle(one, event)
            for output in outputs:
                if isinstance(output, Persist):
                    persist(store, output.record, event)


def _grant(store: Store, record: Record, view: View) -> Grant | None:
    """The release of the handoff `record`, if that is the record that wins here."""
    assert view.token is not None
    signed = store.statements.get(record.session, view.token.id)
    try:
        grant = None if signed is None else handing_on.grant_of(signed)
    except ValueError:
        return None
    return grant if grant is not None and grant.transfer == record.transfer else None


def is_released(store: Store, me: Identity, session: SessionId, transfer: TransferId) -> bool:
    """Whether the record that wins here is the release of the handoff `transfer`."""
    view = known_of(store, me, session).view
    signed = None if view.token is None else store.statements.get(session, view.token.id)
    try:
        return signed is not None and handing_on.grant_of(signed).transfer == transfer
    except ValueError:
        return False


def _following(statements: object, token: StatementId, before: StatementId) -> Ownership | None:
    """The record that came right after `before` in the chain of `token`; None where `before` is not in it."""
    at: StatementId | None = token
    while at is not None:
        found = statements.get(at)  # type: ignore[attr-defined]
        at = found.prev if isinstance(found, Ownership) else None
        if at == before:
            return found  # type: ignore[no-any-return]
    return None


def is_opened(store: Store, transfer: TransferId) -> bool:
    """Whether the files of a session that was taken are here, and it was begun: not to be done twice."""
    return store.rows.get("handoff", _OPENED, transfer) == _BEGUN


def opened(store: Store, transfer: TransferId, session: SessionId, peer: DeviceId, notes: Sequence[str]) -> None:
    """Note that, and what is otherwise than it was at `peer`, or could not be done."""
    with store.transaction():
        store.rows.put("handoff", _OPENED, transfer, _BEGUN)
        handoff_notes.keep(store, transfer, session, peer, notes)


def insist_on_disk(store: Store, session: SessionId, size_bytes: int) -> None:
    """As `handoff_admission.insist_on_disk`."""
    from hhd.node.handoff import admission as handoff_admission

    handoff_admission.insist_on_disk(store, session, size_bytes)


def look(store: Store, me: Identity, session: SessionId, called: str) -> Looked | None:
    """As `bringing.look`."""
    from hhd.node import bringing

    return bringing.look(store, me, session, called=called)


def ready(
    store: Store, me: Identity, session: SessionId, head: CheckpointId, called: str, looked: Looked | None
) -> Readied | None:
    """As `bringing.ready`."""
    from hhd.node import bringing

    return bringing.ready(store, me, session, head, called=called, looked=looked)


def bring(
    store: Store,
    me: Identity,
    transfer: TransferId,
    session: SessionId,
    called: str,
    looked: Looked | None = None,
    readied: Readied | None = None,
) -> tuple[Applied | None, bool]:
    """As `bringing.bring`; and note, in the same transaction, that it should run here: False where that was not.

    Once only for a handoff: after a crash its session is at work in the folder again already, and files that appear
    under it would be written over what it wrote, or put its folder elsewhere. So they would where its person had it go
    on meanwhile, as while they are prepared: it has its files then. Where they cannot appear it should not run, until
    they do (`files_due`).
    """
    from hhd.node import bringing  # With all of workspace: most that a daemon does has no use for it.

    if store.rows.get("handoff", _OPENED, transfer) is not None or not files_due.are_due(store, session):
        return None, any(one.session == session for one in should_run.noted(store))
    noted = False

    def run() -> None:
        nonlocal noted
        store.rows.put("handoff", _OPENED, transfer, _BROUGHT)
        with contextlib.suppress(RefusedError):  # Too many run: who begins it hears of that, and says so.
            should_run.note(store, should_run.Note(session, None, None))
            noted = True

    done = bringing.bring(store, me, session, called=called, looked=looked, readied=readied, then=run)
    if done is None:
        with store.transaction():
            run()
    return done, noted


def folder_of(store: Store, session: SessionId) -> Path | None:
    """Where the session works here."""
    noted = here.noted(store, session)
    return None if noted is None else noted.folder
