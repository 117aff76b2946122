"""All sessions of all clients, newest first; cards are remembered by path, size, time and inode of their file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hhd.base import files
from hhd.base.box import Box
from hhd.native.cards import Card, card_of, codex_titles
from hhd.native.homes import Homes
from hhd_protocol.transcript import Harness

_CACHE_VERSION = 1
_CACHE_BYTES_MAX = 256 * 1024 * 1024


class _Cache(msgspec.Struct, array_like=True):
    version: int
    cards: list[Card]


def sessions(
    homes: Homes,
    *,
    harnesses: Iterable[Harness] = tuple(Harness),
    cache: tuple[Path, Box] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Card]:
    """The cards of all sessions, newest first.

    `cache`: a file to remember cards in, and what seals it; it may be missing, damaged or of another version.
    `progress` is told how many of how many new files have been looked at.
    """
    known = _load(cache)
    cards: list[Card] = []
    fresh: list[tuple[Harness, str, os.stat_result]] = []
    asked = tuple(harnesses)
    for harness in asked:
        for entry in homes.files(harness):
            try:
                found = entry.stat()
            except OSError:
                continue
            card = known.get(entry.path)
            if (
                card is not None
                and card.mtime_ns == found.st_mtime_ns
                and card.bytes == found.st_size
                and card.inode == found.st_ino
            ):
                cards.append(card)
            else:
                fresh.append((harness, entry.path, found))
    for number, (harness, path, found) in enumerate(fresh):
        if made := card_of(harness, path, found):
            cards.append(made)
        progress(number + 1, len(fresh))
    if cache is not None and (fresh or len(known) > len(cards)):
        kept = [c for p, c in known.items() if Harness(c.harness) not in asked]
        _save(cache, [*cards, *kept])
    if Harness.CODEX in asked and (titles := codex_titles(homes.codex)):
        cards = [
            msgspec.structs.replace(c, title=titles[c.id]) if c.harness == "codex" and c.id in titles else c
            for c in cards
        ]
    cards.sort(key=lambda c: (-c.mtime_ns, c.path))
    return cards


def _load(cache: tuple[Path, Box] | None) -> dict[str, Card]:
    if cache is None:
        return {}
    path, box = cache
    try:
        with open(path, "rb") as file:
            raw = box.opened(path.name, file.read(_CACHE_BYTES_MAX))
        found = msgspec.msgpack.decode(raw or b"", type=_Cache)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return {card.path: card for card in found.cards} if found.version == _CACHE_VERSION else {}


def _save(cache: tuple[Path, Box], cards: list[Card]) -> None:
    path, box = cache
    raw = box.sealed(path.name, msgspec.msgpack.encode(_Cache(_CACHE_VERSION, cards)))
    with contextlib.suppress(OSError):  # A cache that cannot be written is no reason to fail.
        files.replace(path, [raw])
