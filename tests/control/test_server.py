"""The daemon's end of the control socket: what it answers, whom it cuts off, and that nobody stops an honest one."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.served import Raw, Served
from tests.protocol.mutate import mutated_bytes

from hhd.app import handoffs, sessions
from hhd.base.errors import RefusedError, UncertainError, UsageError, UserError
from hhd.control import client, peer
from hhd.control.server import Bounds
from hhd_protocol import control
from hhd_protocol.control import Hello, Request
from hhd_protocol.frames import frame

HELLO = frame(control.encoded(Hello(control.VERSIONS, "1.0")))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as one:
        yield one


def answers(served: Served) -> bool:
    """Whether an honest client is answered."""
    with served.client() as one:
        return one.ask("echo", {"a": [1, b"2", None]}) == {"a": [1, b"2", None]}


def test_requests_and_streams_are_answered_in_turn_on_one_connection(served: Served) -> None:
    with served.client() as one:
        assert one.ask("echo", {"a": 1}) == {"a": 1}
        assert list(one.stream("count", {"to": 5})) == [0, 1, 2, 3, 4]
        assert list(one.stream("count", {"to": 0})) == []
        assert one.ask("large", {}) == bytes(5_000_000)
        left = one.stream("count", {"to": 5})
        assert next(left) == 0  # A stream that is left does not come between.
        assert one.ask("echo", {}) == {}


def test_errors_come_with_their_sentence_and_their_exit(served: Served) -> None:
    with served.client() as one:
        for verb, kind, sentence in (
            ("usage", UsageError, "These words are off."),
            ("uncertain", UncertainError, "Who knows."),
            ("disk", UserError, "The system said: No space left on device (/a/file)."),
            ("bug", UserError, "The daemon failed, which is a fault of hhd: ZeroDivisionError('a fault')"),
        ):
            with pytest.raises(kind) as raised:
                one.ask(verb, {})
            assert type(raised.value) is kind and str(raised.value) == sentence
        with pytest.raises(UserError, match="a fault of hhd"):
            one.ask("odd", {})
        assert one.ask("echo", {}) == {}


@pytest.mark.parametrize("length", [2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 0], ids=str)
def test_a_huge_or_negative_or_empty_length_ends_the_connection_and_no_other(served: Served, length: int) -> None:
    with served.client() as other:
        assert other.ask("echo", {}) == {}
        raw = served.raw()
        raw.socket.sendall(HELLO + length.to_bytes(4, "big"))
        assert raw.is_cut()
        assert other.ask("echo", {}) == {} and answers(served)


@pytest.mark.parametrize(
    "said",
    [
        [{"id": 0, "verb": "echo", "arguments": {}}],
        [{"versions": [1], "hhd": "x"}, {"versions": [1], "hhd": "x"}],
        [{"versions": [1], "hhd": "x"}, {"id": 0, "verb": "wait", "arguments": {}}] * 2,
        [{"versions": [1], "hhd": "x"}, *[{"id": 0, "verb": verb, "arguments": {}} for verb in ("wait", "echo")]],
        [{"versions": [1], "hhd": "x"}, {"id": 0, "result": 1}],
        ["hello"],
    ],
    ids=["no hello", "two hellos", "hello again", "an id twice", "an answer", "a text"],
)  # fmt: skip
def test_what_does_not_belong_there_ends_the_connection(served: Served, said: list[control.Value]) -> None:
    raw = served.raw()
    raw.say(*said)
    assert raw.is_cut() and answers(served)


def test_garbage_ends_its_connection_and_the_daemon_goes_on(served: Served) -> None:
    dice = random.Random(3)
    sound = HELLO + frame(control.encoded(Request(0, "echo", {"a": ["b", {"c": 1}]})))
    for number in range(120):
        raw = served.raw()
        with contextlib.suppress(ConnectionError):
            raw.socket.sendall(mutated_bytes(sound, dice) if number % 2 else dice.randbytes(dice.randrange(1, 300)))
        raw.close()
    assert answers(served)


def test_a_thousand_connections_do_not_stop_an_honest_one(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        pytest.skip("needs 3,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    flood: list[Raw] = []
    try:
        with Served(tmp_path) as served, served.client() as early:
            assert early.ask("echo", {}) == {}
            working = served.raw()
            working.socket.sendall(HELLO)
            working.ask(0, "wait")
            served.until(lambda: "wait" in served.made.began)
            for number in range(1000):
                one = served.raw()
                flood.append(one)
                if number % 2:  # Half of them are greeted, ask for more than they take, and never read.
                    one.socket.sendall(HELLO)
                    one.ask(0, "much")
            assert answers(served)
            assert len(served.server.connections) <= 256
            served.call(served.made.go.set)  # Who has something under way keeps its place.
            said = [working.hear(), working.hear()]
            assert said[1] == {"id": 0, "result": "waited"}
            for one in flood:
                one.close()
            assert answers(served)
    finally:
        for one in flood:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_client_that_never_reads_stands_still_and_is_cut_off_in_the_end(tmp_path: Path) -> None:
    with Served(tmp_path, Bounds(waiting_seconds=0.5)) as served:
        raw = served.raw()
        raw.socket.sendall(HELLO)
        raw.ask(0, "much")
        reader = served.raw()
        reader.socket.sendall(HELLO)
        reader.ask(0, "much")
        heard = 0
        while served.made.ended == 0:  # One reads on, the other does not; the first that ends is the other.
            assert reader.hear() is not None
            heard += 1
        assert heard > 3 and served.made.streams == 1
        assert raw.is_cut() and answers(served)
        reader.close()


def test_what_waits_for_a_client_is_bounded(served: Served) -> None:
    raw = served.raw()
    raw.socket.sendall(HELLO)
    raw.ask(0, "much")
    sizes: list[int] = []

    def look() -> None:
        sizes.extend(one._transport.get_write_buffer_size() for one in served.server.connections)

    for _ in range(200):
        served.call(look)
    assert 0 < max(sizes) < 2 * served.server.bounds.waiting_bytes
    raw.close()


def test_who_says_no_hello_is_cut_off(tmp_path: Path) -> None:
    with Served(tmp_path, Bounds(hello_seconds=0.2)) as served:
        silent, greeted = served.raw(), served.raw()
        greeted.socket.sendall(HELLO)
        assert silent.is_cut()
        greeted.ask(0, "echo")
        assert greeted.hear() == {"versions": [1], "hhd": "1.0"} and greeted.hear() == {"id": 0, "result": {}}


def test_no_more_requests_are_open_than_may_be_and_all_are_answered(tmp_path: Path) -> None:
    with Served(tmp_path, Bounds(open_requests=3)) as served:
        raw = served.raw()
        raw.say(
            control.encoded(Hello(control.VERSIONS, "x")),
            *[{"id": n, "verb": "wait", "arguments": {}} for n in range(9)],
        )
        served.until(lambda: served.made.began)
        most: list[int] = []
        served.call(lambda: most.extend(len(one.tasks) for one in served.server.connections))
        assert max(most) == 3
        served.call(served.made.go.set)
        assert raw.hear() and {raw.hear()["id"] for _ in range(9)} == set(range(9))  # type: ignore[index,call-overload]


def test_a_cancelled_stream_ends_and_what_is_being_done_is_done(served: Served) -> None:
    raw = served.raw()
    raw.socket.sendall(HELLO)
    raw.ask(2, "wait")
    served.until(lambda: served.made.began)
    raw.ask(1, "much")
    raw.ask(3, "echo")
    served.until(lambda: served.made.streams)
    raw.say({"id": 1, "cancel": True}, {"id": 2, "cancel": True}, {"id": 3, "cancel": True}, {"id": 9, "cancel": True})
    said = {}
    while not {1, 3} <= said.keys():
        value = raw.hear()
        assert isinstance(value, dict)
        if "error" in value:
            said[value["id"]] = value["error"]
    assert said[1]["exit"] == said[3]["exit"] == 3 and served.made.streams == 0
    served.call(served.made.go.set)
    while (value := raw.hear()) is not None and "result" not in value:  # type: ignore[operator]
        pass
    assert value == {"id": 2, "result": "waited"} and "echo" not in served.made.began


def test_told_to_end_it_finishes_what_it_has_begun_and_refuses_the_rest(served: Served) -> None:
    raw = served.raw()
    raw.socket.sendall(HELLO)
    raw.ask(0, "wait")
    served.until(lambda: served.made.began)
    raw.ask(1, "echo")
    with served.client() as other:
        assert other.ask("down", {}) is True
        served.call(served.made.go.set)
        assert other.ended(30)
    said = {}
    while (value := raw.hear()) is not None:
        assert isinstance(value, dict)
        said[value.get("id")] = value
    assert said[0] == {"id": 0, "result": "waited"} and said[1]["error"]["exit"] == 3


def test_of_what_takes_longer_than_the_end_nothing_is_said_since_nothing_is_known(tmp_path: Path) -> None:
    with Served(tmp_path, Bounds(end_seconds=0.2)) as served:
        raw = served.raw()
        raw.socket.sendall(HELLO)
        raw.ask(0, "wait")
        served.until(lambda: served.made.began)
        with served.client() as other:
            assert other.ask("down", {}) is True
        said = []
        while (value := raw.hear()) is not None:
            said.append(value)
        assert said == [{"versions": [1], "hhd": "1.0"}]  # To a client that is an uncertain change.


def test_the_bounds_are_those_of_the_spec() -> None:
    spec = (Path(__file__).parents[2] / "protocol/spec/control.md").read_text()
    said = {name: float(value) for name, value in re.findall(r"^\| `([a-z_]+)`[^|]* \| (\d+) \|", spec, re.M)}
    assert said == {name: float(value) for name, value in vars(Bounds()).items()}


# Who it is


def as_user(user: int, act: object) -> int:
    """Do `act` in a child process of another user; its exit status."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os._exit(int(act()))  # type: ignore[operator]
        except BaseException:  # noqa: BLE001  Whatever it is, the child must not go on as this test.
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.skipif(sys.platform != "linux", reason="needs a user without a name")
def test_another_user_is_not_read_from_nor_answered() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Served(folder) as served:

            def blocked() -> int:
                try:
                    Raw(served.path)
                except PermissionError:
                    return 6
                return 9

            def stranger() -> int:
                raw = Raw(served.path)
                with contextlib.suppress(ConnectionError):
                    raw.socket.sendall(HELLO)
                    raw.ask(0, "echo")
                return 7 if raw.hear() is None else 8

            assert as_user(54321, blocked) == 6  # The folder alone keeps them out.
            served.path.parent.chmod(0o755)
            assert as_user(54321, blocked) == 6  # So does the socket's mode.
            served.path.chmod(0o666)
            assert as_user(54321, stranger) == 7
            assert as_user(os.geteuid(), stranger) == 8  # Ours is answered by the very same words.
            assert served.made.began == ["echo"]


def test_who_cannot_be_known_is_not_let_in(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: object) -> int:
        raise OSError(107, "not connected")

    assert answers(served)
    monkeypatch.setattr(peer, "user_of", unknown)
    raw = served.raw()
    with contextlib.suppress(ConnectionError):
        raw.socket.sendall(HELLO + frame(control.encoded(Request(0, "echo", {}))))
    assert raw.hear() is None and served.made.began == ["echo"]


def test_a_client_asks_nothing_of_another_users_daemon(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.peer, "user_of", lambda _: os.geteuid() + 1)
    with pytest.raises(RefusedError, match="another user's"):
        served.client()


# Of which age it is


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        ([99, 98], "This hhd (1.0) is older than the daemon that runs (hhd 9.9)"),
        ([0], "The daemon that runs (hhd 9.9) is older than this hhd (1.0)"),
    ],
    ids=["newer", "older"],
)
def test_of_a_daemon_of_another_age_is_said_whether_it_is_newer_or_older(versions: list[int], sentence: str) -> None:
    ours, theirs = socket.socketpair()
    with client.Connection(ours, hhd="1.0") as one, theirs:
        theirs.sendall(frame({"versions": versions, "hhd": "9.9"}))  # type: ignore[dict-item]
        with pytest.raises(RefusedError) as raised:
            one.ask("show", {})
        assert str(raised.value).startswith(sentence) and "nothing was changed" in str(raised.value)
        assert str(raised.value).count(". ") <= 1


def test_a_daemon_that_ends_before_it_answers_leaves_a_change_uncertain_and_a_look_undone() -> None:
    for changes, kind in ((True, UncertainError), (False, UserError)):
        ours, theirs = socket.socketpair()
        with client.Connection(ours, hhd="1.0") as one:
            theirs.sendall(HELLO)
            theirs.shutdown(socket.SHUT_WR)
            with pytest.raises(UserError) as raised:
                one.ask("x", {}, changes=changes)
            assert type(raised.value) is kind
            with pytest.raises(UserError) as raised:
                next(one.stream("x", {}, changes=changes))
            assert type(raised.value) is kind
        theirs.close()


@pytest.mark.parametrize("dry_run", [False, True])
def test_of_a_handoff_whose_daemon_ends_it_is_not_said_that_nothing_was_changed(
    dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next daemon goes on with it."""
    ours, theirs = socket.socketpair()
    with client.Connection(ours, hhd="1.0") as one, theirs:
        theirs.sendall(HELLO)
        theirs.shutdown(socket.SHUT_WR)
        monkeypatch.setattr(sessions, "daemon_link", lambda: one)
        asked = handoffs.Transfer("s", "desktop", cancel_running=False, dry_run=dry_run, deadline_ms=0)
        with asked, pytest.raises(UserError) as raised:
            next(asked.steps())
    assert isinstance(raised.value, UncertainError) is not dry_run
    assert ("hhd transfers" in str(raised.value)) is not dry_run
    assert ("nothing was changed" in str(raised.value)) is dry_run


def test_a_daemon_that_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HELLO_SECONDS", 1)
    ours, theirs = socket.socketpair()
    with client.Connection(ours, hhd="1.0") as one, theirs, pytest.raises(RefusedError, match="has not answered"):
        one.ask("x", {})


@pytest.mark.parametrize("garbage", [b"\0\0\0\0", b"\xff" * 8, frame("x"), frame({"id": 0, "result": 1}), HELLO * 2])
def test_a_daemon_that_says_nonsense_is_one_sentence(garbage: bytes) -> None:
    ours, theirs = socket.socketpair()
    with client.Connection(ours, hhd="1.0") as one, theirs:
        theirs.sendall(garbage)
        with pytest.raises(UserError, match="no answer"):
            one.ask("x", {})


@pytest.mark.parametrize("positions", [[1], [0, 2], [0, 0]])
def test_a_gap_in_a_stream_is_noticed(positions: list[int]) -> None:
    ours, theirs = socket.socketpair()
    with client.Connection(ours, hhd="1.0") as one, theirs:
        theirs.sendall(HELLO + b"".join(frame({"id": 0, "position": at, "event": 1}) for at in positions))
        with pytest.raises(UserError, match="no answer"):
            list(one.stream("x", {}))


def test_without_a_common_version_only_status_and_down_are_answered(served: Served) -> None:
    raw = served.raw()
    raw.say({"versions": [9, 8], "hhd": "9.0"})
    raw.ask(0, "echo")
    raw.ask(1, "status")
    raw.ask(2, "status", {"more": 1})
    raw.ask(3, "down")
    said = {}
    while (value := raw.hear()) is not None:
        assert isinstance(value, dict)
        said[value.get("id")] = value
    assert said[0]["error"]["exit"] == said[2]["error"]["exit"] == 3
    assert said[1] == {"id": 1, "result": {"anything": True}} and said[3] == {"id": 3, "result": True}
    assert served.made.began == ["status", "down"]
