"""A capsule taken into the store: always a session of its own, owned by this device from the first moment.

The same capsule again finds the session that was made of it and changes nothing. What a capsule says of where it is
from is noted and proves nothing: no statement of the session that it names is made, and none is believed.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import here, listed_step, programs, sessions
from hhd.node.recording import Recorded, first
from hhd.node.standing import Standing, Step
from hhd.node.tally import Tally, tally_of
from hhd.store.errors import MissingError
from hhd.store.store import Store
from hhd_protocol import bodies, capsule
from hhd_protocol.capsule import Capsule
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, SessionId, Sha256, StatementId
from hhd_protocol.journal import decode_history
from hhd_protocol.paused import At
from hhd_protocol.steps import Opening, StepRecord, encode_opening, encode_step

IMPORTS = "imports"
"""Table of rows: by the digest that names a capsule, the session that was made of it."""


def imported(store: Store, me: Identity, value: Capsule, *, own: bool, module: bytes | None) -> tuple[SessionId, bool]:
    """Return the session that was made of `value`, and whether it was made now; durable when this returns.

    `own`: this person made it here, so it need not be shown before anything is done for it. `module`: for a capsule
    that has none inside. Raises RefusedError, with nothing written, where something in it is not what it says;
    FullStoreError.
    """
    name = name_of(value)
    with store.transaction():
        if (known := _made_of(store, name)) is not None:
            return known, False
        try:
            session = _taken(store, me, value, _wasm(store, value, module), own=own)
        except FormatError as error:
            raise RefusedError(f"The capsule was refused: {error}.") from error
        store.rows.put(IMPORTS, b"", name, session)
        return session, True


def name_of(value: Capsule) -> Sha256:
    """What makes it the same capsule: the content, and the line of steps that it belongs to."""
    return Sha256(sha256(encode([1, value.content_digest(), value.line])).digest())


def _made_of(store: Store, name: Sha256) -> SessionId | None:
    """The session that was made of a capsule, None if none was, or it is removed."""
    raw = store.rows.get(IMPORTS, b"", name)
    session = None if raw is None else SessionId(StatementId(raw))
    try:
        if session is not None:
            store.session(session)
    except MissingError:
        return None
    return session


def _wasm(store: Store, value: Capsule, module: bytes | None) -> bytes:
    """The module, from the capsule, from what is given, or from here; raises RefusedError, FormatError."""
    named = value.module
    if named.packed is not None:
        return capsule.module_bytes(named)
    if module is None and named.digest in store.modules.all():
        module = store.modules.get(named.digest)
    module = programs.builtin_module(named.digest) if module is None else module
    if module is None:
        raise RefusedError("The capsule has its program left out; give it with --module FILE.")
    if sha256(module).digest() != named.digest or len(module) != named.length:
        raise RefusedError("The given module is not the program that the capsule names.")
    return module


def _taken(store: Store, me: Identity, value: Capsule, wasm: bytes, *, own: bool) -> SessionId:
    store.insist_on_room(len(wasm))
    module = store.modules.put(wasm)
    standing = sessions.doubted(Standing.of(value))
    log = _log(
        value,
        standing,
        Opening(program=value.program, module=module, module_bytes=len(wasm), args=value.args, limits=value.limits),
    )
    content = sessions.Content(
        module=module,
        snapshot=None if value.execution is None else value.execution.snapshot(),
        transcript=b"".join(value.transcript),
    )
    session = sessions.create_imported(store, me, _origin(value), standing, log, content)
    if own:
        here.note(store, session, here.Note())
    listed_step.imported(store, session, standing, at_ms=store.now_ms())
    return session


def _origin(value: Capsule) -> bodies.Origin:
    """Where the capsule says it is from, and what it is."""
    said = value.origin
    named = said is not None and len(said.session) == len(said.checkpoint) == 32
    if said is None or not named:
        return bodies.Origin(capsule=value.content_digest())
    return bodies.Origin(
        session=SessionId(StatementId(said.session)),
        checkpoint=CheckpointId(StatementId(said.checkpoint)),
        capsule=value.content_digest(),
    )


def _log(value: Capsule, standing: Standing, opening: Opening) -> bytes:
    """The log of steps as if the session had been here from its first effect: one record for each that is over."""
    raw, recorded = first(encode_opening(opening), At.FRESH)
    parts, tally = [raw], Tally()
    for settled in decode_history(b"".join(value.history)):
        tally = tally.with_settled(settled)
        record = StepRecord(
            before=recorded.size,
            opening=recorded.record.opening,
            at=At.INTERRUPTED,
            checks=0,
            steps=0,
            settled=settled.index + 1,
            live=None,
            closed=settled,
            counts={op: (count.settled, count.starts) for op, count in tally.counts.items()},
        )
        parts.append(encode_step(record))
        recorded = Recorded(record=record, size=recorded.size + len(parts[-1]))
    if recorded.record.settled != standing.journal.settled:
        raise FormatError("its history is not that of its journal")
    recorded = replace(recorded, record=replace(recorded.record, tokens=tally_of(value).tokens))
    parts.append(recorded.after(Step(standing=standing))[0])
    return b"".join(parts)
