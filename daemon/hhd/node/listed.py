"""One session in a list, as a value: what is shown of it on one line.

Read by `hhd ls`, which is quick because it imports no more than it needs: no store, no seal.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from hhd.base.errors import UserError
from hhd.node import freshness
from hhd.node.freshness import Spread
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId
from hhd_protocol.limits import PATH_HINT_BYTES_MAX, TITLE_BYTES_MAX

if TYPE_CHECKING:
    from hhd.control.client import Connection

VERSION = 1
WORDS_BYTES_MAX = 256
"""The name of a program, or what a session waits for: a few words; longer ones are cut."""


class State(enum.StrEnum):
    """What a session is doing, in the words that a person reads."""

    RUNNING = "running"
    WAITING = "waiting for you"
    PAUSED = "paused"
    CUT_OFF = "cut off"
    """Who advanced it ended without a word: killed, or the power went. Never written; see `listing.now`."""
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
    `left_out`: how many of the heads are archived. `checkpoints`: how many are here, content and all.

    `title` (once a person gave one), `archived`, `picked`, `asked` and `left_out` are the shared document's, and
    `checkpoints` is the store's: `put` sets them from there, whatever it is given. A title given to `put` is taken for
    the opening.
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
    left_out: int = 0
    checkpoints: int = 0

    @property
    def heads_shown(self) -> int:
        """How many heads a list counts: those that are not archived, and always one of those there are."""
        return max(self.heads - self.left_out, min(self.heads, 1))

    @property
    def row(self) -> list[Value]:
        """The same as a value."""
        fields: list[Value] = [VERSION, *self]
        fields[_STATE] = str(self.state)
        return fields

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
        return encode(self._replace(**texts).row)  # type: ignore[arg-type]


_KINDS = (int, bytes, str, str, str, bytes, int, int, bool, bytes, int, int, str, str, str, int, int, int)
_STATE = 4
"""Where the state is in an entry."""
_FIELDS = tuple(frozenset({kind, type(None)} if place == 9 else {kind}) for place, kind in enumerate(_KINDS))
"""What each field of an entry may be: its version, then the fields of `Listed`, of which only `picked` may be none."""


_FIRST_FIELDS = len(_FIELDS) - 2
_LATER = [0] * len(_FIELDS)
"""What fields come to in entries that were written before there were those."""


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
        found += of_rows(fields)
    return found


_ARRAY_MAX = 0xFFFF
"""Values that one CBOR array with two bytes of length holds."""

_made = functools.partial(tuple.__new__, Listed)


def of_rows(entries: list[Value]) -> Iterator[Listed]:
    """Return what `Listed.row` gave, each; raises FormatError, NewerVersionError.

    A column at a time, which takes a third of the time.
    """
    if set(map(type, entries)) != {list}:
        raise FormatError("an entry of the catalogue is not a list of fields")
    rows = cast(list[list[Value]], entries)
    if any(row and type(row[0]) is int and row[0] > VERSION for row in rows):
        raise NewerVersionError("an entry of the catalogue was written by a newer hhd")
    if set(map(len, rows)) != {len(_FIELDS)}:
        # Those that were written before checkpoints were counted end one field earlier, and before heads could be
        # archived, two.
        rows = [[*row, *_LATER[len(row) :]] if len(row) >= _FIRST_FIELDS else row for row in rows]
    if set(map(len, rows)) != {len(_FIELDS)}:
        raise FormatError("an entry of the catalogue has other fields than it was written with")
    columns = list(zip(*rows, strict=True))
    if not all(set(map(type, column)) <= kinds for column, kinds in zip(columns, _FIELDS, strict=True)):
        raise FormatError("an entry of the catalogue has fields of other kinds than it was written with")
    if set(columns[0]) != {VERSION} or not set(columns[_STATE]) <= _STATES.keys():
        raise FormatError("an entry of the catalogue is not in the form it was written in")
    columns[_STATE] = tuple([_STATES[state] for state in columns[_STATE]])
    return cast(Iterator[Listed], map(_made, zip(*columns[1:], strict=True)))


def clipped(text: str, bytes_max: int) -> str:
    """Return `text`, or as much of its begin as fits `bytes_max` of UTF-8 with an ellipsis behind.

    Lone surrogates, which have no UTF-8, become question marks.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= bytes_max:
        return raw.decode("utf-8")
    return raw[: bytes_max - 3].decode("utf-8", "ignore") + "…"


class Overview(NamedTuple):
    """Sessions, newest first; `names` of devices by the first half of their ids; how many `questions` are open.

    `device`: this one. `archived`: how many were left out for being archived. `others`: this person's other devices
    that are to have sessions. `spread`: where sessions are; what is not in it is on all of them as it is here. `told`:
    who told of them, in a sentence, at a device that keeps none itself.
    """

    sessions: list[Listed]
    names: Mapping[bytes, str]
    device: DeviceId
    questions: int = 0
    archived: int = 0
    others: Sequence[DeviceId] = ()
    spread: Mapping[SessionId, Spread] = MappingProxyType({})
    told: str = ""

    def value(self) -> Value:
        """Return the same as a value of a message (`spec/control.md`, Lists)."""
        told: dict[Value, Value] = {"told": self.told} if self.told else {}
        return told | {
            "rows": encode([one.row for one in self.sessions]),
            "names": {key: name for key, name in self.names.items()},
            "device": self.device,
            "questions": self.questions,
            "archived": self.archived,
            "others": list(self.others),
            "spread": encode(freshness.to_value(self.spread)),
        }

    @classmethod
    def of(cls, value: Value) -> Overview:
        """Return what `value` gave; raises FormatError, NewerVersionError."""
        match value:
            case {
                "rows": bytes(raw),
                "names": dict(names),
                "device": bytes(device),
                "others": list(others),
                "spread": bytes(spread),
                **counts,
            }:
                rows = decode_own(raw)  # Checked by columns: in canonical form or not, each says one thing only.
            case _:
                raise FormatError("the list is none")
        if type(rows) is not list:
            raise FormatError("the rows of the list are none")
        sessions = list(of_rows(rows)) if rows else []
        told = counts.pop("told", "")
        if not isinstance(told, str):
            raise FormatError("who told of the list is no sentence")
        if counts.keys() != {"questions", "archived"} or set(map(type, counts.values())) != {int}:
            raise FormatError("the list has other fields than it should have")
        if set(map(type, others)) - {bytes}:
            raise FormatError("the other devices of the list are none")
        if set(map(type, names)) - {bytes} or set(map(type, names.values())) - {str}:
            raise FormatError("the names in the list are none")
        questions, archived = cast(int, counts["questions"]), cast(int, counts["archived"])
        return cls(
            sessions,
            cast(dict[bytes, str], names),
            DeviceId(device),
            questions,
            archived,
            [DeviceId(cast(bytes, one)) for one in others],
            freshness.of_value(decode_own(spread), len(others)),
            told,
        )


def asked(link: Connection, query: str, *, with_archived: bool, exact: bool) -> Overview:
    """Return the sessions that `query` means, asked of the daemon at the other end of `link`.

    `exact`: with where each of them is.
    """
    given: dict[Value, Value] = {"query": _sendable(query), "with_archived": with_archived, "exact": exact}
    try:
        return Overview.of(link.ask("sessions", given, changes=False))
    except FormatError as error:
        raise UserError(
            f"The daemon's answer is none that this hhd knows ({error}); hhd down, and then hhd up, starts a new one."
        ) from error


def _sendable(query: str) -> Value:
    """As `mapping.to_value`, which takes long to import, has a text: with lone surrogates, its bytes."""
    try:
        query.encode()
    except UnicodeEncodeError:
        return query.encode("utf-8", "surrogatepass")
    return query
