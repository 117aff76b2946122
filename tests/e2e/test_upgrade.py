"""Sessions that run while the daemon is restarted, or while its configuration is edited, go on as if nothing were."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, until
from tests.e2e.lab import ALLOW, Device, call, needs_agent, repository, says, script, text

from hhd_protocol import live

pytestmark = needs_agent

COUNT = f"{sys.executable} -c \"open('ran', 'a').write('x')\""


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Device]:
    device = Device(home=tmp_path / "laptop", config=ALLOW)
    yield device
    device.hhd("down", cwd=tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def running(device: Device) -> Daemon:
    """The daemon that `hhd up` started, to be asked."""
    found = Daemon(device=device)
    return found


@pytest.mark.long
def test_a_restart_pauses_what_runs_and_goes_on_with_it_and_nothing_is_done_twice(
    laptop: Device, repo: Path, tmp_path: Path
) -> None:
    held = repo / "held"
    wait = f"{COUNT}; while [ -e held ]; do sleep 0.05; done"
    replies = [says(call("bash", command=COUNT)), says(call("bash", command=COUNT)), says(text("All done."))]
    model = script(tmp_path / "s.jsonl", replies)
    assert laptop.hhd("up", cwd=repo).returncode == 0
    asked = running(laptop)
    begun = asked.runs.begin("count", folder=repo, model=model)
    asked.attach(begun.session).until(live.Listening)
    before = json.loads(laptop.hhd("status", "--json", cwd=repo).stdout)["process"]
    assert (repo / "ran").read_text() == "xx"
    # One more that is in the middle of a command when the restart comes.
    held.touch()
    busy_model = script(tmp_path / "b.jsonl", [says(call("bash", command=wait)), says(text("Late."))])
    busy = asked.runs.begin("wait", folder=repo, model=busy_model)
    until(lambda: (repo / "ran").read_text() == "xxx")
    done = laptop.hhd("restart", "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    after = json.loads(done.stdout)
    assert after["restarted"] and after["process"] != before
    held.unlink()
    attached = asked.attach(busy.session)
    attached.until(live.Listening)  # The command was cut off, which the agent heard, and it went on.
    assert b"Late." in attached.transcript and (repo / "ran").read_text() == "xxx"
    asked.runs.say(begun.session, "thanks")
    found = [json.loads(line)["event"] for line in laptop.hhd("logs", "--json", cwd=repo).stdout.splitlines()]
    assert [one for one in found if one in ("started", "ended")] == ["started", "ended", "started"]


def test_a_configuration_that_is_being_edited_stops_no_session(laptop: Device, repo: Path, tmp_path: Path) -> None:
    assert laptop.hhd("up", cwd=repo).returncode == 0
    (laptop.home / "config/config.toml").write_text("[policy]\nallow = [ half a line")
    model = script(tmp_path / "s.jsonl", [says(call("bash", command=COUNT)), says(text("Done."))])
    asked = running(laptop)
    begun = asked.runs.begin("count", folder=repo, model=model)
    asked.attach(begun.session).until(live.Listening)
    assert (repo / "ran").read_text() == "x"  # As the old one allowed.
    assert laptop.hhd("restart", "--config", cwd=repo).returncode == 3
    assert "is not TOML" in laptop.hhd("doctor", cwd=repo).stdout
