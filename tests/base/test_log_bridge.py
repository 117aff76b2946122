"""What parts say through `logging`: the words are ours, and of what is put in only devices, addresses, ids, numbers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from hhd.base import log, log_bridge
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import DeviceId

DEVICE = device_text(DeviceId(bytes(range(32))))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    sources = [logging.getLogger(name) for name in log_bridge.SOURCES]
    before = [(list(source.handlers), source.level, source.propagate) for source in sources]
    log.to(tmp_path)
    log_bridge.build()
    log_bridge.build()
    yield tmp_path
    log.to(None)
    for source, were in zip(sources, before, strict=True):
        source.handlers[:], source.level, source.propagate = were


def said(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / log.FILE).read_text().splitlines()]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (DEVICE, DEVICE), ("192.0.2.7:17470", "192.0.2.7:17470"), ("[fe80::1]:17470", "[fe80::1]:17470"),
        ("ab" * 16, "ab" * 16), (7, "7"), (1.25, "1.2"), ("the parser", "(not noted)"), ("/home/alice", "(not noted)"),
        (FileNotFoundError(2, "No such file", "/home/alice/x"), "ENOENT"), (ValueError("the parser"), "ValueError"),
        ("parser", "(not noted)"), ("alice", "(not noted)"), (b"words", "(not noted)"),
    ],
)  # fmt: skip
def test_of_what_is_put_in_only_what_has_a_form_is_noted(value: object, shown: str, folder: Path) -> None:
    logging.getLogger("hhd.links").warning("the link to %s ended", value)
    (line,) = said(folder)
    assert line["why"] == f"the link to {shown} ended" and line["part"] == "links" and line["level"] == "warning"
    assert "parser" not in json.dumps(line) and "alice" not in json.dumps(line)


def test_an_error_is_noted_by_its_kind_and_place_and_odd_messages_stop_nobody(folder: Path) -> None:
    source = logging.getLogger("hhd.peers")
    try:
        log.to(folder) and log.note("x", nonsense=1)
    except KeyError:
        source.exception("it failed")
    source.info("%s")
    source.info("too %s many %s", 1, 2)
    source.info("\x1b[31m/" * 200)
    source.debug("not noted")
    one, *rest = said(folder)
    assert (one["error"], one["why"]) == ("KeyError", "it failed") and "hhd.base.log:" in str(one["place"])
    assert len(rest) == 3
    logging.getLogger("other").error("not ours")
    assert len(said(folder)) == 4
