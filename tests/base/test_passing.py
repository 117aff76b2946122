"""How far something long is, is counted for who watches, and for nobody else."""

from __future__ import annotations

import threading

from hhd.base import passing


def test_what_is_done_is_counted_and_something_else_that_begins_is_counted_anew() -> None:
    with passing.watched() as far:
        assert passing.is_watched() and far.so_far() == (0, 0)
        passing.begin("keeping", 10)
        passing.more(4)
        passing.more(3, what="storing")
        passing.more(2, what="keeping")
        assert (far.what, far.so_far()) == ("keeping", (6, 10))
        parts = passing.counted("writing", 5, [b"ab", b"cde"])
        assert list(parts) == [b"ab", b"cde"] and (far.what, far.so_far()) == ("writing", (5, 5))
    assert not passing.is_watched()
    passing.more(1)
    assert far.done == 5


def test_where_nobody_watches_nothing_is_counted_and_parts_are_the_very_same() -> None:
    parts = [b"ab"]
    assert passing.counted("writing", 2, parts) is parts
    with passing.watched() as far:
        other = threading.Thread(target=lambda: (passing.begin("writing", 9), passing.more(9)))
        other.start()
        other.join()
        assert far.so_far() == (0, 0), "another thread has not been watched"


def test_large_parts_are_cut_so_that_they_are_counted_often_enough() -> None:
    large = bytes(2 * passing.PIECE_BYTES + 1)
    assert [len(one) for one in passing.cut([b"", b"abc", large])] == [3, passing.PIECE_BYTES, passing.PIECE_BYTES, 1]
