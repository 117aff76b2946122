"""What the shared document means: registers, each holding what was last written to it, once or by several at a time.

An entry of the document is `subject/attribute/writer/number` with a text. Who writes to a register removes the entries
it sees there; so two entries in one register were written by two writers that did not know of each other, and a
person is asked. The number counts a writer's writes, and `c/writer/number` says how far the document has seen that
writer: with it two documents whose histories have nothing in common still merge exactly, since an entry that one of
them lacks was either never seen there or is known to be replaced. (`protocol/spec/registry.md`, Registers.)

Whatever does not have the shape of an entry is passed over when reading, whoever wrote it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NewType

from hhd_protocol.ids import CheckpointId, DeviceId, SessionId
from hhd_protocol.limits import TITLE_BYTES_MAX

Subject = NewType("Subject", str)
"""What a register speaks of: a session or a device, by the first half of its id."""

Register = NewType("Register", str)
"""A subject and an attribute of it."""

Writer = NewType("Writer", str)
"""A device in the course of one life of its document: 5 bytes of the device's id and 3 random ones."""

TITLE, ARCHIVED, PICKED, BELONGS, FOLLOW, NAME = "t", "a", "p", "b", "f", "n"
"""Attributes. `FOLLOW` is followed by the device that follows."""

SUSPECT = "k"
"""Attribute of a session in which something looks like a credential: the devices that had it when that arose."""

HEAD_NAME, HEAD_ARCHIVED = "h", "x"
"""Attributes of one head of a session: each is followed by the head."""

DEVICE_PART_BYTES, WRITER_BYTES, SUBJECT_ID_BYTES = 5, 8, 16

_ENTRY = re.compile(r"([sd][\w-]{22}/[a-z][\w-]{0,22})/([\w-]{11})/([1-9][0-9]{0,14})", re.ASCII)
_SEEN = re.compile(r"c/([\w-]{11})/([1-9][0-9]{0,14})", re.ASCII)


def session_subject(session: SessionId) -> Subject:
    """Return how the document names a session."""
    return subject_of("s", session[:SUBJECT_ID_BYTES])


def device_subject(device: DeviceId) -> Subject:
    """Return how the document names a device."""
    return subject_of("d", device[:SUBJECT_ID_BYTES])


def subject_of(kind: str, half: bytes) -> Subject:
    """Return how the document names a session (`kind` "s") or device ("d") of which half of the id is known."""
    return Subject(kind + _text(half))


def subject_id(subject: Subject) -> bytes:
    """Return the first half of the id that a subject is."""
    return _bytes(subject[1:])


def register(subject: Subject, attribute: str, of: DeviceId | CheckpointId | None = None) -> Register:
    """Return a register of a subject; `of`: the device or head that the attribute is followed by."""
    return Register(f"{subject}/{attribute}{_text(of[:SUBJECT_ID_BYTES]) if of is not None else ''}")


def head_of(name: Register) -> bytes | None:
    """Return the first half of the id of the head that a register speaks of; None if it speaks of none."""
    attribute = name.partition("/")[2]
    if len(attribute) != _WITH_ID_CHARS or not attribute.startswith((HEAD_NAME, HEAD_ARCHIVED)):
        return None
    half = _bytes(attribute[1:])
    return half if _text(half) == attribute[1:] else None


HALF_CHARS = 22
"""Letters of half of an id."""


def halves_text(halves: Iterable[bytes]) -> str:
    """Return halves of ids of devices as a text, ascending, as many as one takes."""
    return "".join(map(_text, sorted(halves)[: TITLE_BYTES_MAX // HALF_CHARS])) or NOBODY


NOBODY = "0"


def halves(text: str) -> frozenset[bytes] | None:
    """Return what `halves_text` gave; None for what it never gives."""
    if text == NOBODY:
        return frozenset()
    parts = [text[at : at + HALF_CHARS] for at in range(0, len(text), HALF_CHARS)]
    if not text or not fits(text) or not all(_HALF.fullmatch(part) for part in parts):
        return None
    found = frozenset(map(_bytes, parts))
    return found if "".join(map(_text, sorted(found))) == text else None


_HALF = re.compile(r"[\w-]{22}", re.ASCII)

_WITH_ID_CHARS = 23
"""Letters of an attribute that is followed by half of an id."""


def writer(device: DeviceId, life: bytes) -> Writer:
    """Return the name under which a device writes; `life`: 3 bytes, drawn anew when its document was lost or damaged.

    Numbers must not be used twice under one name, and a document that lost its end no longer knows the last one.
    """
    return Writer(_text(device[:DEVICE_PART_BYTES] + life))


def writer_device(by: Writer) -> bytes:
    """Return the first bytes of the id of the device that a writer is."""
    return _bytes(by)[:DEVICE_PART_BYTES]


@dataclass(frozen=True, kw_only=True)
class Written:
    """One write that nobody who knew of it has replaced."""

    number: int
    text: str


@dataclass(kw_only=True)
class Registers:
    """All registers of one document. `live`: by register and writer; `seen`: the last number known of each writer."""

    live: dict[Register, dict[Writer, Written]] = field(default_factory=dict)
    seen: dict[Writer, int] = field(default_factory=dict)
    _stale: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, entries: Iterable[tuple[str, str]]) -> Registers:
        """Read the entries of a document."""
        made = cls()
        for key, text in entries:
            made.enter(key, text)
        return made

    def enter(self, key: str, text: str) -> None:
        """Take in one entry; of two by one writer in one register the later counts."""
        if (found := _ENTRY.fullmatch(key)) is not None:
            name, by, number = Register(found[1]), Writer(found[2]), int(found[3])
            self.seen[by] = max(number, self.seen.get(by, 0))
            if not _means_something(name, text):
                self._stale.add(key)
                return
            there = self.live.setdefault(name, {})
            if by in there:
                self._stale.add(_key(name, by, min(number, there[by].number)))
                if there[by].number > number:
                    return
            there[by] = Written(number=number, text=text)
        elif (found := _SEEN.fullmatch(key)) is not None:
            by, number = Writer(found[1]), int(found[2])
            self.seen[by] = max(number, self.seen.get(by, 0))

    def entries(self) -> dict[str, str]:
        """Return the entries that say all this and nothing else: what a document begun anew holds."""
        entries = {
            _key(name, by, one.number): one.text for name, there in self.live.items() for by, one in there.items()
        }
        return {**entries, **{f"c/{by}/{number}": "" for by, number in self.seen.items()}}

    def write(self, name: Register, text: str | None, by: Writer) -> Edit:
        """Set a register, or clear it with None; return what is to be changed in the document."""
        there = self.live.pop(name, {})
        last = self.seen.get(by, 0)
        edit = Edit(remove=[_key(name, one, written.number) for one, written in there.items()])
        edit.remove += [key for key in self._stale if key.startswith(f"{name}/")]
        self._stale.difference_update(edit.remove)
        if last:
            edit.remove.append(f"c/{by}/{last}")
        edit.put[f"c/{by}/{last + 1}"] = ""
        self.seen[by] = last + 1
        if text is not None:
            self.live[name] = {by: Written(number=last + 1, text=text)}
            edit.put[_key(name, by, last + 1)] = text
        return edit

    def merge(self, other: Registers) -> Edit:
        """Take in all that another document says, whatever its history; return what that changes in ours.

        An entry that only one side has was replaced if the other has seen its writer write it, else it is news.
        """
        edit = Edit()
        for name in {*self.live, *other.live}:
            ours, theirs = self.live.get(name, {}), other.live.get(name, {})
            kept = {
                by: one
                for by, one in ours.items()
                if by in theirs or other.seen.get(by, 0) < one.number
                if by not in theirs or theirs[by].number <= one.number
            }
            kept |= {by: one for by, one in theirs.items() if by not in kept and (self.seen.get(by, 0) < one.number)}
            edit.remove += [_key(name, by, one.number) for by, one in ours.items() if kept.get(by) != one]
            edit.put |= {_key(name, by, one.number): one.text for by, one in kept.items() if ours.get(by) != one}
            self.live[name] = kept
            if not kept:
                del self.live[name]
        for by, number in other.seen.items():
            if number > (last := self.seen.get(by, 0)):
                edit.put[f"c/{by}/{number}"] = ""
                edit.remove += [f"c/{by}/{last}"] if last else []
                self.seen[by] = number
        return edit

    # Reading

    def texts(self, name: Register) -> dict[Writer, str]:
        """Return what is written in a register and by whom: nothing, one text, or one of each who did not know."""
        return {by: one.text for by, one in self.live.get(name, {}).items()}

    def text(self, name: Register) -> str | None:
        """Return the text to show: the last in order of text, the same on every device; None if there is none."""
        there = self.live.get(name)
        return max(one.text for one in there.values()) if there else None

    def competing(self, name: Register) -> list[tuple[Writer, str]]:
        """Return the different texts of a register and who wrote each, if there is more than one; else nothing."""
        there = self.live.get(name, {})
        if len(there) < 2:
            return []
        by_text = {text: by for by, text in sorted(((b, one.text) for b, one in there.items()), reverse=True)}
        return (
            sorted(((by, text) for text, by in by_text.items()), key=lambda pair: pair[1]) if len(by_text) > 1 else []
        )

    def registers(self, subject: Subject) -> Iterator[Register]:
        """Yield the registers of one subject that hold something."""
        return (name for name in self.live if name.startswith(f"{subject}/"))

    def of_heads(self, subject: Subject | None = None) -> dict[Subject, list[Register]]:
        """Return the registers that hold something of a head, by session: of all of them, or of one."""
        found: dict[Subject, list[Register]] = {}
        for name in self.live if subject is None else self.registers(subject):
            if len(name) == _HEAD_REGISTER_CHARS and head_of(name) is not None:
                found.setdefault(Subject(name.partition("/")[0]), []).append(name)
        return found


@dataclass(kw_only=True)
class Edit:
    """What to change in a document: entries to put and entries to remove."""

    put: dict[str, str] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.put or self.remove)


def fits(text: object) -> bool:
    """Say whether a value may stand in an entry: text, not too long."""
    return isinstance(text, str) and len(text) <= TITLE_BYTES_MAX and len(text.encode("utf-8")) <= TITLE_BYTES_MAX


def flag(text: str | None) -> bool | None:
    """Read a register of yes or no; None for anything else."""
    return {"1": True, "0": False}.get(text or "")


def identifier(text: str | None) -> bytes | None:
    """Read a register that names something by 32 bytes; None for anything else."""
    if text is None or len(text) != 43 or re.fullmatch(r"[\w-]{43}", text, re.ASCII) is None:
        return None
    raw = _bytes(text)
    return raw if _text(raw) == text else None


def identifier_text(raw: CheckpointId | DeviceId) -> str:
    """Return how a register names something by 32 bytes."""
    return _text(raw)


_HEAD_REGISTER_CHARS = 1 + 22 + 1 + _WITH_ID_CHARS

_MEANS: Mapping[str, Callable[[str], bool]] = {
    TITLE: bool,
    NAME: bool,
    ARCHIVED: lambda text: flag(text) is not None,
    PICKED: lambda text: identifier(text) is not None,
    BELONGS: lambda text: identifier(text) is not None,
    SUSPECT: lambda text: halves(text) is not None,
}


def _means_something(name: Register, text: str) -> bool:
    """Say whether an attribute can have this text. Attributes that we do not know, of a newer hhd, can have any."""
    attribute = name.partition("/")[2]
    if attribute.startswith((FOLLOW, HEAD_ARCHIVED)) and len(attribute) == _WITH_ID_CHARS:
        return flag(text) is not None
    if attribute.startswith(HEAD_NAME) and len(attribute) == _WITH_ID_CHARS and not text:
        return False
    return fits(text) and (attribute not in _MEANS or _MEANS[attribute](text))


def _key(name: Register, by: Writer, number: int) -> str:
    return f"{name}/{by}/{number}"


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
