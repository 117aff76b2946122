"""What is said of a wish besides that it was noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hhd.base.text import short
from hhd.cli.telling import NOTE_CHARS, brief

if TYPE_CHECKING:
    from hhd.node.answers.wished import Wished


def subject(done: Wished) -> str:
    """What the wish is about."""
    head = f"head {brief(done.head)} of " if done.head is not None else ""
    return f"{head}{brief(done.session)}"


def asked(done: Wished) -> list[str]:
    """What devices said differently, one line each."""
    return [short(question, 2 * NOTE_CHARS) for question in done.questions]
