"""Handoffs between daemons in namespaces that something overtakes at every stage of the table: their target is put out,
or a third device takes the session over. It goes on at the one place that the rules name, and no command runs twice.

In each test a session stands at each stage, all at once (`still`), when it happens. Their command waits for a yes at
the laptop, which has them, and at the phone; it needs none at the target.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.net import lab as laboratory
from tests.net import still
from tests.net.halting import place
from tests.net.handing import PLACES, Devices, made
from tests.net.lab import Host
from tests.net.paired import SECONDS, at, device, linked, until

from hhd.app import devices
from hhd.app import sessions as doors
from hhd.base.errors import UserError
from hhd.node import sessions, store
from hhd.node.answers.handoff import Moved
from hhd.node.asking import Asking
from hhd_protocol.bodies import AnyBody, IntentBody, ReleaseBody, TakeoverBody
from hhd_protocol.crypto import device_text
from hhd_protocol.handoff import PENDING, UNTAKEN, Side, Stage
from hhd_protocol.ids import SessionId, StatementId

pytestmark = [pytest.mark.netns, pytest.mark.long, needs_agent]

Place = tuple[Side, Stage]
PAUSE = 0.1
"""Between two looks into the stores: daemons at work are not to be held up by who watches."""
HANDED = {
    where for where in PLACES if where[1] not in (PENDING if where[0] is Side.SOURCE else UNTAKEN)
}  # The release is signed.
UNSURE = [where for where in PLACES if where not in HANDED or where == (Side.SOURCE, Stage.RELEASED)]
"""Where it is not said yet that the target took it."""
OPENED = {(side, stage) for side in Side for stage in (Stage.ACKNOWLEDGED, Stage.CLEANED)} | {
    (Side.SOURCE, Stage.RELEASED)
}
"""Where the command may have begun at the target by then: a source that signed answers one that asks."""


@dataclass
class Person(Devices):
    """The devices of a person, with daemons in which handoffs stand still."""

    MODULE = "tests.net.still"
    streams: list[Any] = field(default_factory=list)

    def linked(self, *names: str) -> list[Host]:
        """Have daemons run on these hosts, linked with each other."""
        for name in names:
            if name not in self.daemons:
                self.up(self.net[name])
        until(lambda: all(set(names) - {name} <= linked(self.net[name]) for name in names), SECONDS)
        return [self.net[name] for name in names]

    def down(self, host: Host) -> None:
        self.net.end(self.daemons.pop(host.name))

    def cut(self, name: str) -> None:
        """Cut a host off, with the connections that it has."""
        self.net.cut(name)
        for host in self.hosts:
            host.run("ss", "-K", "-t", "state", "connected")
        rest = [other for other in self.daemons if other != name]
        until(lambda: not linked(self.net[name]) and not any(name in linked(self.net[one]) for one in rest), SECONDS)
        self.linked(*rest)

    def mend(self, name: str) -> None:
        self.net.mend(name)
        self.linked(*self.daemons)

    # Sessions that stand

    def standing(self, target: str, places: Iterable[Place] = PLACES) -> dict[Place, SessionId]:
        """Sessions of the laptop on their way to `target`, one at each of `places`, where they stay until `let_go`."""
        laptop = self.net["laptop"]
        data = {Side.SOURCE: laptop.folder / "data", Side.TARGET: self.net[target].folder / "data"}
        found = {where: self.begin(laptop) for where in places}
        for (side, stage), session in found.items():
            until(lambda: self.asks(laptop, session), SECONDS)  # noqa: B023
            still.order(data[side], session, side, stage)
            self.transfer(session, target)
        for (side, _), session in found.items():
            until(lambda: still.stands(data[side], session), 2 * SECONDS)  # noqa: B023  A dozen at once.
        return found

    def let_go(self) -> None:
        for name in self.daemons:
            still.let_go(self.net[name].folder / "data")

    def transfer(self, session: SessionId, target: str) -> None:
        """`hhd transfer`, which stays for as long as the test does: who leaves early gives it up."""
        with mock.patch.dict(os.environ, self.net["laptop"].environment, clear=True):
            link = doors.daemon_link()
            assert link is not None
            stream = Asking(link).stream("transfer", Moved, name=session.hex(), to=target)
            assert next(stream).stage == "offered"
            self.streams.append((link, stream))

    # What a person does

    def take_over(self, host: Host, session: SessionId) -> None:
        def act(control: Any) -> None:
            control.take_over(control.takeable(session.hex()), "it went elsewhere")

        self.verbs(host, act)

    def drive(self, host: Host, session: SessionId) -> None:
        """Do at `host` what the session waits for there, in all honesty, until it has come to its end."""

        def done() -> bool:
            if self.finished(host, session):
                return True
            with contextlib.suppress(UserError):  # It is on its way to what it waits for.
                state = self.verbs(host, lambda control: control.show(session.hex())).state
                if state == "uncertain":
                    self.settle(host, session)
                elif state != "running":
                    self.says_yes(host, session)
                self.go_on(host, session)
            return False

        until(done, SECONDS, pause=PAUSE)

    def pick_another(self, some: list[Host], session: SessionId) -> bool:
        """Where there are several heads, all show them, and what a person picks at one is picked at all."""
        name = session.hex()
        shown = [self.verbs(host, lambda control: control.heads(name)).heads for host in some]
        assert len({tuple(sorted(head.id for head in one)) for one in shown}) == 1
        others = [head.id for head in shown[0] if not head.main]
        if not others:
            return False
        self.verbs(some[0], lambda control: control.pick(name, others[0]))

        def picked(host: Host) -> bool:
            heads = self.verbs(host, lambda control: control.heads(name)).heads
            return [head.id for head in heads if head.picked] == others[:1]

        until(lambda: all(picked(host) for host in some), SECONDS)
        return True

    # What became of it

    def rests(self, host: Host, session: SessionId) -> bool:
        """Whether nothing advances it there."""
        with at(host) as me, store.opened(me) as opened:
            return not opened.is_advanced(session)

    def stages(self, host: Host, session: SessionId) -> list[str]:
        """How its handoffs stand there."""
        found = self.verbs(host, lambda control: control.transfers())
        return [one.stage for one in found if one.session == session.hex()]

    def times(self, session: SessionId) -> int:
        """How often its command ran: what it left in a folder is carried on to others with the files."""
        found = Counter[str]()
        for left in self.ran(session):
            found |= Counter(left.split())
        return found.total()

    def statements(self, host: Host, session: SessionId) -> dict[StatementId, AnyBody]:
        """All that devices signed of it and that is there, by id."""
        with at(host) as me, store.opened(me) as opened:
            return {signed.id: signed.body for signed in opened.statements.all(session)}

    def read(self, host: Host, session: SessionId) -> tuple[str, frozenset[StatementId]]:
        """Whom this device names as the owner, and the heads that it knows."""
        with at(host) as me, store.opened(me) as opened, opened.snapshot():
            if session not in opened.sessions():
                return "", frozenset()
            view = sessions.view(opened, me, session)
        return "" if view.owner is None else device_text(view.owner), frozenset(view.heads)

    def agree(self, some: Iterable[Host], session: SessionId) -> str:
        """Wait until these devices name one owner, and the same heads; return that owner."""
        found = set[tuple[str, frozenset[StatementId]]]()

        def one() -> bool:
            found.clear()
            found.update(self.read(host, session) for host in some)
            return len(found) == 1

        until(one, SECONDS, pause=PAUSE)
        ((owner, _),) = found
        return owner

    def rightful(self, host: Host, session: SessionId) -> str:
        """Whom the records name, read by the rule of the page on fencing alone."""
        found = self.statements(host, session).items()
        records = [(id, one) for id, one in found if isinstance(one, ReleaseBody | TakeoverBody)]
        _, last = max(records, key=lambda one: (one[1].number, isinstance(one[1], ReleaseBody), one[0]))
        return device_text(last.to if isinstance(last, ReleaseBody) else last.by)

    def ran_by(self, host: Host, session: SessionId) -> bool:
        """Whether this device was about to run a command of it."""
        found = self.statements(self.net["laptop"], session).values()
        return any(isinstance(one, IntentBody) and device_text(one.by) == device(host) for one in found)

    def told(self, some: list[Host], session: SessionId) -> str:
        """How it stands on these devices."""

        def one(host: Host) -> str:
            state = self.verbs(host, lambda control: control.show(session.hex()))
            whose = f"{state.owner.name}'s, {state.heads} heads, {self.stages(host, session)}"
            return f"{host.name}: {state.state} {state.waiting}, {whose}"

        return "; ".join(map(one, some)) + f"; ran {self.ran(session)}"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    asks, runs = '"glob"', '"glob", "bash"'
    rules = {"laptop": asks, "phone": asks, "desktop": runs, "tower": runs, "attic": runs}
    with laboratory.in_memory(tmp_path_factory.mktemp("overtaken")) as folder:
        net = made(folder, rules, "pwd >> runs; echo one")
        try:
            yield Person(net)
        finally:
            net.close()


def each(
    found: dict[Place, SessionId], check: Callable[[Place, SessionId], None], told: Callable[[SessionId], str]
) -> None:
    """Check every stage, and fail with all that is wrong."""
    wrong = list[str]()
    for where, session in found.items():
        try:
            check(where, session)
        except (AssertionError, UserError) as error:
            wrong.append(f"{place(*where)}: {type(error).__name__}: {error}; {told(session)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("by", "target", "places"),
    [("laptop", "tower", PLACES), ("phone", "attic", UNSURE)],
    ids=["the source", "a third device"],
)
def test_a_target_that_is_put_out_at_any_stage_gets_nothing_more_and_the_session_goes_on_at_the_source(
    person: Person, by: str, target: str, places: tuple[Place, ...]
) -> None:
    laptop, phone, out = person.linked("laptop", "phone", target)
    found = person.standing(target, places)
    with at(person.net[by]):
        devices.unpair(target)
    until(lambda: target not in linked(laptop) and target not in linked(phone), SECONDS)
    person.let_go()

    def check(where: Place, session: SessionId) -> None:
        until(lambda: person.rests(out, session), SECONDS)
        over = where in OPENED and person.finished(laptop, session)  # It was quick, before it was put out.
        if where in HANDED:  # The way on; what is done before the release needs no person.
            person.take_over(laptop, session)
        else:
            until(lambda: person.stages(laptop, session) == ["aborted"], SECONDS)
            assert person.may(laptop, session)
        person.drive(laptop, session)
        assert person.times(session) == 1
        until(lambda: person.finished(phone, session), SECONDS)  # The positive control.
        there = person.statements(out, session)
        mine = [id for id, one in person.statements(laptop, session).items() if id not in there]
        assert mine and (over or person.heads(laptop, session) & set(mine)), "what is done now does not come there"
        assert where in HANDED or not person.ran_by(out, session)
        assert where in HANDED or not person.finished(out, session)
        assert not person.may(out, session) or where in HANDED, "it cannot know"

    each(found, check, lambda session: person.told([laptop, phone, out], session))
    assert not linked(out)
    person.down(out)


APART = {"nobody": "", "the third device": "phone", "the source": "laptop"}


@pytest.mark.parametrize("apart", APART)
def test_a_session_that_a_third_device_takes_over_at_any_stage_goes_on_where_the_records_say_and_each_work_is_a_head(
    person: Person, apart: str
) -> None:
    hosts = laptop, phone, desktop = person.linked("laptop", "phone", "desktop")
    found = person.standing("desktop", UNSURE if apart == "the source" else PLACES)
    for session in found.values():
        until(lambda: person.heads(laptop, session) <= person.heads(phone, session), SECONDS)  # noqa: B023
    if name := APART[apart]:
        person.cut(name)
    for session in found.values():
        person.take_over(phone, session)
    if not name:
        for session in found.values():
            person.agree(hosts, session)
    person.let_go()
    if name == "phone":
        until(lambda: person.over(laptop) and person.over(desktop), SECONDS)
    elif name == "laptop":  # It signs alone what the target had made ready.
        until(lambda: person.stages(laptop, found[Side.SOURCE, Stage.READY]) == ["released"], SECONDS)
    if name:
        person.mend(name)
    several = list[Place]()

    def check(where: Place, session: SessionId) -> None:
        owner = person.agree(hosts, session)
        (holder,) = [host for host in hosts if owner == device(host)]
        until(lambda: all(person.rests(host, session) for host in hosts if host is not holder), SECONDS)
        assert device(holder) == person.rightful(laptop, session)
        if where not in HANDED and name != "laptop":  # A release beats a takeover of the same number.
            assert holder is (desktop if name else phone)
        person.drive(holder, session)
        assert person.times(session) == 1
        until(lambda: all(person.finished(host, session) for host in hosts), SECONDS)
        person.agree(hosts, session)
        assert [host for host in hosts if person.may(host, session)] == [holder]
        if not name and where not in OPENED:
            assert not person.ran_by(desktop, session), "it knew by then"
        if person.pick_another(hosts, session):
            several.append(where)

    each(found, check, lambda session: person.told(hosts, session))
    assert several or apart != "the third device", "some went on at both places"


if sys.platform != "linux":
    pytest.skip("needs namespaces", allow_module_level=True)
