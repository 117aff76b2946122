"""One device has one key, whatever happens to its files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hhd.base import files
from hhd.identity import key as key_module
from hhd.identity.key import KEY_FILE, NOTE_FILE, LostKeyError, open_identity
from hhd.identity.keyring import Keyring, KeyringError


def test_the_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    first = open_identity(tmp_path / "identity")
    assert open_identity(tmp_path / "identity") == first
    assert os.stat(tmp_path / "identity" / KEY_FILE).st_mode & 0o777 == 0o600
    assert open_identity(tmp_path / "other") != first
    assert not list((tmp_path / "identity").glob(".*"))


def test_a_private_key_is_not_shown(tmp_path: Path) -> None:
    identity = open_identity(tmp_path)
    assert identity.seed.hex() not in repr(identity) and repr(identity.seed) not in repr(identity)


@pytest.mark.parametrize("damage", ["removed", "emptied", "cut", "flipped", "folder", "open", "another"])
def test_a_key_that_was_there_and_is_not_right_is_an_error_and_never_a_new_key(tmp_path: Path, damage: str) -> None:
    identity = open_identity(tmp_path / "identity")
    path = tmp_path / "identity" / KEY_FILE
    whole = path.read_bytes()
    if damage == "removed":
        path.unlink()
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "open":
        path.chmod(0o644)
    elif damage == "another":
        open_identity(tmp_path / "other")
        shutil.copy(tmp_path / "other" / KEY_FILE, path)
    else:
        path.write_bytes({"emptied": b"", "cut": whole[:-8], "flipped": whole[:20] + b"?" + whole[21:]}[damage])
    with pytest.raises(LostKeyError):
        open_identity(tmp_path / "identity")
    if damage in ("removed", "folder"):
        shutil.rmtree(path, ignore_errors=True)
        assert not path.exists()
    path.write_bytes(whole)
    path.chmod(0o600)
    assert open_identity(tmp_path / "identity") == identity


def test_the_store_remembers_the_device_when_the_whole_folder_is_gone(tmp_path: Path) -> None:
    identity = open_identity(tmp_path / "identity")
    shutil.rmtree(tmp_path / "identity")
    with pytest.raises(LostKeyError, match="is gone"):
        open_identity(tmp_path / "identity", store_device=identity.text)
    assert not (tmp_path / "identity" / KEY_FILE).exists()
    assert open_identity(tmp_path / "identity") != identity  # The control: with no store there is nothing to miss.


def test_a_note_lost_between_key_and_note_is_written_again(tmp_path: Path) -> None:
    identity = open_identity(tmp_path)
    (tmp_path / NOTE_FILE).unlink()
    assert open_identity(tmp_path) == identity
    assert identity.text in (tmp_path / NOTE_FILE).read_text()


def test_a_damaged_note_is_an_error(tmp_path: Path) -> None:
    open_identity(tmp_path)
    (tmp_path / NOTE_FILE).write_text("hhd-device-1 nonsense file\n")
    with pytest.raises(LostKeyError, match="damaged"):
        open_identity(tmp_path)


def test_two_processes_that_begin_at_once_agree(tmp_path: Path) -> None:
    code = (
        "from hhd.identity.key import open_identity; from pathlib import Path; import sys;"
        "print(open_identity(Path(sys.argv[1])).text)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({one.communicate()[0] for one in running}) == 1
    assert all(one.returncode == 0 for one in running)


def test_the_key_is_synced_before_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    link = os.link
    monkeypatch.setattr(key_module.files, "sync_file", lambda fd: order.append("file"))
    monkeypatch.setattr(key_module.files, "sync_folder", lambda folder: order.append("folder"))
    monkeypatch.setattr(files, "replace", lambda path, pieces: order.append(path.name))
    monkeypatch.setattr(key_module.os, "link", lambda a, b: (order.append("link"), link(a, b)))
    open_identity(tmp_path)
    assert order == ["file", "link", "folder", NOTE_FILE]


class _Vault:
    name = "keyring"

    def __init__(self) -> None:
        self.text: str | None = None

    def get(self) -> str | None:
        return self.text

    def set(self, text: str) -> None:
        self.text = text


def test_a_keyring_keeps_the_key_out_of_the_folder(tmp_path: Path) -> None:
    vault = _Vault()
    identity = open_identity(tmp_path, vault=vault)
    assert open_identity(tmp_path, vault=vault) == identity
    assert not (tmp_path / KEY_FILE).exists()
    with pytest.raises(LostKeyError, match="keyring"):
        open_identity(tmp_path)
    with pytest.raises(LostKeyError, match="gone from the keyring"):
        open_identity(tmp_path, vault=_Vault())


def test_a_keyring_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(KeyringError, match="not installed"):
        Keyring()
