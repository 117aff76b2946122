"""Going on from another head: the token names it, and the line that is left says what did not run on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.stored import Laptop
from tests.node.test_stored_fenced import COUNT, DESKTOP, closings, group, statements, take_over

from hhd.base.errors import RefusedError
from hhd.node import listing, sessions, turning
from hhd.node.ended import End
from hhd.node.workbench import Workbench
from hhd.store.check import Check
from hhd.store.errors import BusyError
from hhd_protocol.bodies import TakeoverBody
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.statements import Progress

pytestmark = needs_agent

READ = says(call("glob", pattern="*"))


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path, script=[READ, COUNT, says(text("Done."))], rules={"allow": []})
    with mock.patch("hhd.node.doors.members", group):
        yield made
    assert Check(made.store, read_data=True).run().findings == []
    made.store.close()


@pytest.fixture
def asking(laptop: Laptop) -> SessionId:
    """A session that waits for a yes to its command."""
    session = laptop.create()
    assert laptop.go(session).end is End.WAITING
    return session


def main(laptop: Laptop, session: SessionId) -> CheckpointId:
    found = sessions.view(laptop.store, laptop.me, session).main
    assert found is not None
    return CheckpointId(found)


def before_the_question(laptop: Laptop, session: SessionId) -> CheckpointId:
    """The last checkpoint that does not know of the command yet."""
    ids = list(laptop.store.checkpoint_ids(session))
    at = main(laptop, session)
    position = sessions.loaded(laptop.store, session, at).journal.settled
    return [one for one in ids if sessions.loaded(laptop.store, session, one).journal.settled < position][-1]


def turn(laptop: Laptop, session: SessionId, head: CheckpointId) -> None:
    turning.turn_to(laptop.store, laptop.me, session, head, "this way was better")


def test_the_line_that_is_left_says_that_its_command_did_not_run_so_the_other_runs_it(
    laptop: Laptop, asking: SessionId
) -> None:
    left, head = main(laptop, asking), before_the_question(laptop, asking)
    turn(laptop, asking, head)
    (record,) = [one.body for one in statements(laptop, asking) if isinstance(one.body, TakeoverBody)]
    assert (record.number, record.head, record.reason) == (2, head, "this way was better")
    (closing,) = closings(laptop, asking)
    assert closing.parents == (left,) and closing.journal is not None
    assert list(closing.journal.values()) == [Progress.ASKED]
    view = sessions.view(laptop.store, laptop.me, asking)
    assert view.main == head and len(view.heads) == 2 and not view.uncertain
    entry = listing.get(laptop.store, asking)
    assert entry is not None and (entry.token, entry.heads, entry.owner) == (2, 2, laptop.me.id)
    laptop.rules = {"allow": ["bash"]}
    assert laptop.go(asking).status == 0
    assert (laptop.repo / "runs").read_text() == "x\n"


def test_the_line_that_was_left_can_be_gone_on_with_and_its_command_may_have_run_on_the_other(
    laptop: Laptop, asking: SessionId
) -> None:
    turn(laptop, asking, before_the_question(laptop, asking))
    (left,) = sessions.view(laptop.store, laptop.me, asking).heads - {main(laptop, asking)}
    laptop.rules = {"allow": ["bash"]}
    assert laptop.go(asking).status == 0
    turn(laptop, asking, CheckpointId(left))
    assert main(laptop, asking) == left
    assert sessions.view(laptop.store, laptop.me, asking).uncertain, "the other line ran one at the same place"
    shown = listing.get(laptop.store, asking)
    assert shown is not None and shown.state is listing.State.UNCERTAIN, "and a list says so"
    assert laptop.go(asking).status != 0 and (laptop.repo / "runs").read_text() == "x\n"


def test_the_head_that_it_goes_on_from_already_is_no_reason_for_a_record(laptop: Laptop, asking: SessionId) -> None:
    before = len(statements(laptop, asking))
    turn(laptop, asking, main(laptop, asking))
    assert len(statements(laptop, asking)) == before


def test_where_a_person_is_waited_for_nothing_is_owed(laptop: Laptop) -> None:
    laptop.script = [says(text("Well?"))]
    session = laptop.create()
    assert laptop.go(session).end is End.WAITING
    first = next(iter(laptop.store.checkpoint_ids(session)))
    turn(laptop, session, first)
    assert main(laptop, session) == first and not closings(laptop, session)


def test_a_session_of_another_device_is_taken_over_from_the_head_that_is_named(
    laptop: Laptop, asking: SessionId
) -> None:
    take_over(laptop, asking)
    with pytest.raises(RefusedError, match="hhd resume SESSION --head HEAD"):
        laptop.go(asking)
    turn(laptop, asking, main(laptop, asking))
    view = sessions.view(laptop.store, laptop.me, asking)
    assert view.owner == laptop.me.id != DESKTOP.id and view.token is not None and view.token.number == 3
    assert [list((one.journal or {}).values()) for one in closings(laptop, asking)] == [[Progress.ASKED]]


def test_a_session_that_runs_is_not_turned_and_what_is_no_head_is_refused(laptop: Laptop, asking: SessionId) -> None:
    before = len(statements(laptop, asking))
    head = before_the_question(laptop, asking)
    with laptop.store.advance(asking), pytest.raises(BusyError):
        turn(laptop, asking, head)
    with pytest.raises(RefusedError, match="not here"):
        turn(laptop, asking, CheckpointId(laptop.store.random(32)))
    with pytest.raises(RefusedError, match="no head of this session"):
        Workbench(store=laptop.store, me=laptop.me).turn_to(asking, "no such head")
    assert len(statements(laptop, asking)) == before
