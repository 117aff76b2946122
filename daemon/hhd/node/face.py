"""What a running session needs of whoever shows it to a person: a terminal, later the daemon's watchers."""

from __future__ import annotations

from typing import Protocol


class Face(Protocol):
    """Shows a session and gets a person's word. Texts are of unknown origin, except those of `write`."""

    def text(self, piece: str) -> None:
        """A piece of the model's words, as it comes in."""

    def notice(self, sentence: str) -> None:
        """Something of hhd's own about the work."""

    def emitted(self, piece: bytes) -> None:
        """What the program added to its transcript."""

    def write(self, text: str) -> None:
        """A question, made safe to print and to be shown as it is."""

    def read(self, prompt: str) -> str | None:
        """A line typed after `prompt`; None if nobody is there."""

    def listen(self, prompt: str, why: str) -> str | None:
        """The person's words to the session, which asks by `prompt` and says `why`; None if nobody is there."""

    def steering(self) -> list[str]:
        """What the person said meanwhile, without waiting."""


class Nobody:
    """A face that shows nothing and has nobody, for a session that is looked at and does not run."""

    def text(self, piece: str) -> None: ...

    def notice(self, sentence: str) -> None: ...

    def emitted(self, piece: bytes) -> None: ...

    def write(self, text: str) -> None: ...

    def read(self, prompt: str) -> str | None:
        return None

    def listen(self, prompt: str, why: str) -> str | None:
        return None

    def steering(self) -> list[str]:
        return []
