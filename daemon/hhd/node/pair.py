"""What the daemon and one worker say to each other, over a pair of sockets of their own.

Values in frames as on the control socket (`spec/control.md`), each a map of its kind to its fields. Both ends are of
one hhd, started one from the other, so there are no versions. What a worker tells for people to hear are the events of
`hhd_protocol.live` as they are.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hhd.effects.approvals import Grant
from hhd_protocol import live, mapping
from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError
from hhd_protocol.frames import Frames, frame

PAIR_BYTES_MAX = 32 * 1024 * 1024
"""One message: a prompt, an environment, or what a program said in one slice."""

REPORT = struct.Struct("<cii")
"""What the process says that workers are forked from: a kind, the process, its status as `waitpid` gives it."""
FORKED, ENDED = b"f", b"e"
PLAIN, WITH_MODEL = b"w", b"m"
"""What it is asked for: a worker whose model is a script, or one that needs the client of a service."""

_READ_BYTES = 256 * 1024


# To the worker


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A person's answer to the question `id`, of the text whose digest is `shown`."""

    id: str
    shown: bytes
    choice: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Start:
    """The first message: drive `session`.

    `config`: the text of the configuration that the daemon holds, None where it holds none. `environment`: of its
    commands; None: the worker's own. `model_environment`: where the model is and the key for it, None: the worker's
    own. `words`: said before it ran. `answers`: given before it ran. `grants`: what a person always allows since they
    began to run it. `linger_ms`: how long it waits for a person before it ends. `patience_ms`: for another process to
    let go of the session.
    """

    session: bytes
    config: bytes | None
    folder: str | None
    model: str | None
    settle: tuple[str, str] | None
    environment: tuple[tuple[str, str], ...] | None
    model_environment: tuple[tuple[str, str], ...] | None
    words: tuple[str, ...]
    answers: tuple[Answer, ...]
    grants: tuple[Grant, ...]
    linger_ms: int
    patience_ms: int


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """The first message to one that is to wait: load the program of `session` as it stands at `head`, and run nothing.

    `Start` comes next, once the session is this device's, or nothing. `config`, `model`: as there.
    """

    session: bytes
    head: bytes
    config: bytes | None
    model: str | None


@dataclass(frozen=True, kw_only=True)
class Say:
    """A person said something."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Alone:
    """Nobody is attached any more: what it waits for now, a person's, it need not wait for."""


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Come to rest, durably, and end; `soft`: once the effect that runs has ended by itself.

    `captures`: the folder is captured, though nothing of the session wrote to it, if it differs from the last capture.
    """

    soft: bool = False
    captures: bool = False


@dataclass(frozen=True, kw_only=True)
class Look:
    """Capture the folder now, if the session waits for a person; `Looked` is said then, or at once if it does not.

    `ahead`: only have the capture ready, where a look can tell that it will stand; no checkpoint names it yet, and
    nothing is said.
    """

    ahead: bool = False


@dataclass(frozen=True, kw_only=True)
class Recapture:
    """The first message to one that only captures the folder of `session`, which rests: `Recaptured`, and it ends."""

    session: bytes
    config: bytes | None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """It is its turn to compute, or to write; for `busy_ms` at most each time, 0: as long as it likes.

    `kept`: it is given back only when it is asked for; else once it was used.
    """

    writes: bool
    busy_ms: int
    kept: bool


@dataclass(frozen=True, kw_only=True)
class Back:
    """Others wait for its turn: it gives it back once it does not use it, and says `AtIt` where that is not now."""

    writes: bool


# From the worker


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What `Prepare` asks for is done, or `problem` says why it cannot be."""

    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Recaptured:
    """What `Recapture` asks for is done, or `problem` says why it cannot be.

    `appearance`: what `folder` looked like before (`hhd.workspace.appearance`), None where a look cannot tell.
    """

    problem: str = ""
    folder: str = ""
    appearance: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What `Look` asks for is done, or nothing is to be done."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """It holds the session and begins to run it, in `folder`."""

    folder: str
    program: str


@dataclass(frozen=True, kw_only=True)
class Beat:
    """It is alive."""


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """A step of the session is durable. `intent`: it has one, of an effect that begins now."""

    intent: bool = False


@dataclass(frozen=True, kw_only=True)
class Wants:
    """It would compute, or write to the store."""

    writes: bool


@dataclass(frozen=True, kw_only=True)
class Gives:
    """It gives its turn back, or wants none any more."""

    writes: bool


@dataclass(frozen=True, kw_only=True)
class AtIt:
    """It was asked for its turn, and uses it now: `Gives` comes after that."""

    writes: bool


@dataclass(frozen=True, kw_only=True)
class Heard:
    """So many of the words that were said are in the session, durably, the oldest first."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Granted:
    """A person said "always" to this."""

    grant: Grant


@dataclass(frozen=True, kw_only=True)
class Over:
    """The run is over, and the session whole: finished, waiting, interrupted, or failed (`status` is of the error).

    `busy`: it failed since other processes held the store, and may be tried again. `alone`: no other device answered.

    After it the worker says nothing more.
    """

    end: str
    status: int
    effect: str
    sentence: str
    ways: tuple[str, ...]


ToWorker = Prepare | Recapture | Look | Start | Say | Answer | Alone | Pause | Turn | Back
FromWorker = (
    Prepared
    | Recaptured
    | Looked
    | Opened
    | Beat
    | Stepped
    | Wants
    | Gives
    | AtIt
    | Heard
    | Granted
    | Over
    | live.Event
)

_TO = {kind.__name__.lower(): kind for kind in (Prepare, Recapture, Look, Start, Say, Answer, Alone, Pause, Turn, Back)}
_OWN = (Prepared, Recaptured, Looked, Opened, Beat, Stepped, Wants, Gives, AtIt, Granted, Over, Heard)
_FROM: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in _OWN} | live.KINDS


def raw(message: ToWorker | FromWorker) -> bytes:
    """Return a message as a frame."""
    return frame({type(message).__name__.lower(): mapping.to_value(message)}, bytes_max=PAIR_BYTES_MAX)


def to_worker(value: Value) -> ToWorker:
    """Return what the daemon said; raises FormatError."""
    found: ToWorker = _read(_TO, value)
    return found


def from_worker(value: Value) -> FromWorker:
    """Return what a worker said; raises FormatError."""
    found: FromWorker = _read(_FROM, value)
    return found


def _read(kinds: dict[str, Any], value: Value) -> Any:
    if type(value) is not dict or len(value) != 1:
        raise FormatError("a message of the pair is no map of one kind")
    ((name, fields),) = value.items()
    if not isinstance(name, str) or name not in kinds:
        raise FormatError("a message of the pair is of a kind that is not known")
    return mapping.from_value(kinds[name], fields)


def question_id(effect: int, shown: bytes) -> str:
    """The name of a question: what is asked about, and the text of it."""
    return f"{effect}.{shown.hex()[:16]}"


class End:
    """A worker's end of the pair; may be said to from any thread."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._lock = connected, threading.Lock()
        self._frames = Frames(bytes_max=PAIR_BYTES_MAX)

    def say(self, message: FromWorker) -> None:
        """Say something; to a daemon that is gone nothing is said."""
        try:
            with self._lock:
                self._socket.sendall(raw(message))
        except OSError:
            return

    def heard(self) -> Iterator[ToWorker]:
        """Yield what the daemon says, until it is gone."""
        while True:
            try:
                piece = self._socket.recv(_READ_BYTES)
            except OSError:
                return
            if not piece:
                return
            for value in self._frames.feed(piece):
                yield to_worker(value)
