"""What all three readers share: decoding blocks of lines, pairing calls with results, and the shape of a reading."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hhd.base.errors import RefusedError
from hhd.native.mend import Mended, mend, shaped
from hhd.native.source import BOM, Block, Progress, Source
from hhd_protocol.transcript import (
    Account,
    AccountBook,
    At,
    Call,
    Did,
    Header,
    Item,
    LossKind,
    Note,
    NoteKind,
    Outcome,
    Reason,
    Result,
    Text,
    Thinking,
    Verdict,
)

R = TypeVar("R", bound=msgspec.Struct)

RETAINED_BYTES_MAX = 20 * 1024 * 1024
"""How much of a large file's begin is made ready in the first pass: 1 GB stays below 100 MB of memory with it."""

RETAINED_WHOLE_BYTES_MAX = 64 * 1024 * 1024
"""A file up to this size is made ready whole, and decoded once: nearly every session is smaller."""

HELD_ITEMS_MAX = 4096
"""Items held back while a group of calls waits for its results; past it the file is asked what comes."""

ANSWERED_MAX = 65536
"""Calls remembered as answered, to tell a second result from an orphan."""

HALVES = "half a surrogate pair became U+FFFD"
BYTES = "bytes that are no UTF-8 became U+FFFD"


class NotASessionError(RefusedError):
    """The file is no session of any client known here."""


class Reading(abc.ABC):
    """One session, opened: facts at once, items when asked for, the account after the last item.

    Use it as a context, or close it. `items` may be asked for again; each time the account begins anew.
    """

    header: Header

    @property
    def plain(self) -> bool:
        """Whether it is known already that no compaction and no gap is among the items."""
        return False

    @abc.abstractmethod
    def items(self) -> Iterator[Item]:
        """All items in order. Raises ChangedError if the file was cut or overwritten meanwhile."""

    @property
    @abc.abstractmethod
    def account(self) -> Account:
        """The account of what `items` has gone through so far."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the files."""

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lines(Generic[R]):
    """Decodes the lines of a source into structs; a line that cannot be decoded gives the reason instead."""

    def __init__(self, source: Source, kind: type[R], *, lenient: bool, keeps_bom: bool) -> None:
        """`lenient`: half surrogates and bad bytes are replaced. `keeps_bom`: a mark spoils the first line."""
        self._source = source
        self._kind = kind
        decoder = msgspec.json.Decoder(kind)
        self._one = decoder.decode
        self._many = decoder.decode_lines
        self._lenient = lenient
        self._keeps_bom = keeps_bom
        self.mended: dict[int, Mended] = {}
        """Mended lines of the block decoded last."""

    def decode(self, block: Block, raw: bytes | memoryview) -> Sequence[R | Reason]:
        """One struct or reason for each line of `block`."""
        if self.mended:
            self.mended = {}
        if block.skipped:
            return [Reason.TOO_LONG]
        if block.plain:
            try:
                if not self._lenient:
                    str(raw, "utf-8")  # Skipped and undecoded fields are not checked otherwise.
                found = self._many(raw)
                if len(found) == block.lines:
                    return found
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass
        return self._slowly(block, bytes(raw))

    def _slowly(self, block: Block, raw: bytes) -> list[R | Reason]:
        lines = raw.split(b"\n")
        is_open = lines[-1] != b""
        if not is_open:
            lines.pop()
        found: list[R | Reason] = []
        for index, line in enumerate(lines):
            if block.first_line == 1 and index == 0 and line.startswith(BOM):
                if self._keeps_bom:
                    found.append(Reason.BYTE_ORDER_MARK)
                    continue
                line = line[len(BOM) :]
            try:
                if not self._lenient:
                    line.decode()
                found.append(self._one(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                found.append(self._mend(line, index, is_open and index == len(lines) - 1))
        return found

    def _mend(self, line: bytes, index: int, last_and_open: bool) -> R | Reason:
        mended = mend(line, last_and_open=last_and_open, lenient=self._lenient)
        if isinstance(mended, Reason):
            return mended
        self.mended[index] = mended
        try:
            return self._one(mended.line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            try:
                return shaped(mended.line, self._kind)  # type: ignore[return-value]
            except RecursionError:
                return Reason.TOO_DEEP


def note_mending(book: AccountBook, mended: Mended, at: At) -> None:
    """Write into the account what was replaced to make a line readable."""
    if mended.halves:
        book.change(LossKind.TEXT, Did.CHANGED, HALVES, at)
    if mended.bytes:
        book.change(LossKind.TEXT, Did.CHANGED, BYTES, at)


_DAMAGE = {
    Reason.EMPTY: Verdict.RECOGNISED,
}


def damaged(book: AccountBook, reason: Reason, line: int, file: int = 0) -> None:
    """Write a line that is no record into the account."""
    book.add(_DAMAGE.get(reason, Verdict.DAMAGED), reason, "line", line, file)


Lookup = Callable[[Mapping[str, Call], bool], Mapping[str, Result | None]]
"""Where the results of some calls are that do not follow at once: None if further on, the result itself if elsewhere.

A call that has no result anywhere is left out. The flag says that the end is reached, so nothing is further on.
"""


def nowhere(_calls: Mapping[str, Call], _at_end: bool) -> Mapping[str, Result | None]:
    """A lookup that finds nothing."""
    return {}


class Pairing:
    """Sees to it that every call has exactly one result, and every result a call.

    `dangling_is_live`: whether the client sends a call without any result that is not at the very end.
    `orphans_are_live`, `seconds_are_live`: whether it sends results without a call, and second ones.
    `replies_close`: whether a result counts only up to the next reply; one that comes later is given, but not live.
    """

    def __init__(
        self,
        *,
        dangling_is_live: bool,
        orphans_are_live: bool,
        seconds_are_live: bool,
        replies_close: bool,
        lookup: Lookup,
    ) -> None:
        self._dangling_is_live = dangling_is_live
        self._orphans_are_live = orphans_are_live
        self._seconds_are_live = seconds_are_live
        self._replies_close = replies_close
        self._lookup = lookup
        self._waiting: dict[str, Call] = {}
        self._held: list[Item] = []
        self._late: dict[str, Call] = {}
        self._lost: set[str] = set()
        self._answered: dict[str, None] = {}

    def run(self, batches: Iterable[list[Item]]) -> Iterator[Item]:
        """The items of `batches` with the missing results put in and the surplus ones turned into notes."""
        held, waiting, late = self._held, self._waiting, self._late
        for batch in batches:
            begin = 0
            for number, item in enumerate(batch):
                kind = type(item)
                if kind is not Call and kind is not Result and not held and not late:
                    continue
                yield from batch[begin:number]
                begin = number + 1
                if type(item) is Call:
                    yield from self._call(item)
                elif type(item) is Result:
                    if len(waiting) == 1 and not late and item.call in waiting and waiting[item.call].live == item.live:
                        del waiting[item.call]
                        self._remember(item.call)
                        yield from held
                        held.clear()
                        yield item
                    else:
                        yield from self._result(item)
                elif held and self._goes_on(item):
                    held.append(item)
                else:
                    yield from self._flush(at_end=False)
                    if kind is Text or kind is Thinking:
                        self._close_late()
                    yield item
            yield from batch[begin:] if begin else batch
        yield from self._flush(at_end=True)
        for call in self._late.values():
            yield Result(at=call.at, call=call.id, outcome=Outcome.MISSING, name=call.name, live=False)

    def _call(self, item: Call) -> Iterator[Item]:
        held, waiting = self._held, self._waiting
        if held and (not waiting or (self._replies_close and not self._same_reply(item))):
            yield from self._flush(at_end=False)
        self._close_late()
        again = item.id in self._answered
        if item.id in waiting:
            again = True
            yield from self._flush(at_end=False)
        if (first := self._late.pop(item.id, None)) is not None:
            again = True
            yield Result(at=first.at, call=first.id, outcome=Outcome.MISSING, name=first.name, live=False)
        if again and self._replies_close:
            # The client takes one call of an id; a further one with its result is given, but not live.
            item = msgspec.structs.replace(item, live=False)
        waiting[item.id] = item
        held.append(item)

    def _result(self, item: Result) -> Iterator[Item]:
        held, waiting = self._held, self._waiting
        call = waiting.pop(item.call, None) or self._late.pop(item.call, None)
        if call is not None:
            self._remember(item.call)
            lost = item.call in self._lost or (self._replies_close and not call.live)
            self._lost.discard(item.call)
            if lost and item.live:
                item = msgspec.structs.replace(item, live=False)
            held.append(item)
            if not waiting:
                yield from held
                held.clear()
            return
        second = item.call in self._answered
        if held and not second:
            yield from self._flush(at_end=False)
        note = Note(
            at=item.at,
            kind=NoteKind.SECOND_RESULT if second else NoteKind.ORPHAN_RESULT,
            parts=item.parts,
            label=item.name,
            about=item.call,
            time=item.time,
            live=item.live and (self._seconds_are_live if second else self._orphans_are_live),
        )
        if held:
            held.append(note)
        else:
            yield note

    def _flush(self, *, at_end: bool) -> Iterator[Item]:
        held, waiting = self._held, self._waiting
        found = self._lookup(waiting, at_end) if waiting else {}
        after: list[Item] = []
        for item in held:
            if type(item) is Call and waiting.get(item.id) is item:
                if item.id not in found:
                    live = item.live and (at_end or self._dangling_is_live)
                    if live != item.live:
                        item = msgspec.structs.replace(item, live=live)
                    after.append(Result(at=item.at, call=item.id, outcome=Outcome.MISSING, name=item.name, live=live))
                elif (result := found[item.id]) is not None:
                    after.append(result)
                    self._remember(item.id)
                elif not at_end:
                    self._late[item.id] = item
                else:
                    after.append(Result(at=item.at, call=item.id, outcome=Outcome.MISSING, name=item.name))
            yield item
        yield from after
        waiting.clear()
        held.clear()

    def _close_late(self) -> None:
        if self._late and self._replies_close:
            self._lost.update(self._late)

    def _goes_on(self, item: Item) -> bool:
        """Whether `item` is of the same reply as the calls that wait."""
        if not self._waiting or type(item) not in (Text, Thinking) or len(self._held) >= HELD_ITEMS_MAX:
            return False
        return self._same_reply(item)

    def _same_reply(self, item: Item) -> bool:
        last = next((held for held in reversed(self._held) if type(held) in (Call, Text, Thinking)), None)
        reply = getattr(item, "reply", None)
        if reply is None:
            return last is not None and (last.at.file, last.at.line) == (item.at.file, item.at.line)
        return bool(reply == getattr(last, "reply", None))

    def _remember(self, call: str) -> None:
        self._answered[call] = None
        if len(self._answered) > ANSWERED_MAX:
            for old in list(self._answered)[: ANSWERED_MAX // 2]:
                del self._answered[old]


def collect(values: list[str], value: str | None) -> None:
    """Append `value` to the facts `values` unless it is there; the one in force last stands last."""
    if not value or (values and values[-1] == value):
        return
    if value in values:
        values.remove(value)
    elif len(values) >= 64:
        return
    values.append(value)


def nothing(_: int) -> None:
    """Progress that nobody watches."""


def parts_text(parts: Iterable[Any]) -> str:
    """The plain text of `parts`."""
    return "".join(part.text for part in parts if hasattr(part, "text"))


def relative(path: Path, folder: Path) -> str:
    """`path` relative to `folder`, for provenance."""
    try:
        return str(path.relative_to(folder))
    except ValueError:
        return str(path)


__all__ = [
    "Lines",
    "NotASessionError",
    "Pairing",
    "Progress",
    "Reading",
    "collect",
    "damaged",
    "note_mending",
    "nothing",
    "relative",
]
