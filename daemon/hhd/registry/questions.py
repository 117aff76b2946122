"""What a person has to decide: things that two devices said without knowing of each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd.registry import registers as names
from hhd.registry.registers import Register, Registers, Subject


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One of the answers to a question: the `text` and the first bytes of the id of the `device` that wrote it."""

    text: str
    device: bytes


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something that two devices said without knowing of each other, or one name that two devices have.

    `what`: "title", "picked", "belongs on", "name of a head", "device name" (two names for one device) or "same name".
    `subjects`: as the document names what it is about. Saying it again, whatever it is to be, is the answer.
    """

    what: str
    subjects: tuple[Subject, ...]
    claims: tuple[Claim, ...]


ASKED = {names.TITLE: "title", names.PICKED: "picked", names.BELONGS: "belongs on", names.NAME: "device name"}
"""What a person is asked about, by attribute; of the attributes of heads, see `asked`."""


def asked(name: Register) -> str | None:
    """What a person is asked about where a register holds several texts; None where nobody is."""
    attribute = name.partition("/")[2]
    if attribute.startswith(names.HEAD_NAME) and names.head_of(name) is not None:
        return "name of a head"
    return ASKED.get(attribute)


def questions(found: Registers, subject: Subject | None) -> Iterable[Question]:
    """Yield what is open about `subject`, or about anything."""
    named = found.live if subject is None else found.registers(subject)
    for name in sorted(name for name in named if len(found.live.get(name, ())) > 1):
        what, claims = asked(name), found.competing(name)
        if claims and what is not None:
            yield Question(
                what=what,
                subjects=(Subject(name.partition("/")[0]),),
                claims=tuple(Claim(text=text, device=names.writer_device(by)) for by, text in claims),
            )
    if subject is not None and not subject.startswith("d"):
        return
    bearers: dict[str, list[Subject]] = {}
    for name in found.live:
        if name.endswith(f"/{names.NAME}") and name.startswith("d"):
            bearers.setdefault(found.text(name) or "", []).append(Subject(name.partition("/")[0]))
    for text, subjects in sorted(bearers.items()):
        if len(subjects) > 1 and (subject is None or subject in subjects):
            yield Question(
                what="same name",
                subjects=tuple(sorted(subjects)),
                claims=tuple(Claim(text=text, device=names.subject_id(one)) for one in sorted(subjects)),
            )
