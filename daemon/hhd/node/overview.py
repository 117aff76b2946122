"""What `hhd ls` shows: the sessions that are meant, newest first, as a person would ask for them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hhd.node import freshness, listing
from hhd.node.listed import Listed, State
from hhd.node.listed import Overview as Overview
from hhd.node.misleading import sound
from hhd.node.registry import device_names, is_behind
from hhd.node.this_device import known_identity, store_folder
from hhd.store.errors import DamagedStoreError
from hhd.store.lists import Lists
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId

if TYPE_CHECKING:
    from hhd.store.store import Store


def overview(
    query: str = "",
    *,
    with_archived: bool = False,
    exact: bool = False,
    at_work: frozenset[SessionId] = frozenset(),
) -> Overview:
    """Return the sessions of this device that `query` means: a part of title, folder, program, state or device.

    `exact`: with where each of them is, and not only those that are not everywhere. `at_work`: sessions that are known
    to run, though what they do has not come to a step yet.
    Nothing is made where there is no store. Raises LostKeyError, DamagedStoreError.
    """
    me = known_identity()
    if me is None:
        return Overview([], {}, DeviceId(b""))
    found = _quickly(me.seed, exact=exact) or _wholly(exact=exact)
    if at_work:
        for place, one in enumerate(found.sessions):
            if one.state is State.PAUSED and one.id in at_work:
                found.sessions[place] = one._replace(state=State.RUNNING)
    return meant(found, query.casefold(), with_archived)


def _quickly(seed: bytes, *, exact: bool = False) -> Overview | None:
    """Read the lists alone; None where something in them is missing, behind or damaged."""
    lists = Lists.open(store_folder(), seed=seed)
    if lists is None:
        return None
    with lists:
        try:
            with lists.snapshot():
                if is_behind(lists.shared):
                    return None
                raw, count = lists.catalogue.entries(), lists.sessions_count()
                names, questions = device_names(lists.shared)
                if len(raw) != count:
                    return None
                sessions = listing.decoded_all(raw.values())
                others, spread = freshness.read(lists.freshness, sessions, exact=exact)
                names = sound({**lists.freshness.names(), **sound(names)})
            sessions = _now(sessions, lists)
        except (DamagedStoreError, FormatError):
            return None
        return Overview(sessions, names, lists.device, questions, others=others, spread=spread)


def _wholly(*, exact: bool) -> Overview:
    """Open the whole store and mend what the lists lack."""
    from hhd.node.store import opened

    with opened() as store:
        sessions = _now(listing.listed(store), store)
        names, questions = device_names(store.shared)
        others, spread = freshness.read(store.freshness, sessions, exact=exact)
        names = sound({**store.freshness.names(), **sound(names)})
        return Overview(sessions, names, store.device, questions, others=others, spread=spread)


def _now(sessions: list[Listed], store: Lists | Store) -> list[Listed]:
    """The same sessions, those that only seem to run told as cut off."""
    for place, one in enumerate(sessions):
        if one.state is State.RUNNING:
            sessions[place] = listing.now(one, store)
    return sessions


def meant(found: Overview, query: str, with_archived: bool) -> Overview:
    """Return those sessions of a list that `query`, in small letters, means, newest first."""
    sessions = found.sessions
    if query:
        devices = {owner for owner in {one.owner for one in sessions} if _is_device(owner, query, found.names)}
        sessions = [one for one in sessions if _means(one, query, devices)]
    shown = sessions if with_archived else [one for one in sessions if not one.archived]
    shown.sort(key=_AT_MS, reverse=True)
    spread = {one.id: where for one in shown if (where := found.spread.get(one.id)) is not None}
    return found._replace(sessions=shown, archived=len(sessions) - len(shown), spread=spread)


_AT_MS = operator.itemgetter(Listed._fields.index("at_ms"))


def _is_device(device: DeviceId, query: str, names: Mapping[bytes, str]) -> bool:
    return query in names.get(device[:16], "").casefold() or device_text(device).startswith(query)


def _means(one: Listed, query: str, devices: set[DeviceId]) -> bool:
    texts = (one.title, one.folder, one.program, one.state.value)
    return one.owner in devices or one.id.hex().startswith(query) or any(query in text.casefold() for text in texts)
