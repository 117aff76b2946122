"""Commands of a session do not ask the daemon: the sandbox hides the socket, else they are known by their parents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, daemon
from tests.e2e.lab import ALLOW, call, needs_agent, repository, says, script, text

from hhd_protocol import live

pytestmark = needs_agent

ASKS = """
import os, sys, time
sys.path[:0] = {path!r}
from hhd.control.client import connect
from pathlib import Path
how, out = sys.argv[1:]
if how == "orphan":  # Out of its session and group, and its parents gone.
    if os.fork():
        os._exit(0)
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.001)
try:
    link = connect(Path({socket!r}), hhd="1")
    said = "hidden" if link is None else "answered " + link.ask("status", {{}}, changes=False)["hhd"]
except Exception as error:
    said = str(error)
Path(out + ".part").write_text(said)
os.rename(out + ".part", out)
"""


def asked_by_commands(laptop: Daemon, repo: Path, hows: list[str], environ: str = "") -> list[str]:
    """What a command of a session hears that asks the daemon, as a child of the shell or as an orphan."""
    asks = repo / "asks.py"
    socket = os.fsdecode((laptop.data / "daemon.lock").read_bytes())
    asks.write_text(ASKS.format(path=[one for one in sys.path if one], socket=socket))
    run = [f"{environ}{sys.executable} asks.py {how} {number}" for number, how in enumerate(hows)]
    waits = "; ".join(f"until [ -e {number} ]; do sleep 0.01; done" for number in range(len(hows)))
    model = script(
        laptop.device.home / "s.jsonl",
        [says(call("bash", command=f"{'; '.join(run)}; {waits}", timeout_seconds=60)), says(text("Done."))],
    )
    session = laptop.runs.begin("ask it", folder=repo, model=model).session
    laptop.attach(session).until(live.Listening)
    mine = repo / "mine"
    subprocess.run([sys.executable, str(asks), "child", str(mine)], check=True)
    assert mine.read_text().startswith("answered")  # The very same words, of a program of the person's own.
    return [(repo / str(number)).read_text() for number in range(len(hows))]


REFUSED = "Commands of a session may not ask the daemon, so nothing was done."


@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
def test_the_sandbox_hides_the_socket_from_commands(tmp_path: Path) -> None:
    with daemon(tmp_path / "laptop", config=ALLOW) as laptop:
        says_so = laptop.asking.connection.ask("status", {})
        assert "the sandbox hides it" in json.dumps(says_so)
        assert asked_by_commands(laptop, repository(tmp_path / "repo"), ["child"]) == ["hidden"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_without_a_sandbox_commands_are_known_by_their_parents_whatever_they_do(tmp_path: Path) -> None:
    with daemon(tmp_path / "laptop", config=ALLOW + '[policy.sandbox]\nuse = "off"\n') as laptop:
        assert "is refused" in json.dumps(laptop.asking.connection.ask("status", {}))
        heard = asked_by_commands(laptop, repository(tmp_path / "repo"), ["child", "orphan"], "env -u HHD ")
        assert heard == [REFUSED] * 2


def test_a_command_that_a_terminal_runs_by_itself_is_known_by_its_mark(tmp_path: Path) -> None:
    with daemon(tmp_path / "laptop", config=ALLOW) as laptop:
        asks = tmp_path / "asks.py"
        socket = os.fsdecode((laptop.data / "daemon.lock").read_bytes())
        asks.write_text(ASKS.format(path=[one for one in sys.path if one], socket=socket))
        out = tmp_path / "out"
        for words in ([], ["env", "-u", "HHD"]):  # One that takes the mark off is below one that has it.
            script = f"{' '.join(words)} {sys.executable} {asks} child {out}; true"
            subprocess.run(["/bin/sh", "-c", script], env={**os.environ, "HHD": "1"}, check=True)
            assert out.read_text() == REFUSED
        subprocess.run([sys.executable, str(asks), "child", str(out)], check=True)
        assert out.read_text().startswith("answered")
