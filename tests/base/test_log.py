"""The daemon's log: whole lines of bounded files, of nothing but events and numbers."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hhd.base import log
from hhd.base.log import FILE, Log
from hhd.node import logs


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    log.to(None)


def events(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def test_a_line_is_one_object_of_this_user_alone(tmp_path: Path) -> None:
    log.note("before", count=1)  # Nowhere: no command has a log.
    log.to(tmp_path / "logs")
    log.note("started", release="1.0", process=7)
    log.warn("link_lost", device="AAAA-BBBB", why="The peer broke the rules.", seconds=1.5)
    one, two = events(tmp_path / "logs")
    assert (one["event"], one["level"], one["process"]) == ("started", "info", 7)
    assert (two["level"], two["why"]) == ("warning", "The peer broke the rules.")
    assert stat.S_IMODE(os.stat(tmp_path / "logs" / FILE).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "logs").st_mode) == 0o700


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", "the parser"), ("why", "cannot read /home/alice/secret"), ("place", "words of a person"),
        ("device", "alice's laptop"), ("verb", "two words"), ("count", "many"), ("why", "a\nline"),
        ("error", "x" * 999),
    ],
)  # fmt: skip
def test_what_could_be_a_title_a_path_or_words_has_no_place(name: str, value: str, tmp_path: Path) -> None:
    log.to(tmp_path)
    with pytest.raises(AssertionError):
        log.note("event", **{name: value})
    with pytest.raises(KeyError):
        log.note("event", text="anything")
    assert not (tmp_path / FILE).exists()


def test_of_an_error_its_words_are_not_noted(tmp_path: Path) -> None:
    log.to(tmp_path)
    try:
        (tmp_path / "private name").read_bytes()
    except OSError as error:
        log.fault("failed", error)
    try:
        Log(Path("/proc/1/none")).write("info", "words", {"why": object()})  # type: ignore[dict-item]
    except TypeError as error:
        log.fault("failed", error)
    first, second = events(tmp_path)
    assert first["error"] == "ENOENT" and second["error"] == "TypeError"
    assert str(second["place"]).startswith("hhd.base.log:")
    assert "private name" not in (tmp_path / FILE).read_text()


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    kept = Log(tmp_path, bytes_max=1000, files_max=3)
    for number in range(200):
        kept.write("info", "counted", {"count": number})
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == [FILE, f"{FILE}.1", f"{FILE}.2"]
    assert all(one.stat().st_size <= 1000 for one in tmp_path.iterdir())
    counts = [dict(line.fields)["count"] for line in logs.last(1000, folder=tmp_path)]
    assert counts == [str(one) for one in range(200 - len(counts), 200)] and len(counts) > 20


def test_several_processes_write_whole_lines_and_begin_a_new_file_together(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hhd.base.log import Log\n"
        "kept = Log(Path(sys.argv[1]), bytes_max=20000, files_max=50)\n"
        "for n in range(500): kept.write('info', 'counted', {'count': n, 'process': int(sys.argv[2])})"
    )
    many = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(one)]) for one in range(3)]
    assert [one.wait(240) for one in many] == [0, 0, 0]
    found = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(found) == 1500 and 3 < len(sizes) <= sum(sizes) // 19_000 + 2  # None was begun before another was full.
    for one in range(3):
        assert {line["count"] for line in found if line["process"] == one} == set(range(500))


def test_a_full_disk_stops_nobody_and_is_said_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Log(tmp_path)
    kept.write("info", "before", {})

    def full(_: int, __: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        for _ in range(3):
            kept.write("info", "lost", {})
    assert kept.lost == 3
    kept.write("info", "after", {})
    assert [one["event"] for one in events(tmp_path)] == ["before", "after"]
    assert events(tmp_path)[-1]["lost"] == 3 and kept.lost == 0


def test_what_stands_in_the_way_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "logs" / FILE).symlink_to(tmp_path / "mine")
    kept = Log(tmp_path / "logs")
    kept.write("info", "event", {})
    assert kept.lost == 1 and (tmp_path / "mine").read_text() == "mine"


def test_lines_that_are_none_of_ours_are_shown_as_they_are(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(
        b"\xff\x00 nonsense\n[1]\n{}\n" + b"{" * 100_000 + b"\n" + b'{"at":1,"level":2,"event":3}\nhalf'
    )
    found = logs.last(10, folder=tmp_path)
    assert len(found) == 5 and [line.event for line in found] == ["", "", "", "", "3"]
    assert logs.last(0, folder=tmp_path) == [] and logs.last(3, folder=tmp_path / "none") == []


def test_who_follows_sees_each_line_once_also_past_a_new_file(tmp_path: Path) -> None:
    kept = Log(tmp_path, bytes_max=300)
    written = 0

    def more() -> bool:
        nonlocal written
        if written == 60:
            return False
        for _ in range(6):
            kept.write("info", "counted", {"count": written})
            written += 1
        return True

    seen: list[str] = []
    for line in logs.follow(0, more, folder=tmp_path):
        seen.append(dict(line.fields)["count"])
    assert seen == [str(one) for one in range(60)]
    assert [dict(line.fields)["count"] for line in logs.follow(2, lambda: False, folder=tmp_path)] == ["58", "59"]
