"""A checkpoint that was read once says where the session stood without its memory being read again."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from tests.node.stored import Laptop

from hhd.node import moment
from hhd.node.moment import STANDINGS_KEPT, Moment
from hhd.node.step_log import StepLog
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId


def test_where_it_stood_is_read_once_for_a_checkpoint_and_another_one_says_its_own(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, [])
    (head,) = laptop.store.heads(laptop.create())
    others = [laptop.store.heads(laptop.create(f"prompt {number}"))[0] for number in range(STANDINGS_KEPT)]

    def standing(one: CheckpointId) -> bytes:
        with Store.open(laptop.store.folder, seed=laptop.me.seed) as store:
            return Moment(store, one).standing.args

    with mock.patch.object(StepLog, "journal", autospec=True, side_effect=StepLog.journal) as reads:
        said = [standing(head) for _ in range(3)]
        assert len(set(said)) == 1 and reads.call_count == 1
        assert [standing(one) for one in others] == [Moment(laptop.store, one).opening.args for one in others]
        assert len({*said, *map(standing, others)}) == STANDINGS_KEPT + 1
        read = reads.call_count
        assert standing(head) == said[0] and reads.call_count == read + 1, "few are kept"
        with mock.patch.object(moment, "STANDING_BYTES_KEPT", 0):
            assert standing(others[0]) and standing(others[0]) and reads.call_count == read + 3, "no large one is"
    laptop.store.close()
