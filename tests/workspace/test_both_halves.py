"""What the capture half takes, the other half makes appear, and captured again it is the same."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.workspace.by_hand import BOX, ENV, everything, git, git_looks, looks, repository
from tests.workspace.table import STATES, made, special

from hhd.base.errors import UserError
from hhd.workspace.capture import capture
from hhd.workspace.errors import NotOurs
from hhd.workspace.in_place import same_state
from hhd.workspace.materialise import held, materialise
from hhd_protocol.ids import PageId
from hhd_protocol.workspace import Capture

ROOT = Path(__file__).parents[2]


class Pieces(dict[PageId, bytes]):
    """Pieces by their hash."""

    def put(self, raw: bytes) -> PageId:
        one = PageId(hashlib.sha256(raw).digest())
        self[one] = raw
        return one


def write(one: Capture, pieces: Pieces, folder: Path, **more: object) -> None:
    with held(folder, BOX) as place:
        materialise(one, pieces.__getitem__, folder, place, **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, ENV[name])


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_captured_arrives_and_is_captured_as_the_same(tmp_path: Path, name: str) -> None:
    source, target, pieces = made(tmp_path / "source", name), tmp_path / "target", Pieces()
    before = everything(source)
    one = capture(source, None, pieces.put)
    write(one, pieces, target)
    assert looks(target) == looks(source)
    assert git_looks(target) == git_looks(source)
    assert same_state(capture(target, None, pieces.put), one)
    assert everything(source) == before


@pytest.mark.parametrize(("name", "times"), [*((name, 1) for name in STATES), ("staged_and_unstaged", 5)])
def test_moves_there_and_back_change_nothing_but_what_moves(tmp_path: Path, name: str, times: int) -> None:
    """Between two devices that both have a checkout; as often as a person goes home and back."""
    pieces = Pieces()
    laptop, desktop = made(tmp_path / "laptop", name), tmp_path / "desktop"
    before = everything(laptop)
    going = capture(laptop, None, pieces.put)
    write(going, pieces, desktop)
    refs = git(desktop, "for-each-ref")
    for _ in range(times):
        back = capture(desktop, None, pieces.put)
        write(back, pieces, laptop, now=capture(laptop, None, pieces.put), last=going)
        going = capture(laptop, None, pieces.put)
        write(going, pieces, desktop, now=capture(desktop, None, pieces.put), last=back)
    assert everything(laptop) == before
    assert (looks(desktop), git_looks(desktop)) == before[:2]
    assert git(desktop, "for-each-ref") == refs and git(desktop, "stash", "list") == b""


@pytest.mark.parametrize("name", ["staged_and_unstaged", "merge_in_progress", "folder_becomes_file"])
def test_a_repository_with_longer_names_of_objects_moves_too(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENV, "GIT_DEFAULT_HASH", "sha256")
    source, target, pieces = made(tmp_path / "source", name), tmp_path / "target", Pieces()
    assert git(source, "rev-parse", "--show-object-format") == b"sha256\n"
    one = capture(source, None, pieces.put)
    write(one, pieces, target)
    assert (looks(target), git_looks(target)) == (looks(source), git_looks(source))
    clean = repository(tmp_path / "clean")
    write(one, pieces, clean, now=capture(clean, None, pieces.put))
    assert (looks(clean), git_looks(clean)) == (looks(source), git_looks(source))


def test_pipes_sockets_and_devices_do_not_travel_and_are_not_disturbed(tmp_path: Path) -> None:
    source, target, pieces = made(tmp_path / "source", "dirty"), repository(tmp_path / "target"), Pieces()
    for at in (source, target):
        special(at)
    here = {b"pipe", b"socket", b"device"}
    before = looks(target)
    one = capture(source, None, pieces.put)
    write(one, pieces, target, now=capture(target, None, pieces.put))
    after, there = looks(target), looks(source)
    assert {path: after.pop(path) for path in here} == {path: before[path] for path in here}
    assert after == {path: look for path, look in there.items() if path not in here}


def test_a_device_in_the_way_is_not_opened(tmp_path: Path) -> None:
    source, target, pieces = repository(tmp_path / "source"), repository(tmp_path / "target"), Pieces()
    special(target)
    (source / "device").write_text("a file here\n")
    with pytest.raises(NotOurs, match="in the way"):
        write(capture(source, None, pieces.put), pieces, target, now=capture(target, None, pieces.put))


def test_a_pipe_in_the_way_is_not_opened(tmp_path: Path) -> None:
    source, target, pieces = repository(tmp_path / "source"), repository(tmp_path / "target"), Pieces()
    (source / "pipe").write_text("a file here\n")
    os.mkfifo(target / "pipe")
    with pytest.raises(NotOurs, match="in the way"):
        write(capture(source, None, pieces.put), pieces, target, now=capture(target, None, pieces.put))


def as_nobody(place: Path, source: Path, target: Path) -> list[str]:
    """Capture and materialise in a child that owns nothing here: root may read and write everything.

    It is forked, not started: another user may not even read this interpreter. Returns what it has to say.
    """
    home = place / "nobodys"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    (place / "said").touch(mode=0o666)
    (place / "said").chmod(0o666)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            os.environ |= {**ENV, "HHD_DATA_HOME": str(home / "data"), "HOME": str(home)}
            (place / "said").write_text("\n".join(_captured_and_written(source, target)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return (place / "said").read_text().splitlines()


def _captured_and_written(source: Path, target: Path) -> list[str]:
    pieces = Pieces()
    one = capture(source, None, pieces.put)
    left = [f"{os.fsdecode(left.path)} {left.reason.name}" for left in one.left_out]
    try:
        write(one, pieces, target)
    except UserError as error:
        return [*left, f"{int(error.exit)} {error}"]
    return [*left, "written"]


@pytest.fixture
def open_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that other users reach: pytest's own are closed to them."""
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="hhd-open-"))
    place.chmod(0o755)
    return place


def test_a_file_that_may_not_be_read_is_left_out_and_named(open_place: Path) -> None:
    try:
        source = open_place / "source"
        source.mkdir()
        (source / "a").write_text("a")
        (source / "secret").write_text("s")
        (source / "secret").chmod(0)
        (open_place / "there").mkdir()
        (open_place / "there").chmod(0o777)
        assert as_nobody(open_place, source, open_place / "there" / "target") == ["secret UNREADABLE", "written"]
        assert [one.name for one in (open_place / "there" / "target").iterdir()] == ["a"]
    finally:
        shutil.rmtree(open_place)


def test_a_folder_that_may_not_be_written_to_is_left_as_it_is(open_place: Path) -> None:
    try:
        source, closed = open_place / "source", open_place / "closed"
        for at in (source, closed):
            at.mkdir()
            (at / "a").write_text("a")
        closed.chmod(0o555)
        (said,) = as_nobody(open_place, source, closed / "target")
        assert said.startswith("4 ") and "Permission denied" in said
        assert [one.name for one in closed.iterdir()] == ["a"]
    finally:
        (open_place / "closed").chmod(0o755)
        shutil.rmtree(open_place)


def test_a_file_that_the_system_stops_half_way_leaves_the_old(tmp_path: Path) -> None:
    """A real refusal by the system, in the middle of a file: the limit on the size of files."""
    source, target, pieces = made(tmp_path / "source", "large_file"), repository(tmp_path / "target"), Pieces()
    one, now, before = capture(source, None, pieces.put), capture(target, None, pieces.put), everything(target)
    import signal

    old, kept = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 21, old[1]))
    try:
        with pytest.raises(UserError) as caught:
            write(one, pieces, target, now=now)
        with pytest.raises(UserError):
            write(one, pieces, tmp_path / "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, kept)
    assert caught.value.exit == 4
    assert everything(target) == before and not (tmp_path / "new").exists()
    write(one, pieces, target, now=now)
    assert looks(target) == looks(source)


@pytest.mark.long
def test_a_hundred_thousand_files_arrive_and_move_on(tmp_path: Path) -> None:
    source, target, pieces = tmp_path / "source", tmp_path / "target", Pieces()
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    for folder in range(500):
        at = source / f"d{folder // 20}" / f"e{folder}"
        at.mkdir(parents=True)
        for number in range(200):
            (at / f"f{number}").write_text(f"{folder} {number}\n")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "many")
    (source / "d0/e0/f0").write_text("changed\n")
    first = capture(source, None, pieces.put)
    write(first, pieces, target)
    assert git_looks(target) == git_looks(source) and looks(target) == looks(source)
    shutil.rmtree(source / "d3")
    (source / "d4").rename(source / "moved")
    second = capture(source, first, pieces.put)
    write(second, pieces, target, now=capture(target, None, pieces.put), last=first)
    assert git_looks(target) == git_looks(source) and looks(target) == looks(source)


BIG = """
import sys
from pathlib import Path
from hhd.base.box import Box
from hhd.workspace.capture import capture
from hhd.workspace.materialise import held, materialise
from hhd.store.store import Limits, Store
from tests.memory import peak_kib
place = Path(sys.argv[1])
with Store.open(place / "store", seed=bytes(32), limits=Limits(free_bytes_min=0)) as store:
    writer = store.capture_writer(store.commons(), None)
    made = capture(place / "source", None, writer.put)
    with store.transaction():
        reader = store.capture_reader(store.commons(), writer.finish(made))
    with held(place / "target", Box(bytes(32))) as hold:
        materialise(made, reader.piece, place / "target", hold)
print(peak_kib() // 1024)
"""


@pytest.mark.long
def test_a_gigabyte_of_untracked_files_goes_through_little_memory(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    block = os.urandom(1 << 12) * 256
    for number in range(8):
        with open(source / f"big{number}", "wb") as file:
            for at in range(128):
                file.write(at.to_bytes(4, "big") + number.to_bytes(4, "big") + block[8:])
    done = subprocess.run(
        [sys.executable, "-c", BIG, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 256, f"{done.stdout.strip()} MB of memory"
    for number in range(8):
        subprocess.run(["cmp", source / f"big{number}", tmp_path / "target" / f"big{number}"], check=True)
    assert git_looks(tmp_path / "target") == git_looks(source)
    for one in ("source", "target", "store"):
        shutil.rmtree(tmp_path / one)
