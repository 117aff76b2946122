"""What takes long with a file of a session says how far it is: each thing that is done, and every byte of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.two import Device, devices

from hhd.app import handoffs, sessions
from hhd.base import passing

pytestmark = needs_agent


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    replies = [GLOB, says(call("bash", command="true"))]
    with devices(tmp_path, replies, "laptop", "desktop", rules={"allow": []}) as made:
        yield made


@contextlib.contextmanager
def counted(device: Device) -> Iterator[dict[str, tuple[int, int]]]:
    """What is counted of a command of `device`, done within: by what is done, how many bytes of how many."""
    found: dict[str, tuple[int, int]] = {}
    here = mock.patch.multiple(
        sessions,
        control_here=lambda: contextlib.nullcontext(device.control),
        control=lambda: contextlib.nullcontext(device.control),
    )
    with here, passing.watched() as far:
        begin = passing.begin

        def begun(what: str, total: int) -> None:
            found[far.what] = far.so_far()
            begin(what, total)

        with mock.patch.object(passing, "begin", begun):
            yield found
            begun("", 0)
    del found[""]


def test_a_release_in_a_file_and_the_taking_of_it_are_counted_to_the_last_byte(
    two: list[Device], tmp_path: Path
) -> None:
    laptop, desktop = two
    large, file = os.urandom(3 << 20), tmp_path / "release"
    (laptop.repo / "large").write_bytes(large)
    session = laptop.create()
    laptop.go_here(session)
    with mock.patch.object(handoffs, "_pause"), counted(laptop) as found:
        handoffs.release_to_file(session.hex(), "desktop", file, force=False)
    size = file.stat().st_size
    assert found["writing"] == (size, size) and size > len(large)
    done, total = found["sealing"]
    assert len(large) < total <= done <= size
    with counted(desktop) as found:
        taken = handoffs.receive(file)
    assert (Path(taken.folder) / "large").read_bytes() == large
    assert list(found) == ["reading", "keeping", "its files"] and found["reading"] == (size, size)
    for what in ("keeping", "its files"):
        done, total = found[what]
        assert total >= len(large) and done == total, what


def test_an_export_and_an_import_are_counted(two: list[Device], tmp_path: Path) -> None:
    laptop, desktop = two
    session = laptop.create()
    laptop.go_here(session)
    file = tmp_path / "capsule"
    with counted(laptop) as found:
        sessions.export_to(session.hex(), file, head=None, to=None, passphrase_fd=None, embed=True, force=False)
    size = file.stat().st_size
    assert list(found) == ["making", "writing"] and found["writing"] == (size, size)
    assert found["making"] == (size, 0), "how many it will be is not known before"
    with counted(desktop) as found:
        sessions.import_from(file, passphrase_fd=None, module=None)
    assert list(found) == ["reading", "storing"] and found["reading"] == (size, size)
    done, about = found["storing"]
    assert about == size and done > 0
