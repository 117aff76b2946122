"""Worlds that sync with a store-only member beside the others: it keeps sealed bytes, and knows nothing of them.

What it has are objects and letters (`protocol/spec/sync.md`, Letters), by name. A letter is here the ids of the
statements in it. Who lost its peers for good is restored from that alone: what the dead one wrote last is read
out of letters, and its content comes from who only stores.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from tests.sim.device import Device
from tests.sim.sync.world import SyncWorld, objects_of

from hhd_protocol.ids import DeviceId, ObjectName, Sha256, StatementId
from hhd_protocol.limits import SYNC_AGAIN_MS
from hhd_protocol.statements import Checkpoint, Role
from hhd_protocol.sync import Sync
from hhd_protocol.sync.events import (
    Acknowledged,
    Answering,
    Arrived,
    Lacking,
    Missing,
    Opened,
    Output,
    Piled,
    Send,
    SendContent,
    Take,
    Tick,
)
from hhd_protocol.sync.messages import LETTER, OBJECT, Absent, Message, Part
from hhd_protocol.sync.wants import NO_SESSION

CHANCE = 0.3
"""How many of the worlds have one, beside those that had one anyhow."""


class KeepingWorld(SyncWorld):
    """The world of one seed, in which there may be a store-only member."""

    def prepare(self, *, calm: bool) -> None:
        """A member that only stores is none of `devices`: it has no part in any session."""
        stores = [device for device in self.list if device.role is Role.STORE_ONLY]
        for device in stores:
            device.role = Role.FULL
        self.keepers: dict[DeviceId, Device] = {}
        self.letters: dict[bytes, tuple[StatementId, ...]] = {}
        self.piled: dict[DeviceId, set[bytes]] = {}
        """The names that a device's machine was last told of."""
        self.lost = False
        """An owner was lost; it happens once in a world."""
        self.rescued: set[StatementId] = set()
        """Checkpoints that nobody alive had when a device read of them in a letter."""
        if not self.wide and not calm and (stores or self.apart.random() < CHANCE):
            keeper = Device(id=self.signer.device("attic"), name="attic", role=Role.STORE_ONLY)
            self.keepers[keeper.id] = keeper
            self.names[keeper.id] = keeper.name
        self.members = {device.id: device.role for device in self.everyone()}
        for device in self.everyone() if stores or self.keepers else []:
            device.open(self.session, self.members, self.kinds, self.now_ms)

    def everyone(self) -> list[Device]:
        return [*self.list, *self.keepers.values()]

    def found(self, device: DeviceId) -> Device:
        return self.keepers.get(device) or self.devices[device]

    def sealed(self, one: DeviceId, other: DeviceId) -> bool:
        return one in self.keepers or other in self.keepers

    # What is there for who only stores

    def pile(self, device: Device) -> dict[bytes, int]:
        """What is here by its names; statements that are in no letter yet are put into one."""
        disk = device.disk
        if device.id in self.keepers:
            return dict(disk.pile)
        due = tuple(id for id in disk.statements if id not in disk.lettered)
        if due:
            name = sha256(self.raw_letter(device, due)).digest()
            self.letters[name] = due
            disk.letters.add(name)
            disk.lettered.update(due)
        checkpoints = [one for one in disk.statements.values() if isinstance(one, Checkpoint)]
        found = {name: OBJECT for one in checkpoints for name in objects_of(one) if name in disk.objects}
        return found | dict.fromkeys(sorted(disk.letters), LETTER)

    @staticmethod
    def raw_letter(device: Device, ids: tuple[StatementId, ...]) -> bytes:
        return b"letter" + device.incarnation + b"".join(ids)

    def pile_up(self, device: Device) -> None:
        """Look what a store-only member is to have by now."""
        pile = self.pile(device)
        self.piled[device.id] = set(pile)
        self.happens(device, Piled(pile=pile))

    def pile_any(self) -> None:
        device = self._some()
        if device is not None:
            self.is_true(device)
            self.pile_up(device)

    def is_true(self, device: Device) -> None:
        """Who says that a store-only member has all is right."""
        for keeper in self.keepers.values():
            if self.driver(device) is not None and self.machine(device).is_level(keeper.id, self.sid):
                written = {id for name in keeper.disk.pile for id in self.letters.get(name, ())}
                lost = device.disk.statements.keys() - written
                assert not lost, f"{device.name} says that {keeper.name} has {self.name(lost)}"
                gone = device.disk.objects - keeper.disk.pile.keys()
                assert not gone, f"{device.name} says that {keeper.name} has {len(gone)} objects that it has not"

    def begun(self, device: Device, peer: DeviceId) -> None:
        super().begun(device, peer)
        if self.sealed(device.id, peer):
            self.pile_up(device)

    def opens(self, device: Device) -> None:
        if device.id in self.keepers:
            self.happens(device, Opened(digests={}))
        else:
            super().opens(device)

    # What machines say

    def carry(self, device: Device, machine: Sync, output: Output) -> None:
        keeps = device.id in self.keepers
        match output:
            case Lacking(peer=peer, names=names) if keeps:
                wanted = tuple(ObjectName(name) for name in names if name not in device.disk.pile)
                self.happens(device, Missing(session=NO_SESSION, objects=wanted, source=peer))
            case Lacking(peer=peer, names=names):
                had = device.disk.objects | device.disk.letters
                letters = tuple(Sha256(name) for name in names if name not in had)
                self.happens(device, Missing(session=NO_SESSION, modules=letters, source=peer))
            case SendContent(peer=peer, objects=objects, modules=modules) if self.sealed(device.id, peer):
                for name in objects:
                    self.hand_out(device, peer, name, Absent(objects=(name,)))
                for name in modules:
                    self.hand_out(device, peer, name, Absent(modules=(name,)), letter=True)
            case Acknowledged(peer=peer) if peer in self.keepers:
                lost = self.piled[device.id] - self.found(peer).disk.pile.keys()
                assert not lost, f"{self.name(peer)} is taken to have {len(lost)} sealed things that it has not"
                self.reached["store-only member has all"] += 1
            case Send(peer=peer, message=message) if keeps:
                self.post(device, peer, message)
            case Take(peer=peer, message=Part() as part) if keeps:
                device.disk.pile[part.name] = part.what
                self.happens(device, Arrived(name=part.name, source=peer))
                if not machine.wants.waits_for(peer):
                    self.pile_up(device)
            case Acknowledged() | Answering() if keeps:
                pass
            case _:
                super().carry(device, machine, output)

    def hand_out(self, device: Device, peer: DeviceId, name: bytes, absent: Message, *, letter: bool = False) -> None:
        """Say a part of what is here by that name: a letter, or an object; with `letter` only if it is one."""
        here = device.disk.pile if device.id in self.keepers else {*device.disk.letters, *device.disk.objects}
        if name not in here or (letter and name not in self.letters):
            self.machine(device).has_not(peer, name)
            self.say(device, peer, absent)
            return
        what = LETTER if name in self.letters else OBJECT
        if what == OBJECT and device.id in self.keepers:
            self.reached["content from a store-only member"] += 1
        content = b"".join(self.letters[name]) if what == LETTER else b"x"
        self.say(device, peer, Part(what=what, name=name, offset=0, total=len(content), content=content))

    def take(self, device: Device, peer: DeviceId, message: Message) -> None:
        if not isinstance(message, Part) or message.what != LETTER or device.id in self.full:
            super().take(device, peer, message)
            return
        assert device.part is not None
        openings = device.openings
        given = [self.checks.statements[id] for id in self.letters[message.name]]
        fresh = [one for one in given if one.id not in device.part.known.statements]
        self.reached["letter read"] += 1
        alive = [one for one in self.list if not one.dead]
        for one in fresh:
            alone = not any(one.id in other.disk.statements for other in alive)
            if isinstance(one, Checkpoint) and self.devices[one.by].dead and alone:
                self.rescued.add(one.id)
        self.keep(device, peer, fresh, given, set())
        if device.part is not None and device.openings == openings:
            device.disk.letters.add(message.name)
            self.happens(device, Arrived(name=message.name, source=peer))

    # What happens to it

    def _actions(self) -> dict[Callable[[], None], float]:
        actions = super()._actions()
        if self.keepers:
            actions |= {
                self.pile_any: 8,
                self.keeper_falls: 0.5,
                self.keeper_rises: 4,
                self.keeper_is_cut: self.apart.choice([0, 1]),
                self.seclude_any: self.apart.choice([0, 1]),
                self.owner_is_lost: 3,
            }
        return actions

    def keeper_falls(self) -> None:
        for keeper in self.keepers.values():
            if keeper.up:
                self.note(keeper, "crashes")
                self.reached["store-only member crashed"] += 1
                keeper.crash()

    def keeper_rises(self) -> None:
        for keeper in self.keepers.values():
            if not keeper.up:
                keeper.open(self.session, self.members, self.kinds, self.now_ms)
                self.note(keeper, "starts")

    def keeper_is_cut(self) -> None:
        for keeper in self.keepers:
            self.cut.add(frozenset((keeper, self.apart.choice(self.list).id)))

    def seclude_any(self) -> None:
        self.seclude(self.apart.choice(self.list))

    def seclude(self, away: Device) -> None:
        """A device reaches nobody but who only stores."""
        self.note(away, "reaches no full member")
        self.cut.update(frozenset((away.id, other.id)) for other in self.list if other is not away)
        self.cut.difference_update(frozenset((away.id, keeper)) for keeper in self.keepers)

    def owner_is_lost(self) -> None:
        """The owner works on where nobody but the store-only member hears of it, and is then lost for ever."""
        owners = [d for d in self.list if d.up and self._view(d).owner == d.id]
        keeper = next(iter(self.keepers.values()))
        if self.lost or not owners or not keeper.up or sum(not d.dead for d in self.list) < 2:
            return
        self.lost = True
        owner = self.apart.choice(owners)
        loss, self.loss_chance = self.loss_chance, self.apart.choice([0.0, self.loss_chance])
        self.seclude(owner)
        self.cut.update(frozenset((keeper.id, other.id)) for other in self.list if other is not owner)
        for _ in range(self.apart.randrange(4, 10)):
            if owner.up:
                self.drive(owner)
        self.refresh()
        self.take_turns(owner)
        if self.driver(owner) is not None:
            self.pile_up(owner)
        for _ in range(self.apart.randrange(10, 80)):
            self.deliver_any()
        self.loss_chance = loss
        self.reached["owner lost with work that only a store-only member may have"] += 1
        self.die(owner)

    # The calm

    def heal(self) -> None:
        self.keeper_rises()
        super().heal()

    def exchange(self) -> None:
        self.refresh()
        for device in self.list if self.keepers else []:
            if device.up:
                self.is_true(device)
                self.pile_up(device)
        for keeper in self.keepers.values():
            if keeper.up:
                for peer in self.machine(keeper).peers.values():
                    peer.asked_ms = -SYNC_AGAIN_MS
                self.happens(keeper, Tick())
        super().exchange()

    def _sizes(self) -> list[int]:
        return super()._sizes() + [len(keeper.disk.pile) for keeper in self.keepers.values()]

    def kept_sealed(self) -> set[bytes]:
        return {name for keeper in self.keepers.values() for name in keeper.disk.pile}

    def level_at_the_end(self) -> None:
        super().level_at_the_end()
        up = [device for device in self.list if device.up]
        for _ in range(8):  # Who read a letter has it from the next look on.
            levels = [self.machine(one).is_level(keeper, self.sid) for one in up for keeper in self.keepers]
            if all(levels):
                break
            self.exchange()
        for keeper in self.keepers.values():
            written = {id for name in keeper.disk.pile for id in self.letters.get(name, ())}
            for device in up:
                self.is_true(device)
                assert self.machine(device).is_level(keeper.id, self.sid), (
                    f"{device.name} does not know that {keeper.name} has all"
                )
                lost = written - device.disk.statements.keys()
                assert not lost, f"{device.name} did not read {self.name(lost)} in letters"
        if self.rescued and all(self.rescued <= self.whole(device) for device in up):
            self.reached["restored from a store-only member alone"] += 1
