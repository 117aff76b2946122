"""Several things asked of the daemon at a time, by one who waits for none of them."""

from __future__ import annotations

import select
from pathlib import Path

import pytest
from tests.control.served import Raw, Served

from hhd.base.errors import UserError
from hhd.control import place, talk
from hhd.control.client import GoneError
from hhd.control.talk import Said, Talk
from hhd_protocol import control
from hhd_protocol.control import Answer, End, Event, Failed, Hello


def connected(path: Path) -> Talk:
    found = talk.connect(path, hhd="1.0")
    assert found is not None
    return found


def heard(one: Talk, count: int) -> list[Said]:
    """So many things that the daemon says, waited for as a terminal waits."""
    found: list[Said] = []
    while len(found) < count:
        if not one.unread:
            assert select.select([one], [], [], 60)[0]
        found += one.arrived()
    return found


def test_streams_and_answers_come_side_by_side_and_nothing_is_waited_for(tmp_path: Path) -> None:
    with Served(tmp_path) as served, connected(served.path) as one:
        waits = one.begin("wait", {})
        counts, fails = one.begin("count", {"to": 3}), one.begin("usage", {})
        found = heard(one, 4)
        assert [said for said in found if said.id == counts] == [
            *(Event(counts, n, n) for n in range(3)),
            End(counts),
        ]
        assert one.arrived() == [], "what is still done is not waited for"
        served.call(served.made.go.set)
        assert sorted(heard(one, 2), key=lambda said: said.id) == [
            Answer(waits, "waited"),
            Failed(fails, "These words are off.", 2),
        ]


def test_the_end_of_the_daemon_is_noticed_and_said(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        one = connected(served.path)
        one.begin("echo", {})
        heard(one, 1)
    with pytest.raises(GoneError):
        heard(one, 1)
    assert talk.connect(served.path, hhd="1.0") is None


@pytest.mark.parametrize(
    "said",
    [
        [control.encoded(Event(0, 1, "x"))],  # A gap.
        [control.encoded(Event(0, 0, "x")), control.encoded(Event(0, 0, "x"))],
        [control.encoded(Hello(control.VERSIONS, "1.0"))],
        ["nonsense"],
    ],
)
def test_what_is_no_message_ends_the_connection(said: list[object], tmp_path: Path) -> None:
    path = tmp_path / "run" / "control.sock"
    listener = place.listen(path, backlog=1)
    with listener, connected(path) as one:
        theirs, _ = listener.accept()
        daemon = Raw.__new__(Raw)
        daemon.socket = theirs
        daemon.say(control.encoded(Hello(control.VERSIONS, "1.0")))
        one.begin("stream", {})
        daemon.say(*said)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="no answer"):
            heard(one, 9)
        assert one.fileno() == -1
        theirs.close()
