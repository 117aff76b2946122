"""A transcript told in few lines: what was said, and one line for each tool call with what came of it.

Texts are as the session gave them, of unknown origin: whoever prints one makes it visible first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

SUBJECT_CHARS = 160
"""Of what a call is about, on its line."""


class Said(NamedTuple):
    """One line of the telling. A named tuple, since there are tens of thousands.

    `kind`: user, text, call, error, compaction, finished, or raw for a line that is no event. `failed`: a call whose
    result was an error; `answered`: False for a call that has none yet.
    """

    kind: str
    text: str
    failed: bool = False
    answered: bool = True


class Told(NamedTuple):
    """A stretch of a transcript: its lines; the model calls, tool calls and files written in it.

    `first_turn`: the number of its first model call, None if it has none.
    """

    lines: tuple[Said, ...]
    model_calls: int
    calls: int
    files: tuple[str, ...]
    first_turn: int | None


_WRITERS = frozenset({"write", "edit"})
_SUBJECTS = {"bash": "command", "glob": "pattern", "grep": "pattern"}
"""Which part of its input says what a call is about; of the others it is the path."""


def told(lines: Iterable[bytes], before: Callable[[], Iterable[bytes]] = tuple) -> Told:
    """Fold the lines of a transcript, without their line ends; lines that are no events are told as they are.

    `before`: the lines that lead here, asked for if a result comes of a call that was made there: where two lines of
    work part between a call and its result, the call is told on the side that has the result.
    """
    said: list[Said] = []
    calls: dict[str, tuple[int, str | None]] = {}
    earlier: dict[str, dict[str, object]] | None = None
    files: dict[str, None] = {}
    model_calls, count, first_turn = 0, 0, None
    for line in lines:
        event = _event(line)
        match event.get("event") if event is not None else None:
            case None:
                if line.strip():
                    said.append(Said("raw", line.decode("utf-8", "backslashreplace")))
            case "turn":
                model_calls += 1
                number = event.get("n") if event else None
                first_turn = number if first_turn is None and type(number) is int else first_turn
            case "call":
                assert event is not None
                count += 1
                calls[str(event.get("id"))] = (len(said), _written(event))
                said.append(_called(event))
            case "result":
                assert event is not None
                id, failed = str(event.get("id")), event.get("is_error") is True
                if id not in calls:
                    earlier = _open_calls(before()) if earlier is None else earlier
                    if (made := earlier.pop(id, None)) is None:
                        continue
                    count += 1
                    calls[id] = (len(said), _written(made))
                    said.append(_called(made))
                place, path = calls.pop(id)
                said[place] = Said("call", said[place].text, failed)
                if path is not None and not failed:
                    files[path] = None
            case str(kind) if kind in _TOLD:
                assert event is not None
                if text := _text(event, _TOLD[kind]).strip("\n"):
                    said.append(Said(kind, text))
            case _:
                pass
    return Told(tuple(said), model_calls, count, tuple(files), first_turn)


_TOLD = {"user": "text", "text": "text", "error": "text", "compaction": "summary", "finished": "reason"}
"""Events that are told, and the key whose text tells them."""

_decode = msgspec.json.Decoder().decode


def _event(line: bytes) -> dict[str, object] | None:
    try:
        found = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        try:
            found = json.loads(line)  # Takes lone surrogates, which a program may well write.
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) and isinstance(found.get("event"), str) else None


def _open_calls(lines: Iterable[bytes]) -> dict[str, dict[str, object]]:
    """The calls in `lines` that have no result there, by their ids."""
    calls: dict[str, dict[str, object]] = {}
    for line in lines:
        event = _event(line) or {}
        if event.get("event") == "call":
            calls[str(event.get("id"))] = event
        elif event.get("event") == "result":
            calls.pop(str(event.get("id")), None)
    return calls


def _called(event: dict[str, object]) -> Said:
    name, given = _text(event, "name"), event.get("input")
    inputs = given if isinstance(given, dict) else {}
    return Said("call", f"{name} {_subject(name, inputs)}".rstrip(), answered=False)


def _written(event: dict[str, object]) -> str | None:
    """The file that a call writes, if it does."""
    given = event.get("input")
    path = given.get("path") if isinstance(given, dict) and _text(event, "name") in _WRITERS else None
    return path if isinstance(path, str) else None


def _text(event: dict[str, object], name: str) -> str:
    found = event.get(name)
    return found if isinstance(found, str) else ""


def _subject(name: str, given: dict[str, object]) -> str:
    found = given.get(_SUBJECTS.get(name, "path"))
    if not isinstance(found, str):
        found = json.dumps(given, ensure_ascii=False, sort_keys=True) if given else ""
    first, newline, _ = found[: SUBJECT_CHARS + 1].partition("\n")
    return first if len(first) <= SUBJECT_CHARS and not newline else f"{first[:SUBJECT_CHARS]} …"
