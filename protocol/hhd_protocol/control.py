"""What goes over the control socket: hello, requests, answers and streams (`spec/control.md`).

Which message a map is, the set of its keys says. Nothing here depends on which verbs there are.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import (
    CONTROL_SENTENCE_BYTES_MAX,
    CONTROL_VERB_BYTES_MAX,
    CONTROL_VERSION_BYTES_MAX,
    CONTROL_VERSIONS_MAX,
)

VERSIONS = (1,)
"""The versions of this page that are spoken here."""

ID_MAX = 2**53 - 1
"""Ids of requests and positions in streams: exact in every language that may read one."""

EXITS = range(1, 6)
"""Exit statuses that an error may carry: those of a command that failed."""

EVERLASTING = ("down", "status")
"""Verbs without arguments that every version answers: a daemon of any age can be asked what it is, and ended."""


class Hello(NamedTuple):
    """The first message of both sides: the versions they speak, newest first, and which hhd they are."""

    versions: tuple[int, ...]
    hhd: str


class Request(NamedTuple):
    """Please do `verb`; `id` is new on this connection and names what comes of it."""

    id: int
    verb: str
    arguments: dict[Value, Value]


class Cancel(NamedTuple):
    """What comes of request `id` is not wanted any more."""

    id: int


class Answer(NamedTuple):
    """What came of request `id`."""

    id: int
    result: Value


class Failed(NamedTuple):
    """Why nothing came of request `id`: a sentence for the person, and the exit status it stands for."""

    id: int
    sentence: str
    exit: int


class Event(NamedTuple):
    """One part of what comes of request `id`; positions count from 0 in each stream."""

    id: int
    position: int
    event: Value


class End(NamedTuple):
    """A stream is over."""

    id: int


FromClient = Hello | Request | Cancel
FromDaemon = Hello | Answer | Failed | Event | End


def encoded(message: FromClient | FromDaemon) -> Value:
    """Return a message as the value of a frame."""
    match message:
        case Hello():
            return {"versions": list(message.versions), "hhd": message.hhd}
        case Request():
            return {"id": message.id, "verb": message.verb, "arguments": message.arguments}
        case Cancel():
            return {"id": message.id, "cancel": True}
        case Answer():
            return {"id": message.id, "result": message.result}
        case Failed():
            return {"id": message.id, "error": {"sentence": message.sentence, "exit": message.exit}}
        case Event():
            return {"id": message.id, "position": message.position, "event": message.event}
        case End():
            return {"id": message.id, "end": True}


def from_client(value: Value) -> FromClient:
    """Return what a client said; raises FormatError."""
    fields = _fields(value)
    match sorted(fields, key=str):
        case ["hhd", "versions"]:
            return _hello(fields)
        case ["arguments", "id", "verb"]:
            arguments = fields["arguments"]
            if type(arguments) is not dict:
                raise FormatError("the arguments of a request are no map")
            return Request(_number(fields["id"]), _text(fields["verb"], CONTROL_VERB_BYTES_MAX), arguments)
        case ["cancel", "id"] if fields["cancel"] is True:
            return Cancel(_number(fields["id"]))
    raise FormatError("the message is none that a client sends")


def from_daemon(value: Value) -> FromDaemon:
    """Return what a daemon said; raises FormatError."""
    fields = _fields(value)
    match sorted(fields, key=str):
        case ["hhd", "versions"]:
            return _hello(fields)
        case ["id", "result"]:
            return Answer(_number(fields["id"]), fields["result"])
        case ["error", "id"]:
            return _failed(fields)
        case ["event", "id", "position"]:
            return Event(_number(fields["id"]), _number(fields["position"]), fields["event"])
        case ["end", "id"] if fields["end"] is True:
            return End(_number(fields["id"]))
    raise FormatError("the message is none that a daemon sends")


def common(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int | None:
    """Return the newest version that both speak; None if there is none."""
    return max(set(ours) & set(theirs), default=None)


def _fields(value: Value) -> dict[Value, Value]:
    if type(value) is not dict:
        raise FormatError("the message is no map")
    return value


def _hello(fields: dict[Value, Value]) -> Hello:
    versions = fields["versions"]
    if type(versions) is not list or not 0 < len(versions) <= CONTROL_VERSIONS_MAX:
        raise FormatError("the versions of a hello are no list of versions")
    numbers = tuple(_number(one) for one in versions)
    if any(one <= after for one, after in itertools.pairwise(numbers)):
        raise FormatError("the versions of a hello do not go from the newest to the oldest")
    return Hello(numbers, _text(fields["hhd"], CONTROL_VERSION_BYTES_MAX))


def _failed(fields: dict[Value, Value]) -> Failed:
    error = fields["error"]
    if type(error) is not dict or set(error) != {"sentence", "exit"}:
        raise FormatError("the error of an answer has other fields than it should have")
    exit = _number(error["exit"])
    if exit not in EXITS:
        raise FormatError("the error of an answer has no exit status of an error")
    return Failed(_number(fields["id"]), _text(error["sentence"], CONTROL_SENTENCE_BYTES_MAX), exit)


def _number(value: Value) -> int:
    if type(value) is not int or not 0 <= value <= ID_MAX:
        raise FormatError("a number of a message is none, or out of its bounds")
    return value


def _text(value: Value, bytes_max: int) -> str:
    if type(value) is not str or not 0 < len(value.encode()) <= bytes_max:
        raise FormatError("a text of a message is none, empty or too long")
    return value
