"""One paused session as a value: the program, its memory, what it asked of the world and what it said.

Its *content* is what the session is (module, arguments, memory, journal, transcript) and nothing about this copy of it;
so the digest over it is equal on every processor after the same steps. `hhd_protocol.capsule` writes it to a file.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from hhd_protocol import codec, journal
from hhd_protocol import limits as bounds
from hhd_protocol.abi import Snapshot
from hhd_protocol.compression import LEVEL_ONCE
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import LineId, Sha256
from hhd_protocol.journal import Journal
from hhd_protocol.packed import Packed, pack
from hhd_protocol.pages import NO_PAGES, PageSet, pack_pages, unpack_pages
from hhd_protocol.stream import Stream

CONTENT_KEYS = frozenset(range(11))
"""The keys of a capsule's header that are the content."""


class At(enum.IntEnum):
    """Where the program stands."""

    FRESH = 0
    INTERRUPTED = 1
    EFFECT = 2
    FINISHED = 3


@dataclass(frozen=True, kw_only=True)
class Module:
    """The instrumented module: always named, `packed` unless it was left out."""

    digest: Sha256
    length: int
    packed: Packed | None

    @staticmethod
    def of(wasm: bytes, *, embed: bool = True) -> Module:
        """Describe `wasm`, packed when `embed`."""
        packed = pack(wasm, LEVEL_ONCE)
        return Module(digest=packed.digest, length=len(wasm), packed=packed if embed else None)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A paused execution with its pages packed; the fields are those of `abi.Snapshot`."""

    entry: str
    memory_bytes: int
    asyncify_stack_bytes: int
    globals: Mapping[str, int]
    pages: PageSet

    @staticmethod
    def of(snapshot: Snapshot, *, before: Execution | None = None) -> Execution:
        """Pack `snapshot`, taking over what `before` has packed already."""
        return Execution(
            entry=snapshot.entry,
            memory_bytes=snapshot.memory_bytes,
            asyncify_stack_bytes=snapshot.asyncify_stack_bytes,
            globals=dict(snapshot.globals),
            pages=pack_pages(snapshot.page_numbers, snapshot.pages, NO_PAGES if before is None else before.pages),
        )

    def snapshot(self) -> Snapshot:
        """Unpack; raises FormatError where a piece is not what it says or a page lies outside the memory."""
        numbers, pages = unpack_pages(self.pages, self.memory_bytes)
        return Snapshot(
            entry=self.entry,
            memory_bytes=self.memory_bytes,
            page_numbers=numbers,
            pages=pages,
            globals=self.globals,
            asyncify_stack_bytes=self.asyncify_stack_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What this session may use; a device holds it to its own bounds besides."""

    memory_bytes: int = 256 * 1024 * 1024
    transcript_bytes: int = bounds.TRANSCRIPT_BYTES_MAX
    effects: int = bounds.EFFECTS_MAX


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a capsule was taken from, as far as it says: it proves nothing."""

    session: bytes
    checkpoint: bytes
    device: str


@dataclass(frozen=True, kw_only=True)
class Capsule:
    """One paused session.

    `program` is its short name. `args` are the bytes the guest gets as its arguments. `execution` is None while fresh
    and once finished. `checks` counts interrupt checks since the start. Not part of the content: `steps` made so far,
    the random `line` drawn at each, `origin`, and `path_hint`, a folder that is shown and never used.
    """

    at: At
    program: str
    module: Module
    args: bytes
    line: LineId
    execution: Execution | None = None
    journal: Journal = field(default_factory=Journal)
    history: Stream = field(default_factory=Stream)
    transcript: Stream = field(default_factory=Stream)
    limits: Limits = field(default_factory=Limits)
    checks: int = 0
    steps: int = 0
    origin: Origin | None = None
    path_hint: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    def content_digest(self) -> Sha256:
        """The digest over what this session is, equal on every processor after the same steps."""
        book = journal.encode(self.journal)
        return digest_of(content_of(self, len(book), Sha256(sha256(book).digest())))


def content_of(capsule: Capsule, journal_bytes: int, journal_digest: Sha256) -> dict[codec.Value, codec.Value]:
    """The header's content fields; pieces appear with what is inside them, not with how it is packed."""
    live = capsule.journal.live
    limits = capsule.limits
    return {
        0: int(capsule.at),
        1: capsule.program,
        2: [capsule.module.digest, capsule.module.length],
        3: capsule.args,
        4: execution_value(capsule.execution, stored=False),
        5: [live.op, sha256(live.request).digest()] if capsule.at is At.EFFECT and live is not None else None,
        6: capsule.checks,
        7: [journal_bytes, journal_digest],
        8: [[piece.raw_bytes, piece.digest] for piece in capsule.history.chunks],
        9: [[piece.raw_bytes, piece.digest] for piece in capsule.transcript.chunks],
        10: [limits.memory_bytes, limits.transcript_bytes, limits.effects],
    }


def digest_of(content: dict[codec.Value, codec.Value]) -> Sha256:
    """The content digest of these fields."""
    assert set(content) == CONTENT_KEYS
    return Sha256(sha256(codec.encode(content)).digest())


def execution_value(execution: Execution | None, *, stored: bool) -> codec.Value:
    """What a header says of an execution: with `stored`, the lengths of packed pieces too."""
    if execution is None:
        return None
    pages = execution.pages

    def shown(piece: Packed) -> codec.Value:
        return piece.value() if stored else [piece.raw_bytes, piece.digest]

    return {
        0: execution.entry,
        1: execution.memory_bytes,
        2: execution.asyncify_stack_bytes,
        3: {name: bits for name, bits in execution.globals.items()},
        4: None if pages.numbers is None else shown(pages.numbers),
        5: [shown(piece) for piece in pages.contents],
    }


def _check(capsule: Capsule) -> None:
    """Raise FormatError where the fields contradict each other: the one list of what makes a capsule consistent."""
    book, execution = capsule.journal, capsule.execution
    if (execution is None) == (capsule.at in (At.INTERRUPTED, At.EFFECT)):
        raise FormatError("it stands in the middle of a run without its memory, or has a memory without standing there")
    if capsule.at is At.EFFECT and book.live is None:
        raise FormatError("it waits for an effect that its journal does not have")
    if capsule.at is not At.EFFECT and book.pending is not None:
        raise FormatError("its journal has an effect pending that the program does not wait for")
    if capsule.at is At.FRESH and (book.live or capsule.history.chunks or capsule.transcript.chunks or capsule.checks):
        raise FormatError("it has not begun, and yet has a past")
    if bool(book.settled) != bool(capsule.history.chunks):
        raise FormatError("its history is not that of its journal")
    if not capsule.module.length:
        raise FormatError("its module is empty")
    if execution is None:
        return
    if execution.memory_bytes % bounds.WASM_PAGE_BYTES or not execution.memory_bytes:
        raise FormatError("the memory's size is not a multiple of 64 KiB")
    if not 0 < execution.asyncify_stack_bytes <= execution.memory_bytes:
        raise FormatError("it stands in the middle of a run without an unwound stack")
