"""The verbs over the socket answer what they answer in this process, word for word."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import os
import re
import shutil
import threading
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.node import lines
from tests.node.lines import apart, turn, waits

from hhd.app import sessions
from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder
from hhd.cli import run
from hhd.control import client, place
from hhd.control.address import LOCK_FILE
from hhd.control.client import connect
from hhd.control.server import Server
from hhd.node import overview
from hhd.node import store as door
from hhd.node.answers.status import Status
from hhd.node.control import ControlService
from hhd.node.control_changing import Changing
from hhd.node.control_looking import Looking
from hhd.node.lanes import Lanes
from hhd.node.listed import Overview
from hhd.node.remote import Remote
from hhd.node.service import Table, Verb
from hhd.node.verbs import CHANGING, LOOKING, STREAMS, Verbs
from hhd_protocol.errors import FormatError

ALL = (*LOOKING, *CHANGING, *STREAMS)


@contextlib.contextmanager
def daemon(opened: Any = sessions.control_here) -> Iterator[Path]:
    """A daemon for this process's folders, in a thread of it; where its socket is."""
    path, up = place.socket_path(data_folder()), threading.Event()
    ways: list[Any] = []

    async def serve() -> None:
        stop = asyncio.Event()
        ways.extend((asyncio.get_running_loop(), stop))
        lanes = Lanes()

        async def status() -> Status:
            return Status(hhd="1", process=1, since_ms=1, socket=str(path), connections=1)

        async def down() -> bool:
            stop.set()
            return True

        verbs = Verbs(
            opened=opened,
            overview=lambda query, with_archived, exact: overview.overview(
                query, with_archived=with_archived, exact=exact
            ),
            lanes=lanes,
        )
        done = Table({"status": Verb(status, False), "down": Verb(down, True)}, verbs.verbs())
        data_folder().mkdir(parents=True, exist_ok=True)
        listener = place.listen(path, backlog=10)
        (data_folder() / LOCK_FILE).write_bytes(os.fsencode(path))
        up.set()
        try:
            await Server(done, hhd="1").serve(listener, stop)
        finally:
            lanes.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert up.wait(240)
    try:
        yield path
    finally:
        ways[0].call_soon_threadsafe(ways[1].set)
        thread.join(60)
        assert not thread.is_alive()
        (data_folder() / LOCK_FILE).unlink(missing_ok=True)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    lines.grouped(monkeypatch)
    with door.opened() as store:
        return apart(
            store,
            [turn(2, "Fixed here.", path="a.py")],
            [turn(2, "Fixed there.", path="b.py"), turn(3, command="make", failed=True)],
        )


WORDS = """
ls; ls --json; ls parser; ls nothing --json; show parser; show parser --json; show parser --head THERE; show
show nothing
log parser; log parser --json; log parser --since 1.1.0; log parser --since x; heads parser; heads parser --json
diff parser; diff parser --json; diff parser HERE; diff parser HERE HERE; show \udc80
heads parser --all --json; rename parser other --head THERE --json; archive parser --head THERE
pick parser HERE; pick parser --none --json; pick parser nonsense; rename parser other; rename parser --none
rename parser \udc80x --json; archive parser; archive parser --undo --json
fork parser; fork parser --at THERE --json; fork parser --at nonsense
settle parser; settle parser --again; settle parser x; approve parser --json; deny parser -m no --json
approve parser --shown abc -C . --json; rm parser --yes; rm parser --json; rm parser --everywhere --yes --json
export parser OUT --json; export nothing OUT; export parser OUT --to nobody
"""


@pytest.mark.parametrize("words", [one for one in re.split("[;\n] *", WORDS) if one])
def test_a_command_says_the_same_whether_a_daemon_runs_or_not(
    words: str, made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        "parser": "the parser",
        "HERE": made.here.hex()[:12],
        "THERE": made.there.hex()[:12],
        "OUT": str(tmp_path / "out.hhd"),
    }
    called = [names.get(word, word) for word in words.split()]
    kept = tmp_path / "kept"
    shutil.copytree(data_folder(), kept)
    told = []
    for with_daemon in (False, True):
        shutil.rmtree(data_folder())
        shutil.copytree(kept, data_folder())
        (tmp_path / "out.hhd").unlink(missing_ok=True)
        capsys.readouterr()
        with daemon() if with_daemon else contextlib.nullcontext(), monkeypatch.context() as patched:
            if with_daemon:  # What is asked of the daemon is not done by this process as well.
                patched.setattr(sessions, "control_here", None)
            status = run(called)
        said = capsys.readouterr()
        content = (tmp_path / "out.hhd").read_bytes() if (tmp_path / "out.hhd").exists() else b""
        told.append((status, _alike(said.out), _alike(said.err), content))
    assert told[0] == told[1]
    assert told[0][1] or told[0][2]


def _alike(text: str) -> str:
    """Without what differs by chance: ids of what is made anew, times of now."""
    text = re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b", "ID", text)
    return re.sub(r'"at_ms": \d+|\b20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)?', "TIME", text)


def test_a_capsule_comes_in_over_the_socket_goes_out_again_and_the_second_time_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, again = str(tmp_path / "spin.hhd"), str(tmp_path / "again.hhd")
    assert run(["capsule", "new", "spin", "-o", file]) == 0
    capsys.readouterr()
    with daemon():
        assert run(["import", file]) == 0
        first = capsys.readouterr().out
        assert "made of" in first and "was made" not in first
        assert run(["import", file]) == 0 and "was made of this capsule before" in capsys.readouterr().out
        session = re.search(r"\b[0-9a-f]{12}\b", first)
        assert session is not None and run(["export", session[0], again]) == 0
        assert run(["capsule", "info", again]) == 0


def test_what_does_not_fit_a_message_is_taken_in_by_the_command_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spin.hhd"
    assert run(["capsule", "new", "spin", "-o", str(file)]) == 0
    with daemon():
        monkeypatch.setattr(client, "CONTROL_REQUEST_BYTES_MAX", 1000)
        assert file.stat().st_size > 1000 and run(["import", str(file)]) == 0


def test_a_log_is_followed_over_the_socket_from_where_one_was(made: Any) -> None:
    with daemon(), sessions.control() as control:
        assert isinstance(control, Remote)
        whole = control.log("the parser")
        turns = iter([True, True, False])
        assert list(control.follow("the parser", wait=lambda: next(turns))) == whole
        rest = list(control.follow("the parser", since=whole[2].position, wait=lambda: False))
        for count in (0, 1, 2, 100):
            assert control.log("the parser", newest=count) == (whole[-count:] if count else [])
            twice = list(control.follow("the parser", newest=count, wait=waits(lambda: None)))
            assert twice == (whole[-count:] if count else [])
        assert rest == whole[3:]


# Each verb, with made-up values


def sample(wanted: Any) -> Any:
    """A value of a type."""
    if wanted in (str, int, bool, bytes):
        return {str: "a\udc80", int: 7, bool: True, bytes: b"\x00b"}[wanted]
    if wanted is Path:
        return Path("/a/b")
    inner = typing.get_args(wanted)
    if type(None) in inner:
        return sample(next(one for one in inner if one is not type(None)))
    if typing.get_origin(wanted) is list:
        return [sample(inner[0])]
    if typing.get_origin(wanted) is tuple:
        return (sample(inner[0]),) if inner[-1] is Ellipsis else tuple(sample(one) for one in inner)
    hints = typing.get_type_hints(wanted)
    names = [one.name for one in dataclasses.fields(wanted)] if dataclasses.is_dataclass(wanted) else wanted._fields
    return wanted(**{name: [b"part"] if name == "parts" else sample(hints[name]) for name in names})


class Stub:
    """Takes any verb and answers with what its type has."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, verb: str) -> Any:
        result = typing.get_type_hints(getattr(Remote, verb))["return"]

        def call(*name: Any, **given: Any) -> Any:
            given |= {"name": name[0]} if name else {}
            self.calls.append((verb, given))
            if verb == "transcript":
                return iter([] if given["start"] else [b"one", bytes(300_000)])
            return sample(result)

        return call


@pytest.mark.parametrize("verb", ALL)
def test_each_verb_brings_its_arguments_there_and_its_answer_back(verb: str) -> None:
    stub, method = Stub(), getattr(Remote, verb)
    hints = typing.get_type_hints(method)
    given = {name: sample(kind) for name, kind in hints.items() if name != "return"}
    with daemon(lambda: contextlib.nullcontext(stub)), sessions.control() as control:
        found = getattr(control, verb)(**given)
        if verb == "transcript":
            assert b"".join(found) == b"one" + bytes(300_000)
            return
        expected = sample(hints["return"])
        if verb == "export":
            assert list(found.parts) == expected.parts and found.size == len(b"part"), "said before the first of them"
            found = dataclasses.replace(found, parts=())
            expected = dataclasses.replace(expected, parts=(), size=found.size)
        assert found == expected and stub.calls == [(verb, given)]


@pytest.mark.parametrize("verb", [*ALL, "follow"])
def test_a_verb_has_the_same_arguments_on_both_sides(verb: str) -> None:
    ours = dict(inspect.signature(getattr(ControlService, verb)).parameters)
    ours.pop("start", None)
    theirs = dict(inspect.signature(getattr(Remote, verb)).parameters)
    assert ours == theirs


def test_every_public_verb_goes_over_the_socket() -> None:
    inside = {
        "transcript_bytes",
        "insist_on_release",
        "release",
        "receive",
    }  # Asked by the daemon's own parts; of whole sessions in files.
    public = {name for name in dir(ControlService) if not name.startswith("_")} - {"store", "me"} - inside
    assert public == {*ALL, "follow"} == {name for name in vars(Remote) if not name.startswith("_")}
    assert vars(Looking).keys() >= {*LOOKING, *STREAMS} and vars(Changing).keys() >= {*CHANGING}


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("frobnicate", {}), ("__init__", {}), ("_session", {"name": "x"}), ("show", {}), ("show", {"name": 1}),
        ("show", {"name": "x", "more": 1}), ("status", {"x": 1}), ("sessions", {"query": "x"}), ("follow", {}),
        ("remove", {"shown": {"session": "x"}}), ("transcript", {"name": "x", "start": 5}), ("store", {}),
    ],
)  # fmt: skip
def test_what_the_daemon_does_not_know_is_one_sentence_and_nothing_is_done(verb: str, given: dict[Any, Any]) -> None:
    stub = Stub()
    with daemon(lambda: contextlib.nullcontext(stub)) as path:
        link = connect(path, hhd="2")
        assert link is not None
        with link, pytest.raises(RefusedError, match="nothing was changed") as raised:
            link.ask(verb, given)
        assert "daemon" in str(raised.value) and not stub.calls


def test_one_kind_of_verb_does_not_wait_for_another() -> None:
    """A change under way holds up neither a look nor the list."""
    go, began = threading.Event(), threading.Event()

    class Slow(Stub):
        def rename(self, **_: Any) -> Any:
            began.set()
            assert go.wait(240)
            return sample(typing.get_type_hints(Remote.rename)["return"])

    with daemon(lambda: contextlib.nullcontext(Slow())) as path:
        links = [connect(path, hhd="2") for _ in range(2)]
        renaming = threading.Thread(target=lambda: links[0].ask("rename", {"name": "x", "title": None}))  # type: ignore[union-attr]
        renaming.start()
        assert began.wait(240)
        assert links[1] is not None and links[1].ask("heads", {"name": "x"})
        assert links[1].ask("sessions", {"query": "", "with_archived": False})
        go.set()
        renaming.join(60)


def test_lists_come_back_as_they_were_and_others_are_refused(made: Any) -> None:
    found = overview.overview("")
    assert found.sessions and Overview.of(found.value()) == found
    for name, wrong in (
        ("rows", b"\x81\x81\x01"),
        ("rows", b"\xff"),
        ("rows", b"\xf6"),
        ("rows", None),
        ("names", {1: "x"}),
        ("device", "x"),
        ("questions", True),
    ):
        with pytest.raises(FormatError):
            Overview.of({**found.value(), name: wrong})  # type: ignore[dict-item]
    with pytest.raises(FormatError):
        Overview.of({**found.value(), "more": 1})  # type: ignore[dict-item]
