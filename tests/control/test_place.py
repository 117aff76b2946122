"""Where a daemon puts its socket."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest

from hhd.base.errors import RefusedError
from hhd.base.paths import own_folders
from hhd.base.release import RELEASE
from hhd.control import place


def test_the_usual_data_folder_has_its_socket_in_the_runtime_folder_and_any_other_below_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".local/share/hhd"
    assert place.socket_path(usual) == usual / "run/control.sock"  # There is no runtime folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert place.socket_path(usual) == tmp_path / "hhd/control.sock"
    assert place.socket_path(tmp_path / "other") == tmp_path / "other/run/control.sock"
    assert (tmp_path / "hhd").resolve() in own_folders()  # Which no tool of a session comes near.


def test_what_a_daemon_left_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "run/control.sock"
    place.listen(path, backlog=1).close()
    assert path.is_socket() and path.stat().st_mode & 0o777 == 0o600
    place.listen(path, backlog=1).close()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError):
        place.listen(path, backlog=1)
    assert path.is_symlink()


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(RefusedError):
        place.listen(tmp_path / "run/control.sock", backlog=1)


def test_a_long_path_is_reached_by_its_folder(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 120) / "control.sock"
    listener = place.listen(path, backlog=1)
    with socket.socket(socket.AF_UNIX) as client, place.reachable(path) as short:
        assert len(short) < 100
        client.connect(short)
    listener.close()


def test_the_release_is_the_one_that_is_built() -> None:
    assert f'version = "{RELEASE}"' in (Path(__file__).parents[2] / "pyproject.toml").read_text()
