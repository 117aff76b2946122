"""Ctrl-C as a wish, for the main thread of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.runtime.outcomes import StopFlag


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """A stop flag that Ctrl-C, and being told to end, set while it lasts; for the main thread of a command."""
    from hhd.effects.interrupts import Interrupts
    from hhd.runtime.outcomes import StopFlag

    stop = StopFlag()
    with Interrupts(stop.set).caught():
        yield stop
