"""Hostile titles and names are shown as text by every command, which all do show them."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import call, needs_agent, says, script, text
from tests.node import lines
from tests.node.lines import apart, event, made, turn

from hhd.cli import COMMANDS, run
from hhd.node import control_ground
from hhd.node import store as door
from hhd.node.members import Member
from hhd.store.store import Store
from hhd_protocol.crypto import public_key
from hhd_protocol.statements import Role

pytestmark = needs_agent

MARK = "Mark"
HOSTILE = {
    "ansi": f"\x1b[2J\x1b]0;owned\x07{MARK}\x1b[31m",
    "controls": f"\r{MARK}\x7f\x9b1m\x08\x08\v\f\x85",
    "directions": f"\u202e{MARK}\u2066\u200f\u061c\ufeff\U000e0041",
    "markup": f"<script>{MARK}</script>[b]`$(x)`**%s{{}}",
    "lines": f"{MARK}\u2028\u2029\u0085",
    "1 MB": MARK + "x" * 1_000_000,
}
LINE_CHARS_MAX = 2_000
"""Of what any command but those that tell a conversation puts on one line, however long a title is."""


@dataclass
class World:
    """A device with hostile sessions: one with two heads, one whose command waits for a yes, one that may have run."""

    root: Path
    text: str
    heads: str = ""
    there: str = ""
    asking: str = ""
    doubtful: str = ""
    gone: str = ""
    model: str = ""

    def environ(self, cache: Path) -> dict[str, str]:
        return {f"HHD_{kind}_HOME": str(self.root / kind.lower()) for kind in ("CONFIG", "DATA")} | {
            "HHD_CACHE_HOME": str(cache)
        }


Call = Callable[[World], list[str | Path]]
SHOWS: Mapping[str, Call] = {
    "run": lambda w: ["run", "again " + w.text.replace("\0", ""), "-C", w.root / "repo", "--model", w.model],
    "ls": lambda w: ["ls"],
    "show": lambda w: ["show", w.heads],
    "log": lambda w: ["log", w.heads],
    "heads": lambda w: ["heads", w.heads],
    "diff": lambda w: ["diff", w.heads],
    "pick": lambda w: ["pick", w.text[:40], w.heads[:6]],
    "rename": lambda w: ["rename", w.gone, w.text[:200]],
    "archive": lambda w: ["archive", w.text[:40]],
    "settle": lambda w: ["settle", w.doubtful],
    "approve": lambda w: ["approve", w.asking],
    "deny": lambda w: ["deny", w.asking],
    "fork": lambda w: ["fork", w.asking],
    "export": lambda w: ["export", w.asking, w.root / "made.hhd", "--force"],
    "import": lambda w: ["import", w.root / "given.hhd"],
    "rm": lambda w: ["rm", w.gone],
    "resume": lambda w: ["resume", w.asking, "--model", w.model],
    "capsule": lambda w: ["capsule", "show", w.root / "given.hhd"],
    "rename-device": lambda w: ["rename-device", door.identity().text[:14], w.text[:200].replace("\0", "")],
    "unpair": lambda w: ["unpair", f"no {w.text[:40]}", "--yes"],
}
"""By command: a call that shows a title, a name, a reason or a text of the session, `MARK` in it."""
SHOWS_NONE: Mapping[str, Call] = {
    "config": lambda w: ["config"],
    "policy": lambda w: ["policy", "check", "bash", w.text[:200]],
    "native": lambda w: ["native", "ls"],
    "workspace": lambda w: ["workspace", "--help"],
    "check": lambda w: ["check"],
    "gc": lambda w: ["gc", "--dry-run"],
    "du": lambda w: ["du"],
    "paths": lambda w: ["paths"],
    "status": lambda w: ["status"],
    "devices": lambda w: ["devices"],  # Of several, in test_devices.
    "up": lambda w: ["up", "--help"],
    "down": lambda w: ["down", "--help"],
    "daemon": lambda w: ["daemon", "--help"],
    "attach": lambda w: ["attach", "--help"],  # These three ask the daemon: test_attach.
    "send": lambda w: ["send", "--help"],
    "pause": lambda w: ["pause", "--help"],
    "restart": lambda w: ["restart", "--help"],
    "logs": lambda w: ["logs", "--help"],
    "transfer": lambda w: ["transfer", "--help"],  # These four move sessions.
    "transfers": lambda w: ["transfers", "--help"],
    "takeover": lambda w: ["takeover", "--help"],
    "receive": lambda w: ["receive", "--help"],
    "pair": lambda w: ["pair", "--help"],
    "peer": lambda w: ["peer", "--help"],
    "sync": lambda w: ["sync", "--help"],  # These three ask the daemon: test_sync.
    "follow": lambda w: ["follow", "--help"],
    "unfollow": lambda w: ["unfollow", "--help"],
    "doctor": lambda w: ["doctor", "--help"],
    "completions": lambda w: ["completions", "bash"],
    "manual": lambda w: ["manual"],
}
CONVERSATIONS = ("run", "show", "resume", "capsule", "approve", "deny", "settle", "diff")


@pytest.fixture(scope="module", params=HOSTILE)
def made_world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, compiled_modules: Path
) -> World:
    world = World(root=tmp_path_factory.mktemp("world"), text=HOSTILE[request.param])
    (world.root / "repo").mkdir()
    replies = [
        says(text(f"Said {world.text[:500]}"), call("bash", command=f"echo '{world.text[:500]}'")),
        says(text(".")),
    ]
    world.model = script(world.root / "script.jsonl", replies)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environ(compiled_modules).items():
            patch.setenv(name, value)
        patch.setattr("hhd.cli.keyboard.Keyboard.line", lambda self, prompt: None)
        prompt = world.text.replace("\0", "") + "\nand more"
        assert run(["run", prompt, "-C", str(world.root / "repo"), "--model", world.model]) == 3
        with door.opened() as store:
            asking = store.sessions()[0]
            world.asking = asking.hex()
            service = lines.service(store)
            world.doubtful = service.fork(world.asking).session
            lines.grouped(patch)
            world.heads = two_heads(store, world.text)
            world.gone = made(store, f"gone {world.text}", [turn(1)]).id.hex()
        assert run(["export", world.asking, str(world.root / "given.hhd")]) == 0
    return world


def two_heads(store: Store, words: str) -> str:
    """A session whose every text is hostile."""
    short = words[:900]
    both = apart(
        store,
        [turn(2, words, command=short, failed=True), event("call", id="x", name=short, input={"path": short})],
        [turn(2, path=short), event("error", status=None, type="x", text=words), event(short), short.encode() + b"\n"],
        title=words,
    )
    work = both.made
    work.takeover(
        both.here, prev=work.tip_record, by=lines.DESKTOP, reason=short.encode()[:900].decode("utf-8", "ignore")
    )
    return work.id.hex()


@pytest.fixture
def world(made_world: World, compiled_modules: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in made_world.environ(compiled_modules).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("hhd.cli.keyboard.Keyboard.line", lambda self, prompt: None)

    def members(_: Store, me: Any) -> Mapping[Any, Member]:
        theirs = Member(role=Role.FULL, public=public_key(lines.DESKTOP), name=made_world.text)
        return {me.id: Member(role=Role.FULL, public=me.public), lines.device(lines.DESKTOP): theirs}

    monkeypatch.setattr(control_ground, "members", members)
    shutil.rmtree(made_world.root / "repo")
    (made_world.root / "repo").mkdir()
    monkeypatch.chdir(made_world.root)
    return made_world


def test_every_command_is_either_shown_to_show_texts_or_said_to_show_none() -> None:
    assert set(SHOWS) | set(SHOWS_NONE) == set(COMMANDS) and not set(SHOWS) & set(SHOWS_NONE)


HEADS: Mapping[str, Call] = {
    "rename": lambda w: ["rename", w.heads, "--head", w.there, name_of(w)],
    "heads": lambda w: ["heads", w.heads],
    "show": lambda w: ["show", w.heads, "--head", name_of(w)],
    "diff": lambda w: ["diff", w.heads, name_of(w)],
    "pick": lambda w: ["pick", w.heads, name_of(w)],
    "fork": lambda w: ["fork", w.heads, "--at", name_of(w)],
    "export": lambda w: ["export", w.heads, w.root / "head.hhd", "--force", "--head", name_of(w)],
    "archive": lambda w: ["archive", w.heads, "--head", name_of(w)],
    "heads --all": lambda w: ["heads", w.heads, "--all"],
    "unknown": lambda w: ["show", w.heads, "--head", f"no {w.text}"],
    "taken away": lambda w: ["rename", w.heads, "--none", "--head", name_of(w)],
}
"""In this order: what is said and done of a head with a hostile name."""


def name_of(world: World) -> str:
    return world.text[:200].replace("\0", "")


def test_a_hostile_name_of_a_head_is_text_everywhere_and_names_it(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    with door.opened() as store:
        world.there = lines.service(store).heads(world.heads).heads[1].id
    for name, asked in HEADS.items():
        status = run([str(word) for word in asked(world)])
        out, err = capfd.readouterr()
        if name in ("fork", "export"):
            assert "holds no session of a program" in err, (
                "the name was understood; what is made by hand has no program"
            )
        else:
            assert status == (3 if name == "unknown" else 0), (name, err[:500])
        assert not hidden(out + err), name
        if name in ("rename", "heads", "heads --all", "unknown"):
            assert MARK.lower() in (out + err).lower(), name


def hidden(said: str) -> list[str]:
    """Characters that do something to a terminal, or to who reads it, instead of being seen."""
    kept = "\n\t"
    return [c for c in said if c not in kept and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]


@pytest.mark.parametrize("name", [*SHOWS, *SHOWS_NONE])
def test_texts_are_shown_as_text(name: str, world: World, capfd: pytest.CaptureFixture[str]) -> None:
    status = run([str(word) for word in {**SHOWS, **SHOWS_NONE}[name](world)])
    out, err = capfd.readouterr()
    assert status in (0, 2, 3), err
    assert not hidden(out + err)
    if name in SHOWS:
        assert MARK.lower() in (out + err).lower(), "the title does arrive"
    if name not in CONVERSATIONS:
        assert max(map(len, (out + err).splitlines()), default=0) < LINE_CHARS_MAX


JSON = [name for name in SHOWS if name not in ("run", "resume", "capsule")]


@pytest.mark.parametrize("name", JSON)
def test_with_json_there_are_objects_and_nothing_else(
    name: str, world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    run([*(str(word) for word in SHOWS[name](world)), "--json"])
    out, err = capfd.readouterr()
    objects = [json.loads(line) for line in out.splitlines()]
    assert len(objects) == 1 or name == "log"
    assert all(isinstance(one, dict) for one in objects) and out.isascii() and not hidden(out + err)
    assert os.getcwd() == str(world.root)
