"""A lid that was closed while the session was taken over elsewhere: who wakes runs nothing of it, with or without a
network, and both works are shown. Two stores with their syncs in one process; the clocks are the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node import two
from tests.node.driven import GLOB, Person
from tests.node.sync import wired

from hhd.base import locks
from hhd.base.errors import UserError
from hhd.base.paths import data_folder, private_folder
from hhd.control.address import LOCK_FILE
from hhd.node import around, doors, sessions, stored_session
from hhd.node.around import Told
from hhd.node.ended import End
from hhd.node.sync import listing as syncing_listing
from hhd_protocol.ids import DeviceId, SessionId

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, COUNT, says(text("Done."))]
NETWORK_MS = 3_000


@dataclass
class Device(two.Device):
    """A device of a wired person, whose sessions run."""

    wire: wired.Wired | None = field(default=None)

    def __post_init__(self) -> None:
        assert self.wire is not None
        self.me, self.store, self.repo = self.wire.owned.me, self.wire.store, self.folder / "repo"
        self.repo.mkdir(parents=True)


class Clock:
    """Time that goes on only where somebody waits; then what is due happens."""

    def __init__(self) -> None:
        self.now, self.due = 1_000_000, dict[int, Callable[[], None]]()

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1000)
        for at in [at for at in self.due if at <= self.now]:
            self.due.pop(at)()


@contextmanager
def awake(clock: Clock) -> Iterator[None]:
    """As if a daemon ran here that has just woken, linked with nobody."""
    lock = locks.take(private_folder(data_folder()) / LOCK_FILE)
    assert lock is not None
    with (
        lock,
        mock.patch.object(around, "now_ms", lambda: clock.now),
        mock.patch.object(doors, "now_ms", lambda: clock.now),
        mock.patch.object(stored_session, "time", SimpleNamespace(sleep=clock.sleep)),
    ):
        yield


@dataclass
class Scene:
    alice: wired.Person
    laptop: Device
    desktop: Device
    session: SessionId

    def runs(self) -> str:
        """What the commands of the session left in the laptop's folder."""
        return (self.laptop.repo / "runs").read_text()

    def heads(self, device: Device) -> int:
        return len(sessions.view(device.store, device.me, self.session).heads)

    def wakes(self, *, connected: frozenset[DeviceId] = frozenset(), woke_ms: int) -> None:
        """What the laptop's daemon says: nobody has been at the session since it woke."""
        answered = frozenset(self.alice["laptop"].answered) & connected
        alone = frozenset({self.session})
        around.write(Told(woke_ms=woke_ms, connected=connected, answered=answered, alone=alone))

    def network(self, woke_ms: int) -> None:
        """The network is there: the two are linked, and say what they have."""
        self.alice.link("laptop", "desktop")
        assert self.alice.pump()
        self.wakes(connected=frozenset({self.desktop.me.id}), woke_ms=woke_ms)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Scene]:
    """The desktop has the session as it waited for a yes; the laptop ran that command since, and its lid is closed."""
    with wired.person(tmp_path / "stores", "laptop", "desktop") as alice:
        made = [
            Device(folder=tmp_path / name, script=SCRIPT, rules={"allow": []}, wire=alice[name])
            for name in ("laptop", "desktop")
        ]
        laptop, desktop = made
        session = laptop.create()
        assert laptop.go_here(session).end is End.WAITING
        alice.link("laptop", "desktop")
        alice.noticed("laptop", session)
        assert alice.pump() and session in desktop.store.sessions()
        alice.cut("laptop")
        alice["laptop"].answered.clear()
        assert laptop.go_here(session, Person(answers=["y"])).end is End.WAITING
        scene = Scene(alice, laptop, desktop, session)
        assert scene.runs() == "x\n"
        yield scene


def take_over(scene: Scene) -> None:
    """The desktop takes the session over, and runs its command there."""
    control, name = scene.desktop.control, scene.session.hex()
    done = control.take_over(control.takeable(name), "the lid of the laptop is closed")
    control.settle(name, None, how="did-not-run")
    assert scene.desktop.go_here(scene.session, Person(answers=["y"])).end is End.WAITING
    assert (Path(done.folder) / "runs").read_text() == "x\n"
    scene.alice.noticed("desktop", scene.session)


def goes_on(scene: Scene) -> str:
    """The woken laptop would go on by itself, with every command allowed; what is said, if it does not."""
    scene.laptop.rules = {"allow": ["bash"]}
    try:
        ended = scene.laptop.go_here(scene.session)
    except UserError as error:
        return str(error)
    return ended.sentence


def test_woken_without_a_network_nothing_runs_and_it_is_said_why(closed: Scene) -> None:
    take_over(closed)
    clock = Clock()
    with awake(clock):
        woke = clock.now
        closed.wakes(woke_ms=woke)
        said = goes_on(closed)
        assert clock.now >= woke + 10_000, "it waited for the others"
    assert closed.runs() == "x\n", said
    assert "this device woke and no other full member" in said


def test_woken_with_a_network_after_three_seconds_nothing_runs_and_both_heads_are_shown_on_both(closed: Scene) -> None:
    take_over(closed)
    clock = Clock()
    with awake(clock):
        woke = clock.now
        clock.due[woke + NETWORK_MS] = lambda: closed.network(woke)
        closed.wakes(woke_ms=woke)
        said = goes_on(closed)
        assert woke + NETWORK_MS <= clock.now < woke + NETWORK_MS + 1_000, "it waited for the network, and no longer"
    assert closed.runs() == "x\n", said
    closed.alice.noticed("laptop", closed.session)
    assert closed.alice.pump()
    assert closed.session in closed.alice["laptop"].fenced
    assert closed.heads(closed.laptop) == closed.heads(closed.desktop) == 2
    for device in (closed.laptop, closed.desktop):
        view = sessions.view(device.store, device.me, closed.session)
        assert view.owner == closed.desktop.me.id
        assert len(device.control.heads(closed.session.hex()).heads) == 2


def test_woken_to_a_session_that_nobody_took_over_its_next_command_runs_once_the_others_have_answered(
    closed: Scene,
) -> None:
    """The positive control."""
    clock = Clock()
    with awake(clock):
        woke = clock.now
        clock.due[woke + NETWORK_MS] = lambda: closed.network(woke)
        closed.wakes(woke_ms=woke)
        goes_on(closed)
        assert clock.now >= woke + NETWORK_MS
    assert closed.runs() == "x\nx\n"
    assert closed.heads(closed.laptop) == 1


def test_what_may_have_run_is_still_said_when_the_work_of_the_other_device_comes(closed: Scene) -> None:
    control, name = closed.desktop.control, closed.session.hex()
    control.take_over(control.takeable(name), "the lid of the laptop is closed")
    assert control.show(name).state == "uncertain"
    closed.alice.noticed("desktop", closed.session)
    closed.alice.link("laptop", "desktop")
    assert closed.alice.pump()
    assert closed.heads(closed.desktop) == 2, "the laptop's work came"
    shown = control.show(name)
    assert (shown.state, shown.waiting) == ("uncertain", "")
    control.settle(name, None, how="did-not-run")
    store, view = closed.desktop.store, sessions.view(closed.desktop.store, closed.desktop.me, closed.session)
    with store.transaction():
        syncing_listing.show(store, closed.session, view, changed=True)  # As where more of that work comes.
    assert control.show(name).state == "paused", "the person has said what happened"
