"""What is written into a session's folder while it is handed on goes along, and at the target nothing is written over.

The edits are made between the capture before the pause and the pause itself, by the test, at exactly that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, Site, unasked
from tests.node.test_captures import counted
from tests.node.two import Device, brought, waits_for_a_yes
from tests.workspace.lab import git, repository
from tests.workspace.looks import long_ago, unseen

from hhd.node import bringing, pair, recapture, sessions
from hhd.node.captures import Captures
from hhd.node.ended import End
from hhd.node.looked import Looked
from hhd.node.readied import Readied
from hhd.node.recapturing import Recapturing
from hhd.node.stored_session import StoreKeeper
from hhd.node.workbench import Workbench
from hhd.node.workspace_answers import Applied
from hhd.workspace.pending import pending_folder
from hhd_protocol.ids import CheckpointId, SessionId, StatementId

pytestmark = needs_agent


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Device]]:
    script = [GLOB, says(call("bash", command="make"))]
    with unasked(tmp_path, script, "laptop", "desktop") as made:
        yield made


@pytest.fixture
def waiting(both: list[Device]) -> SessionId:
    """A session on the laptop that waits for a yes, in a folder with one file."""
    return waits_for_a_yes(both[0])


@dataclass(eq=False)
class Editing(Site):
    """A device on whose folder somebody works: `between` is done after the capture before the pause, before that."""

    between: Callable[[], object] = lambda: None
    live: bool = False
    """Whether the session has a worker."""
    keeper: StoreKeeper | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.recapturing = Recapturing(self, lambda _: None)  # type: ignore[arg-type]

    async def once(self, order: pair.Recapture) -> pair.Recaptured:
        """A process that captures the folder of a session that rests."""
        with self.opened() as control:
            bench = Workbench(store=control.store, me=control.me)
            folder, appearance = recapture.recapture(bench, SessionId(StatementId(order.session)))
        return pair.Recaptured(folder=str(folder), appearance=appearance)

    async def look(self, session: SessionId) -> None:
        await super().look(session)
        if self.live:
            device = self.device
            self.keeper = StoreKeeper(device.store, device.me, session)
            self.keeper.owner.folder = device.repo
            self.keeper.captures = Captures(
                device.store, session, device.repo, last=self.keeper.workspace, say=lambda _: None
            )
            self.keeper.rest()
        else:
            await self.recapturing.capture(session)
        self.between()

    async def halt(self, session: SessionId, *, soft: bool = False) -> None:
        if self.keeper is not None and self.keeper.captures is not None:
            self.keeper.captures.look_again()
            self.keeper.rest()
            self.keeper.close()
        else:
            await self.recapturing.again(session)
        await super().halt(session, soft=soft)


def handed(
    both: list[Device], session: SessionId, between: Callable[[], object], *, live: bool, back: bool = False
) -> Path:
    """Hand the session to the desktop, or `back` from there; the folder where it works then."""
    here, there = ("desktop", "laptop") if back else ("laptop", "desktop")

    async def go() -> Path:
        home = House(both)
        home.made = Editing
        try:
            for name in home.devices:
                await home.up(name)
            source = home.sites[here]
            assert isinstance(source, Editing)
            source.between, source.live = between, live
            moved = await source.transfer(session, there)
            assert moved[-1].status == 0, moved[-1]
            return home.sites[there].folder(session)
        finally:
            for name in list(home.sites):
                await home.kill(name)

    return asyncio.run(go())


def _others(repo: Path) -> None:
    (repo / "new").write_text("new\n")
    (repo / "notes").unlink()


EDITS: dict[str, Callable[[Path], object]] = {
    "a file of the same size with its time put back": lambda repo: unseen(repo / "notes", b"OF THE LAPTOP\n"),
    "a new file and one gone": _others,
}


@pytest.mark.parametrize("live", [True, False], ids=["with a worker", "at rest"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_between_the_capture_and_the_pause_is_at_the_target(
    both: list[Device], waiting: SessionId, monkeypatch: pytest.MonkeyPatch, edit: str, live: bool
) -> None:
    long_ago(monkeypatch)
    repo = both[0].repo
    there = handed(both, waiting, lambda: EDITS[edit](repo), live=live)
    assert files(there) == files(repo)


@pytest.mark.parametrize("live", [True, False], ids=["with a worker", "at rest"])
def test_where_nobody_edited_the_pause_captures_nothing(
    both: list[Device], waiting: SessionId, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    long_ago(monkeypatch)
    taken, repo, before = counted(monkeypatch), both[0].repo, list[int]()
    there = handed(both, waiting, lambda: before.append(taken.count(repo)), live=live)
    assert taken.count(repo) == before[0] == 1 and files(there) == files(repo) != {}


@pytest.mark.parametrize("touched", [False, True], ids=["as it was left", "edited meanwhile"])
def test_a_session_that_comes_back_with_other_files_works_in_the_folder_it_left(
    both: list[Device], waiting: SessionId, touched: bool
) -> None:
    laptop, desktop = both
    away = handed(both, waiting, lambda: None, live=False)
    (away / "notes").write_text("of the desktop\n")
    recapture.recapture(Workbench(store=desktop.store, me=desktop.me), waiting)
    brought(desktop, laptop, waiting)  # Known there before the session is offered: the last head is not the folder.
    if touched:
        (laptop.repo / "notes").write_text("of a person\n")
    back = handed(both, waiting, lambda: None, live=False, back=True)
    assert (back == laptop.repo) is not touched
    assert (back / "notes").read_text() == "of the desktop\n"
    assert (laptop.repo / "notes").read_text() == ("of a person\n" if touched else "of the desktop\n")


def files(folder: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in folder.iterdir() if one.is_file()}


TARGETS: dict[str, Callable[[Path], object]] = {
    "an edit of what is to be replaced": lambda repo: (repo / "one").write_text("of the person\n"),
    "an edit of the same size with its time put back": lambda repo: unseen(repo / "one", b"A\n"),
    "a file where a new one is to appear": lambda repo: (repo / "new").write_text("of the person\n"),
    "another commit": lambda repo: git(repo, "commit", "-q", "--allow-empty", "-m", "of the person"),
    "something staged": lambda repo: ((repo / "sub" / "two").write_text("mine\n"), git(repo, "add", "-A")),
}


@pytest.mark.parametrize("change", [*TARGETS, "", "nothing"])
def test_a_folder_at_the_target_that_changes_between_the_early_look_and_the_switch_is_not_written_over(
    tmp_path: Path, both: list[Device], change: str
) -> None:
    """Prepared there or not: what was prepared does not fit then, and goes."""
    laptop, desktop = both
    laptop.repo.rmdir()
    repository(laptop.repo)
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    brought(laptop, desktop, session)
    there = Path(bring(desktop, session, None).folder)
    (laptop.repo / "one").write_text("of the laptop\n")
    (laptop.repo / "new").write_text("of the laptop\n")
    recapture.recapture(Workbench(store=laptop.store, me=laptop.me), session)
    brought(laptop, desktop, session)
    looked = bringing.look(desktop.store, desktop.me, session)
    assert looked is not None and looked.folder == there
    readied = None
    if change:
        head = CheckpointId(sessions.view(desktop.store, desktop.me, session).main)  # type: ignore[arg-type]
        readied = bringing.ready(desktop.store, desktop.me, session, head, called="repo", looked=looked)
        assert readied is not None and list((there / ".git").glob(".hhd-*.ahead"))
    TARGETS.get(change, lambda _: None)(there)
    mine = tree(there)
    applied = bring(desktop, session, looked, readied)
    assert not list((there / ".git").glob(".hhd-*.ahead"))
    if readied is not None:
        readied.drop()
    assert not list((there / ".git").glob(".hhd-*")) and not list(pending_folder().glob("*.sealed"))
    came = Path(applied.folder)
    assert (came / "one").read_text() == (came / "new").read_text() == "of the laptop\n"
    if change in TARGETS:
        assert came != there and applied.instead and tree(there) == mine, "what the person did is as it was"
    else:
        assert came == there, "where nobody did anything they appear in place"


def bring(device: Device, session: SessionId, looked: Looked | None, readied: Readied | None = None) -> Applied:
    applied = bringing.bring(device.store, device.me, session, called="repo", looked=looked, readied=readied)
    assert applied is not None
    return applied


def tree(repo: Path) -> tuple[dict[str, str], str, str]:
    """The files, the commit and what is staged."""
    return files(repo) | files(repo / "sub"), git(repo, "rev-parse", "HEAD"), git(repo, "diff", "--cached")
