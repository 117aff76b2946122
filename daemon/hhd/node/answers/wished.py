"""What became of a wish."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Wished:
    """A wish of a person's that was noted: what was said before and now (None: nothing).

    `questions`: what two devices said of this session without knowing of each other, in sentences.
    """

    session: str
    before: str | None
    after: str | None
    questions: tuple[str, ...] = ()
