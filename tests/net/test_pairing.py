"""Two real daemons are paired by a code, or are not: what strangers, guessers and listeners get is nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import linked, until

pytestmark = pytest.mark.netns


class Command:
    """`hhd pair` on a host, and what it says."""

    def __init__(self, host: Host, *words: str) -> None:
        self.process = host.popen(
            sys.executable, "-u", "-m", "hhd", "pair", *words,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.said = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Read until it says something of this form."""
        assert self.process.stdout is not None
        while (found := re.search(pattern, self.said)) is None:
            raw = self.process.stdout.read1(4096)  # type: ignore[attr-defined]
            assert raw, f"it ended with: {self.said}"
            self.said += raw.decode()
        return found

    def answer(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def ended(self) -> int:
        """Wait for its end; its exit status."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.read().decode()
        return self.process.wait(60)


def words(command: Command) -> str:
    return command.until(r"\n    (\S+  \S+  \S+)\n")[1]


def test_two_devices_are_paired_by_two_commands_and_linked(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        with laptop.daemon(), desktop.daemon():
            shower = Command(laptop)
            code = shower.until(r"hhd pair (\d{4}-\d{4})")[1]
            guesser = Command(desktop, code)
            assert words(shower) == words(guesser)
            shower.answer("y")
            guesser.answer("y")
            assert guesser.ended() == 0 and shower.ended() == 0, guesser.said + shower.said
            until(lambda: len(linked(laptop)) == 1 and len(linked(desktop)) == 1)
