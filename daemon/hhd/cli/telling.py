"""How the verbs on sessions print values: as one JSON object, or in words that are safe to print."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hhd.base.text import short
from hhd.cli.lines import age, device_called, write

if TYPE_CHECKING:
    from hhd.node.answers.device import Device
    from hhd.node.answers.difference import Side
    from hhd.node.answers.heads import Head
    from hhd.node.answers.made import Forked

ID_CHARS = 12
TITLE_CHARS = 72
NOTE_CHARS = 200
FILES_SHOWN = 8


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses and named tuples become objects."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(one) for name, one in value._asdict().items()}
    return [plain(one) for one in value]


def fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, each as it is."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def as_object(value: Any, **more: Any) -> None:
    """Print a value as one JSON object, with `more` beside its own fields."""
    print(json.dumps({**plain(value), **{name: plain(one) for name, one in more.items()}}))


def lines(texts: Iterable[str]) -> None:
    """Print lines that are safe to print, all at once."""
    write("".join(f"{text}\n" for text in texts))


def title(text: str) -> str:
    """A title on one line."""
    return short(text, TITLE_CHARS) or "(no title)"


def brief(id: str) -> str:
    """The begin of an id, enough to name it by."""
    return id[:ID_CHARS]


def device(one: Device) -> str:
    """What to call a device."""
    return device_called(one.name, one.id, here=one.here)


def when(at_ms: int) -> str:
    """A moment on this device's clock; one that no calendar has is said as its number."""
    import datetime

    try:
        moment = datetime.datetime.fromtimestamp(at_ms / 1000)
    except (OverflowError, ValueError, OSError):
        return f"at {at_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def size(bytes: int) -> str:
    """A number of bytes, in the unit that suits it."""
    shown, unit = float(bytes), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if shown < 999.5 or unit == "TB":
            break
        shown /= 1000
    return f"{shown:.1f} {unit}" if unit != "B" and shown < 99.95 else f"{shown:.0f} {unit}"


def linked_last(seen_ms: int, ago_ms: int | None) -> str:
    """When a device that is not linked was linked last, by this device's own clock."""
    if not seen_ms:
        return "never linked"
    if ago_ms is None:
        return "linked before; when cannot be said, since this device's clock was set"
    return f"last linked {age(ago_ms)} ago"


def refused(names: list[str]) -> list[str]:
    """What a device is told whose peers do not let it in; `names`: of these peers, none for nothing to tell."""
    if not names:
        return []
    who, do, have = (names[0], "does", "has") if len(names) == 1 else (", ".join(names), "do", "have")
    return [
        f"{who} {do} not let this device in: this one was put out there, or {who} {have} not heard yet that it is a "
        "member. See hhd devices there. To come back: hhd pair on both; to go on alone: hhd devices refound."
    ]


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def how_to_go_on(made: Forked) -> str:
    """The command that goes on with a session, and what has to be said before."""
    name = brief(made.session)
    on = f"hhd resume {name}" + ("" if made.folder else " -C DIR")
    if made.state == "uncertain":
        return f"What it waits with may have run; say first what became of it: hhd settle {name}\nThen go on with: {on}"
    return f"Go on with: {on}"


def state(state: str, waiting: str) -> str:
    """What a session is doing, and what it waits for, in the words of a list."""
    return f"{state}: {short(waiting, TITLE_CHARS)}" if waiting and state == "waiting for you" else state


def files(paths: Iterable[str]) -> str:
    """Names of files, on one line."""
    known = list(paths)
    shown = ", ".join(short(path, TITLE_CHARS) for path in known[:FILES_SHOWN])
    return f"{shown} and {len(known) - FILES_SHOWN} more" if len(known) > FILES_SHOWN else shown


def files_of(one: Head | Side) -> str:
    """The files that were changed, and how that is known; empty if there are none."""
    if not one.files:
        return ""
    return f"{'files changed' if one.files_from == 'captures' else 'files written by calls'}: {files(one.files)}"


def head(one: Head) -> list[str]:
    """The lines that tell of one head."""
    marks = [word for word, there in (("main", one.main), ("picked", one.picked), ("archived", one.archived)) if there]
    marks += [{"held": "held: not all it stands on is here", "sealed": "from a revoked device"}.get(one.standing, "")]
    shown = ", ".join(mark for mark in marks if mark)
    token = f"token {one.token}" if one.token is not None else "an unknown token"
    past = f"{count(one.turns, 'turn')}, {count(one.effects, 'effect')}"
    past += f" and {one.waiting} not answered" if one.waiting else ""
    where = f"past {brief(one.fork)}" if one.fork is not None else "in all"
    changed = "its content was thinned" if one.files is None else files_of(one)
    name = f"{title(one.name)}  " if one.name else ""
    told = [
        f"{brief(one.id)}  {name}{when(one.at_ms)}  {device(one.device)}, {token}" + (f"  ({shown})" if shown else ""),
        f"    {past} {where}" + (f"; {changed}" if changed else ""),
    ]
    return told
