"""Hints say which folder a repository is; where they do not decide, nobody guesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from hhd.workspace.identity import Known, canonical, guess, known
from hhd_protocol.workspace import ObjectFormat, Remote, Repository

ONE, TWO = b"\1" * 20, b"\2" * 20


def repository(*roots: bytes, url: bytes = b"") -> Repository:
    remotes = (Remote(name=b"origin", url=url),) if url else ()
    return Repository(object_format=ObjectFormat.SHA1, head=ONE, branch=None, roots=roots, remotes=remotes)


def folder(name: str, *roots: bytes, url: bytes = b"") -> Known:
    return known(Path(name), repository(*roots, url=url))


def test_first_commits_decide_if_one_folder_has_them() -> None:
    assert guess(repository(ONE), [folder("/a", ONE), folder("/b", TWO)]).folder == Path("/a")


def test_two_folders_with_the_same_history_are_asked_about() -> None:
    found = guess(repository(ONE), [folder("/a", ONE), folder("/b", ONE)])
    assert (found.folder, found.candidates) == (None, (Path("/a"), Path("/b")))


def test_an_address_is_a_hint_to_ask_about_and_never_decides() -> None:
    url = b"git@example.test:a/b.git"
    found = guess(repository(url=b"https://example.test/a/b"), [folder("/a", url=url)])
    assert (found.folder, found.candidates) == (None, (Path("/a"),))


def test_another_history_under_the_same_address_is_another_repository() -> None:
    url = b"https://example.test/a/b"
    assert guess(repository(ONE, url=url), [folder("/a", TWO, url=url)]).candidates == ()


def test_what_the_person_mapped_wins() -> None:
    assert guess(repository(ONE), [folder("/a", ONE)], mapped=Path("/m")).folder == Path("/m")


@pytest.mark.parametrize(
    "url",
    [
        b"https://Example.test/a/b.git", b"https://example.test/a/b/", b"ssh://git@example.test:22/a/b.git",
        b"git@example.test:a/b", b"https://user:secret@example.test/a/b", b" https://example.test/a/b ",
    ],
)  # fmt: skip
def test_spellings_of_one_address_are_one(url: bytes) -> None:
    assert canonical(url) == b"example.test/a/b"


def test_a_path_stays_a_path() -> None:
    assert canonical(b"/srv/git/a.git") == b"/srv/git/a.git"
