"""SIGKILL at every step of writing: nothing is half-published, and a second run finishes the first."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.native.convert.test_conversion import CWD, FIXTURES, converter

from hhd.base import files
from hhd.native.convert import conversion, publish
from hhd.native.convert.conversion import Did, Wish
from hhd.native.opening import open_session
from hhd_protocol.transcript import Harness

SOURCE = next((FIXTURES / "captured" / "claude" / "tools").rglob("*.jsonl"))


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _after(act: Callable[..., object]) -> Callable[..., object]:
    def both(*args: object, **kwargs: object) -> object:
        done = act(*args, **kwargs)
        _die()
        return done

    return both


POINTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "before a byte is written": lambda patch: patch.setattr(files, "write_all", _die),
    "after some bytes": lambda patch: patch.setattr(files, "write_all", _after(lambda fd, p: os.write(fd, p[0][:100]))),
    "after all bytes": lambda patch: patch.setattr(files, "sync_file", _die),
    "before it is read back": lambda patch: patch.setattr(conversion.Converter, "_check", _die),
    "before it is remembered": lambda patch: patch.setattr(conversion.History, "record", _die),
    "after it is remembered": lambda patch: patch.setattr(
        conversion.History, "record", _after(conversion.History.record)
    ),
    "before it is visible": lambda patch: patch.setattr(os, "link", _die),
    "just visible": lambda patch: patch.setattr(os, "link", _after(os.link)),
    "before the name aside is gone": lambda patch: patch.setattr(publish.Aside, "__exit__", _die),
}


def _killed(point: str, folder: Path, wish: Wish, source: Path = SOURCE) -> None:
    pid = os.fork()
    if pid == 0:
        patch = pytest.MonkeyPatch()
        POINTS[point](patch)
        try:
            converter(folder).convert(source, wish)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the point was not reached"


@pytest.mark.parametrize("target", Harness)
@pytest.mark.parametrize("point", POINTS)
def test_killed_there_it_is_whole_or_not_there_and_the_next_run_finishes(
    point: str, target: Harness, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    wish = Wish(target=target, home=home, cwd=CWD)
    _killed(point, tmp_path, wish)
    seen = [path for path in home.rglob("*.jsonl") if not path.name.startswith(".")]
    for path in seen:
        with open_session(path) as reading:
            assert len(list(reading.items())) >= 14
            assert reading.account.complete
    manifest = converter(tmp_path).convert(SOURCE, wish)
    assert manifest.did in (Did.WRITTEN, Did.UNCHANGED)
    assert seen in ([], [manifest.path])
    whole = [path for path in home.rglob("*") if path.is_file()]
    assert whole == [manifest.path] or manifest.did is Did.UNCHANGED
    assert [path for path in whole if path.suffix == ".jsonl"] == [manifest.path]


@pytest.mark.parametrize("point", ["after it is remembered", "before it is remembered"])
def test_an_update_that_was_killed_is_finished_by_the_next_run(point: str, tmp_path: Path) -> None:
    lines = SOURCE.read_bytes().splitlines(keepends=True)
    source = tmp_path / SOURCE.name
    source.write_bytes(b"".join(lines[:36]))
    wish = Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD)
    first = converter(tmp_path).convert(source, wish)
    assert first.path is not None
    before = first.path.read_bytes()
    source.write_bytes(b"".join(lines))
    _killed(point, tmp_path, wish, source)
    assert first.path.read_bytes() == before
    again = converter(tmp_path).convert(source, wish)
    assert again.did is Did.UPDATED
    assert again.path == first.path
    assert first.path.read_bytes() != before
    assert converter(tmp_path).convert(source, wish).did is Did.UNCHANGED
