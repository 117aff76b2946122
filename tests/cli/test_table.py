"""The command table: help and errors without importing what they do not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hhd.cli import quick, run
from hhd.cli.typed import typed


def test_help_imports_no_vendor() -> None:
    code = (
        "import sys\nfrom hhd.cli import run\nrun(['--help'])\n"
        "print([m for m in ('wasmtime', 'anthropic', 'aiortc', 'asyncio', 'cryptography') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "capsule" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_wrong_word_ends_in_2_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nonsense", "--json"]) == 2
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    assert json.loads(out)["exit"] == 2


def test_leave_to_replace_a_file_that_is_not_named_is_no_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["transfer", "s", "desktop", "--force"]) == 2
    assert "--to" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["nan", "-nan", "inf", "0", "-1", "1e9", "x", ""])
def test_a_deadline_that_is_no_time_is_refused_in_one_sentence(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transfer", "s", "desktop", f"--deadline={seconds}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_group_without_a_command_prints_its_help_and_ends_in_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["capsule"]):
        assert run(words) == 2
        out, err = capsys.readouterr()
        assert err.startswith("Usage: hhd") and "Commands:" in err and not out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_sentence(unbuffered: str) -> None:
    command, env = [sys.executable, "-m", "hhd", "--help"], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode == 1
    assert done.stderr == "hhd: The system said: No space left on device.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_error_whose_object_cannot_be_written_keeps_its_status_and_sentence(unbuffered: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hhd", "capsule", "info", str(tmp_path / "none"), "--json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}
        )
    assert done.returncode == 3
    assert done.stderr == f"hhd: There is no file {tmp_path / 'none'}.\n"


@pytest.mark.parametrize("words", [["capsule", "step", "x.hhd"], ["paths"]])
def test_ctrl_c_before_anything_began_is_one_sentence(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quick, "parse", interrupted)
    monkeypatch.setattr(click.Group, "invoke", interrupted)
    assert run(words) == 1
    assert capsys.readouterr().err.strip() == "hhd: Interrupted."


@pytest.mark.parametrize("closed", [[1], [0, 1, 2]])
def test_with_closed_standard_streams_no_file_gets_their_numbers(closed: list[int], tmp_path: Path) -> None:
    opens = (
        "import os; from hhd.__main__ import fill_standard_streams as fill; fill()\n"
        f"fd = os.open({str(tmp_path / 'opened')!r}, os.O_WRONLY | os.O_CREAT); print('said'); os.write(fd, b'%d' % fd)"
    )
    # As a shell does with `>&-`.
    shut = (
        f"import os, sys; [os.close(n) for n in {closed}]; os.execv(sys.executable, [sys.executable, '-c', {opens!r}])"
    )
    assert subprocess.run([sys.executable, "-c", shut]).returncode == 0
    assert int((tmp_path / "opened").read_text()) > 2


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_is_no_error(closed: int) -> None:
    shut = f"import os, sys; os.close({closed}); os.execv(sys.executable, [sys.executable, '-m', 'hhd', 'paths'])"
    done = subprocess.run([sys.executable, "-c", shut], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr


def test_a_file_that_may_not_be_read_is_refused_with_3_and_no_wrong_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").write_text("not ours to read")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    for words in (["info"], ["transcript"], ["show"], ["step", "--slice-ms=1"], ["run", "-C", str(tmp_path)]):
        assert run(["capsule", words[0], str(tmp_path / "theirs"), *words[1:]]) == 3
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_name_that_begins_like_an_option_is_said_as_it_can_be_typed() -> None:
    assert typed(Path("-x.hhd")) == "./-x.hhd"
    assert typed(Path("a b.hhd")) == "'a b.hhd'"
