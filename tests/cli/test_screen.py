"""Words that come in above the line that is being typed, as a terminal shows them."""

from __future__ import annotations

import io
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.vt import Vt

from hhd.cli import screen as module
from hhd.cli.lines import columns
from hhd.cli.paint import Ink
from hhd.cli.screen import Row, Screen, drawn

WIDTH = 20


class Sheet(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "terminal_columns", lambda _: WIDTH)


def seen(acts: list[Any]) -> tuple[Vt, Screen]:
    sheet = Sheet()
    screen = Screen.of(sheet, {"TERM": "xterm"})
    for act in acts:
        if isinstance(act, Row):
            screen.row = act
            screen.draw()
        else:
            screen.write(act)
    return Vt(WIDTH).feed(sheet.getvalue()), screen


def test_words_go_on_where_they_ended_and_the_typed_line_stays_below() -> None:
    row = Row(prompt="> ", text="use ta", cursor=6)
    vt, _ = seen(["I will ", row, "do it", row])
    assert vt.lines == ["I will do it", "> use ta"] and (vt.row, vt.column) == (1, 8)
    vt, screen = seen(["I will ", row, "do it.\nThen", row])
    assert vt.lines == ["I will do it.", "Then", "> use ta"]
    screen.erase()
    assert Vt(WIDTH).feed(screen.target.getvalue()).lines == ["I will do it.", "Then", ""]  # type: ignore[attr-defined]


words = st.lists(st.text(alphabet="ab \n", max_size=45), max_size=6)
rows = st.builds(
    lambda text, cut: Row(prompt="> ", text=text, cursor=min(cut, len(text))),
    st.text(alphabet="xyz", max_size=50),
    st.integers(0, 50),
)


@given(st.lists(st.one_of(st.text(alphabet="ab \n", max_size=45), rows), max_size=8), rows)
def test_whatever_comes_the_words_are_as_without_a_typed_line_and_it_is_the_last_row(
    acts: list[Any], last: Row
) -> None:
    written = "".join(act for act in acts if isinstance(act, str))
    vt, screen = seen([*acts, last])
    (prompt, typed, _), back = drawn(last, WIDTH)
    expected = Vt(WIDTH).feed(written)
    if not screen.at_line_start:
        expected.feed("\n")
    begin = expected.row
    expected.feed(prompt + typed + (f"\x1b[{back}D" if back else ""))
    assert vt.lines == expected.lines and (vt.row, vt.column) == (begin, expected.column)


@given(st.text(max_size=60), st.integers(0, 60), st.text(max_size=60), st.integers(1, 90))
def test_a_row_fits_whatever_is_typed_and_holds_nothing_that_a_terminal_obeys(
    text: str, cursor: int, other: str, width: int
) -> None:
    (prompt, typed, rest), back = drawn(Row(prompt="> ", text=text, cursor=cursor, elsewhere=other), width)
    line = prompt + typed + rest
    assert columns(line) < max(width, 4) and 0 <= back <= columns(typed + rest)
    assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]


def test_what_is_typed_elsewhere_stands_behind_ones_own_line() -> None:
    vt, _ = seen([Row(prompt="> ", text="my", cursor=2, elsewhere="their words")])
    assert vt.lines == ["> my  (their words)"]
    assert vt.column == 4
    assert seen([Row(elsewhere="their")])[0].lines == ["(their)"]


def test_colours_are_for_who_wants_them() -> None:
    sheet = Sheet()
    plain = Screen.of(sheet, {"TERM": "xterm", "NO_COLOR": "1"})
    plain.row = Row(prompt="> ", text="x", cursor=1, elsewhere="y" * 5)
    plain.draw()
    plain.write("word", Ink.PERSON)
    assert "m" not in sheet.getvalue().replace("\x1b[K", "").replace("\x1b[9D", "")
