"""The manual page and the completions: of every command and option that there is, and read by the real programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hhd.cli import COMMANDS, completions, run
from hhd.cli.manual import page
from hhd.cli.spoken import all_spoken, flat


def test_all_commands_of_the_table_are_known_with_what_is_below_them() -> None:
    many = all_spoken()
    assert [one.words for one in many] == [(name,) for name in COMMANDS]
    assert ("capsule", "step") in [one.words for one in flat(many)]
    assert all(any("--help" in option.names for option in one.options) for one in flat(many))


def test_each_command_and_option_is_in_the_manual(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manual"]) == 0
    plain = re.sub(r"\\f[BIR]", "", capsys.readouterr().out.replace(r"\-", "-"))
    for one in flat(all_spoken()):
        section = plain.partition(f".SS hhd {' '.join(one.words)} ")[2].partition("\n.S")[0]
        assert section, one.words
        for option in one.options:
            assert ", ".join(option.names) in section, (one.words, option.names)
    assert all(name in plain for name in ("EXIT STATUS", "HHD_DATA_HOME", "ANTHROPIC_API_KEY"))


@pytest.mark.parametrize("shell", completions.SHELLS)
def test_each_command_and_option_is_in_the_completions(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completions", shell]) == 0
    text = capsys.readouterr().out
    for one in flat(all_spoken()):
        assert f"'{' '.join(one.words)}'" in text or f"'{one.words[-1]}'" in text, one.words
        for option in one.options:
            for name in option.names:
                shown = name if shell != "fish" else (f"-l {name[2:]} " if name[:2] == "--" else f"-s {name[1:]} ")
                assert shown in text, (one.words, name)


def test_no_line_of_the_manual_is_taken_for_a_request_that_it_is_not() -> None:
    requests = {line.split()[0] for line in page().splitlines() if line.startswith(".")}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I"}
    assert not [line for line in page().splitlines() if line.startswith("'")]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_against_the_manual() -> None:
    words = ["groff", "-man", "-Tascii", "-ww", "-z"]
    done = subprocess.run(words, input=page(), capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    bad = subprocess.run(words, input=page().replace(".SH NAME", ".SH\n.nonsense"), capture_output=True, text=True)
    assert bad.stderr


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    (folder / "hhd.bash").write_text(completions.script("bash"))
    line = " ".join(f"'{word}'" for word in words)
    asked = f"source {folder}/hhd.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _hhd"
    code = f"{asked}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, timeout=240, cwd=folder, check=True
    )
    assert not done.stderr
    return done.stdout.split()


def test_bash_completes_commands_their_options_and_what_is_below_them(tmp_path: Path) -> None:
    assert completed(tmp_path, "hhd", "doc") == ["doctor"]
    assert set(completed(tmp_path, "hhd", "")) >= set(COMMANDS)
    assert completed(tmp_path, "hhd", "up", "--ins") == ["--install"]
    assert completed(tmp_path, "hhd", "capsule", "ste") == ["step"]
    assert "--slice-ms" in completed(tmp_path, "hhd", "capsule", "step", "some.hhd", "--sl")
    assert completed(tmp_path, "hhd", "rename", "up", "--ins") == []  # The second word is a session, not a command.
    assert set(completed(tmp_path, "hhd", "completions", "--")) == {"--help"}
    (tmp_path / "my.hhd").touch()
    assert completed(tmp_path, "hhd", "run", "-C", "my") == ["my.hhd"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_and_completes(tmp_path: Path) -> None:
    (tmp_path / "_hhd").write_text(completions.script("zsh"))
    shown = 'compdef() { :; }; _files() { :; }; _describe() { print -l -- "${(@P)2}"; }'
    code = f"{shown}; fpath=({tmp_path} $fpath); source {tmp_path}/_hhd; words=(hhd up --); CURRENT=3; _hhd"
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and not done.stderr
    assert any(line.startswith("--install:") for line in done.stdout.splitlines())


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_reads_and_completes(tmp_path: Path) -> None:
    (tmp_path / "hhd.fish").write_text(completions.script("fish"))

    def offered(line: str) -> list[str]:
        code = f"source {tmp_path}/hhd.fish; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code], capture_output=True, text=True, timeout=240,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
        )  # fmt: skip
        assert not done.stderr, done.stderr
        return [one.split("\t")[0] for one in done.stdout.splitlines()]

    assert offered("hhd doc") == ["doctor"]
    assert offered("hhd up --ins") == ["--install"]
    assert offered("hhd capsule ste") == ["step"]
    assert "--install" not in offered("hhd down --")
