"""`hhd run` as a person uses it: a fix in a repository, paused and carried elsewhere, with what can go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.attached import until
from tests.e2e.lab import (
    ALLOW,
    BROKEN,
    EDIT,
    FIX,
    FIXED,
    Device,
    call,
    info,
    needs_agent,
    repository,
    says,
    script,
    text,
    transcript,
)
from tests.loopback import messages_api as lo

pytestmark = needs_agent


@pytest.fixture
def laptop(tmp_path: Path) -> Device:
    return Device(home=tmp_path / "laptop", config=ALLOW)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def test_a_failing_test_is_fixed_in_the_folder_named(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", FIX)
    words = ("run", "fix it", "-C", repo, "--model", model, "-o", tmp_path / "c.hhd")
    no_vendor = "import sys; sys.modules['anthropic'] = sys.modules['httpx2'] = None"  # A script needs neither.
    done = laptop.hhd(*words, cwd=tmp_path, before=no_vendor)
    assert done.returncode == 0, done.stderr
    assert "So far 4 model calls and 0 tokens." in done.stderr
    assert (repo / "doubles.py").read_text() == FIXED
    for shown in (
        "> fix it",
        "Looking.",
        "* edit doubles.py",
        "- n + n + 1",
        "| the test passes",
        "It passes now.",
    ):
        assert shown in done.stdout
    assert f"Go on with: hhd capsule run {tmp_path / 'c.hhd'} -C {repo}" in done.stderr
    assert [e["event"] for e in transcript(laptop, tmp_path / "c.hhd")][-1] == "waiting"


def test_with_once_the_session_ends_where_the_model_ends_its_turn(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", FIX)
    done = laptop.hhd("run", "fix it", "--once", "--model", model, "-o", tmp_path / "c.hhd", "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    assert (said["status"], said["effect"], said["exit"]) == ("finished", None, 0)
    assert (said["model_calls"], said["tokens"]) == (4, 0)


def test_words_typed_after_a_turn_go_on_with_the_same_session(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", [says(text("Hello.")), says(text("Bye."))])
    done = laptop.hhd("run", "hi", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo, typed="see you\n")
    assert done.returncode == 0
    users = [event["text"] for event in transcript(laptop, tmp_path / "c.hhd") if event["event"] == "user"]
    assert users == ["hi", "see you"] and "Bye." in done.stdout


# moving


def halfway(laptop: Device, repo: Path, capsule: Path, model: str) -> None:
    """Run until the test command is pending: the person puts its approval off."""
    (laptop.home / "config" / "config.toml").write_text('[policy]\nallow = ["edit"]\n')
    done = laptop.hhd("run", "fix it", "--model", model, "-o", capsule, cwd=repo)
    assert done.returncode == 3, done.stderr
    assert info(laptop, capsule)["effect"]["op"] == "tool"


def test_a_session_stopped_with_a_command_pending_goes_on_in_another_folder_on_another_device(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(
        tmp_path / "s.jsonl", [*FIX, says(call("write", path="notes/done.txt", content="yes")), says(text("Ok."))]
    )
    halfway(laptop, repo, tmp_path / "c.hhd", model)
    before = (tmp_path / "c.hhd").read_bytes()

    desktop = Device(home=tmp_path / "desktop", config=ALLOW)
    elsewhere = Path(shutil.copytree(repo, tmp_path / "desktop" / "work" / "repo"))
    capsule = Path(shutil.copy(tmp_path / "c.hhd", tmp_path / "desktop" / "c.hhd"))

    refused = desktop.hhd("capsule", "run", capsule, "--model", model, cwd=elsewhere)
    assert refused.returncode == 3 and capsule.read_bytes() == before
    for shown in (str(elsewhere), str(repo), "check.py", "not begun yet"):
        assert shown in refused.stdout

    done = desktop.hhd("capsule", "run", capsule, "--model", model, cwd=elsewhere, typed="y\nwrite it down\n")
    assert done.returncode == 0, done.stderr
    assert "| the test passes" in done.stdout
    assert (elsewhere / "notes" / "done.txt").read_text() == "yes"
    assert not (repo / "notes").exists()
    machines = [event for event in transcript(desktop, capsule) if event["event"] == "machine"]
    assert len(machines) == 1, "both devices have the same facts, so the model is told once"

    home = desktop.hhd("capsule", "show", capsule, cwd=tmp_path)
    assert home.stdout.count("> fix it") == 1 and "It passes now." in home.stdout


def test_a_capsule_of_ones_own_needs_no_question_also_when_copied(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", FIX)
    halfway(laptop, repo, tmp_path / "c.hhd", model)
    (laptop.home / "config" / "config.toml").write_text(ALLOW)
    fork = laptop.hhd("capsule", "fork", tmp_path / "c.hhd", tmp_path / "fork.hhd", cwd=tmp_path)
    assert fork.returncode == 0
    done = laptop.hhd("capsule", "run", tmp_path / "fork.hhd", "--model", model, cwd=repo)
    assert done.returncode == 0 and "not made here" not in done.stdout


def test_a_changed_copy_of_ones_own_capsule_is_a_strangers(laptop: Device, repo: Path, tmp_path: Path) -> None:
    """Whoever forges a capsule can give it any line id and any digest; only bytes written here are one's own."""
    model = script(tmp_path / "s.jsonl", FIX)
    halfway(laptop, repo, tmp_path / "c.hhd", model)
    forge = (
        "import dataclasses, pathlib; from hhd_protocol import capsule as c; "
        f"p = pathlib.Path({str(tmp_path / 'c.hhd')!r}); v = c.decode(p.read_bytes()); live = v.journal.live; "
        "evil = dataclasses.replace(live, request=live.request.replace(b'check.py', b'-c pass #')); "
        "v = dataclasses.replace(v, journal=dataclasses.replace(v.journal, live=evil)); "
        "p.write_bytes(b''.join(bytes(x) for x in c.encode(v)))"
    )
    subprocess.run([sys.executable, "-c", forge], check=True)
    done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert done.returncode == 3 and "not made here" in done.stdout and "-c pass #" in done.stdout


def test_stepping_a_strangers_capsule_does_not_make_it_ones_own(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", FIX)
    halfway(laptop, repo, tmp_path / "c.hhd", model)
    bob = Device(home=tmp_path / "bob", config=ALLOW)
    (tmp_path / "reply.json").write_text('{"output": "fine", "is_error": false}')
    step = bob.hhd("capsule", "step", tmp_path / "c.hhd", "--reply-file", tmp_path / "reply.json", cwd=repo)
    assert step.returncode == 0, step.stderr
    done = bob.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert done.returncode == 3 and "not made here" in done.stdout


def test_moving_a_session_makes_no_model_request_and_going_on_makes_one(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    steps = [lo.message(*reply["content"], reason=reply["stop_reason"]) for reply in FIX]
    with lo.serve(steps) as service:
        keys = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        (laptop.home / "config" / "config.toml").write_text('[policy]\nallow = ["edit"]\n')
        laptop.environ |= keys
        done = laptop.hhd("run", "fix it", "--model", "m", "-o", tmp_path / "c.hhd", cwd=repo)
        assert done.returncode == 3 and len(service.requests) == 3
        sent = service.requests[-1].body["messages"]

        desktop = Device(home=tmp_path / "desktop", config=ALLOW, environ=keys)
        elsewhere = Path(shutil.copytree(repo, tmp_path / "elsewhere"))
        capsule = Path(shutil.copy(tmp_path / "c.hhd", tmp_path / "moved.hhd"))
        for words in (("info",), ("show",), ("transcript",), ("fork", tmp_path / "f.hhd")):
            assert desktop.hhd("capsule", words[0], capsule, *words[1:], cwd=elsewhere).returncode == 0
        refused = desktop.hhd("capsule", "run", capsule, "--model", "m", cwd=elsewhere)
        assert refused.returncode == 3
        assert len(service.requests) == 3, "the move asked the model for nothing"

        done = desktop.hhd("capsule", "run", capsule, "--model", "m", cwd=elsewhere, typed="y\n")
        assert done.returncode == 0, done.stderr
        assert len(service.requests) == 4, "the next turn is the first request after the move"
        assert service.requests[-1].body["messages"][: len(sent)] == _unmarked(sent, service.requests[-1].body)


def _unmarked(sent: list[dict[str, Any]], later: dict[str, Any]) -> list[dict[str, Any]]:
    """`sent` with the cache marks of `later`: marks wander to the end of the conversation, words do not change."""
    marked = json.loads(json.dumps(sent))
    for message, now in zip(marked, later["messages"], strict=False):
        for block, other in zip(message["content"], now["content"], strict=False):
            block.pop("cache_control", None)
            if "cache_control" in other:
                block["cache_control"] = other["cache_control"]
    return list(marked)


def test_parallel_tools_a_huge_text_a_refusal_and_a_cut_call_reach_the_agent_through_the_real_client(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    huge = "".join(chr(97 + n % 26) for n in range(1_000_000))
    cut = {**call("bash"), "input": '{"command": "touch thr'}
    steps = [
        lo.error(529, "overloaded_error", retry_after_ms="5"),
        lo.message(
            call("bash", command="touch one"), {**call("bash", command="touch two"), "id": "b"}, reason="tool_use"
        ),
        lo.raw_stream(lo.begin(), lo.block(0, text(huge)), lo.block(1, cut, stop=False), lo.end("max_tokens")),
        lo.message(text("Done.")),
        lo.message(text("I will not"), reason="refusal"),
    ]
    with lo.serve(steps) as service:
        keys = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        words = ("run", "go", "--model", "m", "-o", tmp_path / "c.hhd")
        done = laptop.hhd(*words, cwd=repo, environ=keys, typed="and more\n")
        assert done.returncode == 1, done.stderr
        assert len(service.requests) == 5
    assert (repo / "one").exists() and (repo / "two").exists()
    assert [entry.name for entry in repo.glob("thr*")] == []
    events = transcript(laptop, tmp_path / "c.hhd")
    assert next(event["text"] for event in events if event["event"] == "text") == huge
    assert [event["ran"] for event in events if event["event"] == "result"] == [True, True, False]
    assert events[-1] == {"event": "waiting", "why": "refusal"}


# what only the person can mend


def mended(laptop: Device, repo: Path, capsule: Path, model: str) -> None:
    """The session is whole and goes on once the trouble is gone."""
    done = laptop.hhd("capsule", "run", capsule, "--model", model, cwd=repo)
    assert done.returncode == 0, done.stderr
    assert (repo / "doubles.py").read_text() == FIXED


def test_without_a_key_the_session_is_paused_with_one_sentence(laptop: Device, repo: Path, tmp_path: Path) -> None:
    capsule = tmp_path / "c.hhd"
    done = laptop.hhd("run", "fix it", "-o", capsule, cwd=repo)
    assert done.returncode == 3
    assert "So far" not in done.stderr  # No call was made.
    assert "no key" in done.stderr and "ANTHROPIC_API_KEY" in done.stderr and str(capsule) in done.stderr
    mended(laptop, repo, capsule, script(tmp_path / "s.jsonl", FIX))


def test_without_a_network_the_session_is_paused_with_one_sentence(laptop: Device, repo: Path, tmp_path: Path) -> None:
    capsule = tmp_path / "c.hhd"
    (laptop.home / "config" / "config.toml").write_text(f"[model]\nretries = 0\n{ALLOW}")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        keys = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-secret"}
        done = laptop.hhd("run", "fix it", "-o", capsule, cwd=repo, environ=keys)
    assert done.returncode == 4
    assert "cannot be reached (Connection refused)" in done.stderr and "sk-secret" not in done.stderr + done.stdout
    mended(laptop, repo, capsule, script(tmp_path / "s.jsonl", FIX))


def test_an_unknown_model_is_paused_with_one_sentence(laptop: Device, repo: Path, tmp_path: Path) -> None:
    capsule = tmp_path / "c.hhd"
    with lo.serve([lo.error(404, "not_found_error", "model: nonsuch")]) as service:
        keys = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        done = laptop.hhd("run", "fix it", "--model", "nonsuch", "-o", capsule, cwd=repo, environ=keys)
        assert len(service.requests) == 1
    assert done.returncode == 3 and "has no model nonsuch" in done.stderr
    mended(laptop, repo, capsule, script(tmp_path / "s.jsonl", FIX))


@pytest.mark.parametrize("lines", [FIX[:2], [*FIX[:2], "{oops"]])
def test_a_script_that_ends_or_breaks_pauses_the_session_and_names_the_place(
    laptop: Device, repo: Path, tmp_path: Path, lines: list[Any]
) -> None:
    capsule = tmp_path / "c.hhd"
    done = laptop.hhd("run", "fix it", "--model", script(tmp_path / "s.jsonl", lines), "-o", capsule, cwd=repo)
    assert done.returncode == 3
    assert "number 3" in done.stderr if len(lines) == 2 else "Line 3 of the script" in done.stderr
    mended(laptop, repo, capsule, script(tmp_path / "s.jsonl", FIX))


def test_a_script_that_is_not_there_is_one_sentence(laptop: Device, repo: Path, tmp_path: Path) -> None:
    done = laptop.hhd("run", "x", "--model", "scripted:nowhere", "-o", tmp_path / "c.hhd", cwd=repo)
    assert done.returncode in (2, 3) and "There is no script" in done.stderr and "Go on with" in done.stderr


def test_an_unwritable_workspace_is_one_sentence(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", FIX)
    os.chmod(repo, 0o500)
    root = "from hhd.effects.confine import Workspace; Workspace.writable = lambda self: False"  # root may write anyway
    before = root if os.geteuid() == 0 else ""
    done = laptop.hhd("run", "fix it", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo, before=before)
    os.chmod(repo, 0o700)
    assert done.returncode == 3 and "cannot be written" in done.stderr
    mended(laptop, repo, tmp_path / "c.hhd", model)


def test_a_folder_that_is_not_there_is_one_sentence(laptop: Device, tmp_path: Path) -> None:
    done = laptop.hhd(
        "run", "x", "-C", tmp_path / "gone", "--model", "scripted:demo", "-o", tmp_path / "c.hhd", cwd=tmp_path
    )
    assert done.returncode == 3 and "gone cannot be used as a workspace" in done.stderr


def test_a_service_that_stays_overloaded_is_put_to_the_person_and_asked_again(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    busy = {"error": {"type": "overloaded_error", "message": "Overloaded"}, "status": 529}
    model = script(tmp_path / "s.jsonl", [busy, *FIX])
    done = laptop.hhd("run", "fix it", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo)
    assert done.returncode == 1 and "(status 529): Overloaded" in done.stdout
    done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo, typed="\n")
    assert done.returncode == 0 and (repo / "doubles.py").read_text() == FIXED


# spending


def test_a_loop_of_model_calls_is_stopped_by_the_spend_limit_and_asked_about(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model = script(tmp_path / "s.jsonl", [says(call("glob", pattern="*"))] * 50)
    (laptop.home / "config" / "config.toml").write_text("[model]\ncalls_max = 3\n")
    capsule = tmp_path / "c.hhd"
    turns = lambda: sum(event["event"] == "stop" for event in transcript(laptop, capsule))  # noqa: E731

    done = laptop.hhd("run", "loop", "--model", model, "-o", capsule, cwd=repo)
    assert done.returncode == 3 and turns() == 3
    assert "has made 3 model calls, as many as calls_max allows" in done.stdout

    done = laptop.hhd("capsule", "run", capsule, "--model", model, cwd=repo, typed="y\n")
    assert turns() == 6, "a yes allows as many again, not more"

    done = laptop.hhd("capsule", "run", capsule, "--model", model, cwd=repo, typed="n\nenough\n")
    assert done.returncode == 1 and turns() == 6 and "allows no further model calls" in done.stdout


def test_a_session_that_moved_has_spent_what_it_spent(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", [says(call("glob", pattern="*"))] * 50)
    (laptop.home / "config" / "config.toml").write_text("[model]\ncalls_max = 3\n")
    laptop.hhd("run", "loop", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo)
    bob = Device(home=tmp_path / "bob", config="[model]\ncalls_max = 3\n")
    done = bob.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo, typed="y\n")
    assert done.returncode == 3 and "has made 3 model calls" in done.stdout


def test_tokens_are_counted_and_limited(laptop: Device, repo: Path, tmp_path: Path) -> None:
    usage = {"input_tokens": 400, "output_tokens": 50, "cache_read_input_tokens": 50}
    model = script(tmp_path / "s.jsonl", [{**says(call("glob", pattern="*")), "usage": usage}] * 50)
    (laptop.home / "config" / "config.toml").write_text("[model]\ntokens_max = 1200\n")
    done = laptop.hhd("run", "loop", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo)
    assert done.returncode == 3 and "has used 1500 tokens" in done.stdout
    again = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert again.returncode == 3 and "has used 1500 tokens" in again.stdout


# what may not happen


def test_what_asks_for_a_yes_shows_all_of_it_and_runs_nothing_without(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    (laptop.home / "config" / "config.toml").write_text("")
    victim = tmp_path / "precious"
    victim.write_text("x")
    evil = says(call("bash", command=f"rm -rf {victim}"))
    model = script(tmp_path / "s.jsonl", [evil, says(text("ok"))])
    for typed in ("", "q\n", "n\n\n", "maybe\n"):
        capsule = tmp_path / f"c{len(typed)}.hhd"
        done = laptop.hhd("run", "x", "--model", model, "-o", capsule, cwd=repo, typed=typed)
        assert f"command: rm -rf {victim}" in done.stdout and victim.exists()
    assert "refused" in json.dumps(transcript(laptop, tmp_path / "c3.hhd"))


def test_reads_outside_the_folder_are_refused(laptop: Device, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    (repo / "link").symlink_to(tmp_path / "secret")
    paths = ("../secret", str(tmp_path / "secret"), "link", "x/../../secret")
    reply = {
        "content": [{**call("read", path=path), "id": f"r{n}"} for n, path in enumerate(paths)],
        "stop_reason": "tool_use",
    }
    model = script(tmp_path / "s.jsonl", [reply, says(text("ok"))])
    done = laptop.hhd("run", "x", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo)
    results = [event for event in transcript(laptop, tmp_path / "c.hhd") if event["event"] == "result"]
    assert len(results) == 4 and all(event["is_error"] for event in results)
    assert "hunter2" not in done.stdout


def test_no_text_of_model_or_tool_reaches_the_terminal_as_a_command(laptop: Device, repo: Path, tmp_path: Path) -> None:
    nasty = "\x1b]0;owned\x07\x1b[2J\u202egnp\r"
    model = script(
        tmp_path / "s.jsonl", [says(text(nasty), call("bash", command=f"printf '%s' '{nasty}'")), says(text(nasty))]
    )
    done = laptop.hhd("run", nasty, "--model", model, "-o", tmp_path / "c.hhd", cwd=repo)
    out = done.stdout + done.stderr
    assert "\\x1b" in out
    assert not {char for char in out if not char.isprintable()} - {"\n", "\t"}


# stopping


def running(device: Device, *words: str | Path, cwd: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        device.command(*words), cwd=cwd, env=device.environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def alive(command: str) -> bool:
    """Whether a process of just these words runs on this machine (Linux; elsewhere never)."""
    wanted = "\0".join([*command.split(), ""]).encode()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == wanted:
                return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_command_runs_ends_the_command_and_pauses_the_session(
    laptop: Device, repo: Path, tmp_path: Path, number: signal.Signals
) -> None:
    os.mkfifo(repo / "begun")
    sleep = f"sleep 1000.{os.getpid()}{int(number)}"
    slow = says(call("bash", command=f"{sleep} & echo > begun; wait"))
    model = script(tmp_path / "s.jsonl", [slow, says(text("It was stopped."))])
    process = running(laptop, "run", "x", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo)
    with open(repo / "begun") as begun:
        begun.read()
    while sys.platform == "linux" and not alive(sleep):
        assert process.poll() is None, "it ended before its command began"
    process.send_signal(number)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0 and "Paused. Go on with: hhd capsule run" in err
    until(lambda: not alive(sleep))  # It was killed, and may just be on its way out.
    done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert done.returncode == 0 and "It was stopped." in done.stdout
    assert len([e for e in transcript(laptop, tmp_path / "c.hhd") if e["event"] == "result"]) == 1


def test_a_session_whose_words_nobody_reads_says_how_to_go_on(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", FIX)
    reading, writing = os.pipe()
    os.close(reading)
    command = laptop.command("run", "fix it", "--once", "--model", model, "-o", tmp_path / "c.hhd")
    with open(writing, "wb") as nobody:
        done = subprocess.run(
            command,
            cwd=repo,
            env=laptop.environ,
            stdin=subprocess.DEVNULL,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("hhd: The system said: Broken pipe. Go on with: hhd capsule run ")
    assert len(done.stderr.splitlines()) == 1
    done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert done.returncode == 0 and (repo / "doubles.py").read_text() == FIXED


@pytest.mark.parametrize("moment", ["hhd.node.start.capsules.new", "hhd.node.opening.load"])
def test_ctrl_c_before_the_session_goes_on_pauses_it_too(
    laptop: Device, repo: Path, tmp_path: Path, moment: str
) -> None:
    before = f"""
import os, signal, hhd.node.start, hhd.node.opening
from unittest import mock
real = {moment}
def comes(*given, **named):
    found = real(*given, **named)
    os.kill(os.getpid(), signal.SIGINT)
    return found
mock.patch({moment!r}, comes).start()
"""
    model = script(tmp_path / "s.jsonl", FIX)
    words = ["run", "fix it", "--model", model, "-o", str(tmp_path / "c.hhd")]
    done = laptop.hhd(*words, cwd=repo, before=before)
    assert done.returncode == 0 and "Paused. Go on with: hhd capsule run" in done.stderr
    assert info(laptop, tmp_path / "c.hhd")["steps"] == 0
    done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert done.returncode == 0 and (repo / "doubles.py").read_text() == FIXED


def test_ctrl_c_while_the_model_speaks_pauses_and_the_call_is_made_again(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    def speaks_for_ever(answer: lo.Answer) -> None:
        answer.stream()
        answer.write(lo.begin() + lo.event("content_block_start", index=0, content_block=lo.text("")))
        answer.event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Well,\n"})
        answer.stop.wait(60)

    with lo.serve([speaks_for_ever, lo.message(lo.text("In short: yes."))]) as service:
        laptop.environ |= {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        process = running(laptop, "run", "x", "--model", "m", "-o", tmp_path / "c.hhd", cwd=repo)
        assert process.stdout is not None
        while "Well," not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
        assert process.returncode == 0
        done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", "m", cwd=repo)
        assert done.returncode == 0 and "In short: yes." in done.stdout
        assert len(service.requests) == 2


def test_capsule_run_that_is_paused_while_a_command_runs_did_what_it_is_for(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    os.mkfifo(repo / "begun")
    model = script(tmp_path / "s.jsonl", [says(call("bash", command="echo $$ > begun; sleep 999")), says(text("So."))])
    path = tmp_path / "c.hhd"
    assert laptop.hhd("capsule", "new", "agent", "-o", path, "--arg", "prompt=x", cwd=repo).returncode == 0
    process = running(laptop, "capsule", "run", path, "--model", model, "--json", cwd=repo)
    with open(repo / "begun") as begun:
        begun.read()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert (json.loads(out)["status"], json.loads(out)["exit"]) == ("interrupted", 0)


# approval that a person gives, and steps from outside


def test_a_yes_at_the_prompt_runs_just_that(laptop: Device, repo: Path, tmp_path: Path) -> None:
    (laptop.home / "config" / "config.toml").write_text("")
    model = script(tmp_path / "s.jsonl", FIX)
    done = laptop.hhd("run", "fix it", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo, typed="y\ny\n")
    assert done.returncode == 0 and (repo / "doubles.py").read_text() == FIXED


def test_a_step_with_a_model_answers_one_effect_and_one_without_answers_none(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    model, capsule = script(tmp_path / "s.jsonl", FIX), tmp_path / "c.hhd"
    laptop.hhd("capsule", "new", "agent", "-o", capsule, "--arg", "prompt=fix it", cwd=repo)
    ops = []
    for _ in range(30):
        done = laptop.hhd("capsule", "step", capsule, "--model", model, "--json", "--slice-ms", "5000", cwd=repo)
        said = json.loads(done.stdout)
        waits = said["effect"] and said["effect"]["op"]
        same = laptop.hhd("capsule", "step", capsule, "--json", cwd=repo)
        assert json.loads(same.stdout)["effect"] == said["effect"]
        if waits == "input":
            break
        ops.append(waits)
    assert sorted(ops) == sorted(["machine", *["model"] * 4, *["tool"] * 4])
    assert (repo / "doubles.py").read_text() == FIXED


def test_a_step_that_cannot_answer_names_the_command_that_can(laptop: Device, repo: Path, tmp_path: Path) -> None:
    model, capsule = script(tmp_path / "s.jsonl", FIX), tmp_path / "c.hhd"
    laptop.hhd("run", "", "--model", model, "-o", capsule, cwd=repo)
    done = laptop.hhd("capsule", "step", capsule, "--model", model, cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "It waits for your words. Go on with: hhd capsule run " in done.stderr


def test_a_reply_file_stands_in_for_model_and_tool(laptop: Device, repo: Path, tmp_path: Path) -> None:
    capsule, reply = tmp_path / "c.hhd", tmp_path / "r.json"
    laptop.hhd("capsule", "new", "agent", "-o", capsule, "--arg", "prompt=fix it", cwd=repo)
    replies = iter([says(EDIT), says(text("By hand."))])
    laptop.hhd("capsule", "step", capsule, cwd=repo)
    while (waits := info(laptop, capsule)["effect"]["op"]) != "input":
        given = {"machine": {}, "tool": {"output": "ok", "is_error": False}}
        reply.write_text(json.dumps(next(replies) if waits == "model" else given[waits]))
        assert laptop.hhd("capsule", "step", capsule, "--reply-file", reply, cwd=repo).returncode == 0
    assert "By hand." in laptop.hhd("capsule", "show", capsule, cwd=repo).stdout
    assert (repo / "doubles.py").read_text() == BROKEN
