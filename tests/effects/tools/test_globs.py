"""Path patterns mean what they say, and no pattern is slow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.effects.tools.globs import Glob, GlobRefused


def fits(pattern: str, path: str) -> bool:
    return Glob(pattern).matches(tuple(path.split("/")))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.pyc"]),
        ("a/**", ["a", "a/b", "a/b/c"], ["b", "ab"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["az", "a/z/b"]),
        ("a?c/[xy]", ["abc/x", "a.c/y"], ["ac/x", "abc/z", "a/c/x"]),
        ("[!a]", ["b"], ["a"]),
        ("{a,b}/c.{x,y}", ["a/c.x", "b/c.y"], ["c/c.x"]),
        ("./a//b", ["a/b"], ["a"]),
        ("a**", ["ab"], ["a/b"]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not fits(pattern, path)] == []
    assert [path for path in no if fits(pattern, path)] == []


@pytest.mark.parametrize("pattern", ["", "/", ".", "/a", "a/../b", "..", "\0", "{" + "a," * 65 + "}", "{a,b}" * 7])
def test_what_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(GlobRefused):
        Glob(pattern)


@given(st.lists(st.sampled_from(["a", "b", "*", "**", "a*"]), min_size=1, max_size=5),
       st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=5))  # fmt: skip
def test_matching_agrees_with_a_plain_translation(pattern: list[str], path: list[str]) -> None:
    source = "".join(
        "(?:[^/]+/)*" if part == "**" else re.escape(part).replace(r"\*", "[^/]*") + "/" for part in pattern
    )
    assert fits("/".join(pattern), "/".join(path)) == bool(re.fullmatch(source, "/".join(path) + "/"))
    if fits("/".join(pattern), "/".join(path)):
        for depth in range(len(path)):
            assert Glob("/".join(pattern)).may_lead_to(tuple(path[:depth]))
