"""Who is above a process, as far as each is older than the one below it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from hhd.control import peer
from hhd.node import ancestry, leftovers
from hhd.node.ancestry import Ancestry, line

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

GONE = 2**22 + 1
"""No process has this number."""


def test_the_line_of_a_process_leads_to_those_above_it() -> None:
    script = "import os; from hhd.node.ancestry import line; print(*line(os.getpid()))"
    inner = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    above = [int(one) for one in inner.stdout.split()]
    assert os.getpid() in above[1:] and list(line(os.getpid())) == above[above.index(os.getpid()) :]
    assert list(line(GONE)) == [] and leftovers.children(GONE) == []


def test_a_parent_that_is_younger_than_its_child_is_another_process_of_the_same_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = {30: (20, 500), 20: (10, 400), 10: (1, 450), 1: (0, 1)}
    monkeypatch.setattr(ancestry, "_parent", family.get)
    assert list(line(30)) == [30, 20]


def test_one_that_is_gone_or_has_another_number_by_now_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        judge = Ancestry()
        assert judge.refuses(one) is None  # This very process.
        monkeypatch.setattr(peer, "process_of", lambda _: (os.getppid(), lambda: True))
        monkeypatch.setattr(ancestry, "_marked", lambda _: False)
        assert judge.refuses(one) is None
        monkeypatch.setattr(peer, "process_of", lambda _: (os.getppid(), lambda: False))
        assert judge.refuses(one) is not None
        monkeypatch.setattr(peer, "process_of", lambda _: (None, lambda: True))
        assert judge.refuses(one) is None  # The system does not say.
