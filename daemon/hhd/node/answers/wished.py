"""What became of a wish."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Wished:
    """A wish of a person's that was noted: what was said before and now (None: nothing).

    `head`: the one it is about, None where it is about the session. `questions`: what two devices said of this session
    without knowing of each other, in sentences.
    """

    session: str
    before: str | None
    after: str | None
    head: str | None = None
    questions: tuple[str, ...] = ()
