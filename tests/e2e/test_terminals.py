"""Terminals at sessions that the daemon runs: left and come back to, several at once, over the end of a daemon."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.attached import Daemon, daemon, until
from tests.e2e.lab import ALLOW, FIX, FIXED, Device, call, needs_agent, repository, says, script, text
from tests.e2e.test_run_terminal import at_terminal

pytestmark = needs_agent

GATE = "echo begun >> begun; cat gate; echo done >> done"
"""A command that runs until something is written to the gate, and leaves a trace."""


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "laptop") as one:
        yield one


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "repo")
    os.mkfifo(folder / "gate")
    return folder


def began(repo: Path, count: int = 1) -> None:
    """Wait until the command runs."""
    until(lambda: (repo / "begun").exists() and (repo / "begun").read_text().count("begun") >= count)


def listed(device: Device) -> dict[str, Any]:
    (one,) = json.loads(device.hhd("ls", "--json", cwd=device.home).stdout)["sessions"]
    found: dict[str, Any] = one
    return found


def events(device: Device, name: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(device.hhd("show", name, "--json", cwd=device.home).stdout)["events"]
    return found


def held(repo: Path, laptop: Daemon, *more: dict[str, Any]) -> str:
    """A script whose first call waits at the gate."""
    return script(laptop.device.home / "s.jsonl", [says(call("bash", command=GATE)), *more])


def test_a_closed_terminal_leaves_a_session_at_work_and_it_finishes(laptop: Daemon, repo: Path) -> None:
    model = held(repo, laptop, says(text("All done.")))
    with at_terminal(laptop.device, "run", "go", "--once", "--model", model, cwd=repo) as (terminal, process):
        terminal.wait("* bash")
        began(repo)
        os.close(terminal.fd)
        process.wait(240)
        terminal.fd = os.open(os.devnull, os.O_RDONLY)  # For whoever closes it again.
    assert process.returncode == 0 and not (repo / "done").exists() and listed(laptop.device)["state"] == "running"
    (repo / "gate").write_text("go\n")
    until(lambda: listed(laptop.device)["state"] == "finished")
    assert (repo / "done").read_text() == "done\n"
    done = laptop.device.hhd("attach", "go", cwd=repo)
    assert done.returncode == 0 and "All done." in done.stdout and "has finished" in done.stderr


def test_ctrl_d_leaves_it_too_and_attach_comes_back_where_a_second_ctrl_d_is_no_pause(
    laptop: Daemon, repo: Path
) -> None:
    model = held(repo, laptop, says(text("All done.")))
    with at_terminal(laptop.device, "run", "go", "--model", model, cwd=repo) as (terminal, process):
        began(repo)
        terminal.wait("* bash")
        terminal.type("\x04")
        screen = terminal.rest()
    command = screen.split("Come back with: hhd ")[1].split()
    assert process.returncode == 0 and command[0] == "attach"
    with at_terminal(laptop.device, *command, cwd=repo) as (terminal, process):
        terminal.wait("* bash")
        terminal.type("use tabs\r")
        terminal.wait("hears this at its next step")
        (repo / "gate").write_text("go\n")
        terminal.wait("> use tabs")
        terminal.wait("All done.\r\n\x1b[1m> \x1b[0m")
        terminal.type("\x03")
        assert "waits for you" in terminal.rest()
    assert process.returncode == 0 and listed(laptop.device)["state"] == "waiting for you"


def test_ctrl_c_pauses_durably_and_resume_goes_on(laptop: Daemon, repo: Path) -> None:
    model = held(repo, laptop, says(text("All done.")))
    with at_terminal(laptop.device, "run", "go", "--model", model, cwd=repo) as (terminal, process):
        began(repo)
        terminal.type("\x03")
        screen = terminal.rest()
    assert process.returncode == 0 and "Paused. Go on with: hhd resume " in screen
    laptop.kill()
    assert not (repo / "done").exists()
    laptop.up()
    assert listed(laptop.device)["state"] == "paused", "by the person, so the next daemon leaves it"
    done = laptop.device.hhd("resume", "go", "--model", model, cwd=repo)
    assert done.returncode == 0 and "All done." in done.stdout, done.stderr


def test_two_terminals_show_the_same_and_the_first_approval_counts(tmp_path: Path, repo: Path) -> None:
    with daemon(tmp_path / "laptop", config="") as laptop:
        model = script(
            laptop.device.home / "s.jsonl", [says(call("bash", command="echo x >> done")), says(text("Ok."))]
        )
        begun = laptop.device.hhd("run", "go", "-d", "--model", model, cwd=repo).stdout.strip()
        with (
            stream(laptop.device, begun) as told_one,
            stream(laptop.device, begun) as told_other,
            at_terminal(laptop.device, "attach", begun, cwd=repo) as (one, first),
            at_terminal(laptop.device, "attach", begun, cwd=repo) as (other, second),
        ):
            for terminal in (one, other):
                terminal.wait("q = later:")
            one.type("y\r")
            other.wait("(answered: yes, pts/")
            for terminal in (one, other):
                terminal.wait("Ok.")
            other.type("good")
            one.wait("(good)")
            one.type("\x04")
            other.type("\x15\x04")
            one.rest(), other.rest()
            told = [up_to_waiting(process, 1) for process in (told_one, told_other)]
        assert (first.returncode, second.returncode) == (0, 0) and (repo / "done").read_text() == "x\n"
        assert told[0] == told[1] == events(laptop.device, begun)
        assert [event["event"] for event in told[0]][-1] == "waiting"


@contextmanager
def running(device: Device, *words: str | Path, cwd: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A command as a process that does not outlive its test."""
    with subprocess.Popen(device.command(*words), cwd=cwd, env=device.environ, text=True, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def stream(device: Device, session: str, since: int = 0) -> AbstractContextManager[subprocess.Popen[str]]:
    words = ("attach", session, "--json", "--since", str(since))
    return running(device, *words, cwd=device.home, stdout=subprocess.PIPE)


def durable(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The transcript, of what a script is told."""
    return (one["event"] for one in map(json.loads, lines) if "event" in one)


def up_to_waiting(process: subprocess.Popen[str], count: int) -> list[dict[str, Any]]:
    """The transcript that a script is told, up to where the session waits for words the last of so many times."""
    assert process.stdout is not None
    found = []
    for event in durable(process.stdout):
        found.append(event)
        count -= event["event"] == "waiting"
        if not count:
            break
    return found


def test_streams_that_are_cut_anywhere_and_go_on_from_their_positions_are_the_whole(laptop: Daemon, repo: Path) -> None:
    replies = [says(text(f"Step {n}."), call("bash", command=f"echo {n}")) for n in range(8)]
    model = script(laptop.device.home / "s.jsonl", [*replies, says(text("All done."))])
    begun = laptop.device.hhd("run", "go", "--once", "-d", "--model", model, cwd=repo).stdout.strip()
    dice, joined, since = random.Random(7), list[dict[str, Any]](), 0
    for _ in range(3):
        with stream(laptop.device, begun, since) as process:
            assert process.stdout is not None
            for _ in range(dice.randint(2, 12)):
                if line := process.stdout.readline():
                    told = json.loads(line)
                    since = told["position"]
                    joined += [told["event"]] if "event" in told else []
    with stream(laptop.device, begun, since) as process:
        joined += durable(process.communicate(timeout=240)[0].splitlines())
    assert process.returncode == 0
    assert joined == events(laptop.device, begun) and joined[-1]["event"] == "finished"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_an_attached_terminal_goes_on_with_the_next_daemon(end: int, laptop: Daemon, repo: Path) -> None:
    model = held(repo, laptop, says(text("Once more.")), says(text("All done.")))
    begun = laptop.device.hhd("run", "go", "-d", "--model", model, cwd=repo).stdout.strip()
    with stream(laptop.device, begun) as told, at_terminal(laptop.device, "attach", begun, cwd=repo) as (terminal, _):
        began(repo)
        terminal.wait("* bash")
        assert told.stdout is not None
        first = told.stdout.readline()  # It is attached, so that it has something to come back to.
        laptop.kill(end)
        terminal.wait("waiting for the next one")
        laptop.up()
        terminal.wait("attached again")
        terminal.wait("Once more.")
        terminal.type("go on\r")
        terminal.wait("All done.")
        terminal.type("\x04")
        terminal.rest()
        found = [*durable([first]), *up_to_waiting(told, 2)]
    assert found == events(laptop.device, begun)


# the same as in this process

SAME: dict[str, tuple[str, list[Any], list[str], str, int]] = {
    "it finishes": (ALLOW, FIX, ["--once"], "", 0),
    "it waits for words": (ALLOW, FIX, [], "", 0),
    "words come by a pipe": (ALLOW, [*FIX, says(text("Bye."))], [], "see you\n", 0),
    "it waits for a yes": ("", FIX, [], "", 3),
    "the yes and a no come by a pipe": ("", [*FIX[:3], says(text("Hm."))], [], "y\nn\nuse make\n", 0),
    "it is refused": ('[policy]\ndeny = ["bash"]\nallow = ["edit"]\n', FIX, ["--once"], "", 0),
    "there is no more script": (ALLOW, FIX[:2], [], "", 3),
    "the model fails": (ALLOW, [FIX[0], {"error": {"type": "overloaded_error"}, "status": 529}], [], "", 1),
}


@pytest.fixture(scope="module")
def one_for_all(tmp_path_factory: pytest.TempPathFactory, compiled_modules: Path) -> Iterator[Daemon]:
    environ = {"HHD_CACHE_HOME": str(compiled_modules)}
    with daemon(tmp_path_factory.mktemp("same") / "laptop", environ=environ) as one:
        yield one


@pytest.mark.parametrize("case", SAME)
def test_a_session_ends_the_same_through_the_daemon_as_in_this_process(
    case: str, one_for_all: Daemon, tmp_path: Path
) -> None:
    config, replies, words, typed, status = SAME[case]
    found, device = [], one_for_all.device
    (device.home / "config" / "config.toml").write_text(config)
    assert device.hhd("restart", "--config", cwd=tmp_path).returncode == 0
    model = script(tmp_path / "s.jsonl", replies)
    for number, way in enumerate([[], ["--foreground"]]):
        repo = repository(tmp_path / f"{number}" / "repo")
        done = device.hhd("run", "go", "--model", model, "--json", *words, *way, cwd=repo, typed=typed)
        assert done.returncode == status, (way, done.stdout, done.stderr)
        told = json.loads(done.stdout)
        same = {name: told.get(name) for name in ("status", "sentence", "exit", "model_calls", "tokens", "effect")}
        found.append((same, events(device, told["session"]), (repo / "doubles.py").read_text()))
    assert found[0] == found[1]
    assert len(found[0][1]) > 3


def test_what_waits_for_a_yes_is_approved_as_soon_as_its_terminal_has_left_and_is_not_asked_again(
    tmp_path: Path, repo: Path
) -> None:
    patient = "import hhd.node.workers as w; w.LINGER_SECONDS = 600.0"
    with daemon(tmp_path / "laptop", config="", before=patient) as laptop:
        model = script(tmp_path / "s.jsonl", [says(call("bash", command="echo x >> done")), says(text("Ok."))])
        done = laptop.device.hhd("run", "go", "--model", model, cwd=repo)
        assert done.returncode == 3 and "hhd approve " in done.stderr
        until(lambda: not laptop.workers())
        assert laptop.device.hhd("approve", "go", cwd=repo, typed="y\n").returncode == 0
        done = laptop.device.hhd("resume", "go", "--model", model, cwd=repo)
        assert (done.returncode, (repo / "done").read_text()) == (0, "x\n") and "Ok." in done.stdout
        assert "q = later" not in done.stdout


def test_what_may_have_run_ends_the_same_too(laptop: Daemon, repo: Path) -> None:
    model = held(repo, laptop, says(text("All done.")))
    begun = laptop.device.hhd("run", "go", "-d", "--model", model, cwd=repo).stdout.strip()
    began(repo)
    for worker in laptop.workers():
        os.kill(worker, signal.SIGKILL)
    until(lambda: listed(laptop.device)["state"] != "running")
    done = [laptop.device.hhd("resume", begun, "--model", model, *way, cwd=repo) for way in ([], ["--foreground"])]
    assert [one.returncode for one in done] == [5, 5]
    assert all("cat gate" in one.stdout and "--did-not-run" in one.stderr for one in done), done
    settled = laptop.device.hhd("resume", begun, "--ran", "it did", "--model", model, cwd=repo)
    assert settled.returncode == 0 and "All done." in settled.stdout


def test_what_another_process_runs_by_hand_is_not_attached_to_and_goes_on(laptop: Daemon, repo: Path) -> None:
    model = held(repo, laptop, says(text("All done.")))
    words = ("run", "go", "--once", "--foreground", "--model", model)
    with running(laptop.device, *words, cwd=repo, stdin=subprocess.DEVNULL) as process:
        began(repo)
        for attach in (["attach", "go"], ["attach", "go", "--json"]):
            done = laptop.device.hhd(*attach, cwd=repo)
            assert done.returncode == 3 and "Another process of yours runs it" in done.stderr, done.stderr
        for other in (["pause", "go"], ["resume", "go"], ["send", "go", "x"]):
            done = laptop.device.hhd(*other, cwd=repo)
            assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, (other, done.stdout, done.stderr)
        (repo / "gate").write_text("go\n")
        assert process.wait(240) == 0 and (repo / "done").read_text() == "done\n"


def test_a_verb_that_needs_the_daemon_starts_it_and_a_script_alone_does_not(tmp_path: Path, repo: Path) -> None:
    device = Device(home=tmp_path / "laptop", config=ALLOW)
    model = script(tmp_path / "s.jsonl", FIX)
    try:
        assert device.hhd("run", "go", "--once", "--model", model, cwd=repo).returncode == 0
        assert json.loads(device.hhd("status", "--json", cwd=repo).stdout) == {"running": False}
        done = device.hhd("pause", "--all", cwd=repo)
        assert done.returncode == 3 and "No daemon runs here" in done.stderr
        assert device.hhd("run", "again", "--once", "-d", "--model", model, cwd=repo).returncode == 0
        assert json.loads(device.hhd("status", "--json", cwd=repo).stdout)["running"]
        until(lambda: device.hhd("attach", "again", cwd=repo).returncode == 0)
        assert (repo / "doubles.py").read_text() == FIXED
    finally:
        assert device.hhd("down", cwd=repo).returncode == 0
