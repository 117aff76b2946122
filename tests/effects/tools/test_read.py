"""Lines come back as they are, within bounds, from text files only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effects.tools.conftest import Run

from hhd.effects.cancel import Cancel, Interrupted
from hhd.effects.limits import OUTPUT_BYTES_MAX
from hhd.effects.tools import read as module


def test_a_file_comes_back_as_it_is(run: Run, folder: Path) -> None:
    (folder / "a").write_bytes(b"one\r\ntwo\n\n  three")
    assert run("read", path="a").output == "one\r\ntwo\n\n  three"


def test_some_lines_come_back_with_where_to_go_on(run: Run, folder: Path) -> None:
    (folder / "a").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    assert run("read", path="a", offset=3, limit=2).output == "line 3\nline 4\n[more lines follow, from 5]"
    assert run("read", path="a", offset=9, limit=2).output == "line 9\nline 10\n"
    assert run("read", path="a", offset=10).output == "line 10\n"
    past = run("read", path="a", offset=11)
    assert past.is_error and "fewer than 11 lines" in past.output


def test_a_file_without_lines_says_so(run: Run, folder: Path) -> None:
    (folder / "a").touch()
    assert run("read", path="a").output == "[the file is empty]"
    assert run("read", path="a", offset=2).is_error


def test_a_long_file_is_cut_at_a_line_and_the_rest_can_be_read_on(run: Run, folder: Path) -> None:
    lines = [f"{number} " + "x" * 90 + "\n" for number in range(1, 1801)]
    (folder / "a").write_text("".join(lines))
    got, at = "", 1
    while True:
        output = run("read", path="a", offset=at).output
        assert len(output) <= OUTPUT_BYTES_MAX
        body, _, note = output.rpartition("[more lines follow, from ")
        if not body:
            got += output
            break
        got, at = got + body, int(note[:-1])
    assert got == "".join(lines)


def test_a_line_too_long_to_show_is_cut_and_the_next_can_be_read(run: Run, folder: Path) -> None:
    (folder / "a").write_text("é" * 200_000 + "\nnext\n")
    output = run("read", path="a").output
    assert len(output.encode()) <= OUTPUT_BYTES_MAX and output.startswith("éé")
    assert output.endswith("[line 1 is longer than can be shown; the next line is 2]")
    assert run("read", path="a", offset=2).output == "next\n"


def test_what_is_no_text_is_named_and_not_shown(run: Run, folder: Path) -> None:
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (folder / "blob").write_bytes(b"abc\0def")
    assert run("read", path="picture.png").output == (
        "picture.png is a PNG picture of 16 bytes; only text can be read."
    )
    assert run("read", path="blob").output == "blob is a binary file of 7 bytes; only text can be read."


def test_other_encodings_can_be_read(run: Run, folder: Path) -> None:
    (folder / "wide").write_bytes("Grüße\n".encode("utf-16"))
    (folder / "latin").write_bytes("Grüße\n".encode("latin-1"))
    assert run("read", path="wide").output == "\ufeffGrüße\n" or run("read", path="wide").output == "Grüße\n"
    assert run("read", path="latin").output == "Grüße\n"


def test_folders_missing_files_and_pipes_are_said(run: Run, folder: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "fifo")
    assert "is a folder" in run("read", path="sub").output
    assert "is a folder" in run("read", path=".").output
    assert "There is no file" in run("read", path="nope/x").output
    assert "pipe, socket or device" in run("read", path="fifo").output
    assert "out of the workspace" in run("read", path="../x").output
    assert all(run("read", path=path).is_error for path in ("sub", ".", "nope/x", "fifo", "../x"))


def test_a_huge_sparse_file_is_read_from_its_beginning_without_reading_it_whole(run: Run, folder: Path) -> None:
    with open(folder / "huge", "wb") as file:
        file.write(b"first\n" * 10_000)
        file.truncate(1 << 40)
    assert run("read", path="huge", limit=1).output == "first\n[more lines follow, from 2]"


def test_looking_for_a_line_ends_somewhere(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SCAN_BYTES_MAX", 2 * 1024 * 1024)
    (folder / "long").write_text("x" * 5_000_000)
    reply = run("read", path="long", offset=2)
    assert reply.is_error and "further than" in reply.output


def test_a_person_can_end_a_long_read(run: Run, folder: Path, cancel: Cancel) -> None:
    (folder / "a").write_text("x\n")
    cancel.set()
    with pytest.raises(Interrupted):
        run("read", path="a")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["a\n", "bb\n", "\n", "c", "é\r\n"]), max_size=12), st.integers(1, 14), st.integers(1, 14)
)
def test_offset_and_limit_name_lines_as_splitting_does(pieces: list[str], offset: int, limit: int) -> None:
    content = "".join(pieces)
    lines = content.splitlines(keepends=True) if "\r" not in content else content.replace("\r\n", "\n").split("\n")
    blocks = iter([content.encode()[at : at + 3] for at in range(0, len(content.encode()), 3)])
    output = module._lines(blocks, first=offset, count=limit).output
    expected = "".join([line + "\n" for line in content.split("\n")][:-1][offset - 1 : offset - 1 + limit])
    last = content.split("\n")[-1]
    number = content.count("\n") + 1
    if last and offset <= number < offset + limit:
        expected += last
    more = number if last else number - 1
    assert lines is not None
    if not content:
        assert output == ("[the file is empty]" if offset == 1 else f"The file has fewer than {offset} lines.")
    elif offset > more:
        assert "fewer than" in output
    elif more >= offset + limit:
        assert output == f"{expected}[more lines follow, from {offset + limit}]"
    else:
        assert output == expected
