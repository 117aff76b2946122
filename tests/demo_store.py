"""The store's part of the demo: a session that lives sealed on this device, is cut off, and goes on."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests import demo_agent
from tests.demo_agent import Device

POWER_CUT = """
import os, signal, sys
from hhd.cli import run
from hhd.node.stored_session import StoreKeeper
save = StoreKeeper.save
def cut_off(self, step):
    live = step.standing.journal.live
    if live is not None and b"unittest" in live.request and live.op == "tool" and live.reply is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, step)
StoreKeeper.save = cut_off
sys.exit(run(sys.argv[1:]))
"""
"""hhd, killed when the test command has ended and before its result is on the disk."""


def part(folder: Path, title: Callable[[str], None], claim: Callable[[bool, str], None]) -> None:
    """Part 5: see the module."""
    title("5. A session in this device's sealed store, cut off in the middle of a command")
    print("""
  Without a file named, a session lives in the store of the device that began it. Here the power goes while the test
  command runs: nobody can know whether it did its work, so hhd asks, and runs nothing twice by itself.""")
    laptop = Device(name="laptop", home=folder / "laptop")
    laptop.allow("bash", "edit")
    shop = demo_agent.repository(folder / "laptop" / "second-shop")
    prompt, model = "Make the failing test pass.", ("--model", "scripted:demo")
    demo_agent.shown(f'hhd run "{prompt}" --model scripted:demo      (and kill -9 once the test command ran)')
    dying = dataclasses.replace(laptop, command=(sys.executable, "-c", POWER_CUT))
    done = dying.run("run", prompt, *model, cwd=shop)
    demo_agent.printed(done, folder, tail=4)
    claim(done.returncode == -signal.SIGKILL, "hhd was killed before the result was on the disk")

    demo_agent.shown("hhd ls")
    demo_agent.printed(laptop.run("ls", cwd=shop), folder)
    name = json.loads(laptop.run("ls", "--json", cwd=shop).stdout)["sessions"][0]["id"][:12]
    demo_agent.shown(f"hhd resume {name} --model scripted:demo")
    done = laptop.run("resume", name, *model, cwd=folder)
    demo_agent.printed(done, folder)
    claim(done.returncode == 5, "exit status 5: the command may have run, and a person has to say")
    demo_agent.shown(f"hhd resume {name} --model scripted:demo --again")
    done = laptop.run("resume", name, *model, "--again", cwd=folder)
    demo_agent.printed(done, folder)
    claim(done.returncode == 0 and demo_agent.failing(shop) == 0, "by the person's word it ran again; the test passes")
    demo_agent.shown("hhd check --read-data")
    done = laptop.run("check", "--read-data", cwd=folder)
    demo_agent.printed(done, folder)
    claim(done.returncode == 0, "every object and record in the store is whole")
