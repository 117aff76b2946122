"""Paths of tools stay in the workspace, whatever they look like and whatever changes under them."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.base.errors import RefusedError
from hhd.effects import confine
from hhd.effects.confine import Inside, OutsideWorkspace, PathRefused, Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return place


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    with Workspace(folder) as opened:
        yield opened


def _read(workspace: Workspace, path: str) -> bytes:
    fd = workspace.open_file(workspace.resolve(path))
    with open(fd, "rb") as file:
        return file.read()


def test_plain_paths_are_read_and_written(workspace: Workspace, folder: Path) -> None:
    assert workspace.replace_file(workspace.resolve("a/b/c.txt"), b"hello")
    assert (folder / "a/b/c.txt").read_bytes() == b"hello"
    assert _read(workspace, "./a//b/../b/c.txt") == b"hello"


@pytest.mark.parametrize("path", ["..", "../outside/secret", "a/../../outside/secret", "/etc/passwd", "//etc/passwd"])
def test_a_path_that_leaves_the_folder_is_refused(workspace: Workspace, folder: Path, path: str) -> None:
    (folder / "a").mkdir()
    with pytest.raises(OutsideWorkspace):
        workspace.resolve(path)


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 300, "x/" * 3000, "new/../..", "\ud800"])
def test_what_cannot_be_a_path_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(PathRefused):
        workspace.resolve(path)


def test_links_inside_are_followed_and_named_by_where_they_lead(workspace: Workspace, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real/file").write_text("x")
    (folder / "real/up").symlink_to("../top")
    (folder / "top").write_text("top")
    (folder / "link").symlink_to("real")
    assert workspace.resolve("link/file") == Inside(parts=("real", "file"))
    assert workspace.resolve("link/up") == Inside(parts=("top",))
    assert workspace.resolve("link/../top") == Inside(parts=("top",))
    assert _read(workspace, "link/file") == b"x"


def test_links_outside_are_refused_however_they_lead_there(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    (folder / "relative").symlink_to("../outside")
    (folder / "absolute").symlink_to(tmp_path / "outside")
    (folder / "file").symlink_to("../outside/secret")
    (folder / "chain").symlink_to("relative/secret")
    (folder / "self").symlink_to(folder)
    for path in ("relative/secret", "absolute/secret", "file", "chain", "self/relative", "relative"):
        with pytest.raises(OutsideWorkspace):
            workspace.resolve(path)
    assert (folder / "relative/secret").read_text() == "secret"  # Control: the links do lead there.


def test_a_loop_of_links_is_refused(workspace: Workspace, folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(PathRefused, match="more than 40 links"):
        workspace.resolve("a/x")


def test_a_file_swapped_for_a_link_after_the_check_is_not_opened(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_text("mine")
    place = workspace.resolve("file")
    (folder / "file").unlink()
    (folder / "file").symlink_to("../outside/secret")
    with pytest.raises(PathRefused, match="link"):
        workspace.open_file(place)
    with pytest.raises(PathRefused, match="link"):
        workspace.replace_file(place, b"x")
    assert (folder / "file").read_text() == "secret"  # Control: an ordinary open would have followed it.


def test_a_parent_swapped_for_a_link_after_the_check_is_not_entered(
    workspace: Workspace, folder: Path, tmp_path: Path
) -> None:
    (folder / "dir").mkdir()
    (folder / "dir/secret").write_text("mine")
    place = workspace.resolve("dir/secret")
    (folder / "dir").rename(folder / "was")
    (folder / "dir").symlink_to("../outside")
    with pytest.raises(PathRefused):
        workspace.open_file(place)
    with pytest.raises(PathRefused):
        workspace.replace_file(place, b"x")
    with pytest.raises(PathRefused):
        workspace.open_folder(Inside(parts=("dir",)))
    assert (tmp_path / "outside/secret").read_text() == "secret"
    assert (folder / "dir/secret").read_text() == "secret"  # Control.


def test_a_link_swapped_in_between_the_look_and_the_open_is_not_followed(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("mine")
    look = confine.stat_at

    def swapping(name: str, at: int) -> os.stat_result | None:
        found = look(name, at)
        if name == "file":
            os.unlink("file", dir_fd=at)
            os.symlink("../outside/secret", "file", dir_fd=at)
        return found

    monkeypatch.setattr(confine, "stat_at", swapping)
    with pytest.raises(PathRefused):
        workspace.open_file(Inside(parts=("file",)))
    monkeypatch.setattr(confine, "READ", confine.READ & ~os.O_NOFOLLOW)
    (folder / "file").unlink()
    (folder / "file").write_text("mine")
    fd = workspace.open_file(Inside(parts=("file",)))  # Control: without O_NOFOLLOW the race is lost.
    assert os.read(fd, 10) == b"secret"
    os.close(fd)


def test_pipes_sockets_and_devices_are_refused_without_blocking(workspace: Workspace, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(folder)  # A socket's path is short.
        listener.bind("socket")
        os.chdir(here)
        for name in ("fifo", "socket"):
            with pytest.raises(PathRefused, match="pipe, socket or device"):
                workspace.open_file(workspace.resolve(name))
            with pytest.raises(PathRefused, match="pipe, socket or device"):
                workspace.replace_file(workspace.resolve(name), b"x")


def test_a_pipe_swapped_in_between_the_look_and_the_open_does_not_block(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "plain").write_text("x")
    os.mkfifo(folder / "fifo")
    look = confine.stat_at
    monkeypatch.setattr(confine, "stat_at", lambda name, at: look("plain" if name == "fifo" else name, at))
    with pytest.raises(PathRefused, match="pipe, socket or device"):
        workspace.open_file(Inside(parts=("fifo",)))


def test_a_device_is_refused() -> None:
    with Workspace(Path("/dev"), hidden=[]) as workspace:
        for name in ("null", "tty", "zero"):
            with pytest.raises(PathRefused, match="device"):
                workspace.open_file(workspace.resolve(name))


def test_writing_through_a_hard_link_leaves_the_file_outside_as_it_was(
    workspace: Workspace, folder: Path, tmp_path: Path
) -> None:
    os.link(tmp_path / "outside/secret", folder / "linked")
    workspace.replace_file(workspace.resolve("linked"), b"mine")
    assert (folder / "linked").read_bytes() == b"mine"
    assert (tmp_path / "outside/secret").read_text() == "secret"
    os.link(tmp_path / "outside/secret", folder / "again")
    (folder / "again").write_text("mine")  # Control: writing in place reaches it.
    assert (tmp_path / "outside/secret").read_text() == "mine"


def test_a_replaced_file_keeps_its_mode_and_no_temporary_file_stays(workspace: Workspace, folder: Path) -> None:
    script = folder / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    assert not workspace.replace_file(workspace.resolve("run.sh"), b"new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert os.listdir(folder) == ["run.sh"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(confine, "sync_file", full)
    with pytest.raises(OSError, match="No space"):
        workspace.replace_file(workspace.resolve("file"), b"new")
    assert (folder / "file").read_text() == "old"
    assert os.listdir(folder) == ["file"]


def test_hidden_folders_are_refused_under_any_name(folder: Path) -> None:
    own = folder / "data"
    own.mkdir()
    (own / "key").write_text("k")
    (folder / "alias").symlink_to("data")
    with Workspace(folder, hidden=[own]) as workspace:
        for path in ("data/key", "alias/key", "data", "alias", "data/../data/key"):
            with pytest.raises(PathRefused, match="belongs to hhd"):
                workspace.resolve(path)
        with pytest.raises(PathRefused, match="belongs to hhd"):
            workspace.open_file(Inside(parts=("data", "key")))
        with pytest.raises(PathRefused, match="belongs to hhd"):
            workspace.open_folder(Inside(parts=("data",)))
    with Workspace(folder) as workspace:
        assert _read(workspace, "alias/key") == b"k"  # Control.


def test_a_workspace_that_is_hhds_own_or_no_folder_is_refused_in_one_sentence(folder: Path) -> None:
    with pytest.raises(RefusedError, match="hhd's own"):
        Workspace(folder, hidden=[folder])
    with pytest.raises(RefusedError, match="cannot be used as a workspace"):
        Workspace(folder / "missing")
    (folder / "file").touch()
    with pytest.raises(RefusedError, match="cannot be used as a workspace"):
        Workspace(folder / "file")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "a", "b", "in", "out", "abs", "up", "file", "", "new"]), max_size=8))
def test_no_path_made_of_links_and_dots_reads_the_secret(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    base = tmp_path_factory.mktemp("walk")
    work, outside = base / "work", base / "outside"
    (work / "a/b").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("secret")
    (work / "a/file").write_text("mine")
    (work / "in").symlink_to("a/b")
    (work / "a/b/up").symlink_to("../..")
    (work / "a/out").symlink_to("../../outside")
    (work / "abs").symlink_to(outside)
    with Workspace(work) as workspace:
        try:
            place = workspace.resolve("/".join(names))
            fd = workspace.open_file(place)
        except (PathRefused, OSError):
            return
        with open(fd, "rb") as file:
            assert file.read() == b"mine"
        assert Path(os.path.realpath(work / "/".join(names))).is_relative_to(work)
