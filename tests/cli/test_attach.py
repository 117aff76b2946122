"""`hhd attach`, `run`, `send` and `pause` at a terminal and in a pipe, with a daemon that tells what a test wants."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.played import SESSION, Played, question, state
from tests.cli.vt import Vt
from tests.e2e.lab import Device
from tests.e2e.test_run_terminal import Terminal, at_terminal

from hhd_protocol import live

NAME = SESSION[:12]
HI = '{"event":"user","from":"prompt","text":"hi"}'


@pytest.fixture
def laptop(tmp_path: Path) -> Device:
    (tmp_path / "data").mkdir(mode=0o700)
    return Device(home=tmp_path)


@pytest.fixture
def daemon(laptop: Device) -> Iterator[Played]:
    with Played(laptop.home / "data") as one:
        one.transcript, one.now = f"{HI}\n".encode(), [state("running")]
        yield one


def seen(terminal: Terminal) -> list[str]:
    return Vt().feed(terminal.screen).lines


def test_words_come_as_they_are_said_around_the_line_that_is_typed(laptop: Device, daemon: Played) -> None:
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, process):
        terminal.wait("hi")
        daemon.tell(live.Words(text="I will "))
        terminal.wait("I will")
        terminal.type("use ta")
        daemon.until("keys", "use ta")
        daemon.tell(live.Words(text="do it now."), live.Keys(by="phone", line="and sp"))
        terminal.wait("and sp")
        assert seen(terminal) == ["> hi", "I will do it now.", "> use ta  (and sp)"]
        daemon.says('{"event":"text","text":"I will do it now."}')
        terminal.type("bs\r")
        daemon.until("say", "use tabs")
        terminal.wait("use tabs)")
        terminal.type("\x04")
        terminal.rest()
    assert process.returncode == 0
    assert seen(terminal)[:3] == ["> hi", "I will do it now.", "(it hears this at its next step: use tabs)"]
    assert f"hhd: Session {NAME} goes on by itself. Come back with: hhd attach {NAME}" in terminal.screen


def test_a_question_is_answered_here_and_not_what_was_answered_elsewhere(laptop: Device, daemon: Played) -> None:
    one, other = question("q1", "Run this?\nmake\n", always="make"), question("q2", "And this?\n", "rm x\n")
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, process):
        terminal.wait("hi")
        daemon.tell(one)
        terminal.wait("q = later:")
        terminal.type("y\r")
        daemon.until("answer", "q1", "yes", "", one.shown)
        daemon.tell(live.Settled(id="q1", by="pts/never", word="yes"), state("running"), other)
        terminal.wait("page 1 of 2")
        assert "rm x" not in terminal.screen
        terminal.type("\r")
        terminal.wait("rm x")
        terminal.wait("y = yes, n = no, q = later: \x1b[0m")
        terminal.type("y")
        daemon.until("keys", "y")
        daemon.tell(live.Settled(id="q2", by="phone", word="no"), state("running"))
        terminal.wait("(answered: no, phone)")
        terminal.type("\rok\r")  # The letter was for a question that is none any more.
        daemon.until("say", "ok")
        terminal.type("\x03")
        terminal.rest()
    assert process.returncode == 0
    said = [heard[:3] for heard in daemon.heard if heard[0] in ("answer", "say")]
    assert said == [("answer", "q1", "yes"), ("say", "ok")]


def test_an_answer_carries_the_digest_of_what_was_on_the_screen_and_of_nothing_else(
    laptop: Device, daemon: Played
) -> None:
    """Who gave it leaves at once: it counts all the same, though the daemon takes it only then."""
    hostile = question("q1", "Run this?\n\x1b[8mrm -rf /\x1b[0m\x1b[1A\u202e\n")
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, process):
        terminal.wait("hi")
        daemon.tell(hostile)
        terminal.wait("q = later:")
        assert "\\x1b[8mrm -rf /\\x1b[0m\\x1b[1A\\u202e" in terminal.screen
        daemon.takes.clear()
        terminal.type("y\r\x04")
        assert daemon.begun_to_take.wait(240)
        daemon.take()
        terminal.rest()
    assert process.returncode == 0
    ((_, _, choice, _, shown),) = [heard for heard in daemon.heard if heard[0] == "answer"]
    assert choice == "yes" and shown != hostile.shown, "what was shown is no text that the daemon had shown"


HOSTILE = "\x1b[2J\x1b]0;owned\x07Mark\x1b[31m\r\x9b1m\x08\u202e\u2066\u2028"
KNOWN = re.compile(r"\x1b\[(?:[0-9;]*m|K|A|[0-9]+[CD])|[\r\n]")


def test_nothing_hostile_reaches_the_terminal(laptop: Device, daemon: Played) -> None:
    line = json.dumps({"event": "text", "text": HOSTILE})
    daemon.transcript += f"{line}\n{HOSTILE}\n".encode()
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, _):
        terminal.wait("hi")
        daemon.tell(
            live.Words(text=HOSTILE),
            live.Notice(text=HOSTILE),
            live.Keys(by=HOSTILE, line=HOSTILE),
            live.Said(by=HOSTILE, text=HOSTILE),
            question("q", f"{HOSTILE}\n", always=HOSTILE),
            live.Settled(id="q", by=HOSTILE, word=HOSTILE),
            live.Listening(id="l", prompt=HOSTILE, why="odd"),
        )
        terminal.type(f"{HOSTILE.replace(chr(13), '')}\x01")
        daemon.until("keys", "0;ownedMark1\u202e\u2066\u2028")
        daemon.tell(
            live.Settled(id="l", by="", word=""),
            state("waiting", HOSTILE, status=3, ways=(HOSTILE,)),
        )
        screen = terminal.rest()
    assert screen.count("Mark") > 8
    left = KNOWN.sub("", screen)
    assert not [c for c in left if c < " " or "\x7f" <= c < "\xa0" or c in "\u202e\u2066\u2028"]


def test_a_session_that_comes_to_rest_lets_the_terminal_go_with_its_words_and_status(
    laptop: Device, daemon: Played
) -> None:
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, process):
        terminal.wait("hi")
        ways = (f"hhd resume {NAME}", "set one")  # What is said anyhow is not said twice.
        daemon.tell(live.Spent(calls=2, tokens=9), state("waiting", "There is no key.", status=4, ways=ways))
        terminal.rest()
    assert process.returncode == 4
    assert seen(terminal)[-4:-1] == [
        "hhd: So far 2 model calls and 9 tokens.",
        f"hhd: There is no key. Go on with: hhd resume {NAME}",
        "hhd:   or set one",
    ]


@pytest.mark.parametrize("way", ["ctrl-c", "ctrl-d", "hang-up", "term"])
def test_an_attached_terminal_leaves_and_nothing_is_paused(way: str, laptop: Device, daemon: Played) -> None:
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, process):
        daemon.attached()
        terminal.wait("> hi")
        if way == "ctrl-c":
            terminal.type("\x03")
        elif way == "ctrl-d":
            terminal.type("\x04")
        else:
            process.send_signal(signal.SIGHUP if way == "hang-up" else signal.SIGTERM)
        terminal.rest()
    assert process.returncode == 0
    daemon.attached(0)
    assert ("pause",) not in daemon.heard


def test_run_gives_what_this_terminal_has_and_ctrl_c_pauses(laptop: Device, daemon: Played, tmp_path: Path) -> None:
    (laptop.home / "config" / "config.toml").write_text('[policy]\nenvironment = ["MINE"]\n')
    laptop.environ |= {"MINE": "1", "SECRET": "2", "LC_TIME": "C", "ANTHROPIC_API_KEY": "k", "LD_DEBUG_X": "y"}
    (tmp_path / "repo").mkdir()
    words = ("run", "do it", "-C", "repo", "--model", "scripted:s.jsonl")
    with at_terminal(laptop, *words, cwd=tmp_path) as (terminal, process):
        daemon.attached()
        terminal.wait("> hi")
        terminal.type("\x03")
        terminal.rest()
    assert process.returncode == 0 and ("pause",) in daemon.heard
    assert f"hhd: Paused. Go on with: hhd resume {NAME} -C repo --model scripted:s.jsonl" in terminal.screen
    assert (daemon.begun["prompt"], daemon.begun["folder"]) == ("do it", tmp_path / "repo")
    assert daemon.begun["model"] == f"scripted:{tmp_path / 's.jsonl'}"
    given = daemon.begun["environment"]
    assert isinstance(given, dict) and given["MINE"] == "1" and given["PATH"] == laptop.environ["PATH"]
    assert not {"SECRET", "LD_DEBUG_X", "TERM"} & set(given) and given["LC_TIME"] == "C"


def test_a_pipe_answers_what_is_asked_and_its_end_leaves(laptop: Device, daemon: Played) -> None:
    one = question("q1", "Run this?\n")
    daemon.now = [one, state("running")]
    process = subprocess.Popen(
        laptop.command("attach", NAME),
        env=laptop.environ,
        cwd=laptop.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("n\nuse make\nmore words\n")
    process.stdin.close()
    daemon.until("answer", "q1", "no", "use make", one.shown)
    daemon.tell(live.Settled(id="q1", by="1", word="no"), state("running"))
    daemon.tell(live.Listening(id="l", prompt="What is next?", why="next"))
    daemon.until("say", "more words")
    daemon.tell(live.Settled(id="l", by="1", word="words"), state("running"))
    daemon.tell(live.Listening(id="m", prompt="What is next?", why="next"))
    assert process.wait(240) == 0
    assert process.stdout is not None and process.stderr is not None
    with process.stdout as out, process.stderr as err:
        assert out.read().splitlines() == [
            "> hi",
            "Run this?",
            "y = yes, n = no, q = later: n",
            "What should it do instead (Enter for nothing)? use make",
            "> more words",
            "(it hears this at its next step: more words)",
            "> ",
        ]
        assert f"It waits for your words. Go on with: hhd resume {NAME}" in err.read()


# a daemon that ends


def test_a_terminal_goes_on_with_the_next_daemon_and_no_byte_comes_twice(laptop: Device) -> None:
    first, last = '{"event":"text","text":"first"}', '{"event":"text","text":"last"}'
    person = at_terminal(laptop, "attach", NAME, cwd=laptop.home)
    with Played(laptop.home / "data") as daemon:
        daemon.transcript, daemon.now = f"{HI}\n".encode(), [state("running")]
        process = subprocess.Popen(
            laptop.command("attach", NAME, "--json"),
            env=laptop.environ,
            cwd=laptop.home,
            stdout=subprocess.PIPE,
            text=True,
        )
        terminal, at = person.__enter__()
        terminal.wait("hi")
        daemon.attached(2)
        daemon.tell(live.Emitted(position=len(daemon.transcript), piece=f"{first}\n{last[:9]}".encode()))
        terminal.wait("first")
        kept = daemon.transcript
    with Played(laptop.home / "data") as daemon:
        daemon.transcript, daemon.now = kept, [state("running")]
        daemon.attached(2)
        daemon.tell(live.Emitted(position=len(daemon.transcript), piece=f"{last[9:]}\n".encode()), state("finished"))
        out, _ = process.communicate(timeout=240)
        terminal.rest()
        person.__exit__(None, None, None)
    told = [json.loads(line) for line in out.splitlines()]
    assert [json.dumps(one["event"], separators=(",", ":")) for one in told if "event" in one] == [HI, first, last]
    assert process.returncode == 0 and at.returncode == 0
    assert [line for line in seen(terminal) if not line.startswith(("(", "hhd"))] == ["> hi", "first", "last", ""]


def test_that_a_session_was_removed_is_the_last_line_of_a_script(laptop: Device) -> None:
    with Played(laptop.home / "data") as daemon:
        daemon.now = [state("paused", "It is paused.")]
        process = subprocess.Popen(
            laptop.command("attach", NAME, "--json"),
            env=laptop.environ,
            cwd=laptop.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        daemon.attached()
        daemon.removed = True
        daemon.tell(state("ended", "It was removed from this device.", status=3, ways=("hhd ls",)), None)
        out, err = process.communicate(timeout=240)
    *_, last = [json.loads(line) for line in out.splitlines()]
    assert last["state"]["sentence"] == "It was removed from this device." and not err
    assert process.returncode == 3


def test_where_no_other_daemon_comes_that_is_said(laptop: Device) -> None:
    patient = "import hhd.cli.watching as w; w.RETURN_SECONDS = 0.1"
    with Played(laptop.home / "data") as daemon:
        daemon.now = [state("running")]
        process = subprocess.Popen(
            laptop.command("run", "x", before=patient),
            env=laptop.environ,
            cwd=laptop.home,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        daemon.attached()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1 and "no other one came" in err and f"Go on with: hhd resume {NAME}" in err


@pytest.mark.parametrize("keys", ["\x04", "\x03"])
def test_the_terminal_is_given_back_as_it_was(keys: str, laptop: Device, daemon: Played) -> None:
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, _):
        before = termios.tcgetattr(terminal.fd)
        terminal.wait("> hi")
        assert not termios.tcgetattr(terminal.fd)[3] & termios.ECHO
        terminal.type(keys)
        terminal.rest()
        assert before[3] & termios.ECHO and termios.tcgetattr(terminal.fd) == before


def test_after_a_stop_keys_are_read_again(laptop: Device, daemon: Played) -> None:
    """The kernel stops nobody whose group has no shell, so here it goes on at once."""
    with at_terminal(laptop, "attach", NAME, cwd=laptop.home) as (terminal, process):
        terminal.wait("> hi")
        process.send_signal(signal.SIGTSTP)
        terminal.type("ab")
        daemon.until("keys", "ab")
        terminal.type("\x15\x04")
        terminal.rest()
    assert process.returncode == 0


def test_a_second_ctrl_c_gets_away_from_a_pause_that_does_not_come(laptop: Device, daemon: Played) -> None:
    daemon.pauses = False
    with at_terminal(laptop, "run", "x", cwd=laptop.home) as (terminal, process):
        terminal.wait("> hi")
        terminal.type("\x03")
        daemon.until("pause")
        terminal.type("\x03")
        terminal.rest()
    assert process.returncode == 1 and f"Come back with: hhd attach {NAME}" in terminal.screen


# sentences


def test_an_unknown_session_is_one_sentence(laptop: Device, daemon: Played) -> None:
    for words in (["attach", "nonesuch"], ["attach", "nonesuch", "--json"]):
        done = laptop.hhd(*words, cwd=laptop.home)
        assert done.returncode == 3 and done.stderr == "hhd: There is no session 'nonesuch' here.\n"


def test_a_daemon_that_is_too_old_is_named(laptop: Device, daemon: Played) -> None:
    daemon.verbs.clear()
    for words in (["attach", NAME], ["send", NAME, "x"], ["pause", NAME], ["run", "x"], ["resume", NAME]):
        done = laptop.hhd(*words, cwd=laptop.home)
        assert done.returncode == 3 and "so it is older than this hhd" in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_words_off_are_usage(laptop: Device, daemon: Played) -> None:
    for words in (
        ["attach", NAME, "--since", "3"],
        ["pause"],
        ["pause", NAME, "--all"],
        ["send", NAME, "  "],
        ["run", "x", "-d", "-o", "f.hhd"],
        ["resume", NAME, "-d", "--foreground"],
    ):
        done = laptop.hhd(*words, cwd=laptop.home)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, (words, done.stderr)
    assert not daemon.heard


def test_send_says_what_became_of_words_also_from_a_pipe(laptop: Device, daemon: Played) -> None:
    done = laptop.hhd("send", NAME, "-", cwd=laptop.home, typed="two\nlines\n")
    assert done.returncode == 0 and "hears this at its next step" in done.stdout and f"hhd attach {NAME}" in done.stdout
    assert ("say", "two\nlines") in daemon.heard
    done = laptop.hhd("send", NAME, "x", "--json", cwd=laptop.home)
    assert json.loads(done.stdout) == {"session": SESSION, "how": "steering"}


def test_detached_it_prints_the_id_and_nothing_else(laptop: Device, daemon: Played) -> None:
    done = laptop.hhd("run", "x", "-d", cwd=laptop.home)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{SESSION}\n", "")
    done = laptop.hhd("resume", "5e", "--detach", "--ran", "out", cwd=laptop.home)
    assert done.stdout == f"{SESSION}\n" and ("go_on", "5e", None, ("ran", "out")) in daemon.heard
    assert done.stderr == ""


def test_that_it_runs_already_is_said_where_something_else_was_asked_for_too(laptop: Device, daemon: Played) -> None:
    daemon.fresh = False
    done = laptop.hhd("resume", "5e", "-d", "--model", "other", cwd=laptop.home)
    assert done.stdout == f"{SESSION}\n" and "runs already" in done.stderr and "heeded" in done.stderr
    assert laptop.hhd("resume", "5e", "-d", cwd=laptop.home).stderr == ""


def test_detached_it_says_where_a_session_goes_on_that_is_elsewhere(laptop: Device, daemon: Played) -> None:
    daemon.at = "des\x1bktop"
    done = laptop.hhd("resume", "5e", "-d", cwd=laptop.home)
    assert (done.returncode, done.stdout) == (0, f"{SESSION}\n")
    told = f"hhd: Session {NAME} was asked to go on at des\\x1bktop. See it with: hhd attach {NAME}\n"
    assert done.stderr == told
    done = laptop.hhd("resume", "5e", "-d", "--json", cwd=laptop.home)
    assert json.loads(done.stdout) == {"session": SESSION, "status": "running", "at": daemon.at, "exit": 0}
