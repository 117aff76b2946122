"""What was read and judged of a session stays at hand, and never hides what came since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from tests.node.circles import NOW, identity
from tests.node.sync.wired import person
from tests.node.test_doors import Known, gone_on_elsewhere, removed_elsewhere, revoked, taken_over

from hhd.node import judged
from hhd.node.lineages import Lineage, lineage_of
from hhd.node.members import members
from hhd.store import statements
from hhd.store.statements import Statements
from hhd.store.store import Store
from hhd_protocol.fencing import Resolved
from hhd_protocol.statements import Role


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Known]:
    with person(tmp_path, "laptop", "desktop") as alice:
        judged.forget()
        found = Known(alice)
        found.synced()
        yield found


def asked(known: Known, store: Store | None = None) -> Lineage:
    me = known.laptop.owned.me
    opened = store or known.laptop.store
    return lineage_of(opened, known.session, members(opened, me))


def meaning(found: Lineage) -> object:
    return found.signed, dict(found.known.statements), found.view


def test_a_session_is_read_once_in_a_process_and_judged_once_in_each_thread(known: Known) -> None:
    with (
        mock.patch.object(Statements, "all", autospec=True, side_effect=Statements.all) as reads,
        mock.patch.object(Resolved, "_sorted", autospec=True, side_effect=Resolved._sorted) as judges,
    ):
        found = [asked(known) for _ in range(5)]
        assert (reads.call_count, judges.call_count) == (1, 1)
        with Store.open(known.laptop.store.folder, seed=known.laptop.owned.me.seed) as anew:
            found.append(asked(known, anew))
        assert (reads.call_count, judges.call_count) == (1, 1), "whichever way it was opened"
        with ThreadPoolExecutor(1) as beside:
            found.append(beside.submit(asked, known).result())
        assert (reads.call_count, judges.call_count) == (1, 2)
        known.work.step()
        reads.reset_mock()
        assert asked(known).view != found[0].view and asked(known).view != found[0].view
        assert reads.call_count == 1, "and once more after a step"
    assert len({id(one.known) for one in found[:6]}) == 1


def test_where_something_came_only_that_is_read(known: Known) -> None:
    before = asked(known)
    known.work.step()
    with mock.patch.object(statements, "opened", side_effect=statements.opened) as opens:
        found = asked(known)
    (came,) = {one.id for one in found.signed} - {one.id for one in before.signed}
    assert [one.args[0] for one in opens.call_args_list] == [came]
    assert len(found.signed) == len(before.signed) + 1
    judged.forget()
    assert meaning(found) == meaning(asked(known)), "as if all had been read"


def signed_here(known: Known) -> None:
    known.work.step()


def gone_on_there(known: Known) -> None:
    taken_over(known)
    gone_on_elsewhere(known)


def joined(known: Known) -> None:
    """Another member: who counts is a part of it."""
    known.laptop.owned.group.add(identity("tower").public, "tower", Role.CONTROLLER, NOW)


@pytest.mark.parametrize("act", [signed_here, taken_over, gone_on_there, removed_elsewhere, revoked, joined])
def test_whatever_comes_is_seen_at_once_whoever_wrote_it(known: Known, act: Callable[[Known], None]) -> None:
    me = known.laptop.owned.me
    with Store.open(known.laptop.store.folder, seed=me.seed) as other:  # As a process beside this one.
        before = asked(known, other)
        assert meaning(asked(known, other)) == meaning(before), "nothing happened"
        act(known)
        found = asked(known, other)
        assert found.known is not before.known
        judged.forget()
        assert meaning(found) == meaning(asked(known, other)), "as if nothing had been at hand"
        assert (meaning(found), found.known.members) != (meaning(before), before.known.members)


def test_what_a_transaction_that_failed_had_written_is_not_known_afterwards(known: Known) -> None:
    before = asked(known)
    with pytest.raises(RuntimeError), known.laptop.store.transaction():
        removed_elsewhere(known)
        assert asked(known).view.removed
        raise RuntimeError("the disk is full")
    assert not asked(known).view.removed and meaning(asked(known)) == meaning(before)


def test_no_more_statements_are_at_hand_than_there_is_room_for(known: Known) -> None:
    second = known.alice.create("laptop", "another")
    with mock.patch.object(judged, "STATEMENTS_MAX", len(asked(known).signed)):
        store, me = known.laptop.store, known.laptop.owned.me
        with mock.patch.object(Statements, "all", autospec=True, side_effect=Statements.all) as reads:
            asked(known)
            assert reads.call_count == 0
            lineage_of(store, second, members(store, me))
            lineage_of(store, second, members(store, me))
            assert reads.call_count == 1, "what came last stays"
            asked(known)
            assert reads.call_count == 2
