"""The verbs of the store, as a person types them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, Memory

from hhd.base.errors import Exit
from hhd.cli import run
from hhd.identity.key import open_identity
from hhd.node import store as verbs
from hhd.store.line import Line


@pytest.fixture(autouse=True)
def _roomy() -> None:
    folder = Path(os.environ["HHD_CONFIG_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text("[store]\nfree_bytes_min = 0\nkeep_days = 0\n")


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    status = run([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found | {"status": status}


def _session(steps: int = 4) -> None:
    with verbs.opened() as store:
        store.create_session(ALICE)
        memory, line = Memory(6), Line(store, ALICE)
        for _ in range(steps):
            line.checkpoint(changed=memory.edit(2), snapshot=memory.snapshot())


@pytest.mark.parametrize("words", [("check",), ("check", "--repair"), ("du",), ("gc",), ("paths",)])
def test_on_a_device_where_hhd_was_never_run_every_verb_works(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list(words)) == 0
    assert run([*words, "--json"]) == 0
    assert "damaged:" not in capsys.readouterr().out


def test_a_sound_store_is_said_to_be_sound(capsys: pytest.CaptureFixture[str]) -> None:
    _session()
    assert run(["check"]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    assert _json(capsys, "check", "--read-data")["sound"] == [ALICE.hex()]


def test_damage_is_named_and_repaired(capsys: pytest.CaptureFixture[str]) -> None:
    _session()
    path = verbs.store_folder() / "store.db"
    raw = bytearray(path.read_bytes())
    raw[:4096] = bytes(4096)
    path.write_bytes(raw)
    assert _json(capsys, "du")["exit"] == 1
    found = _json(capsys, "check")
    assert found["status"] == 1 and found["findings"]
    assert run(["check", "--repair"]) == 0
    assert "mended" in capsys.readouterr().out
    assert _json(capsys, "check", "--read-data")["sound"] == [ALICE.hex()]
    assert list(verbs.store_folder().glob("store.db.damaged-1"))


def test_gc_says_what_it_would_do_and_then_does_it(capsys: pytest.CaptureFixture[str]) -> None:
    _session(8)
    told = _json(capsys, "gc", "--dry-run")
    assert told["thinned"] == 7
    assert _json(capsys, "du")["sessions"][0]["thinned"] == 0  # type: ignore[index]
    assert _json(capsys, "gc")["thinned"] == 7
    assert _json(capsys, "du")["sessions"][0]["thinned"] == 7  # type: ignore[index]
    assert run(["gc"]) == 0 and run(["du"]) == 0


def test_paths_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, "paths")["store"] == str(verbs.store_folder())
    assert run(["paths"]) == 0


def test_a_lost_key_is_an_error_though_the_store_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    _session()
    for path in verbs.identity_folder().iterdir():
        path.unlink()
    found = _json(capsys, "check")
    assert "is gone" in str(found["error"])
    assert not (verbs.identity_folder() / "device.key").exists()


@pytest.mark.parametrize("how", ["gone", "damaged", "another's", "open to others"])
def test_a_key_that_is_not_right_is_refused_with_the_status_of_a_refusal(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _session()
    key = verbs.identity_folder() / "device.key"
    whole = key.read_bytes()
    if how == "gone":
        key.unlink()
    elif how == "damaged":
        key.write_bytes(whole[:-9])
    elif how == "another's":
        open_identity(tmp_path / "other")
        key.write_bytes((tmp_path / "other" / "device.key").read_bytes())
    else:
        key.chmod(0o644)
    before = (verbs.store_folder() / "store.db").read_bytes()
    for words in (("ls",), ("du",), ("gc",), ("check",), ("check", "--repair")):
        assert _json(capsys, *words)["status"] == Exit.REFUSED, words
    assert (verbs.store_folder() / "store.db").read_bytes() == before
    assert key.exists() == (how != "gone"), "and no new one was made"
    key.write_bytes(whole)
    key.chmod(0o600)
    assert _json(capsys, "check", "--read-data")["sound"] == [ALICE.hex()]


def test_captures_of_folders_are_in_what_uses_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_bytes(os.urandom(50_000))
    assert _json(capsys, "du")["captures"] == 0
    assert run(["workspace", "capture", str(tmp_path / "work")]) == 0
    told = _json(capsys, "du")
    assert told["captures"] == 1 and 50_000 < int(str(told["captures_bytes"])) < 80_000
    assert run(["du"]) == 0
    assert "captures of folders: 1" in capsys.readouterr().out
