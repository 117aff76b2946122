"""What the writers of all clients share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from hhd.native.convert.steps import Step
from hhd_protocol.transcript import At, MediaPart, Part, TextPart

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, kw_only=True)
class Session:
    """The facts of the session that is written.

    `id`: a fresh UUID, equal inside and in the name. `cwd`: an absolute path of this machine. `started`: ISO time.
    `title`: what lists show, or None. `first_prompt`: for lists, where there is no title.
    """

    id: str
    cwd: str
    started: str
    title: str | None = None
    first_prompt: str | None = None


@dataclass(frozen=True, kw_only=True)
class Continues:
    """Records stand in the file already: `parent` is the last of them, `ordinal` its number if they are numbered."""

    parent: str
    ordinal: int | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the written file, without newline, and the item (its place in the source) that it spells, if one."""

    raw: bytes
    at: At | None = None


class Writer(Protocol):
    """Spells steps as the lines of one client's file."""

    def lines(self, steps: Iterator[Step]) -> Iterator[Line]:
        """All lines of the file, in order."""
        ...


def only_text(parts: tuple[Part, ...]) -> str | None:
    """The text, if `parts` is one text."""
    first = parts[0] if len(parts) == 1 else None
    return first.text if type(first) is TextPart else None


def data_url(part: MediaPart) -> str:
    """A picture as an address that holds its bytes, or its own address."""
    return part.url if part.url is not None else f"data:{part.mime};base64,{part.base64}"
