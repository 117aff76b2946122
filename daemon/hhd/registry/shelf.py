"""Where the shared document is kept, as the registry sees it: a port, since rooms do not know each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from hhd.registry.registers import Subject
from hhd_protocol.ids import CheckpointId, DeviceId


class HeadFacts(NamedTuple):
    """What the document says of one head of a session: the first `half` of its id, its name, whether it is archived."""

    half: bytes
    name: str | None = None
    archived: bool = False


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    """What the document says of a session; None where it says nothing.

    `asked`: how many of these were written twice, by devices that did not know of each other. `heads`: those that it
    says something of, in order of their ids.
    """

    title: str | None = None
    archived: bool = False
    picked: CheckpointId | None = None
    asked: int = 0
    heads: tuple[HeadFacts, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What lists show of the document: `sessions` that differ from before (all of them, if `whole`); device names."""

    sessions: Mapping[Subject, SessionFacts]
    names: Mapping[Subject, str]
    questions: int
    whole: bool


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is read back: pieces in the order they came, as far as they are whole; how many are lost."""

    pieces: list[bytes] = field(default_factory=list)
    lost: int = 0


class Shelf(Protocol):
    """Keeps pieces of the document, sealed, and shows what it says."""

    @property
    def device(self) -> DeviceId:
        """This device."""

    def random(self, count: int) -> bytes:
        """Return random bytes."""

    def transaction(self) -> AbstractContextManager[None]:
        """What is kept and shown within becomes durable together, or is not kept at all."""

    def mark(self) -> bytes | None:
        """Return what was kept as the mark of the whole; None if nothing ever was."""

    def kept(self) -> Kept:
        """Return the pieces that were kept."""

    def append(self, piece: bytes, mark: bytes) -> None:
        """Keep one more piece."""

    def replace(self, piece: bytes, mark: bytes) -> None:
        """Keep this piece instead of all others."""

    def show(self, shown: Shown, mark: bytes) -> None:
        """Show what the document says now, as of this mark."""

    def still_shown(self) -> Shown:
        """Return what is shown, whatever the document says: what is left of it when it is lost."""
