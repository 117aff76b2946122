"""Two devices, and a session of one that waits for a yes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.handoff.handing import unasked
from tests.node.relay.relayed import SCRIPT
from tests.node.two import Device

from hhd.node.ended import End
from hhd_protocol.ids import SessionId


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, SCRIPT, "desktop", "laptop", again=0.2, look=0.05, reply=60.0) as made:
        yield made


@pytest.fixture
def asking(two: list[Device]) -> SessionId:
    """A session on the desktop that waits for a yes to its command."""
    session = two[0].create()
    assert two[0].go_here(session).end is End.WAITING
    return session
