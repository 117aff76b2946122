"""The account: what became of every record of a source, and what a conversion could not carry.

Each record of a source (a line of its files) gets exactly one verdict, so the counts add up to the number of records;
`Account.complete` checks it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from hhd_protocol.limits import ACCOUNT_KIND_CHARS_MAX, ACCOUNT_RANGES_MAX, ACCOUNT_TALLIES_MAX
from hhd_protocol.transcript.items import At


class Verdict(enum.Enum):
    """What became of one record."""

    USED = "used"
    RECOGNISED = "recognised"
    UNKNOWN = "unknown"
    DAMAGED = "damaged"


class Reason(enum.Enum):
    """Why a record has its verdict. Stable words: manifests, `--strict` and tests name them."""

    ITEM = "item"
    """Used: items name this record in their `at`."""
    HEADER = "header"
    """Used: facts in the header come from it."""
    VENDOR_TEXT = "vendor-text"
    """Recognised: system, developer or client text, prompt snapshots, tool lists. Never conversation."""
    SETTINGS = "settings"
    """Recognised: model, permission, sandbox, mode."""
    DISPLAY = "display"
    """Recognised: events for the screen, doubles of items."""
    BOOKKEEPING = "bookkeeping"
    """Recognised: usage, costs, snapshots, indexes."""
    DEAD_BRANCH = "dead-branch"
    """Recognised: on a line of conversation that was left."""
    ROLLED_BACK = "rolled-back"
    """Recognised: taken back by the person."""
    SIDECHAIN = "sidechain"
    """Recognised: a helper's conversation inside the file."""
    QUEUED = "queued"
    """Recognised: input typed ahead; never sent unless another record says so."""
    DUPLICATE = "duplicate"
    """Recognised: a later record of the same id counts."""
    BEFORE_BASE = "outside-base"
    """Recognised: of an ancestor's file, after the point where this session left it."""
    EMPTY = "empty"
    """Recognised: a record without content, or a blank line."""
    FOREIGN_META = "foreign-meta"
    """Recognised: a second head, copied from another session."""
    BETWEEN_AGENTS = "between-agents"
    """Recognised: a message between agents."""
    UNKNOWN_TYPE = "unknown-type"
    """Unknown: a type this version has not met. Kept in the original, counted here."""
    UNKNOWN_SHAPE = "unknown-shape"
    """Unknown: a known type whose fields are not what they should be."""
    BAD_JSON = "bad-json"
    """Damaged: the line is not one JSON object."""
    CUT = "cut"
    """Damaged: the last line ends in the middle."""
    BAD_TEXT = "bad-text"
    """Damaged: bytes that are no UTF-8."""
    TOO_LONG = "too-long"
    """Damaged: a line past the bound."""
    TOO_DEEP = "too-deep"
    """Damaged: nested past the bound."""
    NO_TIMESTAMP = "no-timestamp"
    """Damaged: Codex skips a line without one."""
    BYTE_ORDER_MARK = "byte-order-mark"
    """Damaged: makes the first record unreadable to this client."""
    CYCLE = "cycle"
    """Damaged: an entry that is its own ancestor."""


class Tally(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """All records of one verdict, reason and kind (the source's own type name). `lines` are (file, first, last)."""

    verdict: Verdict
    reason: Reason
    kind: str
    records: int
    lines: tuple[tuple[int, int, int], ...]
    lines_complete: bool = True


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The whole account of one source: `records` is the number of lines read, `changes` what was altered in text."""

    records: int
    tallies: tuple[Tally, ...]
    changes: tuple[Loss, ...] = ()

    def count(self, verdict: Verdict, reason: Reason | None = None) -> int:
        """How many records have `verdict` (and `reason`)."""
        return sum(t.records for t in self.tallies if t.verdict is verdict and reason in (None, t.reason))

    @property
    def complete(self) -> bool:
        """Whether every record has its verdict."""
        return sum(t.records for t in self.tallies) == self.records


class LossKind(enum.Enum):
    """What a loss is about. Stable words: `--strict KIND` names them."""

    TEXT = "text"
    MEDIA = "media"
    THINKING = "thinking"
    ARGUMENTS = "arguments"
    CALL_ID = "call-id"
    RESULT = "result"
    ERROR_FLAG = "error-flag"
    UNANSWERED = "unanswered"
    ORPHAN = "orphan"
    COMPACTION = "compaction"
    BRANCH = "branch"
    SUBAGENT = "subagent"
    GAP = "gap"
    NOTE = "note"
    SHELL = "shell"
    SIDE_FILE = "side-file"
    TITLE = "title"
    TIME = "time"
    MODEL = "model"
    WORKSPACE = "workspace"
    PRIVILEGED = "privileged"
    QUEUED = "queued"
    SECRET = "secret"
    DAMAGE = "damage"
    UNKNOWN = "unknown"


class Did(enum.Enum):
    """What happened to the thing: changed, lost, or left out by rule (never anyone's work: vendor text, settings)."""

    CHANGED = "changed"
    LOST = "lost"
    LEFT_OUT = "left-out"


class Loss(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One thing a conversion could not carry, or changed, named and located.

    `why` is one clause for a person, without any of the session's text. `source` is where it was, `target` where what
    became of it stands (None: nowhere). `count` above 1 gathers things alike, with the first one's place.
    """

    kind: LossKind
    did: Did
    why: str
    source: At | None = None
    target: At | None = None
    count: int = 1


OTHER_KINDS = "(other kinds)"
"""Where records are counted whose kind found no row of its own."""


class Row:
    """All records of one verdict, reason and kind, while they are counted."""

    __slots__ = ("_first", "_last", "complete", "file", "lines", "records")

    def __init__(self) -> None:
        self.records = 0
        self.lines: list[tuple[int, int, int]] = []
        self.complete = True
        self.file = self._first = self._last = 0

    def add(self, line: int, file: int = 0) -> None:
        """Count the record at `line`."""
        self.records += 1
        if line == self._last + 1 and file == self.file and self._first:
            self._last = line
        else:
            self._keep()
            self.file, self._first, self._last = file, line, line

    def extend(self, other: Row) -> None:
        """Count all records of `other` too; they come after those counted so far."""
        self._keep()
        self._first = 0
        self.records += other.records
        room = ACCOUNT_RANGES_MAX - len(self.lines)
        ranges = other.ranges()
        self.lines.extend(ranges[:room])
        self.complete = self.complete and other.complete and len(ranges) <= room

    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """Where the records are."""
        self._keep()
        self._first = 0
        return tuple(self.lines)

    def _keep(self) -> None:
        if not self._first:
            return
        if len(self.lines) < ACCOUNT_RANGES_MAX:
            self.lines.append((self.file, self._first, self._last))
        else:
            self.complete = False


class AccountBook:
    """Gathers verdicts while a source is read; memory is bounded whatever the source holds."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Verdict, Reason, str], Row] = {}
        self._changes: dict[tuple[LossKind, Did, str], Loss] = {}

    def row(self, verdict: Verdict, reason: Reason, kind: str) -> Row:
        """Where records of this verdict, reason and kind are counted; for loops that count many."""
        found = self._rows.get((verdict, reason, kind))
        if found is None:
            name = kind[:ACCOUNT_KIND_CHARS_MAX] if len(self._rows) < ACCOUNT_TALLIES_MAX else OTHER_KINDS
            found = self._rows.setdefault((verdict, reason, name), Row())
        return found

    def extend(self, other: AccountBook) -> None:
        """Take over all verdicts of `other`, of lines that come after those counted so far."""
        for (verdict, reason, kind), row in other._rows.items():
            self.row(verdict, reason, kind).extend(row)

    def add(self, verdict: Verdict, reason: Reason, kind: str, line: int, file: int = 0) -> None:
        """Give the record at `line` of `file` its one verdict."""
        self.row(verdict, reason, kind).add(line, file)

    def used(self, kind: str, line: int, file: int = 0) -> None:
        """The record became at least one item."""
        self.row(Verdict.USED, Reason.ITEM, kind).add(line, file)

    def change(self, kind: LossKind, did: Did, why: str, source: At) -> None:
        """Note that something was altered while reading (not a verdict of its own)."""
        known = self._changes.get((kind, did, why))
        if known is None:
            self._changes[kind, did, why] = Loss(kind=kind, did=did, why=why, source=source)
        else:
            self._changes[kind, did, why] = msgspec.structs.replace(known, count=known.count + 1)

    def close(self, records: int) -> Account:
        """Return the account as it stands, of a source of `records` lines."""
        tallies = [
            Tally(
                verdict=verdict,
                reason=reason,
                kind=kind,
                records=row.records,
                lines=row.ranges(),
                lines_complete=row.complete,
            )
            for (verdict, reason, kind), row in self._rows.items()
        ]
        order = list(Verdict)
        tallies.sort(key=lambda t: (order.index(t.verdict), -t.records, t.reason.value, t.kind))
        return Account(records=records, tallies=tuple(tallies), changes=tuple(self._changes.values()))


def counts(losses: Iterable[Loss]) -> dict[tuple[LossKind, Did], int]:
    """How many losses there are of each kind."""
    found: dict[tuple[LossKind, Did], int] = {}
    for loss in losses:
        found[loss.kind, loss.did] = found.get((loss.kind, loss.did), 0) + loss.count
    return found
