"""What two members say about a session that runs at one of them while a person is at the other (`spec/relay.md`).

The one at which it runs is its home, the other one the viewer. Events are those of `live`; which device says a message,
the link tells. What is asked names itself by an id, so that asking again, after a link broke, does nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast

from hhd_protocol import live, mapping
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.limits import (
    LIVE_BY_BYTES_MAX,
    LIVE_LINE_BYTES_MAX,
    RELAY_MESSAGE_BYTES_MAX,
    RELAY_ROWS_MAX,
    RELAY_SENTENCE_BYTES_MAX,
    RELAY_TEXT_BYTES_MAX,
)

VERSION = 1
SESSION_BYTES, ID_BYTES, SHOWN_BYTES = 32, 16, 32
POSITION_MAX = 2**53 - 1
CHOICES = ("yes", "always", "no", "later")
SETTLED = ("ran", "did-not-run", "again")

WHYS = ("unknown", "elsewhere", "right", "full", "refused")
"""Why a home does not do what it is asked: there is no such session, or none for this device, which is not told apart;
it runs at another device; the right is missing; there is no room; what the sentence says."""


# On a channel `watch`


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The first word of the viewer: tell what happens in `session`, from byte `position` on (None: none before now).

    `by`: how the terminal is called at the viewer.
    """

    session: bytes
    position: int | None
    by: str


@dataclass(frozen=True, kw_only=True)
class Over:
    """The last word of the home: nothing more is told; `why` is one of `WHYS`, `exit` the status it stands for."""

    why: str
    sentence: str
    exit: int


# On a channel `live`: asked


@dataclass(frozen=True, kw_only=True)
class Say:
    """Say `text` to the session."""

    id: bytes
    session: bytes
    text: str
    by: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A person's `choice` on the `question` whose text, of the digest `shown`, was on the screen."""

    id: bytes
    session: bytes
    question: str
    shown: bytes
    choice: str
    message: str
    by: str


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Pause the session."""

    id: bytes
    session: bytes


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on with the session where it is."""

    id: bytes
    session: bytes


@dataclass(frozen=True, kw_only=True)
class Find:
    """Which session of yours does `name` mean? Asked by who keeps none."""

    id: bytes
    name: str


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What stands on a terminal's line; nothing answers it."""

    session: bytes
    line: str
    by: str


# On a channel `settle`: asked


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Which effect may have run, and waits for a word? `effect`: its number, None for the one that there is."""

    id: bytes
    session: bytes
    effect: int | None


@dataclass(frozen=True, kw_only=True)
class Settle:
    """A person's `word` on what became of `effect`, whose text, of the digest `shown`, they saw; `output`: of `ran`."""

    id: bytes
    session: bytes
    effect: int
    shown: bytes
    word: str
    output: str
    by: str


# On a channel `list`


@dataclass(frozen=True, kw_only=True)
class List:
    """Which sessions do you know? Asked by who keeps none."""

    id: bytes


@dataclass(frozen=True, kw_only=True)
class Row:
    """One session, as lists have it: `owner` is the device at which it runs, `at_ms` that of its last change."""

    session: bytes
    title: str
    program: str
    state: str
    waiting: str
    owner: bytes
    token: int
    heads: int
    archived: bool
    at_ms: int
    turns: int
    folder: str


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The newest of them that the asking device may be at; `left_out`: how many more there are."""

    id: bytes
    rows: tuple[Row, ...]
    left_out: int


# On a channel `live`: answered


@dataclass(frozen=True, kw_only=True)
class Heard:
    """As `live.md` has it of `say`."""

    id: bytes
    how: str


@dataclass(frozen=True, kw_only=True)
class Counted:
    """As `live.md` has it of `answer`."""

    id: bytes
    counted: bool
    by: str


@dataclass(frozen=True, kw_only=True)
class Rested:
    """As `live.md` has it of `pause`."""

    id: bytes
    state: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """It runs; `fresh` unless it ran already."""

    id: bytes
    fresh: bool


@dataclass(frozen=True, kw_only=True)
class Found:
    """That session, which runs here."""

    id: bytes
    session: bytes


@dataclass(frozen=True, kw_only=True)
class Refused:
    """It was not done; as `Over`."""

    id: bytes
    why: str
    sentence: str
    exit: int


# On a channel `settle`: answered


@dataclass(frozen=True, kw_only=True)
class Doubted:
    """That effect, by its number, what kind it is, and its whole `text`."""

    id: bytes
    effect: int
    op: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The word is noted."""

    id: bytes
    effect: int
    op: str


Ask = Say | Answer | Pause | Resume | Find
Reply = Heard | Counted | Rested | Resumed | Found | Refused
Asked = Ask | Doubt | Settle
"""Whatever is asked of a session."""
Answered = Reply | Doubted | Settled
Message = Watch | live.Event | Over | Ask | Keys | Doubt | Settle | Reply | Doubted | Settled | List | Rows

_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Watch, Over, Say, Answer, Pause, Resume, Find, Keys, Heard, Counted, Rested, Resumed, Found, Refused,
        Doubt, Settle, Doubted, Settled, List, Rows,
    )
}  # fmt: skip
KINDS = (*_KINDS, "event")
"""What a message may be, by its name."""

ASKS = (Say, Answer, Pause, Resume, Find)
REPLIES = (Heard, Counted, Rested, Resumed, Found, Refused)

_LENGTHS = {"owner": SESSION_BYTES, "session": SESSION_BYTES, "id": ID_BYTES, "shown": SHOWN_BYTES}
_TEXTS = {
    "text": RELAY_TEXT_BYTES_MAX,
    "message": RELAY_TEXT_BYTES_MAX,
    "output": RELAY_TEXT_BYTES_MAX,
    "line": LIVE_LINE_BYTES_MAX,
}
_WORDS = {
    "why": WHYS,
    "choice": CHOICES,
    "how": ("answer", "steering", "prompt"),
    "state": live.STATES,
    "word": SETTLED,
}


def encode_message(message: Message) -> bytes:
    """Return the one encoding of `message`; raises TooLargeError, FormatError where a bound is passed."""
    if isinstance(message, live.Event):
        raw = encode([VERSION, "event", live.encoded(message)])
        if len(raw) > RELAY_MESSAGE_BYTES_MAX:
            raise TooLargeError(f"an event of {len(raw)} bytes passes the bound of {RELAY_MESSAGE_BYTES_MAX}")
        return raw
    _insist(message)
    return encode([VERSION, type(message).__name__.lower(), mapping.to_value(message)])


def decode_message(raw: bytes) -> Message:
    """Return the message that `raw` encodes; raises FormatError (TooLargeError, NewerVersionError)."""
    match decode(raw, bytes_max=RELAY_MESSAGE_BYTES_MAX):
        case [int(version), *_] if type(version) is int and version > VERSION:
            raise NewerVersionError(f"a message about a session of version {version}; this hhd knows {VERSION}")
        case [int(version), "event", said] if type(version) is int and version == VERSION:
            return live.decoded(said)
        case [int(version), str(name), dict(said)] if type(version) is int and version == VERSION and name in _KINDS:
            message = cast(Message, mapping.from_value(_KINDS[name], cast(Value, said)))
            _insist(message)
            return message
    raise FormatError("this is no message about a session")


def _insist(message: Any) -> None:
    """Raise FormatError where a field passes its bound."""
    for field in fields(message):
        name, value = field.name, getattr(message, field.name)
        if isinstance(value, bytes):
            if len(value) != _LENGTHS[name]:
                raise FormatError(f"the {name} of a message about a session has {len(value)} bytes")
        elif isinstance(value, str):
            bytes_max = _TEXTS.get(name, LIVE_BY_BYTES_MAX if name == "by" else RELAY_SENTENCE_BYTES_MAX)
            if len(value.encode("utf-8", "surrogatepass")) > bytes_max:
                raise TooLargeError(f"the {name} of a message about a session has more than {bytes_max} bytes")
            if name in _WORDS and not isinstance(message, Row) and value not in _WORDS[name]:
                raise FormatError(f"the {name} of a message about a session is none that there is")
        elif isinstance(value, tuple):
            if len(value) > RELAY_ROWS_MAX:
                raise TooLargeError(f"a list of sessions has more than {RELAY_ROWS_MAX}")
            for one in value:
                _insist(one)
        elif type(value) is int and not (1 <= value <= 5 if name == "exit" else 0 <= value <= POSITION_MAX):
            raise FormatError(f"the {name} of a message about a session is {value}")


class Cursor:
    """Where one who is told a transcript stands: each byte is taken once, however often it comes.

    `position`: of the next byte; None before it is known where the transcript ends.
    """

    def __init__(self, position: int | None) -> None:
        self.position = position

    def attached(self, end: int) -> bool:
        """Take where the transcript ends now; whether it ends before what was taken: another line goes on there."""
        if self.position is None:
            self.position = end
        return end < self.position

    def take(self, event: live.Emitted) -> live.Emitted | None:
        """Return what of `event` was not taken yet, None if nothing; raises FormatError where bytes are missing."""
        if self.position is None or event.position > self.position:
            raise FormatError("a part of the transcript is missing")
        fresh = event.piece[self.position - event.position :]
        if not fresh:
            return None
        taken = live.Emitted(position=self.position, piece=fresh)
        self.position += len(fresh)
        return taken
