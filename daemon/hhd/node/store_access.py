"""The store as the loop of the daemon reaches it: opened anew for each thing, in the lane of its kind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hhd.node.lanes import Lanes

if TYPE_CHECKING:
    from hhd.node.control import ControlService

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StoreAccess:
    """`opened` opens the store for one thing; it is called in a thread of `lanes`."""

    opened: Callable[[], AbstractContextManager[ControlService]]
    lanes: Lanes

    async def change(self, act: Callable[[ControlService], T]) -> T:
        """Return what `act` does with the store, which it may change."""
        return await self.lanes.changing.do(lambda: self._done(act))

    async def look(self, act: Callable[[ControlService], T]) -> T:
        """Return what `act` finds in the store."""
        return await self.lanes.looking.do(lambda: self._done(act))

    async def list(self, act: Callable[[ControlService], T]) -> T:
        """Return what `act` finds of all sessions: looking at one does not wait for that."""
        return await self.lanes.lists.do(lambda: self._done(act))

    def _done(self, act: Callable[[ControlService], T]) -> T:
        with self.opened() as control:
            return act(control)
