"""What a person asks of a handoff, with real daemons on three hosts: whether it could be, from anywhere; and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import needs_agent, repository, says, text
from tests.net import halting
from tests.net import lab as laboratory
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import linked, until
from tests.net.test_transfer import GLOB, session_of, settled, shown, state

from hhd_protocol.handoff import Side, Stage

pytestmark = [pytest.mark.netns, pytest.mark.long, needs_agent]

NO_KEY = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}


@contextmanager
def halting_daemon(host: Host) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that stops at a stage when it is told to, and that knows no key for a model."""
    with open(host.folder / "daemon.log", "ab") as log:
        process = host.popen(
            sys.executable, "-m", "tests.net.halting", "daemon",
            env={**host.environment, "PYTHONPATH": str(laboratory.TOP), **NO_KEY},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    host.wait_for_daemon(process)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def files(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def transfers(host: Host) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(host.asked("transfers", "--all", "--json"))["transfers"]
    return found


def dry(host: Host, session: str, to: str) -> tuple[int, str]:
    """The exit status of a dry run, and its one sentence."""
    said = host.hhd("transfer", session, to, "--dry-run", "--json", check=False)
    found = json.loads(said.stdout)
    return said.returncode, str(found.get("error") or found["sentence"])


def interrupted(
    host: Host, session: str, target: Host, process: subprocess.Popen[bytes], stage: Stage
) -> tuple[int, str]:
    """`hhd transfer` typed on `host`, and Ctrl-C once the target has come to `stage`: its status and last line."""
    halting.order(target.folder / "data", halting.place(Side.TARGET, stage))
    words = ("transfer", session, target.name)
    asked = host.popen(sys.executable, "-m", "hhd", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: (target.folder / "data" / halting.HALTED).exists())
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=240)
    halting.called_off(target.folder / "data")
    os.kill(process.pid, signal.SIGCONT)
    return asked.returncode, said.decode().splitlines()[-1]


def test_a_dry_run_changes_nothing_wherever_it_is_typed_and_ctrl_c_says_whether_it_was_undone(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "tower") as net:
        laptop, desktop, tower = hosts = settled(net, "laptop", "desktop", "tower", replies=[GLOB, says(text("Done."))])
        repo = repository(laptop.folder / "repo")
        with laptop.daemon(), halting_daemon(desktop) as stops:
            with tower.daemon():
                until(lambda: all(linked(one) == {other.name for other in hosts} - {one.name} for one in hosts))
                session = session_of(laptop, repo)
                until(lambda: state(laptop, session) == "waiting for you")
                until(lambda: all(shown(one, session) for one in (desktop, tower)))
                until(lambda: len({shown(one, session)["head"] for one in hosts}) == 1)
                before = files(repo), [shown(one, session) for one in hosts]

                for host, to in ((laptop, "desktop"), (tower, "desktop"), (desktop, "here")):
                    status, sentence = dry(host, session, to)
                    assert (status, sentence) == (0, "It could go to desktop."), host.name
                status, sentence = dry(tower, session, "laptop")
                assert status == 3 and "is there already" in sentence
                config = desktop.folder / "config" / "config.toml"
                sound = config.read_text()
                config.write_text('[model]\nname = "claude-sonnet-4-5"\n')
                desktop.hhd("restart", "--config")
                for host in (laptop, tower):
                    status, sentence = dry(host, session, "desktop")
                    assert status == 3 and "No model can be asked there" in sentence, sentence
                    assert "Keys do not travel" in sentence and sentence.startswith("laptop says: ") is (host is tower)
                config.write_text(sound)
                desktop.hhd("restart", "--config")
                assert (files(repo), [shown(one, session) for one in hosts]) == before
                assert [transfers(one) for one in hosts] == [[], [], []]
                assert not list((desktop.folder / "workspaces").glob("*"))

                for host, owner in ((laptop, "this device"), (tower, "laptop")):
                    status, sentence = interrupted(host, session, desktop, stops, Stage.READY)
                    assert status == 4 and sentence == (
                        f"Given up before it was released: nothing was changed; {owner} kept it, and goes on with it."
                    )
                    until(lambda: all(one["over"] for one in transfers(desktop)))
                (asked,) = transfers(tower)
                assert (asked["stage"], asked["asked_of"]["name"]) == ("aborted", "laptop")
                assert "asked for here: aborted" in tower.hhd("transfers").stdout
                status, sentence = interrupted(laptop, session, desktop, stops, Stage.TAKEN)
                assert status == 5 and sentence == (
                    "Released to desktop. Nothing undoes that: it goes on without this terminal, and hhd transfers "
                    "shows it."
                )
                until(lambda: transfers(laptop)[0]["stage"] == "cleaned")
                until(lambda: dry(laptop, session, "here")[0] == 0)
            until(lambda: linked(desktop) == {"laptop"})
            status, sentence = dry(laptop, session, "tower")
            assert status == 3 and sentence.startswith("desktop says: tower is not connected now; nothing was changed.")
            stops.kill()
            until(lambda: linked(laptop) == set())
            status, sentence = dry(laptop, session, "here")
            assert status == 3 and "desktop has session" in sentence and "so it cannot be asked" in sentence
