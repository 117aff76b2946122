"""Capsules as a person uses them: fresh processes, signals, two at once, terminals, full disks."""

from __future__ import annotations

import json
import os
import pty
import random
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.node import guests
from tests.protocol import forge, hostile
from tests.runtime import wat

from hhd.effects.interrupts import SIGNALS
from hhd.node import capsule_file

HHD = (sys.executable, "-m", "hhd")


def hhd(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `hhd capsule WORDS` in a fresh process."""
    return subprocess.run([*HHD, "capsule", *map(str, words)], capture_output=True, text=True, **options)


def told(*words: object, **options: Any) -> dict[str, Any]:
    """Run it with `--json`: it succeeds and says one object, and nothing on stderr."""
    done = hhd(*words, "--json", **options)
    assert (done.returncode, done.stderr) == (0, ""), done
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def new(folder: Path, program: str, name: str = "work.hhd", *args: str) -> Path:
    module, out = folder / f"{program}.wasm", folder / name
    module.write_bytes(guests.wasm(program))
    options = [word for each in args for word in ("--arg", each)]
    assert hhd("new", program if program == "spin" else module, "-o", out, *options).returncode == 0
    return out


CUTS = [
    ("spin", (1, 3500), []),
    ("mixed", (1, 350), []),
    ("asks", (1, 2500), ["one\n", "two\n"]),
]


@pytest.mark.parametrize(
    ("program", "sizes", "replies"),
    [*CUTS, *(pytest.param(name, (1, high // 3), said, marks=pytest.mark.long) for name, (_, high), said in CUTS)],
)
def test_cut_across_fresh_processes_at_random_points_it_says_the_same(
    tmp_path: Path, program: str, sizes: tuple[int, int], replies: list[str]
) -> None:
    args = ["iterations=20000"] if program == "spin" else []
    whole, cut = new(tmp_path, program, "whole.hhd", *args), new(tmp_path, program, "cut.hhd", *args)
    answers = [tmp_path / f"reply{number}" for number in range(len(replies))]
    for answer, reply in zip(answers, replies, strict=True):
        answer.write_text(reply)
    last = told("step", whole, "--slice-checks", 10**9)
    for answer in answers:
        assert last["status"] == "waiting"
        last = told("step", whole, "--reply-file", answer, "--slice-checks", 10**9)
    assert last["status"] == "finished"
    rng, left, processes = random.Random(f"{program} {sizes}"), list(answers), 0
    while True:
        found = told("step", cut, "--slice-checks", rng.randint(*sizes))
        processes += 1
        if found["status"] == "waiting":
            found = told("step", cut, "--reply-file", left.pop(0), "--slice-checks", rng.randint(*sizes))
        if found["status"] == "finished":
            break
    assert processes > 8
    said = [subprocess.run([*HHD, "capsule", "transcript", each], capture_output=True).stdout for each in (whole, cut)]
    assert said[0] and said[0] == said[1]
    assert found["content"] == told("info", whole)["content"]


def test_one_line_for_a_person_and_one_object_for_a_program(tmp_path: Path) -> None:
    path = new(tmp_path, "spin")
    done = hhd("step", path, "--slice-checks", 5)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1
    assert "interrupted after 5 checks" in done.stdout and f"hhd capsule run {path}" in done.stdout
    found = told("step", path, "--slice-checks", 5)
    assert found.keys() >= {"status", "effect", "dirty_pages", "capsule_bytes", "wall_ms"}
    assert (found["status"], found["effect"], found["checks_total"]) == ("interrupted", None, 10)
    assert found["capsule_bytes"] == path.stat().st_size and found["dirty_pages"] > 0
    assert told("step", path, "--slice-ms", 1)["status"] in ("interrupted", "finished")


def test_a_failing_program_is_rolled_back_with_4_and_says_so_in_both_ways(tmp_path: Path) -> None:
    path = new(tmp_path, "traps")
    before = path.read_bytes()
    done = hhd("step", path, "--json", "--slice-checks", 9000)
    assert done.returncode == 4 and len(done.stderr.splitlines()) == 1
    assert json.loads(done.stdout)["status"] == "failed"
    done = hhd("run", path)
    assert (done.returncode, done.stdout) == (4, "") and len(done.stderr.splitlines()) == 1
    assert path.read_bytes() == before


@pytest.mark.long
def test_a_module_that_hides_a_loop_without_checks_is_given_up_with_4_and_the_process_ends(tmp_path: Path) -> None:
    module, path = tmp_path / "endless.wasm", tmp_path / "work.hhd"
    module.write_bytes(wat.module(run="(loop $l (br $l))"))
    assert hhd("new", module, "-o", path).returncode == 0
    before = path.read_bytes()
    sooner = "from hhd.runtime.outcomes import Limits; Limits.__init__.__kwdefaults__['stuck_seconds'] = 1.0"
    command = f"{sooner}; import sys; from hhd.cli import run; sys.exit(run(['capsule', 'step', {str(path)!r}]))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.returncode == 4 and "ran for 1 s without reaching an interrupt check" in done.stderr
    assert path.read_bytes() == before


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A capsule of a program that never yields, and a `run` that holds it."""
    path = new(tmp_path, "busy")
    with subprocess.Popen([*HHD, "capsule", "run", path, "--json"], stdout=subprocess.PIPE, text=True) as running:
        while not _held(path):
            assert running.poll() is None
        yield path, running
        running.kill()


def _held(path: Path) -> bool:
    """Whether the file is locked, without asking for the lock oneself, which would be in the way of who does."""
    locks = Path("/proc/locks")
    if not locks.exists():
        pytest.skip("who holds a lock is seen in /proc/locks")
    held = f":{path.stat().st_ino} "
    return any("FLOCK" in line and held in line for line in locks.read_text().splitlines())


@pytest.mark.parametrize("number", SIGNALS)
def test_a_request_to_stop_is_a_saved_capsule_and_status_0(
    busy: tuple[Path, subprocess.Popen[str]], number: signal.Signals
) -> None:
    path, running = busy
    running.send_signal(number)
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0
    assert json.loads(said)["status"] == "interrupted"
    assert capsule_file.read(path)[0].checks == json.loads(said)["checks_total"]


def test_of_two_processes_the_second_is_refused_with_3_and_nothing_is_lost(
    busy: tuple[Path, subprocess.Popen[str]],
) -> None:
    path, running = busy
    for verb in ("step", "run"):
        done = hhd(verb, path)
        assert done.returncode == 3 and "another process" in done.stderr
    done = hhd("new", "spin", "-o", path, "--force")
    assert done.returncode == 3 and "another process" in done.stderr
    assert told("info", path)["program"] == "module", "looking is always allowed"
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=240)
    after = told("step", path, "--slice-checks", 100)
    assert after["checks_total"] == json.loads(said)["checks_total"] + 100


def test_many_steps_at_once_each_count_or_are_refused(tmp_path: Path) -> None:
    path = new(tmp_path, "busy")
    command = [*HHD, "capsule", "step", path, "--slice-checks", "100", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    status = [each.wait() for each in running if each.communicate()]
    assert set(status) <= {0, 3} and 0 in status
    assert capsule_file.read(path)[0].checks == 100 * status.count(0)


def _on_a_terminal(*command: object) -> bytes:
    leader, follower = pty.openpty()
    with subprocess.Popen([str(word) for word in command], stdout=follower, stderr=follower) as running:
        os.close(follower)
        said = b""
        while select.select([leader], [], [], 60)[0]:
            try:
                part = os.read(leader, 4096)
            except OSError:  # Linux says so when the last writer is gone.
                break
            if not part:
                break
            said += part
        running.wait()
    os.close(leader)
    return said


def test_a_transcript_is_its_bytes_in_a_pipe_and_harmless_on_a_terminal(tmp_path: Path) -> None:
    path = new(tmp_path, "paints")
    told("run", path)
    raw = b"\x1b[2Jred\x07\xff"
    assert subprocess.run([*HHD, "capsule", "transcript", path], capture_output=True).stdout == raw
    assert _on_a_terminal(*HHD, "capsule", "transcript", path) == b"\\x1b[2Jred\\x07\\xff"


def test_a_full_disk_is_rolled_back_with_4_and_the_file_is_as_it_was(tmp_path: Path) -> None:
    path = new(tmp_path, "noise")
    early = path.read_bytes()

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))

    done = hhd("step", path, "--slice-checks", 10**6, preexec_fn=little_room)
    assert done.returncode == 4 and len(done.stderr.splitlines()) == 1 and "could not be saved" in done.stderr
    assert path.read_bytes() == early
    assert told("step", path, "--slice-checks", 10**6)["capsule_bytes"] > 2**20
    done = hhd("fork", path, tmp_path / "fork.hhd", preexec_fn=little_room)
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    assert {each.name for each in tmp_path.iterdir()} - {"noise.wasm", "work.hhd"} <= {"hhd-data"}


def test_a_folder_that_cannot_be_written_to_is_refused_with_3(tmp_path: Path) -> None:
    """In a child without root's rights; the file itself may be read."""
    path = new(tmp_path / "closed" if (tmp_path / "closed").mkdir() is None else tmp_path, "spin")
    path.chmod(0o644)
    path.parent.chmod(0o555)
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        if folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    before = path.read_bytes()
    child = os.fork()
    if not child:
        status = 1
        try:
            if not os.getuid():
                os.setresuid(65534, 65534, 65534)
            capsule_file.CapsuleFile(path)
        except capsule_file.RefusedError as error:
            status = 3 if "cannot be written to" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    path.parent.chmod(0o755)
    assert path.read_bytes() == before


@pytest.mark.parametrize("verb", ["step", "run", "info", "fork", "transcript"])
def test_hostile_files_are_refused_by_every_verb_with_3_and_one_sentence(tmp_path: Path, verb: str) -> None:
    cases = {name: raw for name, raw in hostile.cases() if name in ("4 GiB of memory", "sealed", "format version 2")}
    cases |= {"foreign": b"PK\x03\x04" * 99, "empty": b"", "cut": forge.whole(forge.fresh())[:-1]}
    assert len(cases) == 6
    for name, raw in cases.items():
        path = tmp_path / "bad.hhd"
        path.write_bytes(raw)
        done = hhd(verb, path, *([tmp_path / "new.hhd"] if verb == "fork" else []))
        assert (done.returncode, done.stdout) == (3, ""), name
        (line,) = done.stderr.splitlines()
        assert line.startswith("hhd: ") and "was refused: " in line
        assert path.read_bytes() == raw
        assert not (tmp_path / "new.hhd").exists()


STEPPERS = """
import os
import sys
from pathlib import Path
from hhd.node import capsules
from hhd.runtime import guest, module
from hhd.runtime.outcomes import StopFlag
path = Path(sys.argv[1])
for _ in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("gone", flush=True)
        continue
    capsules.step(path, checks=50, stop=StopFlag())
    print(os.getpid(), flush=True)
    while True:
        capsules.step(path, checks=50, stop=StopFlag())
"""
"""For each line that it reads, a process of its own that steps on and on, and says its id after the first step."""


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.long)])
def test_a_kill_at_any_moment_leaves_the_capsule_before_or_after_a_step(tmp_path: Path, kills: int) -> None:
    path = new(tmp_path, "spin", "work.hhd", "iterations=3000000")
    rng = random.Random(kills)
    seen, found = 0, capsule_file.read(path)[0]
    command = [sys.executable, "-c", STEPPERS, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as steppers:
        assert steppers.stdin is not None and steppers.stdout is not None
        for _ in range(kills):
            steppers.stdin.write("step\n")
            child = int(steppers.stdout.readline())
            select.select([], [], [], rng.random() * 0.03)  # The random moment is the point of this test.
            os.kill(child, signal.SIGKILL)
            assert steppers.stdout.readline() == "gone\n"
            found = capsule_file.read(path)[0]
            assert found.execution is not None and found.execution.snapshot()
            assert found.checks == 50 * found.steps, "a step is there whole or not at all"
            assert found.steps > seen
            seen = found.steps
        steppers.stdin.close()
    whole = new(tmp_path, "spin", "whole.hhd", "iterations=3000000")
    assert told("step", whole, "--slice-checks", found.checks)["content"] == found.content_digest().hex()
    told("step", path, "--slice-checks", 1)
    assert not list(tmp_path.glob(".*")), "what killed saves left is gone"
