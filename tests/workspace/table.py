"""The table of states: what a working folder can be in, each made from the repository of `by_hand.repository`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from tests.workspace.by_hand import git, repository
from tests.workspace.lab import device


def dirty(at: Path) -> None:
    (at / "a.txt").write_text("changed\n")
    (at / "new.txt").write_text("untracked\n")


def staged_and_unstaged(at: Path) -> None:
    (at / "a.txt").write_text("staged\n")
    git(at, "add", "a.txt")
    (at / "a.txt").write_text("staged, and more\n")


def binary(at: Path) -> None:
    (at / "bin").write_bytes(bytes(range(256)) * 5000)
    git(at, "add", "bin")
    (at / "bin2").write_bytes(b"\0" * 3_000_000)


def deleted(at: Path) -> None:
    (at / "gone.txt").unlink()
    git(at, "rm", "-q", "dir/b.txt")
    git(at, "rm", "-q", "--cached", "a.txt")


def renamed(at: Path) -> None:
    git(at, "mv", "a.txt", "dir/renamed.txt")
    (at / "gone.txt").rename(at / "gone2.txt")


def mode_change(at: Path) -> None:
    (at / "a.txt").chmod(0o755)
    (at / "dir/run").chmod(0o644)
    (at / "private").write_text("x")
    (at / "private").chmod(0o600)


def empty_folders(at: Path) -> None:
    (at / "empty/er/est").mkdir(parents=True)


def links(at: Path) -> None:
    (at / "inside").symlink_to("dir/b.txt")
    (at / "outside").symlink_to("/etc/passwd")
    (at / "up").symlink_to("../../x")
    (at / "nowhere").symlink_to("no such")
    (at / "folder").symlink_to("dir")
    (at / "link").unlink()
    (at / "link").symlink_to("other")


def folder_becomes_file(at: Path) -> None:
    for name in ("b.txt", "run"):
        (at / "dir" / name).unlink()
    (at / "dir").rmdir()
    (at / "dir").write_text("a file now\n")
    (at / "a.txt").unlink()
    (at / "a.txt").mkdir()
    (at / "a.txt/inner").write_text("inner\n")


def link_becomes_file(at: Path) -> None:
    (at / "link").unlink()
    (at / "link").write_text("a file now\n")
    (at / "gone.txt").unlink()
    (at / "gone.txt").symlink_to("a.txt")


def case_only_rename(at: Path) -> None:
    git(at, "mv", "a.txt", "A.txt")


def unborn(at: Path) -> None:
    git(at, "checkout", "-q", "--orphan", "fresh")


def unborn_empty(at: Path) -> None:
    git(at, "checkout", "-q", "--orphan", "fresh")
    git(at, "rm", "-rqf", ".")


def detached(at: Path) -> None:
    git(at, "checkout", "-q", "--detach")
    (at / "a.txt").write_text("x")


def other_branch(at: Path) -> None:
    git(at, "checkout", "-q", "-b", "feature/deep")
    (at / "a.txt").write_text("two\n")
    git(at, "commit", "-qam", "two")


def merge_in_progress(at: Path) -> None:
    git(at, "checkout", "-q", "-b", "other")
    (at / "a.txt").write_text("theirs\n")
    git(at, "commit", "-qam", "theirs")
    git(at, "checkout", "-q", "main")
    (at / "a.txt").write_text("ours\n")
    git(at, "commit", "-qam", "ours")
    git(at, "merge", "--no-ff", "other", check=False)


def intent_to_add(at: Path) -> None:
    (at / "later").write_text("later\n")
    git(at, "add", "-N", "later")


def flags(at: Path) -> None:
    git(at, "update-index", "--assume-unchanged", "a.txt")
    git(at, "update-index", "--skip-worktree", "dir/b.txt")
    (at / "dir/b.txt").unlink()


def sparse(at: Path) -> None:
    git(at, "sparse-checkout", "set", "--no-cone", "/*", "!/dir/")


def line_ends(at: Path) -> None:
    (at / ".gitattributes").write_text("*.crlf text eol=crlf\n*.lf text eol=lf\n* -filter\n")
    (at / "one.crlf").write_bytes(b"one\r\ntwo\r\n")
    (at / "two.lf").write_bytes(b"one\ntwo\n")
    git(at, "add", "-A")
    git(at, "commit", "-qm", "line ends")
    (at / "two.lf").write_bytes(b"mixed\r\nends\n")


def pointers(at: Path) -> None:
    (at / ".gitattributes").write_text("*.psd filter=lfs diff=lfs merge=lfs -text\n")
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
    (at / "art.psd").write_text(text)
    git(at, "add", "-A")
    git(at, "commit", "-qm", "pointers")


def submodule(at: Path) -> None:
    commit = git(at, "rev-parse", "HEAD").decode().strip()
    git(at, "update-index", "--add", "--cacheinfo", f"160000,{commit},module")
    (at / "module").mkdir()
    git(at, "commit", "-qm", "a submodule")


def odd_names(at: Path) -> None:
    for name in (
        "with space",
        "new\nline",
        "tab\t",
        "quote'\"",
        "-dash",
        "ü",
        "é".encode("utf-16-le").hex(),
        "ab:c",
        "con",
    ):
        (at / name).write_text(name)
    with open(os.fsencode(at) + b"/\xff\xfe bytes", "wb") as file:
        file.write(b"not unicode")
    git(at, "add", "-A")


def ignored_stay(at: Path) -> None:
    (at / ".gitignore").write_text("build/\n*.o\n")
    git(at, "add", "-A")


def hard_links(at: Path) -> None:
    os.link(at / "a.txt", at / "hard")


def large_file(at: Path) -> None:
    (at / "large").write_bytes(os.urandom(1 << 16) * 80)


STATES: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        dirty, staged_and_unstaged, binary, deleted, renamed, mode_change, empty_folders, links, folder_becomes_file,
        link_becomes_file, case_only_rename, unborn, unborn_empty, detached, other_branch, merge_in_progress,
        intent_to_add, flags, sparse, line_ends, pointers, submodule, odd_names, ignored_stay, hard_links, large_file,
    )
}  # fmt: skip


def made(place: Path, name: str) -> Path:
    """A repository in the state `name`."""
    at = repository(place)
    STATES[name](at)
    return at


def special(at: Path) -> None:
    """What is no file, link or folder; never captured."""
    os.mkfifo(at / "pipe")
    device(at / "device")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(at / "socket"))
