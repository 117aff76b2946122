"""A sealed capsule on disk says what it is, to every verb on capsules, and passphrases come by descriptor alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.protocol import forge

from hhd.base.errors import RefusedError, UsageError
from hhd.cli import run
from hhd.node import sealed_file
from hhd.node import store as door
from hhd_protocol import sealed
from hhd_protocol.crypto import device_id, device_text, public_key
from hhd_protocol.limits import PASSPHRASE_BYTES_MAX

WORDS = b"correct horse"
OTHER = b"o" * 32


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = {"operations": 1, "memory_bytes": 8192}
    real = sealed.seal_with_passphrase
    monkeypatch.setattr(sealed, "seal_with_passphrase", lambda content, **given: real(content, **given, **cost))


def made(path: Path, to_public: bytes | None = None) -> Path:
    """A sealed capsule at `path`: for a device, else by passphrase."""
    content = [forge.whole(forge.at_effect())]
    words = WORDS if to_public is None else None
    parts = sealed_file.sealed_parts(content, seed=OTHER, to_public=to_public, passphrase=words)
    path.write_bytes(b"".join(parts))
    return path


def given(raw: bytes) -> int:
    """A descriptor that gives `raw`."""
    ours, theirs = os.pipe()
    os.write(theirs, raw)
    os.close(theirs)
    return ours


def test_info_says_what_it_is_and_step_and_run_refuse_it_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with door.opened() as store:
        here, me = store.device, door.identity().public
    stranger = device_text(device_id(public_key(OTHER)))
    for path, clause, to in (
        (made(tmp_path / "words.hhd"), "sealed with a passphrase", None),
        (made(tmp_path / "here.hhd", me), "sealed to this device", device_text(here)),
        (made(tmp_path / "there.hhd", public_key(OTHER)), f"sealed to device {stranger}", stranger),
    ):
        before = path.read_bytes()
        assert run(["capsule", "info", str(path)]) == 0
        assert clause in capsys.readouterr().out
        assert run(["capsule", "info", "--json", str(path)]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["status"], said["to"], said["here"]) == ("sealed", to, path.name == "here.hhd")
        assert said["capsule_bytes"] == len(before)
        for words in (["step"], ["run", "-C", str(tmp_path)], ["transcript"], ["show"]):
            assert run(["capsule", words[0], str(path), *words[1:]]) == 3
            err = capsys.readouterr().err
            assert clause in err and len(err.splitlines()) == 1
        assert path.read_bytes() == before


def test_looking_at_a_sealed_capsule_makes_no_identity(tmp_path: Path) -> None:
    assert run(["capsule", "info", str(made(tmp_path / "there.hhd", public_key(OTHER)))]) == 0
    assert not door.identity_folder().exists()


def test_a_damaged_one_is_refused_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "words.hhd")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["capsule", "info", str(path), "--json"]) == 3
    assert "cut short" in json.loads(capsys.readouterr().out)["error"]


def test_it_opens_for_its_device_and_with_its_passphrase(tmp_path: Path) -> None:
    words, mine = made(tmp_path / "words.hhd"), made(tmp_path / "mine.hhd", door.identity().public)
    content = forge.whole(forge.at_effect())
    for raw in (WORDS, WORDS + b"\n", WORDS + b"\r\n"):
        assert (
            sealed_file.opened(words.read_bytes(), words, passphrase=sealed_file.passphrase_from(given(raw))).content
            == content
        )
    opened = sealed_file.opened(mine.read_bytes(), mine, passphrase=None)
    assert opened.content == content and opened.by == device_id(public_key(OTHER))
    for raw in (WORDS + b" ", b"x"):
        with pytest.raises(RefusedError, match="passphrase is not the one"):
            sealed_file.opened(words.read_bytes(), words, passphrase=raw)
    with pytest.raises(UsageError, match="--passphrase-fd"):
        sealed_file.opened(words.read_bytes(), words, passphrase=None)
    with pytest.raises(UsageError, match="sealed to a device"):
        sealed_file.opened(mine.read_bytes(), mine, passphrase=WORDS)


@pytest.mark.parametrize("raw", [b"", b"\n", b"two\nlines", b"x" * (PASSPHRASE_BYTES_MAX + 1), b"x" * 9000])
def test_what_is_no_passphrase_is_refused_with_2(raw: bytes) -> None:
    with pytest.raises(UsageError):
        sealed_file.passphrase_from(given(raw))
    os.close(closed := given(raw))
    with pytest.raises(UsageError):
        sealed_file.passphrase_from(closed)
    longest = b"x" * PASSPHRASE_BYTES_MAX
    assert sealed_file.passphrase_from(given(longest + b"\r\n")) == longest
