"""What lists show of the document, made from it, and read back when it is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hhd.registry import registers as names
from hhd.registry.questions import ASKED, asked, questions
from hhd.registry.registers import Register, Registers, Subject
from hhd.registry.shelf import HeadFacts, SessionFacts, Shown
from hhd_protocol.ids import CheckpointId, StatementId
from hhd_protocol.limits import REGISTRY_NAMED_HEADS_MAX


class Showing:
    """What was shown last, so that after an edit only what it changed is made again."""

    def __init__(self) -> None:
        self._last: Shown | None = None
        self._asked: dict[Subject, int] = {}
        """How many questions are open about each session that has any."""

    def forget(self) -> None:
        """Make all of it again: the document is another."""
        self._last = None

    def of(self, found: Registers, subject: Subject | None) -> Shown:
        """Return what is to be shown: what an edit of `subject` changed, everything with None."""
        if subject is not None and subject.startswith("s") and self._last is not None:
            facts = session_facts(found, subject, found.of_heads(subject).get(subject, ()))
            before = self._asked.pop(subject, 0)
            if facts.asked:
                self._asked[subject] = facts.asked
            shown = replace(
                self._last,
                sessions={subject: facts},
                questions=self._last.questions - before + facts.asked,
                whole=False,
            )
            self._last = shown
            return shown
        subjects = {Subject(name.partition("/")[0]) for name in found.live}
        of_heads = found.of_heads()
        sessions = {one: session_facts(found, one, of_heads.get(one, ())) for one in subjects if one.startswith("s")}
        self._asked = {one: facts.asked for one, facts in sessions.items() if facts.asked}
        named = {Subject(name.partition("/")[0]) for name in found.live if name.endswith(f"/{names.NAME}")}
        texts = {one: found.text(names.register(one, names.NAME)) for one in named}
        self._last = Shown(
            sessions=sessions,
            names={one: text for one, text in texts.items() if text is not None},
            questions=sum(1 for _ in questions(found, None)),
            whole=True,
        )
        return self._last


def session_facts(found: Registers, subject: Subject, of_heads: Iterable[Register]) -> SessionFacts:
    """What lists show of a session; `of_heads`: the registers that speak of its heads."""
    of_heads = list(of_heads)
    archived = set(found.texts(names.register(subject, names.ARCHIVED)).values())
    picked = names.identifier(found.text(names.register(subject, names.PICKED)))
    return SessionFacts(
        title=found.text(names.register(subject, names.TITLE)),
        archived=archived == {"1"},  # Of two wishes the one that shows more.
        picked=None if picked is None else CheckpointId(StatementId(picked)),
        asked=sum(bool(found.competing(names.register(subject, one))) for one in ASKED)
        + sum(bool(found.competing(name)) for name in of_heads if asked(name) is not None),
        heads=_head_facts(found, of_heads),
    )


def _head_facts(found: Registers, of_heads: list[Register]) -> tuple[HeadFacts, ...]:
    """What is said of each head; of more than any person names, the first by their ids."""
    said: dict[bytes, HeadFacts] = {}
    for name in of_heads:
        half = names.head_of(name)
        assert half is not None
        fact = said.setdefault(half, HeadFacts(half))
        if asked(name) is not None:
            said[half] = fact._replace(name=found.text(name))
        else:
            said[half] = fact._replace(archived=set(found.texts(name).values()) == {"1"})
    told = [said[half] for half in sorted(said)[:REGISTRY_NAMED_HEADS_MAX]]
    return tuple(fact for fact in told if fact != HeadFacts(fact.half))


def still_said(shown: Shown) -> Iterable[tuple[Register, str]]:
    """Yield what must be in a document that is shown like this."""
    for subject, facts in shown.sessions.items():
        if facts.title is not None:
            yield names.register(subject, names.TITLE), facts.title
        if facts.archived:
            yield names.register(subject, names.ARCHIVED), "1"
        if facts.picked is not None:
            yield names.register(subject, names.PICKED), names.identifier_text(facts.picked)
        for head in facts.heads:
            half = CheckpointId(StatementId(head.half))
            if head.name is not None:
                yield names.register(subject, names.HEAD_NAME, half), head.name
            if head.archived:
                yield names.register(subject, names.HEAD_ARCHIVED, half), "1"
    for subject, text in shown.names.items():
        yield names.register(subject, names.NAME), text
