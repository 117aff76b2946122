"""`hhd ls` shows what there is in columns that fit, and titles as text whatever is in them."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import pty
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hhd.app import sessions as app_sessions
from hhd.base.errors import RefusedError
from hhd.cli import _by_click, lines, quick, run, telling
from hhd.node import listing, overview, registry
from hhd.node.answers.device import Device
from hhd.node.freshness import Reach, Spread
from hhd.node.listing import Listed, State
from hhd.node.overview import Overview
from hhd.node.store import opened
from hhd.store import locks
from hhd.store.catalogue import CATALOGUE
from hhd.store.freshness import Fresh, Reached
from hhd_protocol.codec import encode
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId

HOSTILE = (
    "<b onclick=alert(1)>&lt;",
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "\u202egnp.exe\u2066\u200b",
    "two\nlines\r\tand\x00more",
    "\u4e2d\u6587 title \U0001f680 wide",
    "z\u0300\u0301\u0302\u0303" * 50,
    "%s %d %-99999999s {} \\",
    "\x9b31m\u2028\u2029\ufeff",
    "x" * 1024,
)


def _id(number: int) -> SessionId:
    return SessionId(StatementId(hashlib.sha256(b"%d" % number).digest()))


def _make(count: int, **fields: object) -> None:
    with opened() as store, store.transaction():
        for number in range(count):
            store.create_session(_id(number))
            one = Listed(id=_id(number), title=f"session {number}", owner=store.device, at_ms=1_000_000 + number)
            listing.put(store, one._replace(**fields))  # type: ignore[arg-type]


def _ls(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    assert run(["ls", *words]) == 0
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_where_there_is_nothing_nothing_is_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert _ls(capsys) == ([], "There is no session here yet.\n")
    assert not (tmp_path / "hhd-data").exists()
    assert _ls(capsys, "--json")[0] == ['{"sessions": [], "archived": 0, "questions": 0}']


def test_the_newest_are_first_and_archived_ones_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    _make(4)
    with opened() as store:
        registry.opened(store).archive(_id(2), True)
        registry.opened(store).rename(_id(0), "the oldest")
    found, said = _ls(capsys)
    assert [line.split()[0] for line in found] == ["ID", *(_id(number).hex()[:8] for number in (3, 1, 0))]
    assert "the oldest" in found[-1] and "1 archived one is left out" in said
    found, said = _ls(capsys, "--all")
    assert len(found) == 5 and "[archived] session 2" in found[2] and not said


def test_a_query_means_title_folder_program_state_device_or_the_begin_of_an_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _make(3)
    with opened() as store:
        listing.change(store, _id(0), folder="/home/alice/Parser")
        listing.change(store, _id(1), program="agent", state=State.WAITING)
        registry.opened(store).name_device(store.device, "laptop")
    for query, expected in (
        ("parser", [0]), ("AGENT", [1]), ("waiting", [1]), ("session 2", [2]), ("lapt", [2, 1, 0]), ("nothing", []),
        (_id(2).hex()[:12], [2]),
    ):  # fmt: skip
        assert [line[:8] for line in _ls(capsys, query)[0][1:]] == [_id(number).hex()[:8] for number in expected]
    assert _ls(capsys, "noth\x1bing")[1] == "No session matches 'noth\\x1bing'.\n"


def test_json_says_everything_and_titles_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    _make(1, heads=2, waiting="approval", state=State.WAITING, turns=3, token=7, folder="/x")
    with opened() as store:
        registry.opened(store).rename(_id(0), HOSTILE[1])
        registry.opened(store).pick(_id(0), CheckpointId(StatementId(b"\x05" * 32)))
    (one,) = json.loads(_ls(capsys, "--json")[0][0])["sessions"]
    assert one["title"] == HOSTILE[1] and one["opening"] == "session 0" and one["picked"] == "05" * 32
    assert (one["heads"], one["waiting"], one["state"], one["turns"], one["token"], one["here"]) == (
        2, "approval", "waiting for you", 3, 7, True,
    )  # fmt: skip


def test_competing_heads_and_what_is_waited_for_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    _make(1, heads=3, waiting="bash(make)", state=State.WAITING)
    assert "waiting for you: bash(make), 3" in _ls(capsys)[0][1]


def test_a_session_whose_process_is_gone_was_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    _make(1, state=State.RUNNING)
    assert "cut off" in _ls(capsys)[0][1] and len(_ls(capsys, "cut off")[0]) == 2
    with opened() as store, store.advance(_id(0)):
        assert "running" in _ls(capsys)[0][1] and _ls(capsys, "cut off")[0] == []
        with app_sessions.control() as control:
            assert control.show("session 0").state == "running"
    with app_sessions.control() as control:
        assert control.show("session 0").state == "cut off"
    assert json.loads(_ls(capsys, "--json")[0][0])["sessions"][0]["state"] == "cut off"


def test_looking_takes_no_session_from_who_advances_it(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "one"
    with locks.take(path) or pytest.fail("the lock was free"):
        assert locks.held(path)
    assert not locks.held(path) and not locks.held(tmp_path / "none")
    looking = os.open(path, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)  # As a look does, only longer.
    assert locks.take(path) is None
    os.close(looking)
    assert locks.take_within(path, 0.05) is not None


def _overview(sessions: list[Listed]) -> Overview:
    return Overview(sessions, {}, DeviceId(b"\x01" * 32))


def _line(title: str, folder: str = "", waiting: str = "", owner: bytes = b"\x01" * 32) -> Listed:
    return Listed(
        id=_id(1), title=title, folder=folder, waiting=waiting, state=State.WAITING, owner=DeviceId(owner), at_ms=5
    )


TITLES = st.text(st.characters(), max_size=60) | st.sampled_from(HOSTILE)


LINES = st.builds(_line, TITLES, TITLES, TITLES, st.sampled_from([b"\x01" * 32, b"\x02" * 32]))


@given(st.lists(LINES, min_size=1, max_size=5), st.integers(1, 200))
@example([_line(title) for title in HOSTILE], 80)
@example([_line(title, title, title) for title in HOSTILE], 20)
def test_whatever_is_in_a_title_each_session_is_one_line_that_fits(sessions: list[Listed], width: int) -> None:
    for given_width in (width, None):
        found = lines.table(_overview(sessions), now_ms=10_000, width=given_width)
        assert len(found) == len(sessions) + 1
        for line in found:
            assert given_width is None or lines.columns(line) <= given_width
            assert not [char for char in line if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_columns_stand_under_their_heads_on_a_wide_terminal() -> None:
    found = lines.table(_overview([_line("short", "/x"), _line("中文", "/y")]), now_ms=65_005, width=100)
    assert [lines.columns(line[: line.index("/")]) for line in found[1:]] == [found[0].index("FOLDER")] * 2
    assert found[1].split() == [_id(1).hex()[:8], "short", "waiting", "for", "you", "1m", "/x"]


def test_the_device_is_named_where_there_are_several() -> None:
    found = Overview(
        [_line("a"), _line("b", owner=b"\x02" * 32), _line("c", owner=b"\x03" * 32)],
        {b"\x02" * 16: "desk\x1btop"},
        DeviceId(b"\x01" * 32),
    )
    rows = lines.table(found, now_ms=0, width=120)
    assert "this device" in rows[1] and "desk\\x1btop" in rows[2] and "ambq-gayd" in rows[3]
    theirs = [Device(id=device_text(DeviceId(b"\x02" * 32)), name="desk\x1btop", here=False)]
    theirs.append(Device(id=device_text(DeviceId(b"\x03" * 32)), name="", here=False))
    assert [telling.device(one) in row for one, row in zip(theirs, rows[2:], strict=True)] == [True, True], (
        "as elsewhere"
    )


def test_the_device_is_named_where_all_are_another_ones() -> None:
    there, here = DeviceId(b"\x02" * 32), DeviceId(b"\x01" * 32)
    rows = lines.table(Overview([_line("a", owner=there)], {there[:16]: "desktop"}, here), now_ms=0, width=120)
    assert "DEVICE" in rows[0] and "desktop" in rows[1]
    rows = lines.table(Overview([_line("a", owner=there)], {}, there), now_ms=0, width=120)
    assert "DEVICE" not in rows[0], "all are of this device"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (59, "59s"), (60, "1m"), (7200, "2h"), (86400 * 3, "3d"), (86400 * 1001, "2y")],
)
def test_an_age_is_one_number_and_a_letter(seconds: int, shown: str) -> None:
    assert lines.age(seconds * 1000) == shown


def test_a_terminal_gets_what_fits_it_and_an_encoding_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    _make(1, title="a long title " * 9, folder="/home/" + "deep/" * 40)
    main, inner = pty.openpty()
    env = {**os.environ, "COLUMNS": "50", "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    done = subprocess.run([sys.executable, "-m", "hhd", "ls"], stdout=inner, stderr=subprocess.PIPE, env=env)
    os.close(inner)
    shown = os.read(main, 10_000).decode()
    os.close(main)
    assert done.returncode == 0 and not done.stderr
    assert len(shown.splitlines()) == 2 and "a long title" in shown
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    lines.write("中\n")
    out.flush()
    assert out.buffer.getvalue() == b"\\u4e2d\n"  # type: ignore[attr-defined]


def test_a_damaged_catalogue_shows_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    _make(60)
    with opened() as store, store.transaction():
        name = store.rows.name(CATALOGUE, b"", bytes(8))
        assert store.database.write("UPDATE rows SET sealed=zeroblob(90) WHERE name=?", name)
    assert len(_ls(capsys)[0]) == 61
    assert overview._quickly(_seed()) is not None  # It was mended.


def test_a_session_that_the_catalogue_lacks_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _make(3)
    with opened() as store:
        store.create_session(_id(7))
    assert [line.split()[0] for line in _ls(capsys)[0][1:]][-1] == _id(7).hex()[:8]


def _seed() -> bytes:
    from hhd.node.this_device import known_identity

    me = known_identity()
    assert me is not None
    return me.seed


@pytest.mark.parametrize("open_elsewhere", [False, True])
def test_a_log_that_a_crash_left_is_looked_at_by_the_store_itself(open_elsewhere: bool) -> None:
    _make(3)
    assert overview._quickly(_seed()) is not None
    code = (
        "import os, sys; from hhd.node.store import opened\n"
        "with opened() as store:\n"
        "    store.rows.put('test', b'', b'', b'x')\n"
        "    print('written', flush=True)\n"
        f"    {'sys.stdin.read()' if open_elsewhere else 'os._exit(9)'}"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"written\n"
        if not open_elsewhere:
            process.wait()
        assert (overview._quickly(_seed()) is not None) == open_elsewhere
        process.communicate(b"")
    assert len(overview.overview().sessions) == 3


def test_the_quick_path_imports_neither_click_nor_automerge_nor_what_reads_sessions() -> None:
    _make(2)
    vendors = ("click", "automerge", "wasmtime", "zstandard", "asyncio", "hhd.store.store", "hhd.registry", "json")
    code = (
        "import sys\nfrom hhd.cli import run\nassert run(['ls']) == 0\n"
        f"print([one for one in {vendors} if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "session 1" in done.stdout


WORDS = st.sampled_from(["", "--json", "--all", "--al", "--all=1", "-h", "--help", "--", "-", "a", "b c", "-x", "ls"])


@given(st.lists(WORDS, max_size=4))
def test_both_readers_agree_wherever_the_quick_one_reads(rest: list[str]) -> None:
    call = quick.parse(["ls", *rest])
    if call is None:
        return
    calls: list[object] = []

    def stand_in(query: str, **given: object) -> None:
        calls.append((query, given))
        raise RefusedError("stop here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_sessions, "listed", stand_in)
        for reader in (call, lambda: _by_click(["ls", *rest])):
            with pytest.raises(RefusedError, match="stop here"):
                reader()
    assert len(calls) == 2 and calls[0] == calls[1]


@pytest.mark.parametrize(
    ("words", "read"),
    [("ls", True), ("ls --json --all q", True), ("ls q r", False), ("ls --help", False), ("ls -- q", False)],
)
def test_only_what_is_beyond_doubt_is_read_without_click(words: str, read: bool) -> None:
    assert (quick.parse(words.split()) is not None) == read


def _spread(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The cells of the list after STATE, by line."""
    head, *rows = _ls(capsys, *words)[0]
    cells = [" ".join(head.split()[3:-2]), *[" ".join(line.split()[4:-2]) for line in rows]]
    assert len(head.split()[3:-2]) == (3 if "--devices" in words else 1)
    return cells


def test_a_list_says_which_devices_have_the_newest_and_how_far_others_are(capsys: pytest.CaptureFixture[str]) -> None:
    desktop, tower = DeviceId(b"\x02" * 32), DeviceId(b"\x03" * 32)
    _make(5, folder="/x")
    assert "NEWEST" not in _ls(capsys)[0][0] and "HERE" not in _ls(capsys, "--devices")[0][0], "it is the only device"
    assert json.loads(_ls(capsys, "--json")[0][0])["sessions"][0]["devices"] == []
    now_ms = time.time_ns() // 1_000_000
    head = CheckpointId(StatementId(b"\x07" * 32))
    with opened() as store, store.transaction():
        store.freshness.note_devices({desktop: "its own name", tower: "tower"})
        registry.opened(store).name_device(desktop, "desktop")
        level, behind = Reached(7, now_ms - 7_200_500, head, b"x"), Reached(4, now_ms - 7_200_500, head)
        for number, (lacking, *reached) in enumerate(
            [
                (0, level, level),
                (0, level, behind),
                (2, level, behind),
                (0, behind, behind),
                (0, level, Reached(kept_back=True)),
            ]
        ):
            store.freshness.put(_id(number), Fresh(lacking, dict(enumerate(reached))))
            listed = listing.get(store, _id(number))
            assert listed is not None
            store.catalogue.put(_id(number), listed._replace(checkpoints=7).encoded())
    assert _spread(capsys) == [
        "NEWEST",
        "here, desktop",
        "here; 2 behind",
        "desktop; 2 behind",
        "here, desktop; tower -3",
        "all",
    ]
    assert _spread(capsys, "--devices") == [
        "HERE desktop tower", "all all kept back", "all -3 2h -3 2h", "-2 all -3 2h", "all all -3 2h", "all all all",
    ]  # fmt: skip
    told = {one["title"]: one for one in json.loads(_ls(capsys, "--json")[0][0])["sessions"]}
    one = told["session 2"]
    assert one["checkpoints"] == 7 and [each["behind"] for each in one["devices"]] == [2, 0, 3]
    assert [each["name"] for each in one["devices"][1:]] == ["desktop", "tower"] and one["devices"][0]["here"]
    tower_of = one["devices"][2]
    assert tower_of["head"] == head.hex() and 7_200_500 <= tower_of["age_ms"] < 7_300_000
    assert [each["behind"] for each in told["session 0"]["devices"]] == [0, 0, 0], "also of those that are everywhere"


def test_a_clock_that_was_set_back_makes_no_age(capsys: pytest.CaptureFixture[str]) -> None:
    _make(1)
    with opened() as store, store.transaction():
        store.freshness.note_devices({DeviceId(b"\x02" * 32): ""})
        store.freshness.put(_id(0), Fresh(0, {0: Reached(0, time.time_ns() // 1_000_000 + 86_400_000)}))
        listed = listing.get(store, _id(0))
        assert listed is not None
        store.catalogue.put(_id(0), listed._replace(checkpoints=3).encoded())
    assert json.loads(_ls(capsys, "--json")[0][0])["sessions"][0]["devices"][1]["age_ms"] is None
    assert " -3 " in _ls(capsys, "--devices")[0][1] and " -3 0s" not in _ls(capsys, "--devices")[0][1]


def test_a_long_name_of_a_device_leaves_room_and_is_shown_as_text() -> None:
    found = Overview(
        [Listed(id=_id(0), title="t", owner=DeviceId(b"\x01" * 32), checkpoints=3)],
        {b"\x02" * 16: "\x1b[31m" + "x" * 60},
        DeviceId(b"\x01" * 32),
        others=[DeviceId(b"\x02" * 32)],
        spread={_id(0): Spread(0, (Reach(3),))},
    )
    for by_device in (False, True):
        for width in (40, 80, None):
            rows = lines.table(found, now_ms=0, width=width, by_device=by_device)
            assert not any("\x1b" in row for row in rows) and all(width is None or len(row) <= width for row in rows)
    assert "here; \\x1b" in lines.table(found, now_ms=0, width=120)[1]


def test_an_entry_from_before_checkpoints_were_counted_is_read() -> None:
    one = Listed(id=_id(0), title="t", owner=DeviceId(b"\x01" * 32), left_out=0, checkpoints=9)
    for fields in (1, 2):
        assert listing.decoded(encode(one.row[:-fields])) == one._replace(checkpoints=0)
    with pytest.raises(FormatError):
        listing.decoded(encode(one.row[:-3]))
