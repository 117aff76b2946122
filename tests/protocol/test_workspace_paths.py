"""Names that may travel, and every spelling of those that may not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd_protocol.errors import FormatError
from hhd_protocol.workspace_paths import check_path, is_dot_git, path_problem, unusual_path_problem

GOOD = [
    b"a", b"a/b", b".gitignore", b".gitmodules", b".github/x", b"git", b"a.git/b", b"..a", b"a..", b"...", b"x/.gita",
    b"digit/x", b"git~a", b"a b", b" a", b"ab:c/d", b"\xff\xfe", "é/ü".encode(), b"a" * 255, b"a\nb",
    b"gi", b"legit~1x",    "日本/語".encode(), b"-rf", b"a/" * 2000 + b"b",
]  # fmt: skip
BAD = [
    b"", b"/", b"/a", b"a/", b"a//b", b".", b"./a", b"a/.", b"..", b"../x", b"a/../b", b"a/..", b"a\0b", b"a\\b",
    b"a\\..\\b", b"C:x", b"c:/x", b"a" * 256, b"a/" * 2047 + b"bc",
    b".git", b".GIT", b".gIt/config", b"a/.git", b"a/.git/config", b".git.", b".git ", b".git . ", b"git~1",
    b"GIT~1/config", b"git~2", b".git::$INDEX_ALLOCATION", b".git:x", b"git~1::$DATA", ".g\u200cit".encode(),
    "\u202a.git".encode(),
    ".gi\ufefft/config".encode(), ".G\u200dIT".encode(), "\uff0egit".encode(),
    "sub/.\u206fgit".encode(), ".ｇｉｔ".encode(),
]  # fmt: skip


@pytest.mark.parametrize("path", GOOD)
def test_an_ordinary_name_travels(path: bytes) -> None:
    assert path_problem(path) is None
    check_path(path)


@pytest.mark.parametrize("path", BAD)
def test_a_name_that_leads_elsewhere_does_not(path: bytes) -> None:
    assert path_problem(path)
    with pytest.raises(FormatError):
        check_path(path)


def test_a_repository_is_known_in_every_spelling() -> None:
    assert is_dot_git(b".git") and is_dot_git(b"GIT~1") and not is_dot_git(b".gitx") and not is_dot_git(b"git")


PARTS = st.sampled_from([
    b"a", b"git", b".git", b"GIT~1", b".", b"..", b"", b"/", b"/", b"\\", b":", b"\0", b"\n", b" ", b"~", b"-", b"\xff",
    b"x" * 127, b"x" * 128, b"a/" * 2000, "\u200c".encode(),
])  # fmt: skip


@given(parts=st.lists(PARTS, max_size=12))
@settings(max_examples=600, deadline=None)
def test_the_short_look_at_a_name_says_what_the_long_one_says(parts: list[bytes]) -> None:
    path = b"".join(parts)
    assert path_problem(path) == unusual_path_problem(path)
