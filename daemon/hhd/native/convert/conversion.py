"""One conversion from beginning to end: read, arrange, write aside, read back and compare, publish.

Invariants. A file becomes visible only if what our own reader finds in it equals what the writer was told, and every
change and loss is in the account. A file that exists is never written to: a new one is linked into place, and one
that we wrote earlier is replaced in one step, if nobody has touched it since.
"""

from __future__ import annotations

import enum
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Protocol

from hhd.base.credentials import redacted
from hhd.base.errors import RefusedError, RolledBackError
from hhd.native.convert.arrange import Arranger, Outlook, outlook
from hhd.native.convert.folders import has_rollout, place
from hhd.native.convert.history import Conversion, Hashing, History, Stretch, same
from hhd.native.convert.ledger import Ledger
from hhd.native.convert.publish import Aside
from hhd.native.convert.redact import without_secrets
from hhd.native.convert.returning import (
    Return,
    added_since,
    find_return,
    original_in_place,
)
from hhd.native.convert.sameness import Expected, row_of
from hhd.native.convert.source_losses import source_losses
from hhd.native.convert.steps import Step
from hhd.native.convert.to_claude import ClaudeWriter
from hhd.native.convert.to_codex import CodexWriter
from hhd.native.convert.to_pi import PiWriter
from hhd.native.convert.writer import Continues, Line, Session, Writer
from hhd_protocol.transcript import Account, At, Gap, Harness, Header, Item, Loss, LossKind

WRITERS: dict[Harness, Callable[[Session, Continues | None], Writer]] = {
    Harness.CLAUDE: ClaudeWriter,
    Harness.CODEX: CodexWriter,
    Harness.PI: PiWriter,
}


class Reading(Protocol):
    """What a conversion needs of a reader."""

    header: Header

    @property
    def plain(self) -> bool: ...

    def items(self) -> Iterator[Item]: ...

    @property
    def account(self) -> Account: ...

    def close(self) -> None: ...


class Did(enum.Enum):
    """How a conversion ended."""

    LOOKED = "looked"
    """Nothing was to be written: the account only."""
    WRITTEN = "written"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    """The session has not grown since it was converted."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One item that came along, by its place on both sides."""

    source: At
    line: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a conversion did. `account` is the source's own, `items` the number of items written."""

    did: Did
    source: Header
    target: Harness
    session: Session
    path: Path | None
    items: int
    losses: tuple[Loss, ...]
    account: Account
    bytes: int = 0
    returned: bool = False
    """The first legs are the original's own records; `items` counts what was added."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person asked for. `home` None: only look. `redact`: take out what looks like credentials."""

    target: Harness
    home: Path | None
    cwd: str
    redact: bool = False
    anew: bool = False
    """Make another session even if an earlier conversion could be updated."""


class Converter:
    """Converts sessions; `fresh_id` gives a new UUID, `error_key` is 32 secret bytes of this person's devices."""

    def __init__(
        self,
        *,
        open_reading: Callable[[Path], Reading],
        history: History,
        error_key: bytes,
        fresh_id: Callable[[], str],
        original: Callable[[Conversion], Path | None] = original_in_place,
    ) -> None:
        """`original` finds the file that a conversion was made from, unchanged as far as it was converted."""
        self._original = original
        self._open = open_reading
        self._history = history
        self._error_key = error_key
        self._fresh_id = fresh_id

    def convert(self, source: Path, wish: Wish, *, kept: Callable[[Kept], None] | None = None) -> Manifest:
        """Convert the session in `source`.

        Raises RefusedError, with nothing changed, when the target cannot be written or both sides have grown.
        """
        source = Path(os.path.abspath(source))
        if wish.home is not None:
            wish = replace(wish, home=Path(os.path.abspath(wish.home)))
        size = source.stat().st_size
        hashing = Hashing(source, size)
        reading = self._open(source)
        try:
            with _without_collector(), self._alone(reading, wish):
                return self._convert(source, size, hashing, reading, wish, kept)
        finally:
            reading.close()

    def _convert(
        self,
        source: Path,
        size_before: int,
        hashing: Hashing,
        reading: Reading,
        wish: Wish,
        kept: Callable[[Kept], None] | None,
    ) -> Manifest:
        header = reading.header
        if header.id is None:
            why = header.refused or "no id of the session is in it"
            raise RefusedError(f"{source} cannot be converted: {why}; nothing was written.")
        earlier = None
        if wish.home is not None and not wish.anew:
            earlier = self._history.from_source(
                header.harness, header.id, wish.target, wish.cwd, home=wish.home, redacted=wish.redact
            )
        session = self._session(header, wish, earlier)
        path = place(wish.home, wish.target, session) if wish.home is not None else None
        was_there: os.stat_result | None = None
        replaced: Stretch | None = None
        if earlier is not None and path is not None and path.exists():
            was_there = path.stat()
            replaced = next((s for s in (earlier.target, earlier.replaced) if s is not None and same(path, s)), None)
            if replaced is None:
                raise RefusedError(
                    f"{path} was converted from this session earlier and has gone on since; nothing was changed. "
                    "With --new another session is made."
                )
            was = hashing.result()
            if replaced is earlier.target and was is not None and earlier.source.sha256 == was.sha256:
                return self._manifest(Did.UNCHANGED, reading, wish, session, path, 0, Ledger())
        ledger = Ledger()
        back = self._way_back(header, source, wish)
        leaf = _Leaf()
        steps = _Watched(self._arranged(reading, wish, back, ledger, leaf), wish.target)
        writer = WRITERS[wish.target](session, back.continues if back is not None else None)
        if path is None:
            for _ in _lines(writer, iter(steps), ledger, kept):
                pass
            return self._manifest(Did.LOOKED, reading, wish, session, None, steps.expected.items, ledger)
        with Aside(path) as aside:
            lines = _lines(writer, iter(steps), ledger, kept)
            if back is not None:
                lines = chain(back.first_lines(wish.target, session.id), lines)
            with _rolled_back(path):
                size = aside.write(lines)
            if back is None and not steps.expected.items:
                raise RefusedError("The session holds nothing that could come along; nothing was written.")
            writing = Hashing(aside.path)
            self._check(aside.path, steps.expected, wish.target, whole=back is None)
            written, was = writing.result(), hashing.result()
            if was is None:
                raise RefusedError(f"{source} was cut while it was read; nothing was published.")
            assert written is not None and written.size == size
            if source.stat().st_size != size_before:
                leaf.record = None
            with _rolled_back(path):
                self._history.record(
                    Conversion(
                        source_harness=header.harness,
                        source_id=header.id,
                        source=was,
                        source_leaf=leaf.record,
                        target_harness=wish.target,
                        target_id=session.id,
                        target_cwd=wish.cwd,
                        target=Stretch(path=str(path), size=size, sha256=written.sha256, lines=written.lines),
                        redacted=wish.redact,
                        replaced=replaced,
                    )
                )
            if was_there is not None:
                aside.replace(was_there)
            else:
                aside.publish()
        did = Did.UPDATED if was_there is not None else Did.WRITTEN
        return self._manifest(did, reading, wish, session, path, steps.expected.items, ledger, size, back is not None)

    def _alone(self, reading: Reading, wish: Wish) -> AbstractContextManager[None]:
        header = reading.header
        if wish.home is None or header.id is None:
            return nullcontext()
        return self._history.alone(header.harness, header.id)

    def _way_back(self, header: Header, source: Path, wish: Wish) -> Return | None:
        if header.id is None or wish.redact:
            return None
        for origin in self._history.ancestors(header.harness, header.id):
            # An ancestor that came home by way of others is the begin of this session, byte for byte.
            if origin.target_harness is header.harness:
                back = find_return(source, wish.target, origin, self._original)
                if back is not None:
                    # Only a look has no home: there the first legs' own base is taken to be in its place.
                    is_whole = back.base is None or wish.home is None or has_rollout(wish.home, back.base)
                    return back if is_whole else None
        return None

    def _arranged(
        self, reading: Reading, wish: Wish, back: Return | None, ledger: Ledger, leaf: _Leaf
    ) -> Iterator[Step]:
        if reading.plain:
            ahead = Outlook()
        elif back is None:
            ahead = outlook(reading.items())
        else:
            after = back.after
            ahead = outlook(item for item in reading.items() if item.at.line > after)
        arranger = Arranger(
            source=reading.header.harness,
            target=wish.target,
            ahead=ahead,
            ledger=ledger,
            error_key=self._error_key,
        )
        items = leaf.watch(reading.items())
        if back is not None:
            items = added_since(items, back.after, ahead.folds > 0, arranger.reserve)
        return arranger.steps(without_secrets(items, ledger) if wish.redact else items)

    def _session(self, header: Header, wish: Wish, earlier: Conversion | None) -> Session:
        from hhd.native.convert.times import iso

        started = iso(header.started) if header.started else None
        return Session(
            id=earlier.target_id if earlier is not None else self._fresh_id(),
            cwd=wish.cwd,
            started=started or "1970-01-01T00:00:00.000Z",
            title=_shown(header.title, wish.redact),
            first_prompt=_shown(header.first_prompt, wish.redact),
        )

    def _check(self, path: Path, expected: Expected, target: Harness, *, whole: bool) -> None:
        reading = self._open(path)
        try:
            found = row_of(reading.items(), target)
        finally:
            reading.close()
        added = found if whole else found[len(found) - len(expected.row) :]
        if added != expected.row:
            raise RolledBackError("What was written does not read back as what was meant; nothing was published.")

    def _manifest(
        self,
        did: Did,
        reading: Reading,
        wish: Wish,
        session: Session,
        path: Path | None,
        items: int,
        ledger: Ledger,
        size: int = 0,
        returned: bool = False,
    ) -> Manifest:
        named = sum(loss.count for loss in ledger.losses if loss.kind is LossKind.SIDE_FILE)
        outside = source_losses(reading.header, reading.account, wish.target, named)
        return Manifest(
            did=did,
            source=reading.header,
            target=wish.target,
            session=session,
            path=path,
            items=items,
            losses=(*outside, *ledger.losses),
            account=reading.account,
            bytes=size,
            returned=returned,
        )


def _shown(text: str | None, redact: bool) -> str | None:
    return redacted(text)[0] if redact and text is not None else text


class _Watched:
    """Steps on their way to a writer, and what they must read back as."""

    def __init__(self, steps: Iterator[Step], target: Harness) -> None:
        self._steps = steps
        self.expected = Expected(target)

    def __iter__(self) -> Iterator[Step]:
        return self.expected.watch(self._steps)


class _Leaf:
    """The record that the conversation ends in, which a later leg hangs on when the session comes back."""

    def __init__(self) -> None:
        self.record: str | None = None

    def watch(self, items: Iterator[Item]) -> Iterator[Item]:
        """Pass `items` on."""
        for item in items:
            if isinstance(item, Gap) or item.live:
                self.record = item.at.record or f"line {item.at.line}"
            yield item


@contextmanager
def _rolled_back(path: Path) -> Iterator[None]:
    """What fails before the file is visible (a full disk, a folder that is read-only) has changed nothing."""
    try:
        yield
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        raise RolledBackError(f"{path} could not be made ({error.strerror}{where}); nothing was changed.") from error


@contextmanager
def _without_collector() -> Iterator[None]:
    """A conversion makes many short-lived objects and no cycles: looking for cycles would cost a tenth of it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _lines(
    writer: Writer, steps: Iterator[Step], ledger: Ledger, kept: Callable[[Kept], None] | None
) -> Iterator[bytes]:
    number = 0
    for line in writer.lines(steps):
        if line.raw:
            number += 1
        if line.at is not None:
            if ledger.waiting:
                ledger.placed(line.at, number)
            if kept is not None:
                kept(Kept(source=line.at, line=number))
        if line.raw:
            yield line.raw


__all__ = ["Converter", "Did", "Kept", "Line", "Manifest", "Wish"]
