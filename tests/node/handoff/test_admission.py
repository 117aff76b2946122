"""Whether a session can run on another device: what it lacks is refused with what to do, nothing touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB
from tests.node.handoff.handing import house
from tests.node.two import Device, devices

from hhd.base.errors import RefusedError, UserError
from hhd.effects.sandbox import Sandbox
from hhd.node import here, sessions
from hhd.node.ended import End
from hhd.node.handoff import admission as handoff_admission
from hhd.node.handoff import steps as handoff_steps
from hhd.store.errors import FullStoreError
from hhd.store.room import Limits
from hhd_protocol.handoff import Needs
from hhd_protocol.ids import SessionId

pytestmark = needs_agent

WAITING = [GLOB, says(call("bash", command="make -s all")), says(text("Done."))]
Usage = namedtuple("Usage", "total used free")
ROOMY = mock.Mock(limits=Limits())
"""A store on another disk, which has room."""
NO_WALLS = Sandbox(program=None, reason="there is no bwrap", network=True, hidden=(), required=True)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Device]]:
    with devices(tmp_path, WAITING, "laptop", "desktop", rules={"allow": []}) as made:
        yield made


@pytest.fixture
def waiting(both: list[Device]) -> SessionId:
    """A session on the laptop that waits for a yes to `make`, and what it needs."""
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "start"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=both[0].repo, check=True)
    session = both[0].create()
    assert both[0].go_here(session).end is End.WAITING
    return session


def needs_of(laptop: Device, session: SessionId, *, found: tuple[str, ...] = ("git", "bash", "make")) -> Needs:
    with mock.patch.object(shutil, "which", lambda name, path=None: f"/bin/{name}" if name in found else None):
        return handoff_admission.needs_of(laptop.store, session, laptop.main(session), "claude")


def look(desktop: Device, session: SessionId, needs: Needs) -> handoff_admission.Fit:
    return handoff_admission.look(desktop.store, desktop.me, session, needs)


def test_it_needs_git_for_a_repository_and_the_program_of_the_command_that_waits(
    both: list[Device], waiting: SessionId
) -> None:
    found = needs_of(both[0], waiting)
    assert found.tools == ("git", "bash", "make")
    assert set(found.formats) == {f"{name} {version}" for name, version in handoff_admission.FORMATS.items()}
    assert needs_of(both[0], waiting, found=("git", "bash")).tools == ("git", "bash"), "it is not at the source either"


def test_what_rules_name_is_said_where_it_is_missing_and_refuses_nothing(
    both: list[Device], waiting: SessionId
) -> None:
    policy = {"allow": ["bash(npm test *)", "bash(make)", "read", "write(docs/**)"], "sandbox": {}}
    config = replace(handoff_admission.load(), policy=policy)
    with mock.patch.object(handoff_admission, "load", lambda: config):
        needs = needs_of(both[0], waiting, found=("git", "bash", "make", "npm"))
    assert needs.named == ("npm",), "make is needed as it is"
    with mock.patch.object(handoff_admission, "_of_model", lambda *_: []):
        fit = look(both[1], waiting, replace(needs, tools=(), named=("sh", "no-such-program")))
    assert [note for note in fit.notes if "no-such-program" in note] == [
        "not there, though rules here name it: no-such-program"
    ]


def broken(what: str, desktop: Device, session: SessionId, needs: Needs) -> tuple[Needs, object]:
    """What is otherwise there, so that it is to be refused."""
    fine = mock.patch.object(handoff_admission, "_of_model", lambda *_: [])
    match what:
        case "format":
            return replace(needs, formats=(*needs.formats[1:], "guest-abi 99")), fine
        case "unknown format":
            return replace(needs, formats=("hologram 1",)), fine
        case "nonsense for a format":
            return replace(needs, formats=("guest-abi one",)), fine
        case "tool":
            return replace(needs, tools=("no-such-program",)), fine
        case "store":
            full = FullStoreError("it is full")
            return needs, mock.patch.object(type(desktop.store), "insist_on_room", side_effect=full)
        case "disk":
            usage = Usage(10, 10, needs.size_bytes - 1)
            return needs, mock.patch.object(handoff_admission.shutil, "disk_usage", lambda _: usage)
        case "model":
            return needs, mock.patch.dict(os.environ, {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""})
        case "walls":
            return needs, mock.patch.object(handoff_admission, "detect", lambda _: NO_WALLS)
        case "folder":
            desktop.repo.parent.joinpath("file").write_text("in the way")
            note = here.Note(place=None, folder=desktop.repo.parent / "file")
            return needs, mock.patch.object(here, "noted", lambda *_: note)
    raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("format", "guest-abi 99.*upgrade hhd there"),
        ("unknown format", "hologram 1.*upgrade hhd there"),
        ("nonsense for a format", "guest-abi one.*upgrade hhd there"),
        ("tool", "no-such-program, which is not there; install it there"),
        ("store", "no room for it.*hhd gc there"),
        ("disk", "no room for it.*free some of it"),
        ("model", "No model can be asked there.*Keys do not travel"),
        ("walls", "behind walls there.*mend that"),
        ("folder", "no folder that can be written.*hhd workspace map"),
    ],
)
def test_each_thing_that_is_missing_there_is_refused_with_what_to_do(
    both: list[Device], waiting: SessionId, what: str, words: str
) -> None:
    laptop, desktop = both
    needs = replace(needs_of(laptop, waiting), tools=())
    before = laptop.main(waiting), len(list(laptop.store.statements.all(waiting)))

    def fit(*_: object) -> handoff_admission.Fit:
        asked, otherwise = broken(what, desktop, waiting, needs)
        with otherwise:  # type: ignore[attr-defined]
            if what == "disk":
                handoff_admission._insist_on_room(ROOMY, asked, desktop.repo)  # type: ignore[arg-type]
            if what in ("walls", "disk", "store", "folder"):
                with mock.patch.object(handoff_admission, "_of_model", lambda *_: []):
                    return look(desktop, waiting, asked)
            return look(desktop, waiting, asked)

    with pytest.raises(UserError, match=words):
        fit()

    async def go() -> None:
        async with house(both) as home:
            site = home.sites["laptop"]
            site.runs.add(waiting)
            with mock.patch.object(handoff_steps, "fit", lambda store, me, session, _: fit()):
                moved = await site.transfer(waiting, "desktop")
            assert moved[-1].over and moved[-1].status == 3 and moved[-1].continuity == "nothing was changed"
            assert site.soft == [] and waiting in site.runs, "it was never paused"

    asyncio.run(go())
    assert before == (laptop.main(waiting), len(list(laptop.store.statements.all(waiting))))
    assert sessions.view(laptop.store, laptop.me, waiting).owner == laptop.me.id
    assert desktop.store.sessions() == []


def test_where_nothing_is_missing_it_fits(both: list[Device], waiting: SessionId) -> None:
    needs = replace(needs_of(both[0], waiting), tools=("sh",))
    with mock.patch.object(handoff_admission, "_of_model", lambda *_: []):
        assert look(both[1], waiting, needs).where == ""


def test_a_key_is_looked_for_there_and_is_in_no_message(both: list[Device], waiting: SessionId) -> None:
    with mock.patch.dict(os.environ, {"ANTHROPIC_API_KEY": "sk-secret"}):
        needs = needs_of(both[0], waiting)
        assert "sk-secret" not in repr(needs) and needs.model == "claude"
        assert handoff_admission.look(both[1].store, both[1].me, waiting, replace(needs, tools=())) is not None
    with (
        mock.patch.dict(os.environ, {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}),
        pytest.raises(RefusedError, match="Keys do not travel"),
    ):
        handoff_admission.look(both[1].store, both[1].me, waiting, replace(needs, tools=()))
