"""The verbs on sync with the other devices, as `hhd.app.syncing` asks them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

from hhd.identity.key import Identity
from hhd.node import lagging, naming
from hhd.node.answers.syncing import Followed, Freshness, FreshnessOf, Held, Syncings
from hhd.node.devices import Devices
from hhd.node.lanes import Lane
from hhd.node.members import members
from hhd.node.registry import device_names
from hhd.node.service import Verb
from hhd.node.sync.engine import Engine
from hhd.node.sync.talk import Counted
from hhd.node.sync.wishes import Wishes
from hhd.store.store import Store
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import SessionId

if TYPE_CHECKING:
    from hhd.node.sync.syncing import Syncing

T = TypeVar("T")


class SyncingVerbs:
    """What a person may ask of `syncing`. The engine is used in its `lane`, all else is for the loop's thread."""

    def __init__(
        self,
        syncing: Syncing,
        *,
        me: Identity,
        engine: Engine,
        lane: Lane,
        wishes: Wishes,
        frugal: Callable[[], str],
    ) -> None:
        self._syncing, self._me = syncing, me
        self._engine, self._lane, self._wishes, self._frugal = engine, lane, wishes, frugal

    def table(self) -> dict[str, Verb]:
        """The verbs by their names."""
        return {
            "sync_status": Verb(self.sync_status, changes=False),
            "sync_pause": Verb(self.sync_pause, changes=True),
            "sync_follow": Verb(self.sync_follow, changes=True),
            "sync_fresh": Verb(self.sync_fresh, changes=False),
            "sync_watch": Verb(self.sync_watch, changes=False),
            "sync_stepped": Verb(self.sync_stepped, changes=False),
        }

    async def sync_status(self) -> Syncings:
        """How it stands with each device, and with each session that not every device has."""
        return await self._lane.do(self._status)

    def _status(self) -> Syncings:
        self._engine.note_freshness()
        names = self._devices()
        machine, counted = self._engine.machine, self._engine.counted
        flows = [
            lagging.flow(
                device,
                names.named(device),
                lag,
                linked=machine.peers.get(device),
                behind=machine.behind(device) if device in machine.peers else lag.sessions,
                waiting=machine.wants.waits_for(device),
                counted=counted.get(device, Counted()),
            )
            for device, lag in lagging.lags(self._engine.store).items()
        ]
        held = [
            Held(session=session.hex(), device=device_text(peer), name=names.named(peer))
            for session, peer in self._wishes.held()
        ]
        return Syncings(
            paused=self._syncing.paused,
            frugal=self._frugal(),
            holding=self._engine.machine.holding.get(None, ""),
            wanted=len(self._engine.machine.wants),
            flows=tuple(flows),
            held=tuple(held),
            trouble=self._syncing.trouble,
        )

    def _devices(self) -> Devices:
        store = self._engine.store
        return Devices(me=self._me.id, members=members(store, self._me), names=device_names(store.shared)[0])

    async def sync_pause(self, paused: bool) -> Syncings:
        """Take no content until it is resumed; records and intents go on."""
        self._syncing.paused = "its person paused it" if paused else ""
        await self._syncing.act(lambda: self._engine.hold(self._syncing.paused))
        return await self.sync_status()

    async def sync_follow(self, name: str | None, device: str, follow: bool) -> Followed:
        """Let `device` have a session (None: every one, those to come too), or keep it back."""

        def wish(store: Store) -> Followed:
            devices = self._devices()
            target = naming.device(devices.all(), device)
            session = None if name is None else naming.session(store, name).id
            count = self._wishes.follow(store, session, target, follow)
            shown = "" if session is None else session.hex()
            return Followed(session=shown, device=device_text(target), name=devices.named(target), sessions=count)

        done = await self._in_store(wish)
        await self._syncing.act(self._engine.rescreened)
        for hear in self._syncing.wished:
            hear()
        return done

    async def sync_fresh(self, name: str) -> FreshnessOf:
        """Which devices have all that is here of a session, and the newest checkpoint that each has."""
        session = (await self._in_store(lambda store: naming.session(store, name))).id
        known = await self._syncing.acknowledged(session)
        names = await self._lane.do(self._devices)
        found = [
            Freshness(
                device=device_text(device),
                name=names.named(device),
                checkpoint=None if device not in known else known[device].hex(),
                level=await self._syncing.fresh(session, device),
                linked=device in self._syncing.linked(),
            )
            for device in sorted({*known, *self._syncing.linked()})
        ]
        return FreshnessOf(session=session.hex(), devices=tuple(found))

    async def sync_watch(self) -> AsyncIterator[Syncings]:
        """Say how it stands whenever that changes, twice a second at most."""
        before: Syncings | None = None
        while True:
            now = await self.sync_status()
            if now != before:
                yield now
                before = now
            await asyncio.sleep(0.5)

    async def sync_stepped(self, session: SessionId, intent: bool) -> bool:
        """A session made a step in a process that is none of the daemon's; with `intent` something begins now."""
        self._syncing.stepped(session, intent=intent)
        return True

    async def _in_store(self, act: Callable[[Store], T]) -> T:
        return await self._lane.do(lambda: act(self._engine.store))
