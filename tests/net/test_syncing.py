"""Two real daemons keep a person's sessions the same: sealed, as they are made, and whole again after any cut."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.net.conftest import LabMaker
from tests.net.lab import Emulated, Host
from tests.net.paired import at, both_linked, linked, pair, until
from tests.net.test_transfer import children, session_of, settled
from tests.node.sync.wired import Grown
from tests.store.conftest import Memory

from hhd.node import programs, sessions, store
from hhd.store.check import Check
from hhd_protocol.ids import ObjectName, SessionId, StatementId

pytestmark = pytest.mark.netns
LARGE_PAGES = 10_000
"""40 MB of memory."""
PHRASE = b"the heron stands in the reeds at dawn"


@contextmanager
def session_on(host: Host, prompt: str = "mend the parser") -> Iterator[tuple[SessionId, Grown]]:
    """A session that this process works on, as a command of that host would."""
    with at(host) as me, store.opened(me) as opened:
        session = sessions.create(opened, me, program="agent", args=programs.encode_args({"prompt": prompt}))
    with at(host) as me, store.opened(me) as opened:
        yield session, Grown(opened, me, session, Memory(60))


def listed(host: Host) -> dict[str, dict[str, object]]:
    """What `hhd ls` shows there, by id."""
    return {one["id"]: one for one in json.loads(host.asked("ls", "--json"))["sessions"]}


def checkpoints(host: Host, session: SessionId) -> int:
    """How many checkpoints of a session a host has, content and all."""
    with at(host) as me, store.opened(me) as opened:
        if session not in opened.sessions():
            return 0
        return len(opened.checkpoint_ids(session))


def test_a_session_is_on_the_other_device_as_it_is_made_and_unreadable_on_the_wire(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        with net.capture("laptop") as frames, laptop.daemon(), desktop.daemon():
            until(lambda: linked(laptop) == {"desktop"})
            with session_on(laptop, PHRASE.decode()) as (session, work):
                for number in range(5):
                    work.step(said=PHRASE + b" %d\n" % number)
                until(lambda: checkpoints(desktop, session) == checkpoints(laptop, session) == 6)
            shown = listed(desktop)[session.hex()]
            assert shown["title"] == PHRASE.decode() and shown["heads"] == 1
        wire = b"".join(frames)
        assert len(wire) > 50_000 and PHRASE not in wire
        with at(desktop) as me, store.opened(me) as opened:
            assert not Check(opened).run().findings


@pytest.mark.long
def test_heads_made_apart_show_up_on_both_within_one_exchange(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        with laptop.daemon(), desktop.daemon(), session_on(laptop) as (session, work):
            work.step()
            until(lambda: checkpoints(desktop, session) == 2)
            net.cut("laptop")
            for host in (laptop, desktop):
                host.run("ss", "-K", "-t", "state", "connected")  # That a cut line is noticed has tests of its own.
            until(lambda: not linked(laptop) and not linked(desktop))
            with at(desktop) as me, store.opened(me) as opened:
                there = Grown(opened, me, session, work.memory)
                there.takes_over()
                there.step()
            work.step()
            net.mend("laptop")
            until(lambda: all(listed(host)[session.hex()]["heads"] == 2 for host in (laptop, desktop)))


@pytest.mark.long
@pytest.mark.parametrize("killed", ["laptop", "desktop"])
def test_a_daemon_that_is_killed_in_the_middle_costs_nothing(lab: LabMaker, killed: str) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        other = desktop if killed == "laptop" else laptop
        with other.daemon(), session_on(laptop) as (session, work):
            work.memory.rewrite(60)
            for _ in range(8):
                work.step(list(work.memory.pages))
            with net[killed].daemon() as process:
                until(lambda: bool(linked(other)))
                until(lambda: checkpoints(desktop, session) > 0)
                os.kill(process.pid, signal.SIGKILL)
                process.wait(240)
            with net[killed].daemon():
                until(lambda: checkpoints(desktop, session) == checkpoints(laptop, session) == 9)
        with at(desktop) as me, store.opened(me) as opened:
            assert not Check(opened).run().findings


@pytest.mark.long
def test_a_receiver_that_is_killed_within_a_large_object_is_given_the_rest_of_it_alone(lab: LabMaker) -> None:
    with lab("laptop", "desktop", emulated=Emulated(rate_mbit=50, delay_us=500)) as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "desktop")
        with laptop.daemon(), session_on(laptop) as (session, work):
            work.memory.pages = {number: os.urandom(4096) for number in range(LARGE_PAGES)}
            newest = work.step(list(work.memory.pages))
            sizes = {name: work.store.objects.size(name) for name in work.store.checkpoint(newest).objects}
            total = sum(sizes.values())
            with desktop.daemon() as process:
                until(lambda: kept(desktop, sizes) > total // 8)
                os.kill(process.pid, signal.SIGKILL)
                process.wait(240)
            here = come(desktop) + kept(desktop, sizes)
            assert total // 8 < here < total, "some of its objects, and what was written of the next one"
            before = net.sent("laptop")[1]
            with desktop.daemon():
                until(lambda: checkpoints(desktop, session) == checkpoints(laptop, session))
            assert net.sent("laptop")[1] - before < (total - here) * 1.1 + 2_000_000 < total
        assert come(desktop) == 0
        with at(desktop) as me, store.opened(me) as opened:
            assert not Check(opened).run().findings


def kept(host: Host, sizes: Mapping[ObjectName, int]) -> int:
    """How many bytes of these objects a device has whole."""
    with at(host) as me, store.opened(me) as opened:
        return sum(size for name, size in sizes.items() if opened.objects.has(name))


def come(host: Host) -> int:
    """How many bytes of a large object have come and are not kept yet."""
    folder = host.folder / "data" / "store" / "begun"
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.exists() else 0


@needs_agent
@pytest.mark.long
def test_what_a_busy_session_did_is_kept_elsewhere_while_it_is_busy_and_outlives_its_host(lab: LabMaker) -> None:
    """In seconds it is measured by the bench; here the other device comes to so many while there is no end to them."""
    replies = [says(call("write", path=f"f{number}", content=f"{number}\n")) for number in range(400)]
    with lab("laptop", "desktop") as net:
        laptop, desktop = settled(net, "laptop", "desktop", replies=replies)
        repo = laptop.folder / "repo"
        repo.mkdir()
        with desktop.daemon(), laptop.daemon() as daemon:
            until(lambda: both_linked(laptop, desktop))
            session = SessionId(StatementId(bytes.fromhex(session_of(laptop, repo))))
            until(lambda: checkpoints(desktop, session) > 60 or (repo / "f399").exists())
            assert not (repo / "f399").exists(), "it is kept when the session rests, and not before"
            for one in [daemon.pid, *children(daemon.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            daemon.wait(240)
            until(lambda: not linked(desktop))
            assert checkpoints(desktop, session) > 60
