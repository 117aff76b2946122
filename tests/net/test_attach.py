"""A session at one device, a terminal at another, with real links, processes and handoffs between."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.e2e.lab import needs_agent, says, text
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import both_linked, until
from tests.net.test_transfer import session_of, settled, shown, state

pytestmark = [pytest.mark.netns, needs_agent]


class Stream:
    """A command that prints an object a line, while it runs."""

    def __init__(self, host: Host, *words: str) -> None:
        self.said: list[dict[str, Any]] = []
        self.process = host.popen(sys.executable, "-m", "hhd", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def until(self, holds: Callable[[str], object]) -> None:
        """Wait until something that was printed, as one text, is so."""
        until(lambda: bool(holds(json.dumps(self.said))))


@contextlib.contextmanager
def stream(host: Host, *words: str) -> Iterator[Stream]:
    one = Stream(host, *words)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def test_it_is_watched_and_spoken_to_from_another_device_and_followed_where_it_goes(lab: LabMaker) -> None:
    replies = [says(text("So?")), says(text("I heard.")), says(text("Here too."))]
    with lab("laptop", "desktop") as net:
        laptop, desktop = settled(net, "laptop", "desktop", replies=replies)
        repo = desktop.folder / "repo"
        repo.mkdir()
        with desktop.daemon(), contextlib.ExitStack() as daemons:
            daemons.enter_context(laptop.daemon())
            until(lambda: both_linked(laptop, desktop))
            session = session_of(desktop, repo)
            until(lambda: state(laptop, session) == "waiting for you")
            with (
                stream(laptop, "attach", session, "--json") as watch,
                stream(laptop, "log", session, "-f", "--json") as log,
            ):
                watch.until(lambda said: "So?" in said and "It runs on desktop." in said)
                log.until(lambda said: '"turn": true' in said)
                before = len(log.said)
                said = laptop.hhd("send", session, "hello from the laptop", "--json")
                assert json.loads(said.stdout)["session"] == session
                watch.until(lambda said: "I heard." in said)
                log.until(lambda _: len(log.said) > before)
                until(lambda: state(desktop, session) == "waiting for you")
                assert json.dumps(shown(desktop, session)).count("hello from the laptop") == 1
                paused = json.loads(laptop.hhd("pause", session, "--json").stdout)["sessions"][0]
                assert paused["session"] == session

                moved = desktop.hhd("transfer", session, "laptop", "--json", check=False)
                assert moved.returncode == 0, moved.stdout + moved.stderr
                watch.until(lambda said: "It runs here now." in said)
                until(lambda: shown(desktop, session)["owner"]["name"] == "laptop")
                with stream(desktop, "attach", session, "--json") as there:
                    there.until(lambda said: "It runs on laptop." in said)
                    desktop.hhd("send", session, "and from the desktop")
                    for one in (watch, there):
                        one.until(lambda said: "Here too." in said)
                    places = [one["position"] for one in watch.said if "event" in one]
                    assert places == sorted(set(places)), "nothing of it is told twice"
            daemons.close()
            until(lambda: not desktop_linked(desktop))
            for words in (("attach", session), ("send", session, "anybody?"), ("resume", session)):
                refused = desktop.hhd(*words, check=False)
                assert refused.returncode == 3 and "takeover" in refused.stderr and "old." in refused.stderr, refused
                assert len(refused.stderr.splitlines()) == 1


def desktop_linked(desktop: Host) -> bool:
    from tests.net.paired import linked

    return bool(linked(desktop))
