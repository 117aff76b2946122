"""A configuration of an older format is migrated after a copy, with the person's comments; a newer one is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.base.test_config import written

from hhd.base import config, config_format, files
from hhd.base.errors import RefusedError

OLD = "# mine\n[model]\ncalls = 7  # few\n"
NEW = "format = 2\n# mine\n[model]\ncalls_max = 7  # few\n"


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    """hhd as it may be one day: of format 2, in which a setting has another name."""
    monkeypatch.setattr(config, "FORMAT", 2)
    monkeypatch.setitem(config_format.MIGRATIONS, 1, lambda text: text.replace("calls =", "calls_max ="))


def copies(file: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in file.parent.glob(f"{file.name}.*")}


@pytest.mark.parametrize("head", ["", "format = 1\n"])
def test_an_older_file_is_migrated_after_a_copy(head: str) -> None:
    file = written(head + OLD, 0o640)
    assert config.load().model.calls_max == 7
    assert file.read_text() == NEW and file.stat().st_mode & 0o777 == 0o640
    assert copies(file) == {"config.toml.format-1": head + OLD}
    assert config.load().model.calls_max == 7
    assert len(copies(file)) == 1, "once is enough"


def test_another_copy_of_the_same_format_is_not_overwritten() -> None:
    file = written(OLD)
    config.load()
    written(OLD + "# again\n")
    config.load()
    assert sorted(copies(file).values()) == [OLD, OLD + "# again\n"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    file = written("")
    kept = tmp_path / "dotfiles.toml"
    kept.write_text(OLD)
    file.unlink()
    file.symlink_to(kept)
    assert config.load().model.calls_max == 7
    assert file.is_symlink() and kept.read_text() == NEW and copies(kept)


@pytest.mark.parametrize("call", ["create", "replace"])
def test_where_it_cannot_be_written_nothing_is_changed(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*words: object, **named: object) -> int:
        raise OSError(28, os.strerror(28))

    file = written(OLD)
    monkeypatch.setattr(files, call, full)
    with pytest.raises(RefusedError, match="format 1 and cannot be brought to format 2"):
        config.load()
    assert file.read_text() == OLD


def test_a_format_that_nobody_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(config_format.MIGRATIONS, 1)
    file = written(OLD)
    with pytest.raises(RefusedError, match="no hhd has written"):
        config.load()
    assert file.read_text() == OLD and not copies(file)


def test_no_file_stays_none() -> None:
    config.load()
    assert not config.path().exists()
