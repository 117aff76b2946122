"""Text of unknown origin, made safe to print."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hhd.base.text import short, visible, visible_bytes, visible_parts


def test_control_sequences_and_direction_overrides_become_visible() -> None:
    assert visible("\x1b[31mred\x07 \u202eback") == "\\x1b[31mred\\x07 \\u202eback"
    assert visible("two\nlines\t", one_line=True) == "two\\x0alines\\x09"
    assert visible_bytes(b"caf\xc3\xa9 \xff") == "café \\xff"


def test_what_is_shown_short_is_cut_before_it_is_made_visible() -> None:
    assert short("a\nb", 10) == "a\\x0ab"
    assert short("x" * 1_000_000, 10) == "x" * 9 + "…"
    assert short("x" * 10, 10) == "x" * 10


@given(st.text())
def test_nothing_that_moves_a_cursor_is_left(text: str) -> None:
    assert all(char in "\n\t" or char.isprintable() or char.isspace() for char in visible(text))
    assert "\x1b" not in visible(text)
    assert "\x9b" not in visible(text)


def test_a_character_cut_by_the_end_of_a_part_is_shown_whole() -> None:
    text = "aé€😀" * 3
    raw = text.encode()
    for cut in range(len(raw) + 1):
        assert "".join(visible_parts([raw[:cut], raw[cut:]])) == text
    assert "".join(visible_parts([b"a\xe2", b"\x1b["])) == "a\\xe2\\x1b["
    assert "".join(visible_parts([b"a\xff\xf0\x9f"])) == "a\\xff\\xf0\\x9f"
