"""Of a long stream the head and the tail stay, and the cut says exactly how much is gone."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hhd.effects.tools.kept import Kept


def keep(pieces: list[bytes], bytes_max: int) -> str:
    kept = Kept(bytes_max)
    for piece in pieces:
        kept.add(piece)
    return kept.text()


def test_a_short_stream_is_kept_whole() -> None:
    assert keep([b"one\n", b"", b"two"], 10) == "one\ntwo"
    assert keep([], 10) == ""


def test_a_long_stream_loses_its_middle_at_line_ends() -> None:
    text = keep([b"".join(b"%d\n" % number for number in range(1000))], 40)
    head, note, tail = re.split(r"(?m)^\[(\d+) bytes are left out here\]\n", text)
    assert head == "".join(f"{number}\n" for number in range(10)) and tail.endswith("998\n999\n")
    assert len(head) + int(note) + len(tail) == 3890


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(2, 60))
def test_nothing_is_lost_unsaid(pieces: list[bytes], bytes_max: int) -> None:
    whole = b"".join(pieces).replace(b"[", b"(")
    text = keep([piece.replace(b"[", b"(") for piece in pieces], bytes_max)
    found = re.search(r"\n?\[(\d+) bytes are left out here\]\n", text)
    if found is None:
        assert text == whole.decode("utf-8", "backslashreplace") and len(whole) <= bytes_max // 2 * 2
        return
    cut = int(found[1])
    assert 0 < cut <= len(whole)
    kept = len(whole) - cut
    assert kept <= bytes_max
    heads = {whole[:size].decode("utf-8", "backslashreplace") for size in range(kept + 2)}
    assert text[: found.start()] in heads or text[: found.start()] + "\n" in heads
    tails = {whole[len(whole) - size :].decode("utf-8", "backslashreplace") for size in range(kept + 1)}
    assert text[found.end() :] in tails
