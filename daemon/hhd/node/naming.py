"""What a person means by a name: a session, one of its checkpoints or heads, a device.

A name is an id, a title, or any begin of one that means one thing only. What is exactly a name goes before what only
begins with it, so that a title can always be used however others begin. Nothing is ever guessed between two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import short
from hhd.node import listing
from hhd.node.listing import Listed
from hhd.store.errors import MissingError
from hhd.store.store import Store
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId

SHOWN_MAX = 8
"""Of things that a name may mean, in the sentence that asks for a longer one."""
SHOWN_CHARS = 60
ID_SHOWN = 12
"""Letters of an id in a sentence: 48 bits, enough for one person's sessions."""


Names = Mapping[CheckpointId, str]
"""What heads are called, those that have a name."""

_NO_NAMES: Names = {}


class Named(NamedTuple):
    """One thing that can be named: its `id` as text, its `titles`, and how a sentence calls it."""

    id: str
    titles: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """How a sentence calls it, safe to print."""
        title = next((one for one in self.titles if one), "")
        return f"{self.id[:ID_SHOWN]} ({short(title, SHOWN_CHARS)})" if title else self.id[:ID_SHOWN]


def chosen(name: str, things: Sequence[Named], what: str) -> int:
    """Return the place in `things` of the one that `name` means; `what` is the word for such a thing.

    Raises UsageError where it means several, RefusedError where it means none.
    """
    wanted = _folded(name)
    if not wanted:
        raise UsageError(f"An empty name means no {what}.")
    for means in (_is, _begins):
        found = [place for place, thing in enumerate(things) if means(thing, wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            shown = [things[place].shown for place in found[:SHOWN_MAX]]
            more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
            raise UsageError(f"'{short(name, SHOWN_CHARS)}' may mean {', '.join(shown)}{more}; give more of its id.")
    raise RefusedError(f"There is no {what} '{short(name, SHOWN_CHARS)}' here.")


def session(store: Store, name: str, what: str = "session") -> Listed:
    """Return the session that `name` means; `what` it could have meant. Raises UsageError, RefusedError."""
    if len(name) == 64 and (whole := _session_id(store, name)) is not None:
        return listing.get(store, whole) or listing.described(store, whole)
    entries = listing.listed(store)
    things = [Named(one.id.hex(), (one.title,)) for one in entries]
    return entries[chosen(name, things, what)]


def checkpoint(store: Store, session: SessionId, name: str, names: Names = _NO_NAMES) -> CheckpointId:
    """Return the checkpoint of `session` that `name` means: an id, or the name of a head out of `names`, or a begin."""
    return checkpoint_of(store.checkpoint_ids(session), name, names)


def checkpoint_of(ids: Sequence[CheckpointId], name: str, names: Names = _NO_NAMES) -> CheckpointId:
    """Return the one of `ids` that `name` means, as `checkpoint` does."""
    wanted = _folded(name)
    found = [one for one in ids if one.hex().startswith(wanted) or one in names] if wanted else []
    if len(found) == 1 and found[0].hex().startswith(wanted):
        return found[0]
    things = [Named(one.hex(), (names.get(one, ""),)) for one in found]
    return found[chosen(name, things, "checkpoint of this session")]


def head(heads: Iterable[CheckpointId], name: str, names: Names = _NO_NAMES) -> CheckpointId:
    """Return the one of `heads` that `name` means: an id, the name that a person gave it, or a begin of either."""
    known = list(heads)
    things = [Named(one.hex(), (names.get(one, ""),)) for one in known]
    return known[chosen(name, things, "head of this session")]


def device(devices: Iterable[tuple[DeviceId, str]], name: str) -> DeviceId:
    """Return the device that `name` means: its id with or without dashes, its name, or a begin of either."""
    known = list(devices)
    things = [Named(device_text(one).replace("-", ""), (title, device_text(one))) for one, title in known]
    return known[chosen(name, things, "device")][0]


def same(one: str, other: str) -> bool:
    """Whether two names cannot be told apart by whoever types one."""
    return _folded(one) == _folded(other)


def _session_id(store: Store, name: str) -> SessionId | None:
    try:
        whole = SessionId(StatementId(bytes.fromhex(name)))
        store.session(whole)
    except (ValueError, MissingError):
        return None
    return whole


def _is(thing: Named, wanted: str) -> bool:
    return wanted == thing.id or any(wanted == _folded(title) for title in thing.titles if title)


def _begins(thing: Named, wanted: str) -> bool:
    return thing.id.startswith(wanted) or any(_folded(title).startswith(wanted) for title in thing.titles if title)


def _folded(text: str) -> str:
    """Text as names are compared: however its letters are composed, large or small, with blanks at its ends or not."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).strip()
