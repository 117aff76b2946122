"""How a question is put to a person."""

from __future__ import annotations

from hashlib import sha256

import pytest

from hhd.base.dialogue import Decision, Read, Show, dialogue

PAGES = ("first\n", "second\n")
SEEN = sha256(b"first\nsecond\n").digest()


def put(lines: list[str | None], *, always: str = "") -> tuple[list[str], Decision | None]:
    """What was shown and asked, and what came of it."""
    said, rest, asking = list[str](), list(lines), dialogue(PAGES, always=always)
    step = next(asking)
    try:
        while True:
            if isinstance(step, Show):
                said.append(step.text)
                step = asking.send(None)
            else:
                assert isinstance(step, Read)
                said.append(step.prompt)
                step = asking.send(rest.pop(0))
    except StopIteration as done:
        assert not rest, "a line too many was given"
        return said, done.value


@pytest.mark.parametrize(
    ("lines", "always", "decision"),
    [
        (["", "y"], "", Decision(choice="yes", seen=SEEN)),
        (["", "huh", " YES "], "", Decision(choice="yes", seen=SEEN)),
        (["", "a"], "this", Decision(choice="always", seen=SEEN)),
        (["", "n", " no, make "], "", Decision(choice="no", seen=SEEN, message="no, make")),
        (["", "n", None], "", Decision(choice="no", seen=SEEN)),
        (["", "a", "q"], "", None),
        (["", None], "", None),
        (["q"], "", None),
        ([None], "", None),
    ],
)
def test_an_answer_is_of_all_that_was_shown(lines: list[str | None], always: str, decision: Decision | None) -> None:
    said, found = put(lines, always=always)
    assert found == decision
    assert ("second\n" in said) == (len(lines) > 1), "a page that nobody asked for is not shown"


def test_always_is_offered_where_there_is_one() -> None:
    assert "a = always (this)" in put(["", "q"], always="this")[0][-1]
    assert "always" not in put(["", "q"])[0][-1]
