"""A handoff between daemons in namespaces, struck at every stage of the table: a daemon is killed, the link is cut, a
device is gone for good. The session goes on at exactly one place, or the way on is offered and works.

One pair of devices serves all cases; each has a session of its own, whose command waits for a yes at the source and
needs none at the target.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import needs_agent
from tests.net import halting
from tests.net import lab as laboratory
from tests.net.handing import PLACES, Devices, made
from tests.net.lab import Host
from tests.net.paired import SECONDS, both_linked, linked, until

from hhd.base.errors import UserError
from hhd_protocol.handoff import PENDING, TABLE, UNTAKEN, Act, Side, Stage
from hhd_protocol.ids import SessionId

pytestmark = [pytest.mark.netns, needs_agent]


@dataclass
class Two(Devices):
    """A laptop and a desktop with daemons that stop at a stage (`halting`)."""

    MODULE = "tests.net.halting"
    sound: bool = True
    """Whether the last case left both as they are to be."""

    @property
    def laptop(self) -> Host:
        return self.net["laptop"]

    @property
    def desktop(self) -> Host:
        return self.net["desktop"]

    def other(self, host: Host) -> Host:
        return self.desktop if host is self.laptop else self.laptop

    # Daemons and the line

    def kill(self, host: Host) -> None:
        """SIGKILL of the daemon and of all that it started."""
        halting.kill(self.daemons.pop(host.name))

    def goes_on(self, host: Host) -> None:
        """A daemon that stopped goes on."""
        os.kill(self.daemons[host.name].pid, signal.SIGCONT)

    def cut(self) -> None:
        """The line is cut, and so are the connections on it: what was sent and did not arrive never does."""
        self.net.cut("laptop")
        for host in (self.laptop, self.desktop):
            host.run("ss", "-K", "-t", "state", "connected")

    def ready(self) -> None:
        """Both are up, linked, and nothing is to stop."""
        if not self.sound:
            for host in (self.laptop, self.desktop):
                if host.name in self.daemons:
                    self.kill(host)
            with contextlib.suppress(AssertionError):
                self.net.mend("laptop")
        for host in (self.laptop, self.desktop):
            halting.called_off(host.folder / "data")
            if host.name not in self.daemons:
                self.up(host)
        until(lambda: both_linked(self.laptop, self.desktop), SECONDS)

    # Sessions

    def asking(self) -> SessionId:
        """A session on the laptop that waits for a yes to its command."""
        session = self.begin(self.laptop)
        until(lambda: self.asks(self.laptop, session), SECONDS)
        return session

    def transfer(self, session: SessionId) -> subprocess.Popen[bytes]:
        """`hhd transfer` to the desktop, typed on the laptop."""
        words = ("transfer", session.hex(), "desktop", "--json")
        return self.laptop.popen(sys.executable, "-m", "hhd", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def holder(self, session: SessionId) -> Host:
        """The one device that may go on with it, as soon as one may: asserts that at no time there are two."""
        found: list[Host] = []

        def one() -> bool:
            found[:] = [host for host in (self.laptop, self.desktop) if self.may(host, session)]
            assert len(found) < 2, f"it may go on at {[host.name for host in found]}"
            return bool(found)

        until(one, SECONDS)
        return found[0]

    def told(self) -> str:
        """How all handoffs stand that are not over."""
        return (
            "; ".join(
                f"{host.name}: {one.session[:6]} {'source' if one.outgoing else 'target'} {one.stage}"
                for host in (self.laptop, self.desktop)
                for one in self.verbs(host, lambda control: control.transfers())
                if not one.over
            )
            + f"; links: {linked(self.laptop)}, {linked(self.desktop)}"
        )

    def rest(self) -> None:
        """Wait until no handoff is under way at either."""
        try:
            until(lambda: self.over(self.laptop) and self.over(self.desktop), SECONDS)
        except AssertionError as error:
            raise AssertionError(self.told()) from error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with laboratory.in_memory(tmp_path_factory.mktemp("stages")) as made:
        yield made


@pytest.fixture(scope="module")
def both(folder: Path) -> Iterator[Two]:
    net = made(folder, {"laptop": '"glob"', "desktop": '"glob", "bash"'})
    try:
        yield Two(net)
    finally:
        net.close()


@pytest.fixture(scope="module")
def uncut(both: Two) -> bytes:
    """The transcript of a session that was handed on with nothing in the way."""
    both.ready()
    session = both.asking()
    telling = both.transfer(session)
    assert telling.wait(SECONDS) == 0
    until(lambda: both.finished(both.desktop, session), SECONDS)
    return both.transcript(both.desktop, session)


SIGNING = {row.to for row in TABLE if Act.SIGN in row.does}
"""Where the next thing is the release: a person is not fast enough to give it up."""

BACK = ("source killed", "target killed", "link cut")
GONE = {
    "target gone": [(Side.SOURCE, stage) for stage in (*PENDING, Stage.RELEASED)],
    "source gone": [(Side.TARGET, stage) for stage in (*UNTAKEN, Stage.TAKEN)],
}
BEGUN = (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED)
"""Where the command may have begun at the target: one that is killed with it has to be settled, and is no more run."""

ALWAYS = {
    (Side.SOURCE, Stage.READY, "source killed"),
    (Side.TARGET, Stage.TAKEN, "target killed"),
    (Side.SOURCE, Stage.RELEASED, "link cut"),
}


def _cases(*hows: tuple[Side, Stage, str]) -> list[Any]:
    return [
        pytest.param(
            side, stage, how, id=f"{halting.place(side, stage)}, {how}",
            marks=() if (side, stage, how) in ALWAYS else (pytest.mark.long,),
        )
        for side, stage, how in hows
    ]  # fmt: skip


@pytest.mark.parametrize(("side", "stage", "how"), _cases(*((*place, how) for place in PLACES for how in BACK)))
def test_struck_at_any_stage_it_goes_on_at_exactly_one_place_without_a_person(
    both: Two, uncut: bytes, side: Side, stage: Stage, how: str
) -> None:
    with struck(both, side, stage) as (session, telling):
        halted = both.laptop if side is Side.SOURCE else both.desktop
        gone = {"source killed": both.laptop, "target killed": both.desktop}.get(how)
        if gone is None:
            both.cut()
            both.goes_on(halted)
            until(lambda: not both_linked(both.laptop, both.desktop), SECONDS)
            both.net.mend("laptop")
        else:
            both.kill(gone)
            if gone is not halted:
                both.goes_on(halted)
            both.up(gone)
        both.rest()
        holder = both.holder(session)
        assert holder is both.desktop or stage in (*PENDING, *UNTAKEN), "nothing is undone after the release"
        if holder is both.laptop:
            says_yes(both, holder, session)
        elif how == "target killed" and stage in BEGUN and says_what_ran(both, holder, session):
            uncut = both.transcript(
                holder, session
            )  # It has the word of the person about the command that was cut off.
        settled(both, holder, session, uncut)
        telling.kill()


@pytest.mark.parametrize(
    ("side", "stage", "how"), _cases(*((*place, how) for how, places in GONE.items() for place in places))
)
def test_where_a_device_is_gone_for_good_the_way_on_is_offered_and_works(
    both: Two, uncut: bytes, side: Side, stage: Stage, how: str
) -> None:
    with struck(both, side, stage) as (session, telling):
        stays, gone = (both.laptop, both.desktop) if how == "target gone" else (both.desktop, both.laptop)
        both.kill(gone)
        both.goes_on(stays)
        if stays is both.laptop and stage in PENDING and stage not in SIGNING:
            telling.send_signal(signal.SIGINT)
            said = telling.communicate(timeout=SECONDS)[0]
            assert telling.returncode != 0, said
            until(lambda: both.over(both.laptop), SECONDS)
            says_yes(both, stays, session)
        elif stays is both.laptop:
            last = json.loads(telling.communicate(timeout=SECONDS)[0].splitlines()[-1])
            assert last["status"] == 5 and f"hhd takeover {session.hex()[:4]}" in last["way"]
            taken_over(both, stays, session)
        elif stage in UNTAKEN:
            taken_over(both, stays, session)
        until(lambda: both.finished(stays, session), SECONDS)
        assert both.ran(session) == ["x\n"], "once"
        both.up(gone)
        both.rest()
        assert both.holder(session) is stays
        settled(both, stays, session, uncut)


@contextlib.contextmanager
def struck(both: Two, side: Side, stage: Stage) -> Iterator[tuple[SessionId, subprocess.Popen[bytes]]]:
    """A session on its way, whose handoff stands at a stage, and will stand there until the daemon goes on."""
    both.ready()
    both.sound = False
    session = both.asking()
    halted = both.laptop if side is Side.SOURCE else both.desktop
    halting.order(halted.folder / "data", halting.place(side, stage))
    telling = both.transfer(session)
    try:
        until(lambda: halting.stopped(both.daemons[halted.name]) or telling.poll() in (3, 4), SECONDS)
        assert (halted.folder / "data" / halting.HALTED).exists()
    except AssertionError as error:
        logs = [host.hhd("logs", "-n", "60", check=False).stdout for host in (both.laptop, both.desktop)]
        raise AssertionError("\n".join([both.told(), halting.ended(telling), *logs])) from error
    yield session, telling
    telling.kill()
    telling.communicate()
    both.sound = True


def says_yes(both: Two, host: Host, session: SessionId) -> None:
    """The person at a device whose policy asks says yes as soon as it asks, and the session goes on."""
    until(lambda: both.says_yes(host, session), SECONDS)
    both.go_on(host, session)


def says_what_ran(both: Two, host: Host, session: SessionId) -> bool:
    """Where the command was cut off by the kill, the person says what became of it, as they are asked to."""
    shown = list[str]()

    def came() -> bool:
        with contextlib.suppress(UserError):
            shown[:] = [both.verbs(host, lambda control: control.show(session.hex())).state]
        return both.finished(host, session) or shown == ["uncertain"]

    until(came, SECONDS)
    if shown != ["uncertain"]:
        return False
    both.settle(host, session)
    both.go_on(host, session)
    until(lambda: both.finished(host, session), SECONDS)
    return True


def taken_over(both: Two, host: Host, session: SessionId) -> None:
    """`hhd takeover`, and what it says is to be done then, up to a yes where commands wait for one."""
    said = host.hhd("takeover", session.hex(), "--reason", "it is gone", "--yes", "--json", check=False)
    assert said.returncode in (0, 5), said.stderr
    if said.returncode == 5:
        both.settle(host, session)
    both.go_on(host, session)
    if host is both.laptop:
        says_yes(both, host, session)


def settled(both: Two, holder: Host, session: SessionId, uncut: bytes) -> None:
    """It went on to its end at `holder`, and there only; the transcript is that of an uncut run."""
    until(lambda: both.finished(holder, session), SECONDS)
    assert both.transcript(holder, session) == uncut
    assert both.ran(session) == ["x\n"], "its command ran once, where it landed"
    until(lambda: both.has(both.other(holder), session, uncut), SECONDS)
    assert both.transcript(both.other(holder), session) == uncut
    assert len(both.heads(holder, session)) == len(both.heads(both.other(holder), session)) == 1
    assert both.holder(session) is holder


if sys.platform != "linux":
    pytest.skip("needs namespaces", allow_module_level=True)
