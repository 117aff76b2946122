"""Processes that are left behind stay below who adopts orphans, and end with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")

LEAVES = """
import os, subprocess, sys, time
from hhd.node import leftovers
if sys.argv[1] == "adopts":
    leftovers.adopt_orphans()
orphan = int(subprocess.run(["/bin/sh", "-c", "setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'"],
                            stdout=subprocess.PIPE).stdout)
kept = subprocess.Popen(["sleep", "1000"])
other = subprocess.Popen(["sleep", "1000"])
below = set(leftovers.children())
leftovers.end_children(but={kept.pid})
print(orphan in below, {kept.pid, other.pid} <= below, os.path.exists(f"/proc/{orphan}"),
      kept.poll() is None, os.path.exists(f"/proc/{other.pid}"))
kept.kill()
try:
    os.kill(orphan, 9)
except ProcessLookupError:
    pass
"""


@pytest.mark.parametrize(
    ("how", "said"), [("adopts", "True True False True False"), ("does not", "False True True True False")]
)
def test_an_orphan_is_below_who_adopts_and_ends_with_all_but_those_that_are_kept(how: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", LEAVES, how], capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == said, done.stderr
