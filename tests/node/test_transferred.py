"""Each stage of a handoff is told with what it did to state and to ownership, and what to do next."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.node.circles import identity
from tests.node.sync.wired import person

from hhd.node import transferred
from hhd.node.devices import Devices
from hhd.node.handoff import notes as handoff_notes
from hhd.node.handoff import steps as handoff_steps
from hhd.node.members import members
from hhd_protocol.crypto import device_text
from hhd_protocol.handoff import OVER, Record, Side, Stage
from hhd_protocol.ids import SessionId, StatementId, TransferId

SESSION, TRANSFER = SessionId(StatementId(b"\x09\xfd" * 16)), TransferId(bytes(16))
SOURCE = {"offered", "admitted", "staged", "ready", "released", "acknowledged", "cleaned", "aborted", "superseded"}
TARGET = {"admitted", "ready", "taken", "acknowledged", "cleaned", "aborted", "superseded"}
STAGES = [
    (side, stage)
    for side, stage in itertools.product(Side, Stage)
    if stage.value in (SOURCE if side is Side.SOURCE else TARGET)
]


@pytest.mark.parametrize(("side", "stage"), STAGES)
def test_every_stage_says_what_it_did_and_every_open_one_what_to_do_next(
    tmp_path: Path, side: Side, stage: Stage
) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop, desktop = alice["laptop"], alice["desktop"]
        devices = Devices(me=laptop.id, members=members(laptop.store, laptop.owned.me), names={})
        record = Record(transfer=TRANSFER, session=SESSION, peer=desktop.id, side=side, stage=stage, at_ms=1)
        told = transferred.told(laptop.store, devices, record)
        assert told.continuity and told.ownership and told.over is (stage in OVER)
        assert told.over or told.way, "an open one says what to do, be it nothing"
        sentences = (told.continuity, told.ownership, told.way)
        assert not any(part in sentence for sentence in sentences for part in ("  ", "None", "Stage", "device_"))
        if "hhd " in told.way:
            assert told.way.partition("hhd ")[2].split()[1] == "09fd09fd09fd"
        nobody = Devices(me=laptop.id, members={}, names={})
        for one in transferred.told(laptop.store, nobody, record).way, told.way:
            assert "once  is" not in one and " to ," not in one
        if "desktop" in told.way:
            assert device_text(desktop.id)[:9] in transferred.told(laptop.store, nobody, record).way


def test_what_was_begun_or_came_in_a_file_is_not_said_to_go_on_by_itself(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        laptop = alice["laptop"]
        devices = Devices(me=laptop.id, members=members(laptop.store, laptop.owned.me), names={})
        peer = alice["desktop"].id
        record = Record(transfer=TRANSFER, session=SESSION, peer=peer, side=Side.TARGET, stage=Stage.TAKEN, at_ms=1)
        assert "by itself" in transferred.told(laptop.store, devices, record).way, "until it is begun"
        handoff_steps.opened(laptop.store, TRANSFER, SESSION, peer, ())
        way = transferred.told(laptop.store, devices, record).way
        assert "by itself" not in way and "hhd resume 09fd09fd09fd" in way


def test_notes_are_kept_by_handoff_and_the_last_ones_by_session(tmp_path: Path) -> None:
    with person(tmp_path, "laptop", "desktop") as alice:
        store, peer = alice["laptop"].store, identity("desktop").id
        other = TransferId(b"\x01" * 16)
        assert handoff_notes.last(store, SESSION) == (None, ())
        handoff_notes.keep(store, TRANSFER, SESSION, peer, ["its files are in /home/\udcff", "x" * 9000])
        assert handoff_notes.last(store, SESSION) == (peer, ("its files are in /home/?", "x" * 4096))
        handoff_notes.keep(store, other, SESSION, peer, [])
        assert handoff_notes.last(store, SESSION) == (None, ())
        assert len(handoff_notes.of(store, TRANSFER)) == 2 and handoff_notes.of(store, other) == ()
