"""Sessions as lines of a list: columns that fit the terminal, whatever is in a title."""

from __future__ import annotations

import gc
import os
import sys
import time
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hhd.app import sessions
from hhd.base.text import short, visible

if TYPE_CHECKING:
    from hhd.node.listing import Listed
    from hhd.node.overview import Overview
    from hhd_protocol.ids import DeviceId

ID_BYTES = 4
"""Of an id in a list, as 8 letters: 32 bits tell one person's sessions apart."""

STATE_CHARS_MAX, DEVICE_CHARS_MAX, FOLDER_CHARS_MAX, TITLE_CHARS_MIN = 34, 16, 32, 16
NEWEST_CHARS_MAX = 28
DEVICE_NAME_CHARS = 72
_PIPED_TITLE_CHARS = 40
_DAY_MS, _DAYS_MAX = 86_400_000, 1000
_AGES = ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (86400 * _DAYS_MAX, 86400, "d"))


def ls(query: str, *, with_archived: bool, by_device: bool = False, as_json: bool) -> int:
    """Print the sessions that `query` means and return the exit status; `by_device`: how far each device is."""
    gc.disable()  # Ten thousand lines are many objects and no cycles, and the process ends with them.
    found = sessions.listed(query, with_archived=with_archived, exact=by_device or as_json)
    if as_json:
        import json

        now_ms = time.time_ns() // 1_000_000
        told = [_fields(one, found, now_ms) for one in found.sessions]
        by = {"told": found.told} if found.told else {}
        print(json.dumps({"sessions": told, "archived": found.archived, "questions": found.questions, **by}))
        return 0
    if found.sessions:
        now_ms = time.time_ns() // 1_000_000
        write("\n".join(table(found, now_ms=now_ms, width=terminal_columns(), by_device=by_device)) + "\n")
    said = []
    if not found.sessions:
        none = "There is no session here yet."
        if not query and not found.told:
            none = sessions.none_because() or none
        said.append(f"No session matches '{visible(query, one_line=True)}'." if query else none)
    if found.told:
        said.append(visible(found.told, one_line=True))
    if found.archived:
        said.append(f"{found.archived} archived {'one is' if found.archived == 1 else 'ones are'} left out; see --all.")
    if found.questions:
        said.append(f"{found.questions} name{'' if found.questions == 1 else 's'} were given twice by devices apart.")
    if said:
        print(" ".join(said), file=sys.stderr)
    return 0


def write(text: str) -> None:
    """Print text to a terminal or pipe of any encoding: what that lacks is escaped."""
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def terminal_columns() -> int | None:
    """Return the columns of the terminal; None where the output is no terminal, and nothing is cut."""
    if not sys.stdout.isatty():
        return None
    if (chosen := os.environ.get("COLUMNS", "")).isascii() and chosen.isdigit() and len(chosen) < 6 and int(chosen):
        return int(chosen)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def table(found: Overview, *, now_ms: int, width: int | None, by_device: bool = False) -> list[str]:
    """Return the lines of the list; `width`: columns there are, None for any; `by_device`: a column a device."""
    if not found.sessions:
        return []
    # A column at a time, since ten thousand lines are made in the time that importing takes.
    shown, home = found.sessions, os.environ.get("HOME", "")
    columns_of = dict(zip(shown[0]._fields, zip(*shown, strict=True), strict=True))
    devices = {one: _device(one, found) for one in set(columns_of["owner"])}
    elsewhere = devices.keys() != {found.device}
    cells: list[list[str]] = [
        ["ID", *[one[:ID_BYTES].hex() for one in columns_of["id"]]],
        ["TITLE", *_titles(shown, columns_of["title"])],
        ["STATE", *_states(shown, columns_of["state"])],
        ["DEVICE", *[devices[one] for one in columns_of["owner"]]] if elsewhere else [],
        *_spread(found, now_ms, by_device=by_device),
        ["AGE", *_ages(columns_of["at_ms"], now_ms)],
        ["FOLDER", *_shown(_folders(columns_of["folder"], home))],
    ]
    cells = [column for column in cells if column]
    plain = ["".join(column).isascii() for column in cells]
    sizes = [max(map(len if one else columns, column)) for one, column in zip(plain, cells, strict=True)]
    sizes[2] = min(sizes[2], STATE_CHARS_MAX)
    if elsewhere:
        sizes[3] = min(sizes[3], DEVICE_CHARS_MAX)
    for place in range(3 + elsewhere, len(cells) - 2):
        sizes[place] = min(sizes[place], NEWEST_CHARS_MAX)
    if width is None:
        sizes[1] = min(sizes[1], _PIPED_TITLE_CHARS)
    else:
        _fit(sizes, width)
    fitted = [_fitted(*one, cuts=width is not None) for one in zip(cells, sizes, plain, strict=True)]
    line = "  ".join(f"%-{size}s" if one else "%s" for size, one in zip(sizes, plain, strict=True))
    lines = [(line % row).rstrip() for row in zip(*fitted, strict=True)]
    return lines if width is None or sum(sizes) + 2 * (len(sizes) - 1) <= width else [cut(one, width) for one in lines]


def _shown(texts: Sequence[str]) -> list[str]:
    """Return texts of unknown origin as they may be printed."""
    together = "".join(texts)
    if together.isascii() and together.isprintable():
        return list(texts)
    return [visible(text, one_line=True) for text in texts]


def _fitted(column: list[str], size: int, plain: bool, *, cuts: bool) -> list[str]:
    """Return the texts of a column cut to its size; padded too, unless every character is one wide."""
    if plain:
        return (
            [text if len(text) <= size else text[: size - 1] + "…" if size else "" for text in column]
            if cuts
            else column
        )
    if cuts:
        column = [cut(text, size) for text in column]
    return [text + " " * (size - columns(text)) for text in column]


def age(milliseconds: int) -> str:
    """Return a span of time in one number and a letter; what lies ahead, by another clock, is now."""
    seconds = max(0, milliseconds // 1000)
    for below, unit, name in _AGES:
        if seconds < below:
            return f"{seconds // unit}{name}"
    return f"{seconds // (86400 * 365)}y"


def columns(text: str) -> int:
    """Return how many columns of a terminal `text` takes: East Asian characters two, marks on another none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut(text: str, width: int) -> str:
    """Return as much of `text` as fits `width` columns, with an ellipsis where something is left out."""
    if len(text) <= width and columns(text) <= width:
        return text
    kept, used = [], 0
    for char in text[: 4 * width]:  # Marks take no column, but no honest character has three.
        used += _columns(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…" if width > 0 else ""


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _fit(sizes: list[int], width: int) -> None:
    """Make columns narrower until they fit: a long folder first, then a long title, then whatever is left."""
    over = sum(sizes) + 2 * (len(sizes) - 1) - width
    for place, least in ((-1, FOLDER_CHARS_MAX), (1, TITLE_CHARS_MIN), (-1, 0), (1, 1)):
        given = min(max(over, 0), max(0, sizes[place] - least))
        sizes[place] -= given
        over -= given


def _titles(shown: list[Listed], titles: tuple[str, ...]) -> list[str]:
    texts = _shown(titles)
    for place, one in enumerate(shown):
        if one.archived or one.asked or not texts[place]:
            marks = ("[archived] " if one.archived else "") + ("[two names] " if one.asked else "")
            texts[place] = marks + (texts[place] or "(no title)")
    return texts


def _states(shown: list[Listed], states: tuple[str, ...]) -> list[str]:
    texts = list(states)
    for place, one in enumerate(shown):
        if one.waiting and texts[place] == "waiting for you":
            texts[place] += f": {visible(one.waiting, one_line=True)}"
        if one.heads > 1 and one.heads_shown > 1:
            texts[place] += f", {one.heads_shown} heads"
    return texts


def _ages(times: tuple[int, ...], now_ms: int) -> list[str]:
    return [
        f"{days}d" if 0 < (days := (now_ms - at) // _DAY_MS) < _DAYS_MAX else age(now_ms - at) if at else "-"
        for at in times
    ]


def _folders(folders: tuple[str, ...], home: str) -> list[str]:
    """Begin those in the person's own folder with a tilde; there are few, and many sessions in each."""
    short = {
        one: "~" + one[len(home) :] if home and f"{one}{os.sep}".startswith(home + os.sep) else one
        for one in set(folders)
    }
    return [short[one] for one in folders]


def _device(owner: DeviceId, found: Overview) -> str:
    from hhd_protocol.crypto import device_text  # Loads a library, which terminals that show no device do without.

    return device_called(found.names.get(owner[:16], ""), device_text(owner), here=owner == found.device)


def device_called(name: str, id: str, *, here: bool) -> str:
    """What every command calls a device: this one, or by its name, or by the begin of its id as a person reads it."""
    if here:
        return "this device"
    return short(name, DEVICE_NAME_CHARS) or "-".join(id.split("-")[:2])


def _spread(found: Overview, now_ms: int, *, by_device: bool) -> list[list[str]]:
    """The columns that say where sessions are; none without other devices."""
    if not found.others:
        return []
    from hhd.cli import whereabouts

    names = [_device(one, found) for one in found.others]
    spread = [found.spread.get(one.id) for one in found.sessions]
    if by_device:
        return whereabouts.by_device(spread, names, now_ms)
    return [whereabouts.newest(spread, names)]


def _fields(one: Listed, found: Overview, now_ms: int) -> dict[str, object]:
    from hhd_protocol.crypto import device_text

    return {
        "id": one.id.hex(),
        "title": one.title,
        "opening": one.opening,
        "program": one.program,
        "state": one.state.value,
        "waiting": one.waiting or None,
        "owner": device_text(one.owner),
        "device": found.names.get(one.owner[:16]),
        "here": one.owner == found.device,
        "token": one.token,
        "heads": one.heads_shown,
        "heads_archived": one.left_out,
        "picked": one.picked.hex() if one.picked is not None else None,
        "archived": one.archived,
        "asked": one.asked,
        "turns": one.turns,
        "at_ms": one.at_ms,
        "folder": one.folder,
        "checkpoints": one.checkpoints,
        "devices": _devices(one, found, now_ms),
    }


def _devices(one: Listed, found: Overview, now_ms: int) -> list[dict[str, object]]:
    """How far each device is with a session; empty without others."""
    if (spread := found.spread.get(one.id)) is None:
        return []
    from hhd.cli import whereabouts
    from hhd_protocol.crypto import device_text

    ids = [device_text(device) for device in (found.device, *found.others)]
    names = [found.names.get(device[:16]) for device in (found.device, *found.others)]
    return whereabouts.fields(spread, ids, names, now_ms)
