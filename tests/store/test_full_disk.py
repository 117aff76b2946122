"""A disk that fills in the middle of a checkpoint: one clear sentence, nothing lost, and it goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED, Memory, flat

from hhd.store.check import Check
from hhd.store.errors import FullStoreError
from hhd.store.line import Line
from hhd.store.store import Limits, Store

ROOT = Path(__file__).parents[2]

WORK = """
import os, resource, signal, sys
from pathlib import Path
from hhd.store.check import Check
from hhd.store.errors import FullStoreError
from hhd.store.line import Line
from hhd.store.store import Store
from tests.store.conftest import ALICE, SEED, Memory, flat
from tests.store.small import LIMITS, dice

folder, how = Path(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open(folder, seed=SEED, limits=LIMITS, random=dice(1))
store.create_session(ALICE)
memory, line = Memory(64), Line(store, ALICE)
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
else:
    (folder.parent / "ballast").write_bytes(bytes(int(sys.argv[3])))
done, refused = 0, ""
for step in range(400):
    memory.pages[100 + step % 50] = memory.dice.randbytes(4096)
    before, pages = line.head, dict(memory.pages)
    try:
        line.checkpoint(snapshot=memory.snapshot())
        done += 1
    except FullStoreError as error:
        refused = str(error)
        break
assert refused, "the disk never filled"
assert line.head == before, "the head moved though nothing was stored"
assert not Check(store).run().findings
assert store.heads(ALICE) == [line.head]
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
else:
    (folder.parent / "ballast").unlink()
head = line.checkpoint(snapshot=memory.snapshot())
assert flat(Line(store, ALICE, head).snapshot()) == pages
assert len(store.checkpoint_ids(ALICE)) == done + 1
assert not Check(store, read_data=True).run().findings
print(refused)
"""


@pytest.mark.parametrize("size", [200_000, 300_001, 412_345])
def test_a_write_that_does_not_fit_is_refused_whole_and_goes_on_later(tmp_path: Path, size: int) -> None:
    command = [sys.executable, "-c", WORK, str(tmp_path / "store"), "limit", str(size)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert told.returncode == 0, told.stderr
    assert "was not kept; everything before it is" in told.stdout


@pytest.mark.netns
@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_a_full_tmpfs_is_the_same(tmp_path: Path) -> None:
    at = tmp_path / "disk"
    at.mkdir()
    script = f'mount -t tmpfs -o size=3m none {at} && exec "$@"'
    command = [sys.executable, "-c", WORK, str(at / "store"), "disk", "1500000"]
    told = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *command], capture_output=True, text=True, cwd=ROOT
    )
    if ("mount" in told.stderr and "denied" in told.stderr) or "unshare" in told.stderr:
        pytest.skip(f"no mount namespaces here: {told.stderr.strip()}")
    assert told.returncode == 0, told.stderr
    assert "was not kept; everything before it is" in told.stdout


def test_a_low_disk_stops_before_it_is_full(folder: Path) -> None:
    free = shutil.disk_usage("/").free
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=free * 2)) as store:
        store.create_session(ALICE)
        with pytest.raises(FullStoreError, match="are to stay so"):
            Line(store, ALICE).checkpoint(snapshot=Memory(3).snapshot())
        with pytest.raises(FullStoreError):
            store.modules.put(b"module")
        assert store.checkpoint_ids(ALICE) == []


def test_the_size_that_is_allowed_is_kept(folder: Path) -> None:
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0, bytes_max=500_000)) as store:
        store.create_session(ALICE)
        memory, line, head = Memory(10), Line(store, ALICE), None
        with pytest.raises(FullStoreError, match="it may have"):
            for _ in range(100):
                memory.pages[50] = memory.dice.randbytes(4096)
                memory.pages[51] = memory.dice.randbytes(4096)
                head = line.checkpoint(snapshot=memory.snapshot())
        assert line.head == head and head is not None
        assert flat(line.snapshot())[0] == memory.pages[0]
        assert store.database.bytes_used() < 600_000
        assert not Check(store).run().findings
