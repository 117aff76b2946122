"""The verbs on sessions at the command line: what they print, ask and return, over a real store."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.node import lines
from tests.node.lines import Apart, apart, made, turn

from hhd.cli import run
from hhd.node import findings
from hhd.node import store as door
from hhd.node.answers.wished import Wished
from hhd.node.control import ControlService
from hhd_protocol.ids import PageId


class Told:
    """What one command printed and returned."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str | Path) -> None:
        self.status = run([str(word) for word in words])
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    lines.grouped(monkeypatch)
    with door.opened() as store:
        yield apart(
            store,
            [turn(2, "Fixed here.", path="a.py")],
            [turn(2, "Fixed there.", path="b.py"), turn(3, command="make", failed=True)],
        )


@pytest.fixture
def hhd(both: Apart, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *words: Told(capsys, *words)


def test_show_tells_where_a_session_stands_and_its_conversation(hhd: Any, both: Apart) -> None:
    told = hhd("show", "the par")
    assert told.status == 0 and not told.err
    assert told.out.startswith(f"the parser  {both.made.id.hex()[:12]}\n")
    assert "owned by this device (token 3)" in told.out and "2 heads compete" in told.out
    assert "> Fix it." in told.out and "Fixed here." in told.out and "Fixed there." not in told.out
    assert "Fixed there." in hhd("show", "the par", "--head", both.there.hex()[:10]).out
    found = hhd("show", "the par", "--json").json
    assert (found["session"], found["head"], found["heads"]) == (both.made.id.hex(), both.here.hex(), 2)
    assert [one["event"] for one in found["events"]][:2] == ["user", "turn"]


def test_what_looks_like_a_credential_is_told_by_its_place_and_never_itself(both: Apart, hhd: Any) -> None:
    assert "findings" not in hhd("show", "the par").out
    assert "Nothing in" in hhd("workspace", "findings", "the par").out
    store, session, token = both.made.store, both.made.id, "ghp_Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0I"
    (one,) = findings.of_text(store, session, 3, f"first\ntoken {token}".encode())
    in_file = findings.Finding(
        path=b"src/\x1b[31mx", position=0, piece=0, line=7, kind=one.kind, content=PageId(bytes(32))
    )
    findings.remember(store, session, [in_file])
    assert f"hhd workspace findings {session.hex()[:12]}" in hhd("show", "the par").out
    assert hhd("show", "the par", "--json").json["suspects"] == 2
    told = hhd("workspace", "findings", "the par")
    assert told.out.splitlines() == [
        "what was said or given at effect 3, line 2: looks like a GitHub token",
        "src/\\x1b[31mx, line 7: looks like a GitHub token",
    ]
    told = hhd("workspace", "findings", "the par", "--json")
    assert told.json["places"][0] == ["what was said or given at effect 3", 2, "a GitHub token"]
    assert token not in told.out and hhd("workspace", "findings", "nobody").status == 3


def test_heads_tells_of_each_head(hhd: Any, both: Apart) -> None:
    told = hhd("heads", "the parser")
    assert told.status == 0
    first, here, of_here, there, of_there = told.out.splitlines()
    assert first.endswith(": 2 heads")
    assert here.startswith(both.here.hex()[:12]) and here.endswith("this device, token 3  (main)")
    assert of_here.strip() == f"1 turn, 1 effect past {both.fork.hex()[:12]}; files written by calls: a.py"
    assert (
        "desktop, token 2" in there and "2 turns, 2 effects" in of_there and "files written by calls: b.py" in of_there
    )
    found = hhd("heads", "the parser", "--json").json
    assert [one["id"] for one in found["heads"]] == [both.here.hex(), both.there.hex()]


def test_diff_tells_both_sides_from_the_fork_with_calls_folded(hhd: Any, both: Apart) -> None:
    told = hhd("diff", "the parser")
    assert told.status == 0
    assert told.out.splitlines()[0].endswith(f"part at {both.fork.hex()[:12]}, after 1 model call")
    here, there = told.out.split("\n+++ ")
    assert "\n--- " + both.here.hex()[:12] in here and "files written by calls: a.py" in here
    assert there.startswith(both.there.hex()[:12]) and "  * bash make (failed)\n" in there
    assert "  Fixed there.\n  * edit b.py\n" in there
    found = hhd("diff", "the parser", both.there.hex()[:12], both.here.hex()[:12], "--json").json
    assert found["one"]["lines"][0] == {"kind": "text", "text": "Fixed there.", "failed": False, "answered": True}
    assert hhd("diff", "the parser", "a", "b", "c").status == 2


def test_log_tells_each_statement_on_a_line_or_as_an_object(hhd: Any, both: Apart) -> None:
    told = hhd("log", "the parser")
    assert told.status == 0 and len(told.out.splitlines()) == 8
    assert told.out.splitlines()[0].startswith("0.1.0  ") and "create" in told.out.splitlines()[0]
    assert ": the laptop is lost" in told.out
    objects = [json.loads(line) for line in hhd("log", "the parser", "--json").out.splitlines()]
    assert [one["id"] for one in objects if one["head"]] == [both.there.hex(), both.here.hex()]
    rest = hhd("log", "the parser", "--since", objects[5]["position"], "--json").out.splitlines()
    assert [json.loads(line) for line in rest] == objects[6:]
    assert hhd("log", "the parser", "--since", "yesterday").status == 2


def test_log_follows_until_it_is_told_to_stop(hhd: Any, both: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    from hhd.cli import log

    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            both.made.work([turn(3)], on=both.here, token=both.made.tip_record)
        else:
            os.kill(os.getpid(), 2)

    monkeypatch.setattr(log.time, "sleep", sleep)
    told = hhd("log", "-f", "the parser")
    assert told.status == 0 and len(told.out.splitlines()) == 9 and not told.err
    assert len(waits) == 2


def test_pick_rename_and_archive_are_wishes_that_can_be_taken_back(hhd: Any, both: Apart) -> None:
    there = both.there.hex()
    assert hhd("pick", "the parser", there[:10], "--json").json["after"] == there
    assert "(picked)" in hhd("heads", "the parser").out and "(main)" in hhd("heads", "the parser").out
    assert "none of its heads" in hhd("pick", "the parser", "--none").out
    assert "(picked)" not in hhd("heads", "the parser").out
    assert hhd("pick", "the parser").status == hhd("pick", "the parser", there, "--none").status == 2
    assert hhd("rename", "the parser", "the lexer").status == 0
    assert hhd("show", "the lex").status == 0 and hhd("show", "the parser").status == 3
    assert hhd("rename", "the lexer", "--none").status == 0 and hhd("show", "the parser").status == 0
    assert hhd("rename", "the parser", " ").status == 2
    assert hhd("archive", "the parser").status == 0 and "(archived)" in hhd("show", "the parser").out
    assert hhd("archive", "--undo", "the parser").status == 0 and "(archived)" not in hhd("show", "the parser").out
    told = [hhd("archive", "the parser", *undo, "--json").json for undo in ([], ["--undo"])]
    assert [(one["before"], one["after"]) for one in told] == [(False, True), (True, False)]


@pytest.mark.parametrize("of_head", [False, True])
def test_what_archive_says_undoes_it_does_when_typed_as_printed(hhd: Any, both: Apart, of_head: bool) -> None:
    told = hhd("archive", "the parser", *(["--head", both.there.hex()] if of_head else []))
    words = told.out.split("; hhd ")[1].split(" shows it again")[0].split()
    assert hhd(*words, "--json").json["before"] is True
    assert "archived" not in hhd("show", "the parser").out + hhd("heads", "the parser").out


@pytest.mark.parametrize("words", [("pick", "x", "y"), ("rename", "x", "y"), ("archive", "x")])
def test_what_devices_said_differently_is_shown_as_text(
    hhd: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    hostile = "Mark\x1b[2J\u202e\r\n\x9b1m" + "x" * 1_000_000
    done = Wished(session="ab" * 32, before=None, after="cd" * 32, questions=(hostile,))
    monkeypatch.setattr(ControlService, words[0], lambda *_, **__: done)
    told = hhd(*words)
    (line,) = told.out.splitlines()[1:]
    assert told.status == 0 and line.startswith("Mark\\x1b[2J\\u202e") and line.isprintable() and len(line) < 1_000


def test_every_option_that_the_help_of_heads_names_is_there(hhd: Any) -> None:
    said = " ".join(hhd("heads", "--help").out.split())
    named = re.findall(r"\(hhd (\w+) (--\w+)\)", said)
    assert len(named) == 4
    for verb, option in named:
        assert f" {option} " in hhd(verb, "--help").out


def test_rm_says_what_it_would_destroy_and_asks(hhd: Any, both: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hhd.cli.keyboard.Keyboard.line", lambda self, prompt: None)
    told = hhd("rm", "the parser")
    assert told.status == 3 and "5 checkpoints" in told.out and "2 heads" in told.out
    assert " 4 turns," in told.out, "one before the fork, and those of both lines past it"
    assert "nothing was removed" in told.err
    assert hhd("rm", "the parser", "--json").status == 3
    for answer, status in (("n", 3), ("", 3), ("y", 0)):
        monkeypatch.setattr("hhd.cli.keyboard.Keyboard.line", lambda self, prompt, answer=answer: answer)
        assert hhd("rm", "the parser").status == status
    assert hhd("show", "the parser").status == 3
    assert both


def test_rm_with_yes_asks_nobody(hhd: Any, both: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("hhd.cli.keyboard.Keyboard.line")
    told = hhd("rm", "--yes", "--everywhere", "the parser", "--json")
    assert (
        told.status == 0
        and told.json["everywhere"]
        and sorted(told.json["heads"]) == sorted([both.here.hex(), both.there.hex()])
    )
    assert hhd("heads", "the parser").status == 3


@pytest.mark.parametrize("verb", ["show", "log", "heads", "diff", "fork", "archive", "rm"])
def test_a_name_of_two_ends_in_2_and_one_of_none_in_3_with_one_sentence(hhd: Any, both: Apart, verb: str) -> None:
    made(both.made.store, "the parser too", [turn(1)])
    for name, status in (("the", 2), ("", 2), ("nothing", 3), ("f" * 64, 3)):
        told = hhd(verb, name, "--json") if verb != "log" else hhd(verb, name)
        assert told.status == status and len(told.err.splitlines()) == 1
    assert "the parser too" in hhd(verb, "the").err and "may mean" in hhd(verb, "the").err


def test_log_tells_the_newest_only_where_that_is_asked(hhd: Any) -> None:
    every = hhd("log", "the parser").out.splitlines()
    assert hhd("log", "the parser", "-n", "2").out.splitlines() == every[-2:] and len(every) > 2
    assert hhd("log", "the parser", "--newest", "0").out == ""
    assert hhd("log", "the parser", "-n", "-1").status == 2


def test_heads_have_names_and_are_archived_one_by_one(hhd: Any, both: Apart) -> None:
    there, session = both.there.hex()[:12], both.made.id.hex()[:12]
    told = hhd("rename", "the parser", "--head", there, "the rewrite")
    assert told.out == f"head {there} of {session} is now called the rewrite\n"
    assert f"{there}  the rewrite  " in hhd("heads", "the parser").out
    assert "Fixed there." in hhd("show", "the parser", "--head", "the rew").out
    told = hhd("archive", "the parser", "--head", "the rewrite")
    assert (
        told.out
        == f"head {there} of {session} is archived; hhd archive --undo {session} --head {there} shows it again\n"
    )
    told = hhd("heads", "the parser").out
    assert there not in told and "1 archived one is left out; see --all." in told and ": 1 head\n" in told
    assert "2 heads" not in hhd("ls").out
    assert "(archived)" in hhd("heads", "the parser", "--all").out
    assert hhd("heads", "the parser", "--json").json["left_out"] == 1
    assert hhd("archive", "the parser", "--head", both.here.hex()).status == 3, "the session goes on from it"
    assert hhd("archive", "the parser", "--head", "the rewrite", "--undo").status == 0
    assert "2 heads" in hhd("ls").out
    told = hhd("rename", "the parser", "--head", "the rewrite", "--none")
    assert told.out == f"head {there} of {session} has no name now\n"
    assert hhd("rename", "the parser", "--head", "the rewrite", "x").status == 3


@pytest.mark.parametrize("reason", ["", " \n", "x" * 1025, "\udcff"])
def test_a_reason_is_judged_before_anybody_is_asked(hhd: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(ControlService, "takeable", lambda *_, **__: None)
    monkeypatch.setattr("hhd.cli.takeover._would", lambda _: [])
    monkeypatch.setattr("hhd.cli.takeover.agreed", lambda question, as_json: bool(asked.append(question)))
    told = hhd("takeover", "the parser", "--reason", reason)
    assert told.status == 2 and "A reason" in told.err and not told.out and not asked
    assert hhd("takeover", "the parser", "--reason", "x" * 1024).status == 3
    assert asked == ["Take it over?"], "the positive control"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody can write, not even root")
def test_where_a_release_file_cannot_be_written_nothing_is_released(hhd: Any) -> None:
    told = hhd("transfer", "the parser", "desktop", "--to", "/proc/file")
    assert told.status == 3 and "Nothing can be written in /proc" in told.err and "nothing was changed" in told.err


def test_a_release_file_is_for_another_device_and_here_is_none(hhd: Any, tmp_path: Path) -> None:
    told = hhd("transfer", "the parser", "here", "--to", tmp_path / "file")
    assert told.status == 2 and "for another device" in told.err and not (tmp_path / "file").exists()
