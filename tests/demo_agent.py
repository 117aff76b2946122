"""The agent's part of the demo: a fix in a repository, stopped half-way, carried elsewhere and back, and forked."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HHD = str(Path(sys.executable).with_name("hhd"))
ROOT = Path(__file__).parents[1]
NOBODY = 65534

STOCK = '''"""A shelf: items, and how many there are of each."""


def add(shelf, item, count):
    shelf[item] = shelf.get(item, 0) + count


def remove(shelf, item, count):
    shelf[item] = shelf.get(item, 0) - count
'''
TEST = """import unittest

import stock


class Shelf(unittest.TestCase):
    def test_what_was_added_can_be_removed(self):
        shelf = {}
        stock.add(shelf, "nails", 5)
        stock.remove(shelf, "nails", 3)
        self.assertEqual(shelf, {"nails": 2})

    def test_nothing_is_taken_that_is_not_there(self):
        shelf = {"nails": 2}
        with self.assertRaises(ValueError):
            stock.remove(shelf, "nails", 3)
        self.assertEqual(shelf, {"nails": 2})
"""
OTHER_WAY = [
    {
        "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "git diff --stat"}}],
        "stop_reason": "tool_use",
    },
    {"content": [{"type": "text", "text": "Not run; this is what I changed."}], "stop_reason": "end_turn"},
]


@dataclass(frozen=True, kw_only=True)
class Device:
    """A place where hhd runs: folders of its own, a command, perhaps another user."""

    name: str
    home: Path
    command: tuple[str, ...] = (HHD,)
    environ: tuple[tuple[str, str], ...] = ()
    user: int | None = None

    def run(self, *words: object, cwd: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run `hhd` here."""
        own = {f"HHD_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE")}
        environ = {**os.environ, **own, "HOME": str(self.home), **dict(self.environ)}
        whole = [*self.command, *map(str, words)]
        return subprocess.run(
            whole, cwd=cwd, env=environ, input=typed, capture_output=True, text=True, user=self.user, group=self.user
        )

    def allow(self, *rules: str) -> None:
        """What the person of this device allows unasked."""
        (self.home / "config").mkdir(parents=True, exist_ok=True)
        (self.home / "config" / "config.toml").write_text(f"[policy]\nallow = {json.dumps(rules)}\n")


def part(folder: Path, title: Callable[[str], None], claim: Callable[[bool, str], None]) -> None:
    """Part 4: see the module."""
    title("4. An agent fixes a test, and is carried elsewhere while its test command is pending")
    print("""
  A repository with a failing test. The agent runs wholly inside a capsule; its model is a script here. This laptop
  allows it to edit; commands are asked about, and nobody answers: so it stops with the command pending.""")
    laptop = Device(name="laptop", home=folder / "laptop")
    desktop = _elsewhere(folder)
    shop = repository(folder / "laptop" / "shop")
    laptop.allow("edit")
    desktop.allow("bash(python3 -m unittest -v)", "edit")

    fix = folder / "laptop" / "fix.hhd"
    prompt = "Make the failing test pass."
    shown(f'hhd run "{prompt}" --model scripted:demo -o ../fix.hhd')
    done = laptop.run("run", prompt, "--model", "scripted:demo", "-o", fix, cwd=shop)
    printed(done, folder)
    before = _events(laptop, fix)
    claim(done.returncode == 3 and "python3 -m unittest -v" in before[-1], "it waits with the test command pending")
    claim(failing(shop) == 0, "the edit is in the folder; whether it helps is not known to the agent yet")

    work = folder / "desktop" / "elsewhere" / "shop"
    shutil.copytree(shop, work)
    moved, other = folder / "desktop" / "fix.hhd", folder / "laptop" / "other.hhd"
    shutil.copy(fix, moved)
    shutil.copy(fix, other)
    _give(desktop, folder / "desktop")
    print(f"\n  The file is copied to {desktop.name}; so is the folder, to another place.")
    shown("hhd capsule run fix.hhd -C elsewhere/shop --model scripted:demo")
    done = desktop.run("capsule", "run", moved, "-C", work, "--model", "scripted:demo", cwd=work.parent, typed="y\n")
    printed(done, folder)
    after = _events(desktop, moved)
    claim(
        "This capsule was not made here by you" in done.stdout, "nothing ran there before a person had seen what it is"
    )
    before = before[:-1]
    claim(after[: len(before)] == before, "the conversation went on from the very byte where it stopped")
    ran = next(number for number, line in enumerate(after) if '"event":"result"' in line and number >= len(before))
    claim(
        _calls(after[:ran]) == _calls(before),
        f"{_calls(before)} model calls before the move, as many after it: it made none",
    )
    claim(
        '"is_error":false' in after[ran] and _calls(after) == _calls(before) + 1,
        "then the command ran there, and the next turn",
    )

    print("\n  And back, with a further word. (For the laptop the file is now one from elsewhere.)")
    back = folder / "laptop" / "back.hhd"
    shutil.copy(moved, back)
    laptop.allow("write")
    shown("hhd capsule run ../back.hhd --model scripted:demo")
    done = laptop.run("capsule", "run", back, "--model", "scripted:demo", cwd=shop, typed="y\nNote it in CHANGES.md.\n")
    printed(done, folder, tail=6)
    claim(
        (shop / "CHANGES.md").exists() and not (work / "CHANGES.md").exists(), "the next edit is in the laptop's folder"
    )

    print("\n  The copy that stayed goes another way: its person says no to the command.")
    script = folder / "laptop" / "other.jsonl"
    demo = (ROOT / "daemon" / "hhd" / "effects" / "scripts" / "demo.jsonl").read_text().splitlines()
    script.write_text("\n".join([*demo[:3], *map(json.dumps, OTHER_WAY)]) + "\n")
    laptop.allow("bash(git diff *)")
    shown("hhd capsule run ../other.hhd --model scripted:../other.jsonl")
    words = ("capsule", "run", other, "--model", f"scripted:{script}")
    done = laptop.run(*words, cwd=shop, typed="n\nNo, show me the change.\n")
    printed(done, folder, tail=4)
    fork = _events(laptop, other)
    claim(fork[: len(before)] == before and fork != after, "the same until the fork, and another story from there")


def _elsewhere(folder: Path) -> Device:
    """Another device, as far as this machine has one: emulated ARM64, another user, or just other folders."""
    home = folder / "desktop"
    home.mkdir()
    if (arm64 := _arm64(home)) is not None:
        return arm64
    if os.geteuid() == 0:
        other = Device(name="another user's home", home=home, user=NOBODY)
        os.chmod(folder, 0o711)
        _give(other, home)
        with contextlib.suppress(OSError):
            if other.run("--version", cwd=home).returncode == 0:
                return other
        _give(dataclasses.replace(other, user=os.geteuid()), home)
    return Device(name="another device's folder", home=home)


def _arm64(home: Path) -> Device | None:
    """Emulated ARM64, if the tests built it before: the demo itself fetches nothing."""
    try:
        from tests.arm64 import root
    except ImportError:
        return None
    stamp = root.folder() / "recipe"
    if not stamp.exists() or stamp.read_text() != root._recipe() or root.missing() is not None:
        return None
    environ = {name: value for name, value in root.environment().items() if os.environ.get(name) != value}
    command = tuple(root.python("-m", "hhd"))
    environ["HHD_CACHE_HOME"] = str(root.folder() / "hhd-cache")
    return Device(name="an (emulated) ARM64 device", home=home, command=command, environ=tuple(environ.items()))


def _give(device: Device, folder: Path) -> None:
    if device.user is not None:
        for place in (folder, *folder.rglob("*")):
            os.chown(place, device.user, device.user, follow_symlinks=False)


def repository(folder: Path) -> Path:
    """A shelf with a test that fails."""
    folder.mkdir(parents=True)
    (folder / "stock.py").write_text(STOCK)
    (folder / "test_stock.py").write_text(TEST)
    git = ["git", "-c", "user.name=alice", "-c", "user.email=alice@laptop.test"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A shelf"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    return folder


def failing(folder: Path) -> int:
    """Run the test; return its exit status."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "-q"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True
    )
    return done.returncode


def _events(device: Device, capsule: Path) -> list[str]:
    """The lines of the transcript, and last the effect that waits."""
    told = device.run("capsule", "info", capsule, "--json", cwd=capsule.parent)
    lines = device.run("capsule", "transcript", capsule, cwd=capsule.parent).stdout.splitlines()
    return [*lines, json.dumps(json.loads(told.stdout)["effect"])] if '"event":"waiting"' not in lines[-1] else lines


def _calls(lines: list[str]) -> int:
    return sum('"event":"turn"' in line for line in lines)


def shown(words: str) -> None:
    """Print a command as a person would type it."""
    print(f"\n  $ {words}", flush=True)


def printed(done: subprocess.CompletedProcess[str], folder: Path, tail: int = 100) -> None:
    """Print what a command said, its last `tail` lines."""
    lines = (done.stdout.rstrip() + "\n" + done.stderr.rstrip()).splitlines()
    for line in lines[-tail:]:
        print(f"    {line.replace(str(folder) + os.sep, '')}")
