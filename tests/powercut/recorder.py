"""Runs a process and writes down what it does to the files under one folder (`recorder.c`, by LD_PRELOAD)."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("recorder.c")
_HEAD = struct.Struct("<BQqII")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One thing done; see `recorder.c` for the ops. `inode` is 0 where only names matter."""

    op: str
    inode: int
    offset: int
    path: str
    data: bytes


@functools.cache
def library() -> Path:
    """The built recorder; skips the test where it cannot be built."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("recording writes needs Linux and a C compiler")
    out = Path(tempfile.mkdtemp(prefix="hhd-powercut-")) / "recorder.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(out), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the recorder cannot be built here: {done.stderr[-300:]}")
    return out


def record(command: Sequence[str], root: Path, log: Path, **environment: str) -> list[Record]:
    """Run `command`, which must succeed, and return what it did under `root`."""
    watched = {
        "LD_PRELOAD": str(library()),
        "POWERCUT_ROOT": str(root.resolve()),
        "POWERCUT_LOG": str(log),
    }
    subprocess.run(command, check=True, env={**os.environ, **environment, **watched}, stdout=subprocess.DEVNULL)
    return list(read(log))


def mark(name: str) -> None:
    """In the watched process: what was done so far has now been promised to somebody."""
    fd = os.open(os.environ["POWERCUT_LOG"], os.O_WRONLY | os.O_APPEND)
    raw = name.encode()
    os.write(fd, _HEAD.pack(ord("m"), 0, 0, len(raw), 0) + raw)
    os.close(fd)


def read(log: Path) -> Iterator[Record]:
    """The records of a log, in order."""
    raw = log.read_bytes()
    at = 0
    while at < len(raw):
        op, inode, offset, path_bytes, data_bytes = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        path, data = raw[at : at + path_bytes], raw[at + path_bytes : at + path_bytes + data_bytes]
        at += path_bytes + data_bytes
        yield Record(op=chr(op), inode=inode, offset=offset, path=path.decode(), data=data)
