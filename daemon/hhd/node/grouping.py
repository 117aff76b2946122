"""The verbs on a person's devices as a part of the daemon: what they change is known in it at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from hhd.node.answers.device import Device
from hhd.node.answers.group import Allowed, Gathering, Named, Refounded, Unpaired
from hhd.node.group_verbs import GroupVerbs
from hhd.node.lanes import Lanes
from hhd.node.service import Verb

T = TypeVar("T")


class Grouping:
    """`opened` gives the verbs with a store that is open meanwhile."""

    def __init__(self, *, opened: Callable[[], AbstractContextManager[GroupVerbs]], lanes: Lanes) -> None:
        self._opened, self._lanes = opened, lanes
        self.changed: list[Callable[[], Awaitable[None]]] = []
        """Each is awaited after each change, before the answer: then a device that was put out is cut off already."""

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.service.Part`."""
        return {
            "devices": Verb(self._devices, changes=False),
            "device_allow": Verb(self._allow, changes=True),
            "device_rename": Verb(self._rename, changes=True),
            "device_meant": Verb(self._meant, changes=False),
            "unpair": Verb(self._unpair, changes=True),
            "refound": Verb(self._refound, changes=True),
        }

    async def run(self) -> None:
        """Nothing of its own."""

    async def stop(self) -> None:
        """What is being done is done."""

    async def _meant(self, name: str) -> Device:
        return await self._lanes.looking.do(self._with(lambda verbs: verbs.meant(name)))

    async def _devices(self) -> Gathering:
        return await self._lanes.looking.do(self._with(lambda verbs: verbs.devices()))

    async def _allow(self, name: str, approve: bool) -> Allowed:
        return await self._change(lambda verbs: verbs.allow(name, approve))

    async def _rename(self, name: str, title: str) -> Named:
        return await self._change(lambda verbs: verbs.rename_device(name, title))

    async def _unpair(self, name: str) -> Unpaired:
        return await self._change(lambda verbs: verbs.unpair(name))

    async def _refound(self) -> Refounded:
        return await self._change(lambda verbs: verbs.refound())

    async def _change(self, act: Callable[[GroupVerbs], T]) -> T:
        done = await self._lanes.changing.do(self._with(act))
        for tell in self.changed:
            await tell()
        return done

    def _with(self, act: Callable[[GroupVerbs], T]) -> Callable[[], T]:
        def opened() -> T:
            with self._opened() as verbs:
                return act(verbs)

        return opened
