"""What a list says of a session: one line's worth of facts, kept in the store's catalogue as they change.

Whoever changes a session calls `change` (or `put`) in the same transaction. The catalogue is a projection: what is
missing from it or damaged is described anew from the session itself when the list is next read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hhd.node.listed import VERSION
from hhd.node.listed import Listed as Listed
from hhd.node.listed import State as State
from hhd.node.listed import clipped as clipped
from hhd.node.listed import decoded as decoded
from hhd.node.listed import decoded_all as decoded_all
from hhd.store.catalogue import HALF_BYTES
from hhd.store.errors import DamagedStoreError, MissingError
from hhd_protocol.codec import decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, SessionId, StatementId

if TYPE_CHECKING:  # Entries are read by `hhd ls`, which is quick because it imports no more than it needs.
    from hhd.store.lists import Lists
    from hhd.store.store import Store


class Facts(NamedTuple):
    """What the shared document says of a session, as it was last read from there."""

    title: str | None = None
    archived: bool = False
    picked: CheckpointId | None = None
    asked: int = 0

    def encoded(self) -> bytes:
        """Return the value for the catalogue of facts."""
        return encode([VERSION, *self])

    def over(self, listed: Listed) -> Listed:
        """Return `listed` with these facts."""
        opening = listed.opening or ("" if listed.title == self.title else listed.title)
        return listed._replace(
            opening=opening,
            title=opening if self.title is None else self.title,
            archived=self.archived,
            picked=self.picked,
            asked=self.asked,
        )


def facts(store: Store, session: SessionId) -> Facts:
    """Return what the shared document says of a session; nothing if what it said is damaged, until it says it again.

    Within a transaction.
    """
    try:
        raw = store.facts.get(SessionId(StatementId(session[:HALF_BYTES])))
        match None if raw is None else decode_own(raw):
            case [1, str() | None as title, bool(archived), bytes() | None as picked, int(asked)]:
                return Facts(title, archived, None if picked is None else CheckpointId(StatementId(picked)), asked)
    except (DamagedStoreError, FormatError):
        store.shared.show(b"")  # All of it is shown again when lists are next read.
    return Facts()


def put(store: Store, listed: Listed) -> Listed:
    """Set what is shown of a session, in the caller's transaction if there is one; return it with the shared facts."""
    with store.transaction():
        whole = _with_facts(store, listed)
        store.catalogue.put(listed.id, whole.encoded())
    return whole


def _with_facts(store: Store, listed: Listed) -> Listed:
    """`listed` with all that the shared document says of it."""
    from hhd.node import head_facts

    return (
        facts(store, listed.id)
        .over(listed)
        ._replace(left_out=head_facts.left_out(store, listed.id), checkpoints=store.checkpoints_count(listed.id))
    )


def get(store: Store, session: SessionId) -> Listed | None:
    """Return what is shown of a session; None if nothing is, or it is damaged and will be described anew."""
    try:
        raw = store.catalogue.get(session)
        return None if raw is None else decoded(raw)
    except (DamagedStoreError, FormatError):
        return None


def change(store: Store, session: SessionId, **fields: object) -> Listed:
    """Change some fields of what is shown of a session and return it all, in the caller's transaction if there is one.

    A session that nothing was shown of is described first.
    """
    with store.transaction():
        listed = (get(store, session) or described(store, session))._replace(**fields)  # type: ignore[arg-type]
        return put(store, listed)


def now(listed: Listed, store: Store | Lists) -> Listed:
    """Return `listed`; what a process that ended without a word left as running was cut off."""
    if listed.state is State.RUNNING and not store.is_advanced(listed.id):
        return listed._replace(state=State.CUT_OFF)
    return listed


Describe = Callable[["Store", SessionId], Listed]


def described(store: Store, session: SessionId) -> Listed:
    """Say what the store alone knows of a session; raises MissingError if it has none of this id."""
    store.session(session)
    checkpoints = [store.checkpoint(one) for one in store.checkpoint_ids(session)]
    parents = {parent for one in checkpoints for parent in one.parents}
    return Listed(
        id=session,
        title="",
        owner=store.device,
        heads=sum(one.id not in parents for one in checkpoints),
        at_ms=max((one.at_ms for one in checkpoints), default=0),
        turns=sum(one.turn for one in checkpoints if one.parents),
    )


def listed(store: Store, describe: Describe = described) -> list[Listed]:
    """Return what is shown of every session of the store, in no order.

    What the catalogue lacks is made with `describe` and kept; what the shared document says that is not shown yet is
    shown first. Raises DamagedStoreError if the list of sessions itself is damaged.
    """
    from hhd.node import registry  # It shows what the document says by what is here.

    registry.catch_up(store)
    try:
        with store.snapshot():
            raw, count = store.catalogue.entries(), store.sessions_count()
        if len(raw) == count:
            return decoded_all(raw.values())
    except (DamagedStoreError, FormatError):
        pass
    return mended(store, describe)


def mended(store: Store, describe: Describe = described) -> list[Listed]:
    """Make the catalogue again as far as it is missing or damaged, and return it."""
    with store.transaction():
        known = store.catalogue.sound_entries()
        all_listed = [_kept(store, session, known.get(session), describe) for session in store.sessions()]
        store.catalogue.refill((one.id, one.encoded()) for one in all_listed)
    return all_listed


def _kept(store: Store, session: SessionId, raw: bytes | None, describe: Describe) -> Listed:
    try:
        if raw is not None:
            return decoded(raw)
    except FormatError:
        pass
    try:
        return _with_facts(store, describe(store, session))
    except (DamagedStoreError, MissingError):
        return Listed(id=session, title="", state=State.DAMAGED, owner=store.device, heads=0)
