"""Questions to the person, and what makes an answer count.

Approving is of a text that was shown. A `Question` carries its whole text, cut into pages so that none is skipped
unseen; whoever shows it adds up what really went to the screen, and returns that digest with the answer. A yes whose
digest is not that of the whole text is no yes. Control characters, direction changes and the like are visible in it
(`hhd.base.text`), so that what is read is what will run.

`Grants` holds the answers "always, in this session": in memory only, for exact commands or one tool, in one session and
folder. They never travel and end with the process.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from hhd.base.dialogue import dialogue, held
from hhd_protocol.ids import Sha256

PAGE_LINES = 40
"""What fits a screen, with room for the question."""

PAGE_CHARS_MAX = 4000
"""One very long line is cut into pages too."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What "always" covers: one tool in one session and folder; where named, one command or place only."""

    session: bytes
    folder: str
    tool: str
    command: str | None = None
    places: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something that needs a person's yes. `text` is whole and safe to print; `always` says what "always" covers."""

    title: str
    text: str
    grant: Grant | None = None
    always: str = ""

    @property
    def pages(self) -> tuple[str, ...]:
        """Title and text, in pieces for one screen each; joined they are `shown`'s text."""
        return _pages(f"{self.title}\n{self.text}\n")

    @property
    def shown(self) -> Sha256:
        """The digest an answer must carry: SHA-256 of the text a person sees."""
        return digest(self.pages)


class Choice(enum.Enum):
    """What a person says."""

    YES = "yes"
    ALWAYS = "always"
    NO = "no"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A person's decision. `seen`: SHA-256 of what was shown. `message`: their words to the model, with a no."""

    choice: Choice
    seen: Sha256
    message: str = ""


class Approver(Protocol):
    """Asks a person."""

    def ask(self, question: Question) -> Answer | None:
        """Their answer; None if nobody can be asked here, or they put it off."""


class Nobody:
    """The approver where there is no terminal: whatever needs a person waits."""

    def ask(self, question: Question) -> Answer | None:
        return None


def digest(pages: tuple[str, ...]) -> Sha256:
    """SHA-256 of `pages` as they went to the screen, one after another."""
    hashed = sha256()
    for page in pages:
        hashed.update(page.encode("utf-8", "surrogatepass"))
    return Sha256(hashed.digest())


@dataclass(kw_only=True)
class Grants:
    """The "always" answers of this process; `on_add` is told of each."""

    _held: set[Grant] = field(default_factory=set)
    on_add: Callable[[Grant], None] = lambda _: None

    def add(self, grant: Grant) -> None:
        """From now on `grant` needs no question."""
        self._held.add(grant)
        self.on_add(grant)

    def covers(self, grant: Grant) -> bool:
        """Whether the person said "always" to this."""
        return grant in self._held


@dataclass(frozen=True, kw_only=True)
class TerminalApprover:
    """Asks at a terminal: page by page, then for one letter.

    `write` puts text on the screen. `read` shows a prompt and returns a line typed after it, None at the end of input.
    """

    write: Callable[[str], None]
    read: Callable[[str], str | None]

    def ask(self, question: Question) -> Answer | None:
        """Show all of `question`, then ask; leaving a page before the last is putting it off."""
        asking = dialogue(question.pages, always=question.always if question.grant else "")
        decision = held(asking, write=self.write, read=self.read)
        if decision is None:
            return None
        return Answer(choice=Choice(decision.choice), seen=Sha256(decision.seen), message=decision.message)


def _pages(text: str) -> tuple[str, ...]:
    pages: list[str] = []
    page, lines = "", 0
    for line in text.splitlines(keepends=True):
        for piece in _pieces(line):
            if page and (lines >= PAGE_LINES or len(page) + len(piece) > PAGE_CHARS_MAX):
                pages.append(page)
                page, lines = "", 0
            page, lines = page + piece, lines + 1
    return (*pages, page)


def _pieces(line: str) -> list[str]:
    return [line[at : at + PAGE_CHARS_MAX] for at in range(0, len(line), PAGE_CHARS_MAX)]
