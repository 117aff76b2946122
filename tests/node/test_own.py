"""The register of capsule files that were written here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hhd.base.errors import RefusedError
from hhd.node import own
from hhd.node.own import Place, Register

FILE, OTHER = b"f" * 32, b"o" * 32
HERE = Place(folder=Path("/a"), date="2026-11-29").digest()


def test_only_what_was_written_here_is_found_with_the_place_noted_last(tmp_path: Path) -> None:
    register = Register(tmp_path / "data")
    assert register.find(FILE) is None
    register.add(FILE, OTHER)
    register.add(FILE, HERE)
    assert Register(tmp_path / "data").find(FILE) == HERE
    assert register.find(OTHER) is None, "a place is no file"


def test_a_digest_that_only_appears_within_other_records_is_not_found(tmp_path: Path) -> None:
    register = Register(tmp_path / "data")
    register.add(FILE[:16] + OTHER[:16], OTHER[:16] + FILE[:16])
    for hidden in (OTHER[:16] + OTHER[:16], OTHER[:16] + FILE[:16], b"of" * 16):
        assert register.find(hidden) is None
    register.add(b"x" * 32, b"x" * 32)
    assert register.find(b"x" * 32) == b"x" * 32
    assert register.find(FILE[:16] + OTHER[:16]) == OTHER[:16] + FILE[:16]


def test_another_folder_or_day_is_another_place() -> None:
    places = [Place(folder=Path(f), date=d).digest() for f, d in (("/a", "1"), ("/a", "2"), ("/b", "1"))]
    assert len(set(places)) == 3 and places[0] == Place(folder=Path("/a"), date="1").digest()


def test_a_full_register_forgets_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "RECORDS_MAX", 10)
    register = Register(tmp_path / "data")
    for number in range(25):
        register.add(number.to_bytes(32, "big"), HERE)
        assert register.find(number.to_bytes(32, "big")) == HERE
    assert register.find(bytes(32)) is None
    assert (tmp_path / "data/own-capsules").stat().st_size <= 10 * own.RECORD_BYTES


def test_a_torn_record_at_the_end_is_passed_over(tmp_path: Path) -> None:
    register = Register(tmp_path / "data")
    register.add(FILE, HERE)
    with open(tmp_path / "data/own-capsules", "ab") as file:
        file.write(OTHER)
    assert register.find(FILE) == HERE and register.find(OTHER) is None
    register.add(OTHER, HERE)
    assert register.find(FILE) == register.find(OTHER) == HERE


def test_the_register_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    register = Register(tmp_path / "data")
    register.add(FILE, HERE)
    assert os.stat(tmp_path / "data/own-capsules").st_mode & 0o777 == 0o600
    os.symlink(tmp_path / "data", tmp_path / "link")
    with pytest.raises(RefusedError):
        Register(tmp_path / "link").find(FILE)
