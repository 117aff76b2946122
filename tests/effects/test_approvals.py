"""A question is shown whole, piece by piece, and an answer is bound to what was shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from hhd.effects.approvals import (
    PAGE_CHARS_MAX,
    PAGE_LINES,
    Answer,
    Choice,
    Grant,
    Nobody,
    Question,
    TerminalApprover,
    digest,
)

GRANT = Grant(session=b"s", folder="/w", tool="bash", command="ls")


@dataclass
class Screen:
    typed: list[str]
    shown: str = ""
    prompts: list[str] = field(default_factory=list)

    def ask(self, question: Question) -> Answer | None:
        return TerminalApprover(write=self._write, read=self._read).ask(question)

    def _write(self, text: str) -> None:
        self.shown += text

    def _read(self, prompt: str) -> str | None:
        self.prompts.append(prompt)
        return self.typed.pop(0) if self.typed else None


@given(st.text(max_size=400), st.integers(1, 60))
def test_pages_joined_are_the_whole_text(text: str, times: int) -> None:
    question = Question(title="T", text=text * times)
    assert "".join(question.pages) == f"T\n{text * times}\n"
    assert all(len(page) <= PAGE_CHARS_MAX and len(page.splitlines()) <= PAGE_LINES for page in question.pages)
    assert question.shown == digest((f"T\n{text * times}\n",))


def test_a_yes_carries_the_digest_of_all_that_was_written() -> None:
    question = Question(title="T", text="line\n" * 100)
    screen = Screen(["", "", "y"])
    answer = screen.ask(question)
    assert answer == Answer(choice=Choice.YES, seen=question.shown)
    assert screen.shown == "".join(question.pages)


def test_letters_mean_what_the_prompt_says() -> None:
    question = Question(title="T", text="x", grant=GRANT, always="this")
    assert Screen(["a"]).ask(question) == Answer(choice=Choice.ALWAYS, seen=question.shown)
    assert Screen(["n", " use git "]).ask(question) == Answer(choice=Choice.NO, seen=question.shown, message="use git")
    assert Screen(["N"]).ask(question) == Answer(choice=Choice.NO, seen=question.shown)
    assert Screen(["what", "", "yes!", "YES"]).ask(question) == Answer(choice=Choice.YES, seen=question.shown)
    assert Screen(["q"]).ask(question) is None
    assert Screen([]).ask(question) is None
    assert Screen(["what"]).ask(question) is None


def test_always_is_offered_only_where_it_has_a_bound() -> None:
    plain = Question(title="T", text="x")
    screen = Screen(["a", "n"])
    assert screen.ask(plain) == Answer(choice=Choice.NO, seen=plain.shown)
    assert "always" not in screen.prompts[0]


def test_leaving_before_the_last_page_is_putting_it_off() -> None:
    question = Question(title="T", text="line\n" * 100)
    assert Screen(["q"]).ask(question) is None
    assert Screen([""]).ask(question) is None
    screen = Screen([""])
    screen.ask(question)
    assert "page 1 of 3" in screen.prompts[0]


def test_where_nobody_is_nothing_is_answered() -> None:
    assert Nobody().ask(Question(title="T", text="x")) is None
