"""A session handed on in a file: for two devices that are never online together (`protocol/spec/handoff.md`, files).

The release is signed and durable first, then the file is written; where that fails, the same command writes it again,
with the same release. The target takes what the file holds and the release in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hhd.base import passing
from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import programs, sealed_file, sessions
from hhd.node.handoff import handing_on
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff.handing_on import NotYetError
from hhd.node.members import Member, members
from hhd.node.moment import Moment
from hhd.node.refused import short
from hhd.store.checkpoints import decode_checkpoint, refs_of
from hhd.store.errors import BusyError, DamagedStoreError, MissingError
from hhd.store.store import Store
from hhd_protocol import codec, handoff, lineage, sealed
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.capsule import is_sealed
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import Event, Grant, Happening, Persist, Record, Side, Stage
from hhd_protocol.handoff.bundle import Bundle, decode_bundle, encode_bundle, is_bundle
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, TransferId
from hhd_protocol.lineage import Signed
from hhd_protocol.packed import pack, unpack


def release_to(store: Store, me: Identity, session: SessionId, to: DeviceId) -> tuple[Grant, bool]:
    """Release `session` to the device `to`, for a file; and whether that was done now, or before and is untaken.

    Its folder is captured before, if it differs from what its last checkpoint names. Durable when this returns. Raises
    RefusedError, with nothing handed on; BusyError where a process advances it.
    """
    member = _target(store, me, to)
    if (before := _released_before(store, session, to)) is not None:
        return before, False
    _recapture(store, me, session)
    transfer = TransferId(os.urandom(16))
    record = Record(
        side=Side.SOURCE, stage=Stage.NONE, transfer=transfer, session=session, peer=to, at_ms=store.now_ms()
    )

    def journal(grant: Grant) -> None:
        """All stages at once: nobody else has a part in them."""
        at = record
        for stage in (Stage.OFFERED, Stage.ADMITTED, Stage.STAGED, Stage.READY, Stage.RELEASED):
            released = stage is Stage.RELEASED
            at = replace(at, stage=stage, head=grant.head, release=grant.raw if released else None)
            handoff_journal.keep(store, at)

    assert member.public
    return handing_on.release(store, me, session, to=to, transfer=transfer, head=None, then=journal), True


def _recapture(store: Store, me: Identity, session: SessionId) -> None:
    """Have what its person wrote into its folder since go along, as in the pause of a handoff."""
    from hhd.node.recapture import (
        recapture,  # With all that drives a session: most that a daemon does has no use for it.
    )
    from hhd.node.workbench import Workbench

    try:
        recapture(Workbench(store=store, me=me), session)
    except BusyError:
        raise
    except RefusedError:  # It is no session of this device's to go on with: whoever releases it says so.
        return


def insist(store: Store, me: Identity, session: SessionId, to: DeviceId) -> None:
    """Raise RefusedError where `session` cannot be released to `to` from here, whether it runs or is paused."""
    from hhd.node.handoff import admission as handoff_admission
    from hhd.node.handoff import steps as handoff_steps
    from hhd.node.sync import wishes as syncing_wishes

    owner = sessions.view(store, me, session).owner
    if to == me.id and owner != me.id:
        raise RefusedError(
            f"Another device has session {short(session)}, and only that one can write its release; nothing was "
            f"changed. To bring it here from there: hhd transfer {short(session)} here"
        )
    _target(store, me, to)
    if _released_before(store, session, to) is None:
        if owner != me.id:
            raise RefusedError(f"Another device has session {short(session)}; nothing was changed.")
        handoff_admission.insist_on_files(store, session)
    syncing_wishes.insist_wanted(store, me.id, session, to, handoff_steps.devices_of(store, me).named(to))


def _released_before(store: Store, session: SessionId, to: DeviceId) -> Grant | None:
    """The release of `session` to `to` that nobody is known to have taken."""
    for record in handoff_journal.unfinished(store):
        if (record.session, record.peer, record.side) == (session, to, Side.SOURCE) and record.release is not None:
            return handing_on.grant_of(lineage.decode(record.release))
    return None


def _target(store: Store, me: Identity, to: DeviceId) -> Member:
    member = members(store, me).get(to)
    if to == me.id:
        raise RefusedError("The session is on this device; name another one.")
    if member is None or not member.full:
        raise RefusedError(
            "Only a device of yours that is paired and full can be handed a session; nothing was changed."
        )
    return member


def parts(store: Store, me: Identity, grant: Grant) -> Iterator[bytes]:
    """Return the release file of `grant` in parts, sealed to its target. Raises RefusedError, DamagedStoreError."""
    assert grant.head is not None
    member = members(store, me)[grant.to]
    with store.snapshot():
        checkpoint = replace(store.checkpoint(grant.head), thinned=False)
        reader = store.reader_of(store.checkpoint(grant.head))
        named = sorted(ref.name for ref in reader.needs(refs_of(checkpoint)))
        raws = [store.objects.raw(name) for name in named]
        family = store.family(grant.session)
        digest = checkpoint.payload.module
        builtin = digest is not None and programs.builtin_module(digest) is not None
        statements = [one.raw for one in store.statements.all(grant.session)]
        bundle = Bundle(
            release=grant.raw,
            statements=tuple(raw for raw in statements if raw != grant.raw),
            checkpoint=checkpoint.encoded(),
            family=family.id,
            keys=tuple(family.wrapped(member.public, me.seed, store.random)),
            epoch=family.epoch,
            module=None if digest is None or builtin else pack(store.modules.get(digest)),
            objects=tuple(raw for raw in raws if raw is not None),
        )
    if len(bundle.objects) != len(raws):
        raise DamagedStoreError("An object that the session needs is missing; run `hhd check`.")
    try:
        plain = list(encode_bundle(bundle))
        sealed_parts = sealed_file.sealed_parts(plain, seed=me.seed, to_public=member.public, passphrase=None)
        return iter(list(passing.counted("sealing", sum(map(len, plain)), sealed_parts)))
    except FormatError as error:
        raise RefusedError(f"The session does not fit a file: {error}.") from error


def opened(raw: bytes | memoryview, path: Path, me: Identity) -> tuple[Bundle, DeviceId]:
    """Open the release file `raw`, which lies at `path`, as `me`; what it holds, and who sealed it.

    Raises RefusedError, with one sentence: it is none, is damaged, or is for another device.
    """
    if not is_sealed(raw):
        raise RefusedError(f"{path} is no release of a session; `hhd transfer SESSION DEVICE --to FILE` makes one.")
    try:
        found = sealed.decode(raw).open_as(me.seed)
        if is_bundle(found.content):
            return decode_bundle(found.content), found.by
    except FormatError as error:
        raise RefusedError(f"{path} was refused: {error}.") from error
    raise RefusedError(f"{path} is a capsule, which is a copy and hands nothing on; `hhd import` takes it in.")


def receive(store: Store, me: Identity, bundle: Bundle, by: DeviceId, path: Path) -> Grant:
    """Take the session that a release file holds; durable when this returns, with all that it needs.

    Raises RefusedError, with nothing changed: it was taken, is beaten, is not of this group, or does not hold together.
    """
    try:
        grant = handing_on.verified(store, me, bundle.release)
        if grant.by != by:
            raise FormatError("it was sealed by another device than the one that released the session")
        if grant.transfer is None or grant.head is None:
            raise FormatError("its release belongs to no handoff")
        before = handoff_journal.last(store, grant.transfer)
        if before is not None and before.stage in (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED):
            raise RefusedError(
                f"Session {short(grant.session)} was taken from this file already; nothing was changed. See it with: "
                f"hhd show {short(grant.session)}"
            )
        if before is not None and before.denied:
            raise RefusedError(
                f"This device had taken session {short(grant.session)} before its store was put back to an older copy. "
                f"To go on with what is here: hhd takeover {short(grant.session)} --reason TEXT"
            )
        if grant.to != me.id:
            raise FormatError("its release is for another device than the file")
        with store.transaction():
            _store(store, me, bundle, grant)
            handing_on.take(store, me, bundle.release, then=lambda grant: _journal(store, me, grant, before))
            Moment(store, grant.head).capsule(embed=True)  # All of it is read once: what is damaged is not taken.
    except NotYetError as error:
        raise RefusedError(f"{path} was refused: {error}") from error
    except (FormatError, MissingError, DamagedStoreError) as error:
        raise RefusedError(f"{path} was refused: {error}.".replace("..", ".")) from error
    return grant


def arrived(store: Store, me: Identity, grant: Grant) -> tuple[str, str, tuple[str, ...]]:
    """Have the files of what was taken appear, as `bringing.told`, and note it: a person begins it, and no daemon."""
    from hhd.node import bringing
    from hhd.node.handoff import steps as handoff_steps

    assert grant.transfer is not None
    folder, instead, notes = bringing.told(store, me, grant.session)
    elsewhere = (f"Its files are in {folder}: {instead}",) if instead else ()
    handoff_steps.opened(store, grant.transfer, grant.session, grant.by, (*elsewhere, *notes))
    return folder, instead, notes


def take_unread(store: Store, me: Identity, signed: Signed) -> tuple[str, ...]:
    """Take a session that is about to run under the release `signed` to this device, whose records and content came
    without the file; return what to say of its files.

    Nothing is done where it was taken, or a handoff of daemons brings it. Raises RefusedError where not all is here.
    """
    grant, session = handing_on.grant_of(signed), signed.session
    if grant.transfer is None or grant.head is None or handoff_journal.last(store, grant.transfer) is not None:
        return ()
    from hhd.node import bringing

    bringing.insist(store, session, grant.head)
    try:
        handing_on.take(store, me, grant.raw, then=lambda grant: _journal(store, me, grant, None))
    except FormatError as error:
        raise RefusedError(f"Session {short(session)} cannot go on here: {error}.") from error
    _, instead, notes = arrived(store, me, grant)
    return (*((instead,) if instead else ()), *notes)


def _store(store: Store, me: Identity, bundle: Bundle, grant: Grant) -> None:
    """Write what the file holds; within a transaction."""
    store.insist_on_room(sum(len(one) for one in bundle.objects))
    public = members(store, me)[grant.by].public
    store.families.accept(list(bundle.keys), by_public=public, seed=me.seed, current=bundle.epoch)
    store.create_session(grant.session, family=bundle.family)
    if store.session(grant.session).family != bundle.family:
        raise FormatError("the session has keys of another family here")
    for raw in passing.counted("keeping", sum(map(len, bundle.objects)), bundle.objects):
        store.objects.put(raw)
    if bundle.module is not None:
        store.modules.put(unpack(bundle.module))
    codec.decode(bundle.checkpoint, bytes_max=len(bundle.checkpoint))
    checkpoint = decode_checkpoint(bundle.checkpoint)
    if checkpoint.id != grant.head or checkpoint.session != grant.session or checkpoint.thinned:
        raise FormatError("its checkpoint is not the one that the release names")
    here_already = set(store.checkpoint_ids(grant.session))
    for raw in bundle.statements:
        signed = lineage.decode(raw)
        if not (isinstance(signed.body, CheckpointBody) and signed.id in {*here_already, grant.head}):
            store.statements.add(grant.session, raw)
    digest = checkpoint.payload.module
    if digest is not None and digest not in store.modules.all():
        wasm = programs.builtin_module(digest)
        if wasm is None:
            raise FormatError("its program is not in it")
        store.modules.put(wasm)
    store.commit(checkpoint)
    store.reader_of(checkpoint).needs(refs_of(checkpoint))
    assert CheckpointId(checkpoint.id) == grant.head


def _journal(store: Store, me: Identity, grant: Grant, before: Record | None) -> None:
    assert grant.transfer is not None
    one = handoff.unknown(me=me.id, side=Side.TARGET, peer=grant.by, transfer=grant.transfer, session=grant.session)
    if before is not None:
        one = handoff.recovered(before, me=me.id)
    after, outputs = handoff.handle(one, Event(what=Happening.RELEASE, grant=grant, at_ms=store.now_ms()))
    for output in outputs:
        if isinstance(output, Persist):
            handoff_journal.keep(store, output.record)
    assert after.stage is Stage.TAKEN
