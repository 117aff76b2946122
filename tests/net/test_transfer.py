"""Sessions handed from daemon to daemon in namespaces: with real links, sync, workers and files.

What is struck at a stage on the way is in `test_transfer_stages.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, repository, says, script, text
from tests.net.conftest import LabMaker
from tests.net.lab import Host, Net, warm
from tests.net.moving import results
from tests.net.paired import both_linked, pair, until

from hhd.app import sessions as doors
from hhd.base.errors import UserError
from hhd.node import leftovers

pytestmark = [pytest.mark.netns, needs_agent]

COUNT = says(call("bash", command="echo x >> runs; echo one"))
GLOB = says(call("glob", pattern="*"))
RULES = '[policy]\nallow = ["glob", "write"]\n'


def settled(net: Net, *names: str, replies: list[Any], rules: str = RULES) -> list[Host]:
    """Hosts of one group, each with the same script for its model."""
    hosts = [net[name] for name in names]
    for host in hosts:
        warm(host)
        model = script(host.folder / "script.jsonl", replies)
        config = host.folder / "config"
        config.mkdir(exist_ok=True)
        (config / "config.toml").write_text(f'[model]\nname = "{model}"\n{rules}')
        os.chmod(config / "config.toml", 0o600)
    pair(net, *names)
    return hosts


def allow_all(host: Host) -> None:
    """From now on commands run there without a question."""
    config = host.folder / "config" / "config.toml"
    config.write_text(config.read_text().replace('"write"]', '"write", "bash"]'))
    host.hhd("restart", "--config")


def session_of(host: Host, folder: Path) -> str:
    """Begin a session in the daemon of `host`."""
    said = host.hhd("run", "go", "-C", str(folder), "--detach", "--json").stdout
    found: str = json.loads(said)["session"]
    return found


def shown(host: Host, session: str) -> dict[str, Any]:
    said = host.asked("show", session, "--json")
    found: dict[str, Any] = json.loads(said) if said.startswith("{") else {}
    return found


def state(host: Host, session: str) -> str:
    return str(shown(host, session).get("state", ""))


def moved(host: Host, *words: str) -> list[dict[str, Any]]:
    """`hhd transfer`, all that it says; it has to be done."""
    said = host.hhd("transfer", *words, "--json").stdout
    return [json.loads(line) for line in said.splitlines()]


def test_a_waiting_session_goes_there_and_back_and_its_command_runs_once_where_it_lands(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = settled(net, "laptop", "desktop", replies=[GLOB, COUNT, says(text("Done."))])
        repo = repository(laptop.folder / "repo")
        with laptop.daemon(), desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            session = session_of(laptop, repo)
            until(lambda: state(laptop, session) == "waiting for you")
            until(lambda: shown(desktop, session) != {})
            steps = moved(laptop, session, "desktop")
            assert [one["stage"] for one in steps][-1] == "acknowledged" and steps[-1]["over"]
            assert "desktop has it" in steps[-1]["ownership"]
            until(lambda: shown(desktop, session)["folder"] != "")
            folder = Path(shown(desktop, session)["folder"])
            assert folder != repo and (folder / "doubles.py").read_text() == (repo / "doubles.py").read_text()
            assert subprocess.run(
                ["git", "log", "--oneline"], cwd=folder, capture_output=True, text=True, check=True
            ).stdout.endswith("start\n")
            allow_all(laptop)
            back = moved(desktop, session, "laptop")
            assert back[-1]["status"] == 0
            until(lambda: (repo / "runs").exists())
            assert (repo / "runs").read_text() == "x\n" and not (folder / "runs").exists()
            for place in (repo, folder):  # No commit, stash or ref is left of any hop.
                refs = ["git", "for-each-ref", "--format=%(refname)"]
                said = subprocess.run(refs, cwd=place, capture_output=True, text=True, check=True).stdout.split()
                assert len(said) == 1 and said[0].startswith("refs/heads/")


@pytest.mark.long
def test_a_busy_session_moves_while_it_runs_and_every_file_is_written_once(lab: LabMaker) -> None:
    """`spin`: it writes one file after the other, and is handed on in the middle, five times."""
    replies = [says(call("write", path=f"f{number}", content=f"{number}\n")) for number in range(60)]
    with lab("laptop", "desktop") as net:
        laptop, desktop = settled(net, "laptop", "desktop", replies=[*replies, says(text("Done."))])
        repo = laptop.folder / "repo"
        repo.mkdir()
        with laptop.daemon(), desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            session = session_of(laptop, repo)
            until(lambda: shown(desktop, session) != {})
            at, to = laptop, desktop
            for _ in range(5):
                if state(at, session) not in ("running", "paused"):
                    break
                assert moved(at, session, to.name)[-1]["status"] == 0
                at, to = to, at
            until(lambda: state(at, session) == "waiting for you")
            folder = Path(shown(at, session)["folder"])
            assert sorted(path.name for path in folder.glob("f*")) == sorted(f"f{number}" for number in range(60))
            log = at.hhd("log", session, "--json").stdout
            assert log.count('"release"') >= 1


@pytest.mark.long
def test_a_source_that_is_killed_is_taken_over_with_conversation_and_files_of_one_instant(lab: LabMaker) -> None:
    """A session that edits a file twice a second. How much older what the other device has may be: by the bench."""
    tick = "echo {} > next; mv next clock; sleep 0.5"
    replies = [says(call("bash", command=tick.format(number))) for number in range(400)]
    rules = RULES.replace('"write"', '"write", "bash"')
    with lab("laptop", "desktop") as net:
        laptop, desktop = settled(net, "laptop", "desktop", replies=replies, rules=rules)
        repo = laptop.folder / "repo"
        repo.mkdir()
        with laptop.daemon() as daemon, desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            session = session_of(laptop, repo)
            until(lambda: shown(desktop, session) != {} and (repo / "clock").exists())
            until(lambda: ticks(desktop, session) > 12)
            seen = ticks(desktop, session)
            for child in children(daemon.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            daemon.kill()
            daemon.wait()
            killed = time.monotonic()
            at_the_end = int((repo / "clock").read_text())
            assert seen <= at_the_end + 1 < 400, "it was kept while it went on"
            asked = time.monotonic()
            said = desktop.hhd("takeover", session, "--reason", "in the ocean", "--yes", "--json", check=False)
            assert said.returncode in (0, 5), said.stdout + said.stderr
            done = json.loads(said.stdout)
            assert done["clock"] == "ours" and done["token"] == 2
            since_ms = (asked - killed) * 1000
            assert since_ms < done["age_ms"] < since_ms + 600_000, "it came before the kill, by the clock here"
            there = int(Path(done["folder"], "clock").read_text())
            said = ticks(desktop, session)
            assert seen <= said <= at_the_end + 1, "nothing that came there is lost"
            assert 0 < there < said, "its files are from before that, and not from its begin"
            told = desktop.hhd("log", session, "--json").stdout
            assert "in the ocean" in told


def ticks(host: Host, session: str) -> int:
    """How many commands have a result in what this device has of a session."""
    with (
        contextlib.suppress(UserError),  # It is on its way.
        mock.patch.dict(os.environ, host.environment, clear=True),
        doors.control() as control,
    ):
        return len(results(b"".join(control.transcript(session))))
    return 0


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = leftovers.children(pid)
    return found + [below for one in found for below in children(one)]


@pytest.mark.long
def test_a_release_goes_in_a_file_between_daemons_that_never_meet(lab: LabMaker, tmp_path: Path) -> None:
    with lab("laptop", "desktop", "tower") as net:
        laptop, desktop, tower = settled(net, "laptop", "desktop", "tower", replies=[GLOB, COUNT, says(text("Done."))])
        repo = laptop.folder / "repo"
        repo.mkdir()
        with laptop.daemon():
            session = session_of(laptop, repo)
            until(lambda: state(laptop, session) == "waiting for you")
            file = tmp_path / "release"
            laptop.hhd("transfer", session, "desktop", "--to", str(file))
            assert "released" in laptop.hhd("transfers").stdout
        for other in (tower, laptop):
            refused = other.hhd("receive", str(file), check=False)
            assert refused.returncode == 3 and "sealed to another device" in refused.stderr
        with desktop.daemon():
            taken = json.loads(desktop.hhd("receive", str(file), "--json").stdout)
            assert taken["session"] == session and taken["by"]["name"] == "laptop"
            assert desktop.hhd("receive", str(file), check=False).returncode == 3
            desktop.hhd("resume", session, "--detach", check=False)
            until(lambda: state(desktop, session) == "waiting for you")


if sys.platform != "linux":
    pytest.skip("needs namespaces", allow_module_level=True)
