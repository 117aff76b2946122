"""Exactly the named text changes, and every other byte stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effects.tools.conftest import Run

from hhd.effects import confine
from hhd.effects.tools import edit as module


def test_one_occurrence_is_replaced(run: Run, folder: Path) -> None:
    (folder / "a").write_text("one two three\n")
    reply = run("edit", path="a", old="two", new="2")
    assert (reply.output, reply.is_error) == ("Replaced 1 occurrence in a.", False)
    assert (folder / "a").read_text() == "one 2 three\n"


def test_several_occurrences_need_replace_all(run: Run, folder: Path) -> None:
    (folder / "a").write_text("x\ny\nx\nx\n")
    reply = run("edit", path="a", old="x", new="z")
    assert reply.is_error and "3 times in a (lines 1, 3, 4)" in reply.output
    assert (folder / "a").read_text() == "x\ny\nx\nx\n"
    assert run("edit", path="a", old="x", new="z", replace_all=True).output == "Replaced 3 occurrences in a."
    assert (folder / "a").read_text() == "z\ny\nz\nz\n"


def test_a_text_that_is_not_there_is_refused_with_a_hint(run: Run, folder: Path) -> None:
    (folder / "a").write_text("def compute(value):\n    return value + 1\n")
    near = run("edit", path="a", old="def compute(values):", new="x")
    assert near.is_error and "nearest line is line 1: def compute(value):" in near.output
    blanks = run("edit", path="a", old="def compute(value):\n  return value + 1", new="x")
    assert "other blanks" in blanks.output
    assert "nearest" not in run("edit", path="a", old="zzzzzzz", new="x").output
    assert (folder / "a").read_text() == "def compute(value):\n    return value + 1\n"


def test_an_empty_or_equal_text_is_refused(run: Run, folder: Path) -> None:
    (folder / "a").write_text("x")
    assert run("edit", path="a", old="", new="y").is_error
    assert run("edit", path="a", old="x", new="x").is_error
    assert "There is no file" in run("edit", path="b", old="x", new="y").output


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "a", "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb\nc\r\nd\n", "b", "x", b"a\r\nx\nc\r\nd\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\nb\n", "a", "x\ny", b"x\ny\nb\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        ("Grüße é\n".encode("latin-1"), "Grüße", "Größe", "Größe é\n".encode("latin-1")),
        (b"ok \xff\xfe caf\xc3\xa9", "café", "thé", b"ok \xff\xfe th\xc3\xa9"),
        ("Grüße\r\nzwei\r\n".encode("utf-16"), "Grüße\nzwei", "a\nb\nc", "a\r\nb\r\nc\r\n".encode("utf-16")),
        (b"\xfe\xff\0x\0\n", "x", "ü", b"\xfe\xff\0\xfc\0\n"),
        (b"no end", "end", "line end", b"no line end"),
    ],
)  # fmt: skip
def test_line_ends_and_encoding_stay(run: Run, folder: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    (folder / "a").write_bytes(before)
    reply = run("edit", path="a", old=old, new=new)
    assert not reply.is_error, reply.output
    assert (folder / "a").read_bytes() == after


def test_text_that_the_encoding_cannot_hold_is_refused(run: Run, folder: Path) -> None:
    (folder / "a").write_bytes("Grüße".encode("latin-1"))
    assert run("edit", path="a", old="Grüße", new="→").is_error
    assert (folder / "a").read_bytes() == "Grüße".encode("latin-1")


def test_what_somebody_else_wrote_meanwhile_is_not_lost(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_text("old\n")
    sync = confine.sync_file

    def slow(fd: int) -> None:
        (folder / "a").write_text("old, and the person's words\n")
        sync(fd)

    monkeypatch.setattr(confine, "sync_file", slow)
    reply = run("edit", path="a", old="old", new="new")
    assert reply.is_error and "meanwhile" in reply.output
    assert (folder / "a").read_text() == "old, and the person's words\n" and os.listdir(folder) == ["a"]
    monkeypatch.setattr(confine, "sync_file", sync)
    assert not run("edit", path="a", old="old", new="new").is_error
    assert (folder / "a").read_text() == "new, and the person's words\n"


def test_a_binary_or_too_large_file_is_refused(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "b").write_bytes(b"x\0y")
    assert run("edit", path="b", old="x", new="z").is_error
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 10)
    (folder / "a").write_text("x" * 5 + "end")
    assert run("edit", path="a", old="end", new="endless").is_error
    assert (folder / "a").read_text() == "xxxxxend"
    (folder / "a").write_text("x" * 11)
    assert run("edit", path="a", old="x" * 11, new="y").is_error


def test_an_edit_cannot_reach_through_a_pipe_or_outside(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("old")
    (folder / "link").symlink_to("../secret")
    os.mkfifo(folder / "fifo")
    for path in ("link", "../secret", "fifo", "."):
        assert run("edit", path=path, old="old", new="new").is_error
    assert (tmp_path / "secret").read_text() == "old"


@settings(max_examples=200, deadline=None)
@given(st.text("ab\né", max_size=20), st.text("ab\né", min_size=1, max_size=4), st.text("xy\n", max_size=3))
def test_replacing_is_what_str_replace_does(content: str, old: str, new: str) -> None:
    raw_old, raw_new, count = module._spelled(content.encode(), old, new)
    assert count == content.count(old)
    if count:
        assert content.encode().replace(raw_old, raw_new) == content.replace(old, new).encode()
