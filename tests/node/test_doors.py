"""The three doors as a process that advances a session asks them: shut in time, and what opens them is read anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from unittest import mock

import pytest
from tests.node.circles import NOW
from tests.node.sync.wired import Grown, Person, Wired, Work, person, remove_everywhere
from tests.store.conftest import Memory

from hhd.base import locks
from hhd.base.paths import data_folder, private_folder
from hhd.control.address import LOCK_FILE
from hhd.node import around, denials, sessions
from hhd.node.around import Told
from hhd.node.doors import Doors
from hhd.node.signing import Pen
from hhd_protocol.holding import Refusal, Why
from hhd_protocol.ids import SessionId, Sha256
from hhd_protocol.limits import WAKE_WAIT_MS_MAX
from hhd_protocol.lineage import effect_id
from hhd_protocol.statements import EffectKind, Progress

REQUEST = b"make test"


class Known:
    """A session of the laptop's with one step of work, which the desktop may have or not."""

    def __init__(self, alice: Person) -> None:
        self.alice = alice
        self.session: SessionId = alice.create("laptop")
        self.work = Work(alice, "laptop", self.session, Memory(5))
        self.work.step()
        self.effect = effect_id(self.session, 7)

    @property
    def laptop(self) -> Wired:
        return self.alice["laptop"]

    def synced(self) -> None:
        """All that one has the other has."""
        for name in ("laptop", "desktop"):
            self.alice.noticed(name, self.session)
        self.alice.link("laptop", "desktop")
        assert self.alice.pump()
        self.alice.cut("laptop")

    def doors(self, name: str = "laptop") -> Doors:
        one = self.alice[name]
        return Doors(one.store, one.owned.me, self.session)

    def start(self, doors: Doors, said: Progress | None = Progress.ASKED, request: bytes = REQUEST) -> Why | None:
        """Why an effect may not be started of which the checkpoint before says `said`."""
        saying = {} if said is None else {self.effect: said}
        return _why(doors.may_start(self.effect, EffectKind.TOOL, request, saying))

    def other(self) -> Grown:
        """The session at the desktop."""
        one = self.alice["desktop"]
        return Grown(one.store, one.owned.me, self.session, self.work.memory)


def _why(refusal: Refusal | None) -> Why | None:
    return None if refusal is None else refusal.why


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Known]:
    with person(tmp_path, "laptop", "desktop") as alice:
        yield Known(alice)


@pytest.fixture
def daemon() -> Iterator[None]:
    """As if a daemon ran, which knows how things stand around."""
    lock = locks.take(private_folder(data_folder()) / LOCK_FILE)
    assert lock is not None
    with lock:
        yield


def linked(known: Known, *, woke_ms: int | None = None) -> None:
    """The daemon says that the desktop is linked and did not answer since this device woke."""
    desktop = known.alice["desktop"].id
    around.write(Told(woke_ms=around.now_ms() if woke_ms is None else woke_ms, connected=frozenset({desktop})))


def test_who_has_the_session_goes_on_and_another_device_does_not(known: Known) -> None:
    known.synced()
    assert known.doors().may_append() is None and known.start(known.doors()) is None
    there = known.doors("desktop")
    assert _why(there.may_append()) is known.start(there) is Why.NOT_OWNER


def test_an_effect_that_no_checkpoint_names_does_not_start(known: Known) -> None:
    assert known.start(known.doors(), None) is Why.NOT_ASKED
    assert known.start(known.doors(), Progress.ANSWERED) is Why.ANSWERED
    assert known.start(known.doors()) is None


def test_an_effect_that_may_have_run_is_doubtful_and_so_is_another_request_under_its_name(known: Known) -> None:
    doors = known.doors()
    laptop, token = known.laptop, doors.part.known.view.token
    assert token is not None
    pen = Pen(laptop.store, laptop.owned.me, known.session, doors)
    with laptop.store.transaction():
        pen.intent(token=token.id, position=7, op="tool", request=Sha256(sha256(REQUEST).digest()))
    assert known.start(doors) is Why.RUNNING
    anew = known.doors()
    assert known.start(anew, Progress.STARTED) is Why.UNCERTAIN
    assert known.start(anew, Progress.STARTED, b"make install") is Why.OTHER_REQUEST


def test_what_may_be_done_twice_is_no_doubt_once_that_is_known(known: Known) -> None:
    doors, saying = known.doors(), {known.effect: Progress.STARTED}
    doors.may_start(known.effect, EffectKind.REPEATABLE, REQUEST, saying)
    doors.load(doors.part.leg)
    assert doors.may_start(known.effect, EffectKind.REPEATABLE, REQUEST, saying) is None
    assert known.start(known.doors(), Progress.STARTED) is Why.UNCERTAIN


def test_an_effect_ends_with_the_checkpoint_that_speaks_of_it(known: Known) -> None:
    grown = known.work.grown
    assert grown is not None and grown.doors is not None
    token = grown.doors.part.known.view.token
    assert token is not None
    with grown.store.transaction():
        pen = Pen(grown.store, grown.me, known.session, grown.doors)
        pen.intent(token=token.id, position=7, op="tool", request=Sha256(sha256(REQUEST).digest()))
    assert grown.doors.part.leg is not None and grown.doors.part.leg.running == known.effect
    grown.step()
    assert grown.doors.part.leg.running == known.effect, "it says nothing of it"
    grown.step(effects={7: Progress.ANSWERED})
    assert grown.doors.part.leg.running is None


def test_what_this_device_signs_is_worked_in_and_not_read_again(known: Known) -> None:
    grown = known.work.grown
    assert grown is not None and grown.doors is not None
    doors = grown.doors
    with mock.patch.object(Doors, "load") as load:
        for _ in range(3):
            made, before = grown.step(), doors.seq
            assert doors.part.leg is not None and doors.part.leg.head == doors.part.tip == made
            doors.look()
        assert not load.called
    signed = grown.store.statements.get(known.session, made)
    assert signed is not None and signed.body.seq + 1 == before == known.doors().seq


def taken_over(known: Known) -> None:
    known.other().takes_over()
    known.synced()


def gone_on_elsewhere(known: Known) -> None:
    known.other().step()
    known.synced()


def removed_elsewhere(known: Known) -> None:
    remove_everywhere(known.alice, "desktop", known.session)
    store = known.alice["desktop"].store
    for one in store.statements.tombstones(known.session):
        known.laptop.store.statements.add(known.session, one.raw)


def revoked(known: Known) -> None:
    known.laptop.owned.group.revoke(known.alice["desktop"].id, NOW)


def test_whatever_others_add_is_seen_at_the_next_look_and_before_it_nothing_changes(known: Known) -> None:
    known.synced()
    acts: list[Callable[[Known], None]] = [taken_over, gone_on_elsewhere, removed_elsewhere, revoked]
    for act in acts:
        doors = known.doors()
        before, leg = doors.part, doors.part.leg
        act(known)
        anew = known.doors()
        assert doors.part is before and anew.part.known.view != before.known.view, act
        doors.look()
        assert doors.part.known.view == anew.part.known.view and doors.part.leg == leg, act


def test_who_is_beaten_while_it_works_is_shut_out_at_the_next_look(known: Known) -> None:
    known.synced()
    doors = known.doors()
    known.other().takes_over()
    known.synced()
    assert known.start(doors) is None, "nobody looked"
    doors.look()
    assert _why(doors.may_append()) is known.start(doors) is Why.NOT_OWNER
    assert doors.part.fenced and doors.part.leg is not None, "what it had begun is closed under its token"


def test_a_token_that_was_had_before_a_restore_is_not_used(known: Known) -> None:
    token = known.doors().part.known.view.token
    assert token is not None
    with known.laptop.store.transaction():
        denials.deny_tokens(known.laptop.store, known.session, [token.id])
    assert _why(known.doors().may_append()) is Why.ROLLED_BACK


def test_nothing_goes_on_from_a_head_whose_content_is_not_here(known: Known) -> None:
    known.alice.do("desktop", lambda engine: engine.hold("paused"))
    known.synced()
    there = known.other()
    there.takes_over()
    doors = known.doors("desktop")
    assert doors.part.bare and _why(doors.may_append()) is Why.HEAD_NOT_HERE
    known.alice.do("desktop", lambda engine: engine.hold(""))
    known.synced()
    doors.look()
    assert not doors.part.bare and doors.may_append() is None, "its content came"
    assert known.doors("desktop").may_append() is None


def test_what_may_have_run_is_doubtful_before_the_content_of_the_head_comes_that_waits_with_it(known: Known) -> None:
    grown = known.work.grown
    assert grown is not None and grown.doors is not None
    token = grown.doors.part.known.view.token
    assert token is not None
    with grown.store.transaction():
        pen = Pen(grown.store, grown.me, known.session, grown.doors)
        pen.intent(token=token.id, position=7, op="tool", request=Sha256(sha256(REQUEST).digest()))
    grown.step(effects={7: Progress.STARTED})
    known.alice.do("desktop", lambda engine: engine.hold("paused"))
    known.synced()
    known.other().takes_over()
    there = known.alice["desktop"]
    assert known.doors("desktop").part.bare
    view = sessions.view(there.store, there.owned.me, known.session)
    assert view.uncertain == {known.effect} and view.owner == there.id


def test_who_woke_asks_before_an_effect_those_that_have_the_session_and_no_others(known: Known, daemon: None) -> None:
    linked(known)
    assert known.start(known.doors()) is None, "nobody has it"
    known.synced()
    linked(known)
    assert known.start(known.doors()) is Why.WAKING, "without a look"
    assert _why(known.doors().waits()) is Why.WAKING


def test_who_came_to_have_it_meanwhile_is_asked_after_a_look(known: Known, daemon: None) -> None:
    linked(known)
    doors, other = known.doors(), known.doors()
    with known.laptop.store.transaction():
        known.laptop.store.arrived.knows(known.session, known.alice["desktop"].id)
    assert known.start(doors) is None
    doors.look()
    assert known.start(doors) is Why.WAKING and _why(other.waits()) is Why.WAKING


def test_how_things_stand_around_is_read_at_each_look_and_nobody_waits_for_ever(known: Known, daemon: None) -> None:
    known.synced()
    doors = known.doors()
    linked(known)
    assert known.start(doors) is None
    doors.look()
    assert known.start(doors) is Why.WAKING
    linked(known, woke_ms=around.now_ms() - WAKE_WAIT_MS_MAX - 1)
    doors.look()
    assert known.start(doors) is None, "a person is here"
    doors.part = replace(doors.part, around=replace(doors.part.around, woke_ms=around.now_ms()))
    assert known.start(doors) is Why.WAKING
    assert doors.waits() is None, "it looks by itself"


def test_the_numbers_of_a_device_that_was_put_out_and_added_again_go_on_in_a_chain_of_its_own(known: Known) -> None:
    known.synced()
    there, desktop, laptop = known.other(), known.alice["desktop"], known.laptop
    there.takes_over()
    there.step()
    known.synced()
    assert known.doors("desktop").seq == 2
    laptop.owned.group.revoke(desktop.id, NOW)
    laptop.owned.adds(desktop.owned)
    desktop.owned.hears(laptop.owned)
    doors = known.doors("desktop")
    assert doors.part.known.view.anew and doors.part.after != doors.part.tip and doors.seq == 2
