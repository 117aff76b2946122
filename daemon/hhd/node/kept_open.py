"""The store as one lane works with it, opened anew for each thing, or kept open while things follow upon one another.

In the pause of a handoff a store would be opened five times at each side, a millisecond each, and would find out anew
who is a member. What others write meanwhile is seen: rows are looked up for the moment, keys are read anew for each
thing. Nobody may hold it for long who is not at work with it, since its repair waits for that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from hhd.node.control import ControlService
from hhd.node.handoff.ports import Open
from hhd.node.lanes import Lane

T = TypeVar("T")


class KeptOpen:
    """Of one lane. `keep` and `let_go` are for the loop's thread; they come in pairs."""

    def __init__(self, opened: Open, lane: Lane) -> None:
        self._opened, self._lane = opened, lane
        self._keeps = 0
        self._control: ControlService | None = None
        self._open = contextlib.ExitStack()
        lane.at_end.append(self._close)

    def keep(self) -> None:
        """From now on leave it open."""
        self._keeps += 1

    def let_go(self) -> None:
        """It need not be open any more."""
        self._keeps -= 1
        if not self._keeps:
            with contextlib.suppress(RuntimeError):  # The lane has ended, and closed it.
                self._lane.begin(self._close_unless_kept)

    async def do(self, act: Callable[[ControlService], T]) -> T:
        """Return what `act` does with it, in the lane's thread."""
        return await self._lane.do(lambda: self._done(act))

    def _done(self, act: Callable[[ControlService], T]) -> T:
        if self._control is None:
            if not self._keeps:
                with self._opened() as control:
                    return act(control)
            self._control = self._open.enter_context(self._opened())
        self._control.store.families.reread()  # Keys that came meanwhile, by another connection.
        try:
            return act(self._control)
        except BaseException:
            self._close()  # Whatever it was: the next thing finds it opened anew.
            raise

    def _close_unless_kept(self) -> None:
        if not self._keeps:
            self._close()

    def _close(self) -> None:
        self._control = None
        self._open.close()
