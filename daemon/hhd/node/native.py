"""Native sessions for the faces: list, find, open, search, and keep them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.box import Box
from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.base.paths import cache_folder, private_folder
from hhd.native.cards import Card
from hhd.native.homes import Homes
from hhd.native.listing import sessions
from hhd.native.opening import open_session, sniff
from hhd.native.reading import Reading
from hhd_protocol.transcript import (
    Call,
    Compaction,
    Harness,
    Header,
    Item,
    Message,
    Note,
    Result,
    Shell,
    Text,
    Thinking,
    parts_text,
)

if TYPE_CHECKING:
    from hhd.native.archive import Kept, Original

Steps = Callable[[int, int], None]
"""Is told how much of how much is done."""

_TAIL_BYTES = 1024 * 1024
_SNIPPET_CHARS = 160


def silent(done: int, total: int) -> None:
    """Steps that nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One place where a searched text stands: in a session, in the item on a line, with some text around it."""

    card: Card
    line: int
    speaker: str
    snippet: str
    live: bool


def listed(*, harness: Harness | None = None, cwd: Path | None = None, steps: Steps = silent) -> list[Card]:
    """The sessions of all clients (or of one), newest first; `cwd`: only those of this working directory."""
    asked = tuple(Harness) if harness is None else (harness,)
    cards = sessions(Homes.of(), harnesses=asked, cache=_cache(), progress=steps)
    if cwd is not None:
        wanted = {str(cwd), os.path.realpath(cwd)}
        cards = [card for card in cards if card.cwd in wanted]
    return cards


def found(name: str, *, steps: Steps = silent) -> Path:
    """The session file that `name` means: a path, or an id or the begin of one. Raises UsageError, RefusedError."""
    path = Path(name)
    if os.sep in name or path.suffix in (".jsonl", ".zst") or path.is_file():
        if path.is_file():
            return path
        raise UsageError(f"There is no file {name}.")
    if len(name) < 4:
        raise UsageError("Give at least 4 characters of a session's id, or a file.")
    cards = [card for card in listed(steps=steps) if card.id.lower().startswith(name.lower())]
    ids = {(card.harness, card.id) for card in cards}
    if not cards:
        raise UsageError(f"No session has an id that begins with {name}; see them with: hhd native ls")
    if len(ids) > 1:
        raise UsageError(f"{len(ids)} sessions have ids that begin with {name}; give more of it.")
    return Path(cards[0].path)


def opened(path: Path, *, progress: Callable[[int], None] = lambda _: None) -> Reading:
    """Open the session in `path`."""
    try:
        return open_session(path, progress=progress)
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}.") from error


def last_turns(path: Path, turns: int) -> Reading:
    """Open the end of the session in `path` from its last `turns`-th prompt on, reading no more than that needs.

    Lines count from the end then (-1 is the last), as nothing is known of how many there are.
    """
    size = path.stat().st_size
    harness = sniff(path)
    window = _TAIL_BYTES
    while window < size:
        begin = _line_begin(path, size - window)
        if begin:
            reading = open_session(path, begin=begin, harness=harness)
            if sum(1 for item in reading.items() if isinstance(item, Message) and item.live) >= turns:
                return reading
            reading.close()
        window *= 4
    return open_session(path, harness=harness)


def from_turn(reading: Reading, turn: int) -> Iterator[tuple[int, Item]]:
    """The items of `reading` from the prompt number `turn` on (negative: from the end), with the number of their turn.

    What comes before the first prompt has turn 0. Turns count all prompts, also those that are no longer sent.
    """
    if turn < 0:
        prompts = sum(1 for item in reading.items() if isinstance(item, Message))
        turn = max(0, prompts + turn + 1)
    number = 0
    for item in reading.items():
        if isinstance(item, Message):
            number += 1
        if number >= turn:
            yield number, item


def search(
    text: str, *, harness: Harness | None = None, cwd: Path | None = None, steps: Steps = silent
) -> Iterator[Hit]:
    """Where `text` stands in what was said, called, answered or noted in any session; capital letters do not matter."""
    if not text.strip():
        raise UsageError("Give a text to search for.")
    wanted = text.lower()
    likely = _prefilter(wanted)
    cards = listed(harness=harness, cwd=cwd)
    for number, card in enumerate(cards):
        steps(number, len(cards))
        path = Path(card.path)
        try:
            if likely and path.suffix != ".zst" and not _may_hold(path, likely):
                continue
            with open_session(path, harness=Harness(card.harness)) as reading:
                for item in reading.items():
                    speaker, said = spoken(item)
                    if (place := said.lower().find(wanted)) >= 0:
                        yield Hit(
                            card=card,
                            line=item.at.line,
                            speaker=speaker,
                            snippet=_around(said, place, len(text)),
                            live=getattr(item, "live", True),
                        )
        except (OSError, RefusedError):
            continue
    steps(len(cards), len(cards))


def keep(path: Path) -> Kept:
    """Keep the originals of the session in `path`: its file, its bases, its side folder."""
    with opened(path) as reading:
        header = reading.header
    bases = [Path(file.path) for file in header.files if file.role == "base"]
    from hhd.node import originals  # Lists and readings go without the store.

    with originals.opened() as archive:
        return archive.keep(header.harness, header.id or path.stem, path, header.side_files, bases)


def keep_all(steps: Steps = silent) -> Iterator[tuple[Card, Kept | str]]:
    """Keep every session of every client; a session that cannot be kept gives the reason."""
    cards = listed()
    for number, card in enumerate(cards):
        steps(number, len(cards))
        try:
            yield card, keep(Path(card.path))
        except UserError as error:
            yield card, str(error)
        except OSError as error:
            yield card, str(error.strerror)
    steps(len(cards), len(cards))


def kept() -> Iterator[Original]:
    """The newest original of every session in the archive."""
    from hhd.node import originals

    with originals.opened() as archive:
        for harness, session in archive.sessions():
            if known := archive.originals(harness, session):
                yield known[-1]


def restore(name: str, folder: Path) -> list[Path]:
    """Write the newest original of the session `name` (an id or its begin) below `folder`."""
    from hhd.node import originals

    with originals.opened() as archive:
        matches = [(h, s) for h, s in archive.sessions() if len(name) >= 4 and s.lower().startswith(name.lower())]
        if len(matches) != 1:
            raise UsageError(f"{len(matches)} sessions in the archive have ids that begin with {name}.")
        return archive.restore(archive.originals(*matches[0])[-1], folder)


def check() -> list[str]:
    """Read the whole archive; the damages found."""
    from hhd.node import originals

    return originals.check()


def facts(header: Header) -> list[tuple[str, str]]:
    """The facts of a header in words, for a person."""
    rows = [
        ("client", header.harness.value),
        ("id", header.id or "none"),
        ("title", header.title or ""),
        ("first prompt", header.first_prompt or ""),
        ("file", header.files[-1].path if header.files else ""),
        ("bases", ", ".join(f.path for f in header.files if f.role == "base")),
        ("directory", ", ".join(header.cwds)),
        ("version", ", ".join(header.versions)),
        ("format", header.format_version or ""),
        ("models", ", ".join(header.models)),
        ("git", " ".join(filter(None, (header.git_branch, header.git_revision)))),
        ("from", " to ".join(filter(None, (header.started, header.ended)))),
        ("forked from", header.parent or ""),
        ("left branches", str(len(header.branches)) if header.branches else ""),
        ("helpers", str(len(header.subagents)) if header.subagents else ""),
        ("side files", str(len(header.side_files)) if header.side_files else ""),
        ("the client refuses it", header.refused or ""),
    ]
    return [(name, value) for name, value in rows if value]


def spoken(item: Item) -> tuple[str, str]:
    """Who speaks in an item, and its text."""
    if isinstance(item, Message):
        return "user", parts_text(item.parts)
    if isinstance(item, Text):
        return "assistant", item.text
    if isinstance(item, Thinking):
        return "thinking", item.text
    if isinstance(item, Call):
        return f"call {item.name}", _unescaped(item.arguments)
    if isinstance(item, Result):
        return "result", parts_text(item.parts)
    if isinstance(item, Compaction):
        return "summary", item.summary or ""
    if isinstance(item, Shell):
        return "shell", f"{item.command}\n{item.output}"
    if isinstance(item, Note):
        return item.kind.value, parts_text(item.parts)
    return "gap", item.why


def _unescaped(arguments: str) -> str:
    if "\\" not in arguments:
        return arguments
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')
    except (ValueError, RecursionError):
        return arguments


def _cache() -> tuple[Path, Box] | None:
    """Where cards are remembered, sealed; None where nothing can be kept: a list goes without it."""
    from hhd.node.this_device import own_box

    try:
        return private_folder(cache_folder()) / "native-sessions", own_box("native-cards")
    except (UserError, OSError):
        return None


def _line_begin(path: Path, offset: int) -> int:
    """The first begin of a line at or after `offset`, or 0 if there is none in the next 64 MiB."""
    with open(path, "rb") as file:
        file.seek(offset)
        for _ in range(64):
            raw = file.read(1 << 20)
            if not raw:
                return 0
            found = raw.find(b"\n")
            if found >= 0:
                return file.tell() - len(raw) + found + 1
    return 0


def _prefilter(wanted: str) -> bytes:
    """The longest stretch of `wanted` that JSON always spells as it is."""
    return max(re.findall(r"[a-z0-9 .,;:_=+*()-]+", wanted), key=len, default="").encode()


def _may_hold(path: Path, likely: bytes) -> bool:
    keep = len(likely) - 1
    carry = b""
    with open(path, "rb", buffering=0) as file:
        while raw := file.read(1 << 20):
            if likely in (carry + raw).lower():
                return True
            carry = raw[-keep:] if keep else b""
    return False


def _around(said: str, place: int, size: int) -> str:
    begin = max(0, place - _SNIPPET_CHARS // 2)
    end = min(len(said), place + size + _SNIPPET_CHARS // 2)
    text = re.sub(r"\s+", " ", said[begin:end])
    return ("…" if begin else "") + text + ("…" if end < len(said) else "")
