"""Durable file writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hhd.base import files


def test_replace_makes_the_file_hold_exactly_the_pieces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    pieces = [bytes([n % 256]) * (n % 7) for n in range(3000)]
    assert files.replace(path, pieces) == sum(map(len, pieces))
    assert path.read_bytes() == b"".join(pieces)
    assert os.listdir(tmp_path) == ["file"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_replace_leaves_the_previous_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync_file", full)
    with pytest.raises(OSError, match="No space"):
        files.replace(path, [b"after"])
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["a" * 255, "\U0001f600" * 63, "é" * 127, "bad\udcff" * 20])
def test_names_as_long_as_they_may_be_can_be_written(tmp_path: Path, name: str) -> None:
    for act in (files.create, files.replace):
        act(tmp_path / name, [b"content"])
    assert (tmp_path / name).read_bytes() == b"content"
    assert len(os.listdir(tmp_path)) == 1


def test_create_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert files.create(path, [b"first"]) == 5
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / "link"):
        with pytest.raises(FileExistsError):
            files.create(taken, [b"second"])
    assert path.read_bytes() == b"first" and not (tmp_path / "nowhere").exists()
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]
