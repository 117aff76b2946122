"""Keeps what a list says of a session in step with the session: in the same transaction, a few fields at a time."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from hhd.base.errors import UserError
from hhd.node import listing
from hhd.node.kinds import kind_of
from hhd.node.listing import Listed, State, clipped
from hhd.node.standing import Standing
from hhd.node.words import Words
from hhd.store.store import Store
from hhd_protocol import journal
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.limits import TITLE_BYTES_MAX
from hhd_protocol.paused import At
from hhd_protocol.statements import EffectKind

NAME_BYTES_MAX = 64
"""Of a tool's name, as far as a list shows it."""


def created(store: Store, session: SessionId, *, program: str, args: bytes, folder: str, at_ms: int) -> None:
    """A session of this device begins."""
    listing.put(
        store,
        Listed(
            id=session,
            title=title_of(args) or program,
            program=program,
            owner=store.device,
            token=1,
            at_ms=at_ms,
            folder=folder,
        ),
    )


def forked(store: Store, origin: SessionId, session: SessionId, standing: Standing, *, at_ms: int) -> None:
    """A session begins where `origin` stood."""
    before = listing.get(store, origin) or listing.described(store, origin)
    begun = before._replace(
        id=session, owner=store.device, token=1, heads=1, archived=False, picked=None, at_ms=at_ms, turns=0
    )
    listing.put(store, begun._replace(state=state_of(standing), waiting=waiting_of(standing)))


def imported(store: Store, session: SessionId, standing: Standing, *, at_ms: int) -> None:
    """A session begins where a capsule stood."""
    created(store, session, program=standing.program, args=standing.args, folder="", at_ms=at_ms)
    listing.change(store, session, state=state_of(standing), waiting=waiting_of(standing))


def begun(store: Store, session: SessionId) -> None:
    """A process is about to advance it: it may be a while until its first step, a call of the model, say.

    Where this cannot be written, that step says it.
    """
    with contextlib.suppress(UserError), store.transaction():
        listed = listing.get(store, session)
        if listed is not None and listed.state is State.PAUSED:
            listing.put(store, listed._replace(state=State.RUNNING, waiting=""))


def stepped(
    store: Store, session: SessionId, standing: Standing, *, turn: bool, folder: Path | None, at_ms: int
) -> None:
    """It is one step on, and is being advanced in `folder` (None: nowhere yet) until `rested`."""
    before = listing.get(store, session) or listing.described(store, session)
    state = state_of(standing)
    listing.put(
        store,
        before._replace(
            state=State.RUNNING if state is State.PAUSED else state,
            waiting=waiting_of(standing),
            at_ms=at_ms,
            turns=before.turns + turn,
            folder=before.folder if folder is None else str(folder),
        ),
    )


def rested(store: Store, session: SessionId, standing: Standing) -> None:
    """Nobody advances it any more. Where this cannot be written, `listing.now` still tells it from one that runs.

    That its effect may have run is said here, too: an intent without a checkpoint after it changes no line by itself.
    """
    with contextlib.suppress(UserError), store.transaction():
        listed = listing.get(store, session)
        if listed is None:
            return
        state = State.PAUSED if listed.state is State.RUNNING else listed.state
        pending = standing.journal.pending
        if state in (State.PAUSED, State.WAITING) and pending is not None and state_of(standing) is State.UNCERTAIN:
            state = state if Words(store=store, session=session).settlement(pending) else State.UNCERTAIN
        if state is not listed.state:
            listing.put(store, listed._replace(state=state))


def fenced(store: Store, session: SessionId) -> None:
    """Another device took it over while it was advanced here."""
    listing.change(store, session, state=State.FENCED, heads=max(2, len(store.heads(session))))


def turned(store: Store, session: SessionId, standing: Standing, *, token: int, heads: int) -> None:
    """This device took it, to go on from another head."""
    listing.change(
        store,
        session,
        owner=store.device,
        token=token,
        heads=heads,
        state=state_of(standing),
        waiting=waiting_of(standing),
    )


def handed_on(store: Store, session: SessionId, to: DeviceId, *, token: int) -> None:
    """It was released to another device."""
    listing.change(store, session, owner=to, token=token, state=State.PAUSED, waiting="")


def taken(
    store: Store, session: SessionId, standing: Standing, *, token: int, heads: int, folder: str, at_ms: int
) -> None:
    """This device took it over from another, to go on with it in `folder`."""
    before = listing.get(store, session) or listing.described(store, session)
    listing.put(
        store,
        before._replace(
            title=before.title or title_of(standing.args) or standing.program,
            program=standing.program,
            owner=store.device,
            token=token,
            heads=heads,
            state=state_of(standing),
            waiting=waiting_of(standing),
            at_ms=at_ms,
            folder=folder or before.folder,
        ),
    )


def title_of(args: bytes) -> str:
    """The first line of the prompt, bounded; empty if there is none."""
    try:
        given = json.loads(args)
    except (ValueError, RecursionError):
        return ""
    prompt = given.get("prompt") if isinstance(given, dict) else None
    lines = prompt.strip().splitlines() if isinstance(prompt, str) else []
    return clipped(lines[0].strip(), TITLE_BYTES_MAX) if lines else ""


def state_of(standing: Standing) -> State:
    if standing.at is At.FINISHED:
        return State.FINISHED
    entry = standing.journal.pending
    if entry is None:
        return State.PAUSED
    if entry.state is journal.State.UNCERTAIN:
        return State.UNCERTAIN
    return State.WAITING if waiting_of(standing) else State.PAUSED


def waiting_of(standing: Standing) -> str:
    """What it waits for that a person gives: their words, or their yes to a command. Empty: it goes on by itself.

    Where a rule says yes in their place it stands like this for a moment only.
    """
    entry = standing.journal.pending
    if entry is None or entry.state is not journal.State.ASKED or kind_of(entry) is EffectKind.REPEATABLE:
        return ""
    return "input" if entry.op == "input" else f"approval of {_tool(entry.request)}".strip()


def _tool(request: bytes) -> str:
    """The name of the tool that is asked for; it is the session's word, and may be anything."""
    try:
        asked = json.loads(request)
    except (ValueError, RecursionError):
        return "a call"
    name = asked.get("name") if isinstance(asked, dict) else None
    return clipped(name, NAME_BYTES_MAX) if isinstance(name, str) and name else "a call"
