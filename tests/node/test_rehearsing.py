"""What a worker makes ready for a session that comes: its program is loaded and compared, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.two import Device, devices

from hhd.base.errors import RefusedError, UserError
from hhd.node import rehearsing
from hhd.node.ended import End
from hhd.runtime.guest import Guest
from hhd_protocol.abi import Snapshot
from hhd_protocol.limits import PAGE_BYTES

pytestmark = needs_agent


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Device]:
    with devices(tmp_path, [GLOB, says(call("bash", command="make"))], "laptop", rules={"allow": []}) as (made,):
        yield made


def test_the_memory_of_a_session_is_read_back_as_it_was_and_a_changed_page_is_found(laptop: Device) -> None:
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    head = laptop.main(session)
    before = head, laptop.store.checkpoint(head).payload
    rehearsing.insist_on_program(laptop.store, head)
    assert (laptop.main(session), laptop.store.checkpoint(head).payload) == before

    resume = Guest.resume

    def otherwise(module: object, snapshot: Snapshot, **more: object) -> Guest:
        pages = bytearray(b"".join(map(bytes, snapshot.pages)))
        pages[len(pages) // PAGE_BYTES // 2 * PAGE_BYTES] ^= 1
        return resume(module, replace(snapshot, pages=[bytes(pages)]), **more)  # type: ignore[arg-type]

    with mock.patch.object(Guest, "resume", otherwise), pytest.raises(RefusedError, match="not the same"):
        rehearsing.insist_on_program(laptop.store, head)


def test_a_program_that_is_none_is_refused(laptop: Device) -> None:
    session = laptop.create()
    laptop.go_here(session)
    with mock.patch.object(laptop.store.modules, "get", lambda _: b"no module"), pytest.raises(UserError):
        rehearsing.insist_on_program(laptop.store, laptop.main(session))
