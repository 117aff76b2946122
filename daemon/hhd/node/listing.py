"""What a list says of a session: one line's worth of facts, kept in the store's catalogue as they change.

Whoever changes a session calls `change` (or `put`) in the same transaction. The catalogue is a projection: what is
missing from it or damaged is described anew from the session itself when the list is next read.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from hhd.store.catalogue import HALF_BYTES
from hhd.store.errors import DamagedStoreError, MissingError
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId
from hhd_protocol.limits import PATH_HINT_BYTES_MAX, TITLE_BYTES_MAX

if TYPE_CHECKING:  # Entries are read by `hhd ls`, which is quick because it imports no more than it needs.
    from hhd.store.store import Store

VERSION = 1
WORDS_BYTES_MAX = 256
"""The name of a program, or what a session waits for: a few words; longer ones are cut."""


class State(enum.StrEnum):
    """What a session is doing, in the words that a person reads."""

    RUNNING = "running"
    WAITING = "waiting for you"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    FENCED = "fenced"
    DAMAGED = "damaged"


_STATES: Mapping[object, State] = {state.value: state for state in State}


class Listed(NamedTuple):
    """One session in a list. A named tuple, since ten thousand are made for each `hhd ls`; change it by `_replace`.

    `owner`: the device that may advance it; `token`: the number of its token. `heads`: how many there are, more than
    one compete. `picked`: the head a person prefers. `at_ms`: wall clock of the last change, for showing only.
    `waiting`: what for, in words. `folder`: where it works, a hint. `opening`: the first words of the session, its
    title until a person gave it one. `asked`: how many facts two devices gave without knowing of each other.

    `title` (once a person gave one), `archived`, `picked` and `asked` are the shared document's: `put` sets them from
    there, whatever it is given. A title given to `put` is taken for the opening.
    """

    id: SessionId
    title: str
    program: str = ""
    state: State = State.PAUSED
    owner: DeviceId = DeviceId(b"")
    token: int = 0
    heads: int = 1
    archived: bool = False
    picked: CheckpointId | None = None
    at_ms: int = 0
    turns: int = 0
    waiting: str = ""
    folder: str = ""
    opening: str = ""
    asked: int = 0

    def encoded(self) -> bytes:
        """Return the value for the catalogue; texts past their bounds are cut and end in an ellipsis."""
        texts = {
            "title": clipped(self.title, TITLE_BYTES_MAX),
            "opening": clipped(self.opening, TITLE_BYTES_MAX),
            "program": clipped(self.program, WORDS_BYTES_MAX),
            "waiting": clipped(self.waiting, WORDS_BYTES_MAX),
            "folder": clipped(self.folder, PATH_HINT_BYTES_MAX),
            "state": self.state.value,
        }
        return encode([VERSION, *self._replace(**texts)])  # type: ignore[arg-type]


_KINDS = (int, bytes, str, str, str, bytes, int, int, bool, bytes, int, int, str, str, str, int)
_FIELDS = tuple(frozenset({kind, type(None)} if place == 9 else {kind}) for place, kind in enumerate(_KINDS))
"""What each field of an entry may be: its version, then the fields of `Listed`, of which only `picked` may be none."""


def decoded(raw: bytes) -> Listed:
    """Return what `Listed.encoded` gave; raises FormatError, NewerVersionError."""
    return decoded_all([raw])[0]


def decoded_all(values: Iterable[bytes]) -> list[Listed]:
    """Return what `Listed.encoded` gave, each; raises FormatError, NewerVersionError."""
    together, found = list(values), list[Listed]()
    for begin in range(0, len(together), _ARRAY_MAX):
        part = together[begin : begin + _ARRAY_MAX]
        fields = decode_own(b"\x99" + len(part).to_bytes(2, "big") + b"".join(part))
        if type(fields) is not list or len(fields) != len(part):
            raise FormatError("entries of the catalogue are not in the form they were written in")
        found += _listed(fields)
    return found


_ARRAY_MAX = 0xFFFF
"""Values that one CBOR array with two bytes of length holds."""

_made = functools.partial(tuple.__new__, Listed)


def _listed(entries: list[Value]) -> Iterator[Listed]:
    """Insist that entries have the form they were written in; a column at a time, which takes a third of the time."""
    if set(map(type, entries)) != {list}:
        raise FormatError("an entry of the catalogue is not a list of fields")
    rows = cast(list[list[Value]], entries)
    if any(row and type(row[0]) is int and row[0] > VERSION for row in rows):
        raise NewerVersionError("an entry of the catalogue was written by a newer hhd")
    if set(map(len, rows)) != {len(_FIELDS)}:
        raise FormatError("an entry of the catalogue has other fields than it was written with")
    columns = list(zip(*rows, strict=True))
    if not all(set(map(type, column)) <= kinds for column, kinds in zip(columns, _FIELDS, strict=True)):
        raise FormatError("an entry of the catalogue has fields of other kinds than it was written with")
    if set(columns[0]) != {VERSION} or not set(columns[4]) <= _STATES.keys():
        raise FormatError("an entry of the catalogue is not in the form it was written in")
    columns[4] = tuple([_STATES[state] for state in columns[4]])
    return cast(Iterator[Listed], map(_made, zip(*columns[1:], strict=True)))


def clipped(text: str, bytes_max: int) -> str:
    """Return `text`, or as much of its begin as fits `bytes_max` of UTF-8 with an ellipsis behind.

    Lone surrogates, which have no UTF-8, become question marks.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= bytes_max:
        return raw.decode("utf-8")
    return raw[: bytes_max - 3].decode("utf-8", "ignore") + "…"


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
        whole = facts(store, listed.id).over(listed)
        store.catalogue.put(listed.id, whole.encoded())
    return whole


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
        turns=sum(one.turn for one in checkpoints),
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
        return facts(store, session).over(describe(store, session))
    except (DamagedStoreError, MissingError):
        return Listed(id=session, title="", state=State.DAMAGED, owner=store.device, heads=0)
