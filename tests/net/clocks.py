"""A clock of its own for one host's daemon, which a test moves while it runs."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.net.lab import Host


@functools.cache
def _library() -> str:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    made = os.path.join(tempfile.mkdtemp(prefix="hhd-clocks-"), "clocks.so")
    source = Path(__file__).with_name("clocks.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", made, str(source)], check=True)
    return made


class Clock:
    """The clock of a host: give `environment` to its daemon."""

    def __init__(self, host: Host) -> None:
        self._file = host.folder / "clocks"
        self._date = self._slept = 0
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """What the daemon is started with."""
        return {"LD_PRELOAD": _library(), "HHD_LAB_CLOCKS": str(self._file)}

    def jump(self, seconds: int) -> None:
        """Somebody sets the date."""
        self._date += seconds
        self._write()

    def sleep(self, seconds: int) -> None:
        """The device slept: the date and the clock that counts sleep went on."""
        self._date += seconds
        self._slept += seconds
        self._write()

    def _write(self) -> None:
        raw = struct.pack("=qq", self._date, self._slept)
        if self._file.exists():
            with open(self._file, "r+b") as into:
                into.write(raw)
        else:
            self._file.write_bytes(raw)
