"""Whatever a program of this user asks of the daemon's verbs, it is answered or refused in a sentence, and no more."""

from __future__ import annotations

import ast
import os
import subprocess
import typing
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.attached import until
from tests.e2e.lab import Device
from tests.node.lines import made, turn

from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder
from hhd.control import address
from hhd.control.client import Connection, GoneError, connect
from hhd.node import logs
from hhd.node import store as door
from hhd_protocol import control
from hhd_protocol.codec import Value
from hhd_protocol.control import Cancel, Event, Failed
from hhd_protocol.frames import frame

NOTES_VERBS = """
import hhd.node.service as service
kept = service.Table.__init__
def noting(self, *tables, **more):
    kept(self, *tables, **more)
    shapes = {}
    for name, verb in self.verbs.items():
        hints, optional = service._hints(verb.like or verb.act)
        shapes[name] = {arg: _told(kind) for arg, kind in hints.items()}
    open(%r, "w").write(repr(shapes))
def _told(kind):
    import dataclasses, types, typing
    from pathlib import Path
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    if kind is None or kind is type(None):
        return None
    if kind in (bool, int, str, bytes, Path):
        return kind.__name__
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return ("maybe", next(_told(one) for one in inner if one is not type(None)))
    if origin in (list, tuple):
        many = origin is list or inner[-1] is Ellipsis
        return ("many", _told(inner[0])) if many else ("row", *map(_told, inner))
    return {name: _told(one) for name, one in typing.get_type_hints(kind).items() if _is_field(kind, name)}
def _is_field(kind, name):
    import dataclasses
    return name in (kind._fields if hasattr(kind, "_fields") else [one.name for one in dataclasses.fields(kind)])
service.Table.__init__ = noting
"""
"""Runs in the daemon first: it writes down which verbs there are, with the shapes of their arguments."""

TEXTS = ("", "zz" * 16, "é" * 32, "\0", "\ud800", "x" * 5000)
NUMBERS = (-1, 2**63 - 1)
RAWS = (b"", b"\xff" * 5000)
PATHS = ("relative", "/" + "x" * 5000, "/a\0b", "/\udcff")
OTHERS: tuple[Value, ...] = (None, {"a": [b""]})


def base(shape: Any, session: str) -> Value:
    """A value of this shape that could be meant."""
    match shape:
        case "bool":
            return False
        case "int":
            return 1
        case "str":
            return session
        case "bytes":
            return bytes(32)
        case "Path":
            return "/nowhere/at/all"
        case ("maybe", _):
            return None
        case ("many", inner):
            return [base(inner, session)]
        case ("row", *inner):
            return [base(one, session) for one in inner]
        case dict():
            return {name: base(one, session) for name, one in shape.items()}
    return None


def odd(shape: Any, session: str) -> Iterator[Value]:
    """Values of this shape that nobody means."""
    match shape:
        case "bool":
            yield True
        case "int":
            yield from NUMBERS
        case "str":
            yield from map(sent, TEXTS)
        case "bytes":
            yield from RAWS
        case "Path":
            yield from map(sent, PATHS)
        case ("maybe", inner):
            yield from odd(inner, session)
        case ("many", inner):
            yield from ([], [base(inner, session)] * 5000, *([one] for one in odd(inner, session)))
        case ("row", *inner):
            yield from ([one for _ in inner] for one in odd(inner[0], session))
        case dict():
            whole = typing.cast(dict[Value, Value], base(shape, session))
            for name, one in shape.items():
                yield from ({**whole, name: value} for value in islice(odd(one, session), 3))


def sent(text: str) -> Value:
    """A text as it is sent: one that is no UTF-8 as its bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def requests(shape: dict[str, Any], session: str) -> Iterator[dict[Value, Value]]:
    """Arguments of one verb: odd ones of the right shapes, then of others, too few, and too many."""
    whole: dict[Value, Value] = {name: base(kind, session) for name, kind in shape.items()}
    yield {**whole, "nobody knows": 1}
    for name, kind in shape.items():
        yield {one: value for one, value in whole.items() if one != name}
        yield from ({**whole, name: value} for value in odd(kind, session))
        yield from ({**whole, name: value} for value in OTHERS)


SECONDS = 3
"""For an answer; what waits longer is cancelled."""
UNASKED = frozenset({"down", "pair_show"})
"""The one ends the daemon, the other waits for a guess."""
STARTS = frozenset({"begin", "go_on", "say"})
"""With a session that is there, each would start a process: what is odd about them is tried with none."""
ODD_STARTS: tuple[dict[str, Value], ...] = (
    {"model": b"\xed\xa0\x80"}, {"key": "\0"}, {"key": b"\xed\xa0\x80"}, {"settle": ["x", "x"]}, {"folder": "/a\0b"},
    {"environment": [["", "x"]]}, {"environment": [["A=B", "x"]]}, {"environment": [["A", "\0"]]},
)  # fmt: skip
"""Of a session that is there: these come as far as its process, unless they are refused."""
FAULT = "a fault of hhd"
"""In the sentence of a request that failed by no fault of who asked."""


class Asker(Connection):
    """Asks one thing after the other, and lets go of a stream after its first event, of what is not answered soon."""

    def outcome(self, verb: str, given: dict[Value, Value]) -> str:
        """The sentence that it was refused with, "" where it was done."""
        id = self._send(verb, given)
        self._wait(SECONDS)
        while True:
            try:
                message = self._next()
            except RefusedError:  # Nothing came within the time.
                message = Event(id, 0, None)
            if message is None:
                raise GoneError(f"{verb} cost the connection")
            if getattr(message, "id", None) != id:
                continue
            if isinstance(message, Event):
                self._socket.sendall(frame(control.encoded(Cancel(id))))
                continue
            return message.sentence if isinstance(message, Failed) else ""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A daemon of this test's folders, and where it wrote down its verbs."""
    verbs = tmp_path / "verbs"
    mine = {name: os.environ[name] for name in os.environ if name.startswith("HHD_")}
    device = Device(home=tmp_path / "home", environ=mine, config="[links]\nmulticast = false\n")
    started = subprocess.Popen(
        device.command("daemon", before=NOTES_VERBS % str(verbs)), env=device.environ, cwd=tmp_path
    )
    try:
        until(lambda: address.said(data_folder()) is not None and verbs.exists())
        yield started, verbs
    finally:
        started.terminate()
        started.wait(240)


@pytest.mark.long
def test_whatever_a_verb_is_asked_it_answers_or_refuses_in_a_sentence_and_the_daemon_stays(
    daemon: tuple[subprocess.Popen[bytes], Path],
) -> None:
    started, verbs = daemon
    with door.opened() as store:
        session = made(store, says=[turn(1, "Done.")]).id.hex()
    path = address.said(data_folder())
    assert path is not None
    shapes = ast.literal_eval(verbs.read_text())
    whole = typing.cast(dict[str, Value], base(shapes["go_on"], session))
    odd_starts = [("go_on", typing.cast(dict[Value, Value], {**whole, **one})) for one in ODD_STARTS]
    every = [
        (verb, given)
        for verb, shape in shapes.items()
        if verb not in UNASKED
        for given in requests(shape, "nobody" if verb in STARTS else session)
    ]
    asker, faults, refused, done = connect(path, hhd="1", kind=Asker), list[str](), 0, 0
    assert asker is not None
    with asker:
        for verb, given in (*odd_starts, *every):
            sentence = asker.outcome(verb, given)
            refused, done = refused + bool(sentence), done + (not sentence)
            if FAULT in sentence or sentence.startswith("The system said"):
                faults.append(f"{verb} {given!r:.300}: {sentence}")
    assert faults == [] and started.poll() is None
    assert len(shapes) > 40 and refused > 500 and done > 10, "the positive control"
    assert "request_failed" not in "".join(one.read_text() for one in logs.log_folder().glob("*"))
