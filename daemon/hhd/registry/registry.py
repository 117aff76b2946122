"""The registry of one device: what its person calls things and wishes, the same on all devices when they have met.

    registry = Registry(shelf)
    told = registry.rename(session, "the parser")
    for question in told.questions: ...          # two devices named it without knowing of each other

Every edit is kept and shown in one transaction. Other processes edit the same document: what is here is compared with
the mark on the shelf before each use and read again if it is behind. Nothing here has authority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hhd.base.errors import UsageError
from hhd.registry import marks, pieces
from hhd.registry import registers as names
from hhd.registry.document import ACTOR_BYTES, Document
from hhd.registry.questions import Question, questions
from hhd.registry.registers import Edit, Register, Registers, Subject, Writer
from hhd.registry.shelf import SessionFacts, Shelf
from hhd.registry.shown import Showing, session_facts, still_said
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId
from hhd_protocol.limits import REGISTRY_ENTRIES_MAX, TITLE_BYTES_MAX

PIECES_MAX = 128
"""Changes kept one by one before they are packed into the whole: each costs a row, reading them all a millisecond."""

HISTORY_MIN = 2000
"""Changes before history is given up, or a sixteenth of the registers if that is more: they take a while to load."""

NUMBER_MAX = 10**14
"""Writes of one writer; only a peer that makes up numbers gets here, and then a new writer begins at 1."""

AHEAD_MAX = 1_000_000
"""Beginnings that a peer's document may be ahead of ours: a hundred a day for twenty-seven years."""

LIFE_BYTES = 3


@dataclass(frozen=True, kw_only=True)
class Told:
    """What became of an edit, for the person: `before` and `after` as shown; questions that are open about it now."""

    before: str | None
    after: str | None
    questions: tuple[Question, ...] = ()


class Registry:
    """See the module. Used by one thread at a time."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._document: Document | None = None
        self._registers = Registers()
        self._writer = Writer("")
        self._at: bytes | None = None
        """The mark on the shelf of what is here; None too while nothing was ever kept."""
        self._pieces = self._history = 0
        self._showing = Showing()
        self.notice: str | None = None
        """What the person must be told of the document itself: that it was damaged, and what became of it."""

    # Sessions

    def title(self, session: SessionId) -> str | None:
        """Return the title of a session, None if nobody gave it one."""
        return self._read().text(_of(session, names.TITLE))

    def rename(self, session: SessionId, title: str | None) -> Told:
        """Give a session a title, or take it away with None; this also answers the question which of two it is.

        Raises UsageError if the title is empty, too long or no text.
        """
        return self._write(_of(session, names.TITLE), None if title is None else bounded(title, "title"))

    def archive(self, session: SessionId, archived: bool) -> Told:
        """Hide a session from lists, or show it again."""
        return self._write(_of(session, names.ARCHIVED), "1" if archived else "0")

    def pick(self, session: SessionId, head: CheckpointId | None) -> Told:
        """Say which of competing heads is preferred, or none: a wish, which moves nothing."""
        return self._write(_of(session, names.PICKED), None if head is None else names.identifier_text(head))

    def picked(self, session: SessionId) -> CheckpointId | None:
        """Return the preferred head."""
        return self.facts(session).picked

    def name_head(self, session: SessionId, head: CheckpointId, name: str | None) -> Told:
        """Give one head of a session a name, or take it away with None; raises UsageError as `rename` does."""
        return self._write(
            names.register(names.session_subject(session), names.HEAD_NAME, head),
            None if name is None else bounded(name, "name of the head"),
        )

    def archive_head(self, session: SessionId, head: CheckpointId, archived: bool) -> Told:
        """Leave one head of a session out when they are listed, or show it again."""
        return self._write(
            names.register(names.session_subject(session), names.HEAD_ARCHIVED, head), "1" if archived else "0"
        )

    def belongs(self, session: SessionId, device: DeviceId | None) -> Told:
        """Say on which device a session belongs, or on none in particular."""
        return self._write(_of(session, names.BELONGS), None if device is None else names.identifier_text(device))

    def belongs_on(self, session: SessionId) -> DeviceId | None:
        """Return the device that a session belongs on."""
        raw = names.identifier(self._read().text(_of(session, names.BELONGS)))
        return None if raw is None else DeviceId(raw)

    def wish(self, session: SessionId, device: DeviceId, follow: bool | None) -> Told:
        """Say that a device is to have a copy of a session or not to, or leave that to what is usual with None."""
        text = {True: "1", False: "0", None: None}[follow]
        return self._write(names.register(names.session_subject(session), names.FOLLOW, device), text)

    def follows(self, session: SessionId, device: DeviceId) -> bool | None:
        """Return whether a device is to have a copy of a session; None if nobody said."""
        name = names.register(names.session_subject(session), names.FOLLOW, device)
        found = {names.flag(text) for text in self._read().texts(name).values()}
        return None if not found else True in found  # Of two wishes the one that keeps more copies.

    def suspect(self, session: SessionId, had: Iterable[DeviceId]) -> Told:
        """Say that something in a session looks like a credential; `had`: the devices that have it already."""
        text = names.halves_text(device[: names.SUBJECT_ID_BYTES] for device in had)
        return self._write(_of(session, names.SUSPECT), text)

    def suspects(self) -> dict[bytes, frozenset[bytes]]:
        """Return, by the first half of a session's id, the halves of the devices that a suspect session was at."""
        found: dict[bytes, frozenset[bytes]] = {}
        for name in self._read().live:
            subject, _, attribute = name.partition("/")
            if attribute == names.SUSPECT and subject.startswith("s"):
                said = [names.halves(text) or frozenset() for text in self._registers.texts(name).values()]
                found[names.subject_id(Subject(subject))] = frozenset().union(*said)
        return found

    def facts(self, session: SessionId) -> SessionFacts:
        """Return what lists show of a session."""
        subject = names.session_subject(session)
        return session_facts(self._read(), subject, self._registers.of_heads(subject).get(subject, ()))

    # Devices

    def device_name(self, device: DeviceId) -> str | None:
        """Return the name of a device, None if it has none."""
        return self._read().text(_device(device))

    def name_device(self, device: DeviceId, name: str) -> Told:
        """Name a device; told are questions about this name, also if another device has the same."""
        return self._write(_device(device), bounded(name, "device name"))

    def questions(self, subject: Subject | None = None) -> tuple[Question, ...]:
        """Return everything that a person has to decide, or what is open about one subject."""
        return tuple(questions(self._read(), subject))

    def show_again(self) -> None:
        """Show everything the document says, since what is shown is behind or lost."""
        with self._shelf.transaction():
            self.refresh()
            if self._at is not None:
                self._shelf.show(self._showing.of(self._registers, None), self._at)

    # Peers

    def refresh(self) -> Document:
        """Return the document as it is kept now, read again if another process changed it."""
        mark = self._shelf.mark()
        if self._document is None or mark != self._at:
            self._load(mark)
        assert self._document is not None
        return self._document

    def adopt(self, entries: dict[str, str], number: int, base: bytes, changes: list[bytes]) -> bool:
        """Take in a whole document of a peer; say whether it changed anything. Raises FormatError, nothing changed."""
        with self._shelf.transaction():
            ours = self.refresh()
            if (number, base) == ours.age:
                return self._take(lambda document: document.apply(changes))
            if number > ours.number + AHEAD_MAX:
                raise FormatError("a shared document claims to have begun anew more often than any can")
            theirs = Document.begin(number, entries)
            if theirs.base != base:
                raise FormatError("a shared document does not begin with the entries it names")
            theirs.apply(changes)
            insist_on_size(theirs)
            before, other = self._registers, Registers.of(theirs.entries())
            if theirs.age < ours.age:
                edit = self._registers.merge(other)
                if edit:
                    self._change(edit)
                self._keep_all(whole=True)
                return bool(edit)
            edit = other.merge(before)
            theirs.begin_life(self._shelf.random(ACTOR_BYTES))
            if edit:
                theirs.change(edit.put, edit.remove)
            self._document, self._registers = theirs, Registers.of(theirs.entries())
            self._history = len(theirs.changes())
            self._keep_all(whole=True)
            return True

    def take(self, act: Callable[[Document], None]) -> bool:
        """Let a peer's message change the document by `act`; say whether it did."""
        with self._shelf.transaction():
            self.refresh()
            return self._take(act)

    def _take(self, act: Callable[[Document], None]) -> bool:
        document = self._document
        assert document is not None
        before = document.heads()
        try:
            act(document)
            insist_on_size(document)
            if document.heads() == before:
                return False
            self._registers = Registers.of(document.entries())
        except BaseException:
            self._document = None  # What is kept is whole.
            raise
        self._keep(before, whole=True)
        return True

    # How it is kept

    def _read(self) -> Registers:
        self.refresh()
        return self._registers

    def _write(self, name: Register, text: str | None) -> Told:
        with self._shelf.transaction():
            document = self.refresh()
            subject = Subject(name.partition("/")[0])
            before = self._registers.text(name)
            if set(self._registers.texts(name).values()) != ({text} if text is not None else set()):
                heads = document.heads()
                if self._registers.seen.get(self._writer, 0) >= NUMBER_MAX:
                    self._begin_life()
                edit = self._registers.write(name, text, self._writer)
                self._change(edit)
                self._keep(heads, subject=subject)
            return Told(before=before, after=text, questions=tuple(questions(self._registers, subject)))

    def _change(self, edit: Edit) -> None:
        assert self._document is not None
        self._document.change(edit.put, edit.remove)

    def _keep(self, before: Iterable[bytes], *, subject: Subject | None = None, whole: bool = False) -> None:
        """Keep the changes since those heads, now and then packed into the whole, and show what they say."""
        document = self._document
        assert document is not None
        changes = document.changes(before)
        self._history += len(changes)
        if self._history >= max(HISTORY_MIN, len(self._registers.live) // 16):
            self._begin_anew()
            self._keep_all(whole=whole, subject=subject)
        elif self._pieces >= PIECES_MAX:
            self._keep_all(whole=whole, subject=subject)
        else:
            self._at = self._mark()
            self._shelf.append(pieces.changes(document, changes), self._at)
            self._pieces += 1
            self._shelf.show(self._showing.of(self._registers, subject if not whole else None), self._at)

    def _keep_all(self, *, whole: bool = False, subject: Subject | None = None) -> None:
        assert self._document is not None
        self._at = self._mark()
        self._shelf.replace(pieces.whole(self._document), self._at)
        self._pieces = 1
        self._shelf.show(self._showing.of(self._registers, subject if not whole else None), self._at)

    def _begin_anew(self) -> None:
        """Give up the history: a new document of what the registers say."""
        old = self._document
        assert old is not None
        self._document = Document.begin(old.number + 1, self._registers.entries())
        self._document.begin_life(self._shelf.random(ACTOR_BYTES))
        self._registers = Registers.of(self._document.entries())
        self._history = 0

    def _mark(self) -> bytes:
        assert self._document is not None
        return marks.Mark(self._document.age, self._document.heads(), self._writer, self._history).encoded()

    def _load(self, mark: bytes | None) -> None:
        """Read the document from the shelf; what is damaged is made again from what is left."""
        self._at = mark
        self._showing.forget()
        kept = self._shelf.kept()
        if mark is None and not kept.pieces and not kept.lost:
            self._document, self._pieces, self._history = Document.begin(0, {}), 0, 0
            self._begin_life()
            return
        expected = marks.decoded_mark(mark)
        document = pieces.assembled(kept.pieces)
        if document is not None and expected is not None and document.age == expected.age:
            self._document, self._writer = document, expected.writer
            self._document.begin_life(self._shelf.random(ACTOR_BYTES))
            self._registers = Registers.of(document.entries())
            self._pieces, self._history = len(kept.pieces), expected.history
            if document.heads() == expected.heads:
                return
        self._mend(document)

    def _begin_life(self) -> None:
        assert self._document is not None
        self._document.begin_life(self._shelf.random(ACTOR_BYTES))
        self._writer = names.writer(self._shelf.device, self._shelf.random(LIFE_BYTES))
        self._registers = Registers.of(self._document.entries())

    def _mend(self, document: Document | None) -> None:
        """Go on with what is left of a damaged document, and with what lists still show of what it said.

        The writer's name is a new one: how far the old one had counted may be among what was lost. What peers have
        of it comes back when they are met.
        """
        self._document = document or Document.begin(0, {})
        self._history = len(self._document.changes())
        self._begin_life()
        with self._shelf.transaction():
            said = 0
            for name, text in still_said(self._shelf.still_shown()):
                if self._registers.text(name) != text:
                    self._change(self._registers.write(name, text, self._writer))
                    said += 1
            self._keep_all(whole=True)
        self.notice = (
            "The document that this person's devices share was damaged here. It was made again from what was whole"
            + (f" and from {said} things that lists still showed" if said else "")
            + "; what else it said comes back from the other devices."
        )


def bounded(text: str, what: str) -> str:
    """Return `text` if it may be a title or name; raises UsageError in one sentence."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UsageError(f"The {what} is not text: it has half a character in it; nothing was changed.") from error
    if not text.strip():
        raise UsageError(f"The {what} is empty; nothing was changed.")
    if size > TITLE_BYTES_MAX:
        raise UsageError(f"The {what} has {size:,} bytes and may have {TITLE_BYTES_MAX:,}; nothing was changed.")
    return text


def insist_on_size(document: Document) -> None:
    """Raise FormatError if a peer made the document larger than any honest one."""
    if document.size() > REGISTRY_ENTRIES_MAX:
        raise FormatError("the shared document has more entries than any person makes")


def _of(session: SessionId, attribute: str) -> Register:
    return names.register(names.session_subject(session), attribute)


def _device(device: DeviceId) -> Register:
    return names.register(names.device_subject(device), names.NAME)
