"""What is read as one simple command is, for a real bash, that one command with those words and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hhd.effects.shellwords import says_nothing, words, wraps_another

BASH = shutil.which("bash")

PIECES = [
    *" \t\n\r;&|<>()$`\\\"'*?[]{}~#!=%^@+,:-./_\0\x0b\x0c\x85\xa0\u2028\u3000",
    *["a", "b", "évil"],
    "evil", "canary", " evil ", "; evil", "&& evil", "|| evil", "| evil", "& evil", "\nevil", "$(evil)", "`evil`",
    "<(evil)",
    ">(evil)", "> made", ">> made", "2> made", "< made", "<<E", "<<<x", "$'\\x3b'", "$\"x\"", "${x:=y}", "$((1))", "$x",
    "X=1 ", "X+=1 ", "--opt=val", "{evil,x}", "*", "~", "~root", "!!", "!evil", "if evil", "then", "time ",
    "coproc evil",
    "function evil", "evil()", "[[ evil", "\\\nevil", "\\;evil", "';evil'", '";evil"', "'$(evil)'", '"$(evil)"',
    '"`evil`"',
    "# evil", "x#evil", "''", '""', "'\nevil\n'", "-c", "@(evil)", "a=~", "x:~",
]  # fmt: skip


@dataclass(frozen=True)
class Yard:
    """A folder to run in, where `canary` writes down its words and `evil` leaves a mark."""

    folder: Path
    programs: Path

    def run(self, command: str) -> tuple[list[list[str]], bool]:
        """What `canary` was called with, call by call, and whether anything else happened."""
        log, mark = self.programs / "log", self.programs / "mark"
        log.write_bytes(b"")
        mark.unlink(missing_ok=True)
        done = subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-c", command], cwd=self.folder, env={"PATH": str(self.programs)},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False,
        )  # fmt: skip
        calls = [call.split(b"\0")[:-1] for call in log.read_bytes().split(b"\1")[:-1]]
        else_ = mark.exists() or bool(done.stdout or done.stderr) or sorted(os.listdir(self.folder)) != ["a", "evil"]
        for name in os.listdir(self.folder):
            if name not in ("a", "evil"):
                os.unlink(self.folder / name)
        return [[word.decode("utf-8", "surrogateescape") for word in call] for call in calls], else_


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    if BASH is None:
        pytest.skip("bash is not installed")
    base = tmp_path_factory.mktemp("yard")
    found = Yard(folder=base / "work", programs=base / "bin")
    found.folder.mkdir()
    found.programs.mkdir()
    (found.folder / "a").touch()
    (found.folder / "evil").touch()
    canary = f'#!{BASH}\n{{ for w; do printf "%s\\0" "$w"; done; printf "\\1"; }} >> {found.programs}/log\n'
    (found.programs / "canary").write_text(canary)
    (found.programs / "evil").write_text(f"#!{BASH}\n: > {found.programs}/mark\n")
    for program in ("canary", "evil"):
        (found.programs / program).chmod(0o755)
    return found


def _insist(yard: Yard, command: str) -> bool:
    """If `command` counts as one call of canary, it must be just that; return whether it counts."""
    found = words(command)
    if found is None or found[0] != "canary":
        return False
    calls, anything_else = yard.run(command)
    assert calls == [list(found[1:])], (command, found, calls)
    assert not anything_else, command
    return True


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@example(" 'a'\"b\"c --x=y a#b")
@example(" a\u00a0evil")
def test_nothing_a_shell_takes_for_more_matches(yard: Yard, tail: str) -> None:
    _insist(yard, "canary" + tail)


@pytest.mark.long
@settings(max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(PIECES), max_size=3).map("".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=9).map("".join),
)
def test_nothing_a_shell_takes_for_more_matches_in_many_tries(yard: Yard, head: str, tail: str) -> None:
    _insist(yard, head + "canary" + tail)


def test_every_character_is_plain_or_makes_the_command_match_nothing(yard: Yard) -> None:
    codes = [*range(1, 0x180), 0x2028, 0x2029, 0x202E, 0x200B, 0x3000, 0xFF1B, 0xFEFF, 0x1F600]
    for spelled in ("x{}evil", "{}evil", "'{}evil'", '"{}evil"', "x{}", "'x'{}\"y\""):
        ways = [spelled.replace("{}", chr(code)) for code in codes]
        plain = [way for way in ways if words(f"canary {way}") is not None]
        assert len(plain) > 60 and _insist(yard, "canary " + " ".join(plain)), spelled


DANGEROUS = [
    "canary x; evil", "canary x && evil", "canary x || evil", "canary x | evil", "canary x & evil", "canary x\nevil",
    "canary $(evil)", "canary `evil`", "canary \"$(evil)\"", 'canary "`evil`"', "canary <(evil)", "canary x > made",
    "canary x >> made", "canary x 2>&1 >made", "canary < a", "canary <<E\nE", "canary *", "canary ?", "canary [ae]*",
    "canary {x,y}", "canary ~", "canary $HOME", "canary ${HOME}", "X=1 canary x", "PATH=. canary", "canary \\x",
    "canary 'x", 'canary "x', "canary x#y;evil", "if canary; then evil; fi", "! canary", "time canary", "{ canary; }",
    "(canary)", "canary() { evil; }; canary", "canary $'\\x41'", 'canary $"x"', "canary a=~", "canary !!",
    "coproc canary",
    "canary \"a\\\"b\"", "canary x # y", "canary -x=~/y", "%canary", "canary 'a\nb'",
]  # fmt: skip


@pytest.mark.parametrize("command", DANGEROUS)
def test_anything_of_the_shell_makes_a_command_match_nothing(command: str) -> None:
    assert words(command) is None


def test_the_canary_would_see_each_of_these_as_more_than_the_words(yard: Yard) -> None:
    """Control: naive splitting at blanks does not survive the test above."""
    caught = [command for command in DANGEROUS if yard.run(command) != ([command.split()[1:]], False)]
    assert len(caught) > len(DANGEROUS) * 0.9


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", ("git", "status")),
        ("  npm\ttest  ", ("npm", "test")),
        ("grep -n 'a; b' \"c d\"", ("grep", "-n", "a; b", "c d")),
        ("./run.sh --x=1,2 a@b:c/d%e+f", ("./run.sh", "--x=1,2", "a@b:c/d%e+f")),
        ("echo a'b'\"c\"", ("echo", "abc")),
        ("echo ''", ("echo", "")),
        ("echo 'é'", ("echo", "é")),
        ("git show HEAD~1 HEAD^ a#b", ("git", "show", "HEAD~1", "HEAD^", "a#b")),
    ],
)
def test_plain_commands_have_words(command: str, expected: tuple[str, ...]) -> None:
    assert words(command) == expected


@pytest.mark.parametrize("command", ["", " ", "''", "'' x", "-x", "if", "time x", "a=b", "X=1", "'if' x", "[[ x", "}"])
def test_what_is_no_command_has_none(command: str) -> None:
    assert words(command) is None


def test_commands_that_carry_commands_are_known() -> None:
    assert wraps_another(("/usr/bin/env", "x")) and wraps_another(("sh", "-c", "x")) and wraps_another(("xargs",))
    assert not wraps_another(("git", "x"))
    assert says_nothing(("python3",)) and not says_nothing(("python3", "-m", "pytest"))
    assert says_nothing(("bash", "-c"))
