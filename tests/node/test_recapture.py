"""The folder of a session that rests is captured anew before it is handed on: what its person changed goes along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.two import Device, devices

from hhd.node import recapture
from hhd.node.ended import End
from hhd.node.workbench import Workbench
from hhd.store.captures import capture_ref
from hhd_protocol.ids import SessionId

pytestmark = needs_agent


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Device]:
    with devices(tmp_path, [GLOB, says(call("bash", command="make"))], "laptop", rules={"allow": []}) as (made,):
        yield made


def files(laptop: Device, session: SessionId) -> set[bytes]:
    ref = capture_ref(laptop.store.checkpoint(laptop.main(session)).workspace)
    assert ref is not None
    reader = laptop.store.capture_reader(laptop.store.session(session).family, ref)
    return {one.path for one in reader.capture().entries}


def test_what_changed_in_the_folder_since_is_in_a_new_checkpoint_and_nothing_new_makes_none(laptop: Device) -> None:
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    bench, before = Workbench(store=laptop.store, me=laptop.me), laptop.main(session)
    recapture.recapture(bench, session)
    assert laptop.main(session) == before
    (laptop.repo / "by-hand").write_text("of the person\n")
    recapture.recapture(bench, session)
    assert laptop.main(session) != before and b"by-hand" in files(laptop, session)
    assert laptop.go_here(session).end is End.WAITING, "it waits for the same yes"
