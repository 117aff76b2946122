"""The command `hhd`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; the exit status is one of `hhd.base.errors.Exit`."""
    fill_standard_streams()
    from hhd.cli import run

    raise SystemExit(run())


def fill_standard_streams() -> None:
    """Put nothing where a standard stream is closed: else the next file opened, a capsule say, gets its number.

    What is written to that number, also by a library, would land in it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number, which is this one.
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    main()
