"""How a question is put to a person: page by page, then for one letter.

Who drives it shows what it says and gives it the lines that are typed, be it by waiting for each or as they come. It
adds up what it had shown: an approval is of a text that was on the screen, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Put `text` on the screen; nothing is waited for."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Read:
    """Wait for a line typed after `prompt`."""

    prompt: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A person's answer: `choice` is yes, always or no; `seen` is the SHA-256 of what was shown; words to a no."""

    choice: str
    seen: bytes
    message: str = ""


Dialogue = Generator[Show | Read, str | None, Decision | None]
"""What to do next; a `Read` is answered with the line, None if nobody is there. Returns None if it was put off."""


def dialogue(pages: Sequence[str], *, always: str = "") -> Dialogue:
    """Put the question whose whole text is `pages`; `always`: what "always" would cover, empty where there is none."""
    seen = yield from paged(pages)
    if seen is None:
        return None
    return (yield from _decide(always, seen))


def paged(pages: Sequence[str]) -> Generator[Show | Read, str | None, bytes | None]:
    """Show `pages` one after the other; return the SHA-256 of what was shown, None where not all was wanted."""
    from hashlib import sha256  # Loads OpenSSL, which a terminal that is asked nothing does without.

    shown = sha256()
    for number, page in enumerate(pages, 1):
        yield Show(text=page)
        shown.update(page.encode("utf-8", "surrogatepass"))
        if number < len(pages):
            line = yield Read(prompt=f"-- page {number} of {len(pages)}: Enter shows the next, q puts it off -- ")
            if line is None or line.strip().lower() == "q":
                return None
    return shown.digest()


def held(
    talk: Generator[Show | Read, str | None, T], *, write: Callable[[str], None], read: Callable[[str], str | None]
) -> T:
    """Hold a talk to its end, waiting for each line; return what came of it."""
    line: str | None = None
    try:
        step = next(talk)
        while True:
            if isinstance(step, Read):
                line = read(step.prompt)
            else:
                write(step.text)
            step = talk.send(line)
    except StopIteration as done:
        return cast(T, done.value)


def _decide(always: str, seen: bytes) -> Dialogue:
    offered = f", a = always ({always})" if always else ""
    while True:
        line = yield Read(prompt=f"y = yes{offered}, n = no, q = later: ")
        if line is None:
            return None
        match line.strip().lower():
            case "y" | "yes":
                return Decision(choice="yes", seen=seen)
            case "a" | "always" if always:
                return Decision(choice="always", seen=seen)
            case "n" | "no":
                message = yield Read(prompt="What should it do instead (Enter for nothing)? ")
                return Decision(choice="no", seen=seen, message=(message or "").strip())
            case "q" | "later":
                return None
