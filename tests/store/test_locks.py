"""A session is advanced by one process at a time, whatever lock files say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, BOB

from hhd.base.errors import RefusedError
from hhd.store import locks
from hhd.store.errors import BusyError
from hhd.store.store import Store

_HOLD = """
import sys
from pathlib import Path
from hhd.store import locks
lock = locks.take(Path(sys.argv[1]))
print("held" if lock else "busy", flush=True)
sys.stdin.read()
"""


def _other(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _HOLD, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_processes_do_not_both_advance(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a"
    with _other(path) as holder:
        assert _first_line(holder) == "held"
        assert locks.take(path) is None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert locks.take(path, wait=True) is not None
    with store.advance(ALICE), store.advance(BOB), pytest.raises(BusyError, match="another process"):
        store.advance(ALICE)
    store.advance(ALICE).release()


def test_a_folder_that_cannot_be_written_is_one_sentence_for_the_person(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for path in (tmp_path / "file" / "locks" / "a", tmp_path / "link"):
        with pytest.raises(RefusedError, match=r"cannot be written \(.*\); nothing was changed"):
            locks.take(path)
    assert locks.take(tmp_path / "there" / "a") is not None


@pytest.mark.parametrize("content", ["", "1", str(os.getppid()), "4194304", "nonsense"])
def test_what_a_lock_file_contains_means_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "locks" / "a"
    path.parent.mkdir()
    path.write_text(content)
    lock = locks.take(path)
    assert lock is not None
    with _other(path) as other:
        assert _first_line(other) == "busy"
    lock.release()
    with _other(path) as other:
        assert _first_line(other) == "held"


_HOLD_AND_FORK = """
import os, sys
from pathlib import Path
from hhd.store import locks
lock = locks.take(Path(sys.argv[1]))
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
os.wait()
"""


def test_a_forked_child_does_not_keep_the_lock_of_a_killed_parent(tmp_path: Path) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-c", _HOLD_AND_FORK, str(path)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert _first_line(parent) == "forked"
    assert locks.take(path) is None
    parent.kill()
    parent.wait()
    again = locks.take(path)
    assert parent.stdin is not None
    parent.stdin.close()  # The child ends only now.
    assert again is not None, "the child keeps the lock after its parent ended"


def test_a_lock_is_let_go_while_a_child_runs_and_a_child_does_not_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lock = locks.take(path)
    assert lock is not None
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()
        os.close(tell)
        os.read(told, 1)
        os._exit(0)
    os.close(told)
    try:
        assert locks.take(path) is None
        lock.release()
        assert locks.take(path) is not None
    finally:
        os.close(tell)
        os.waitpid(child, 0)


def test_a_started_program_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lock = locks.take(path)
    assert lock is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    lock.release()
    again = locks.take(path)
    child.communicate(b"\n")
    assert again is not None


def test_a_child_cannot_use_the_stores_connection(store: Store) -> None:
    child = os.fork()
    if child == 0:
        try:
            store.sessions()
        except AssertionError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_readers_of_another_process_go_on_beside_a_writer(store: Store, folder: Path) -> None:
    store.create_session(ALICE)
    code = (
        "import sys; from pathlib import Path; from hhd.store.store import Store;"
        "print(len(Store.open(Path(sys.argv[1]), seed=bytes(range(32))).sessions()))"
    )
    with store.transaction():
        store.create_session(BOB)
        seen = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "1"
    seen = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "2"
