"""A seeded world whose devices tell one another what they have by the product's own sync machine.

The worlds of `world`, with what `hhd_protocol.sync` says in place of the plain exchange there: messages that are lost,
come twice or out of order, links that break in the middle, disks that are full, and content beside the statements: an
object or two for each checkpoint, without which nobody goes on from it. In wide worlds a session may be removed
everywhere: whoever learns it lets go of all but the tombstone, and takes it back whole where work outlives that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256

from tests.sim.device import Device
from tests.sim.sync.linking import Linking, Reply

from hhd_protocol.holding import Known, Wish
from hhd_protocol.ids import CheckpointId, DeviceId, ObjectName, SessionId, StatementId
from hhd_protocol.limits import SYNC_AGAIN_MS
from hhd_protocol.statements import Checkpoint, Record, Revocation, Statement, Tombstone
from hhd_protocol.sync import Chains, Sync, session_digest
from hhd_protocol.sync.events import (
    Acknowledged,
    Answering,
    Arrived,
    Changed,
    Cut,
    Hold,
    Load,
    Loaded,
    Missing,
    Opened,
    Output,
    Send,
    SendBare,
    SendContent,
    SendStatements,
    Take,
    Tick,
)
from hhd_protocol.sync.machine import had
from hhd_protocol.sync.messages import (
    OBJECT,
    Absent,
    Acknowledge,
    Bare,
    Entry,
    Had,
    Message,
    Part,
    Statements,
    Want,
)
from hhd_protocol.sync.wants import NO_SESSION


def objects_of(checkpoint: Checkpoint) -> list[bytes]:
    """The content that a checkpoint brought: one object, or two."""
    return [sha256(bytes([n]) + checkpoint.id).digest() for n in range(1 + checkpoint.id[0] % 2)]


class SyncWorld(Linking):
    """The world of one seed; `run` it."""

    def __init__(
        self, seed: int, *, devices: int | None = None, calm: bool = False, real: bool = False, wide: bool = False
    ) -> None:
        super().__init__(seed, devices=devices, calm=calm, real=real, wide=wide)
        if len(self.list) < 3 and devices is None:  # Three to five, as the spec promises; two are covered by `world`.
            count = self.rng.choice([3, 3, 4, 5])
            self.__init__(seed, devices=count, calm=calm, real=real, wide=wide)  # type: ignore[misc]
            return
        self.members = {device.id: device.role for device in self.list}
        self.full_chance = 0.0 if calm else self.rng.choice([0, 0, 0.3])
        self.full: set[DeviceId] = set()
        self.raws: dict[bytes, Statement] = {}
        self.denials: dict[DeviceId, set[StatementId]] = {}
        """Records that a device was told it had, before they came."""
        crash, self.crash_chance = self.crash_chance, 0.0
        self.came_on_link: dict[tuple[DeviceId, DeviceId], set[StatementId]] = {}
        """What a device learned from a peer since they were linked last."""
        self.prepare(calm=calm)
        self.refresh()
        self.crash_chance = crash

    def prepare(self, *, calm: bool) -> None:
        """What else there is before the world begins."""

    @property
    def sid(self) -> SessionId:
        return SessionId(self.session)

    def opens(self, device: Device) -> None:
        known = {self.sid: self.digest(device)} if device.disk.statements else {}
        self.happens(device, Opened(digests=known))
        self.look_for_content(device, None)

    def begun(self, device: Device, peer: DeviceId) -> None:
        self.came_on_link.pop((device.id, peer), None)

    # One device

    def carry(self, device: Device, machine: Sync, output: Output) -> None:
        match output:
            case Load():
                assert device.part is not None
                after = {id: one.after for id, one in device.disk.statements.items()}
                self.happens(device, Loaded(session=self.sid, after=after, lacking=self.lacking(device)))
            case Send(peer=peer, message=message):
                self.say(device, peer, message)
            case SendBare(peer=peer):
                if lacking := tuple(CheckpointId(one) for one in sorted(device.disk.bare)):
                    self.reached["content is said to lack"] += 1
                    self.say(device, peer, Bare(session=self.sid, checkpoints=lacking))
            case SendStatements(peer=peer, ids=ids, eager=eager):
                self.send_statements(device, machine, peer, ids, eager=eager)
            case SendContent(peer=peer, objects=objects):
                for name in objects:
                    if name in device.disk.objects:
                        self.say(device, peer, Part(what=OBJECT, name=name, offset=0, total=1, content=b"x"))
                    else:
                        self.reached["content absent"] += 1
                        machine.has_not(peer, name)
                        self.say(device, peer, Absent(objects=(name,)))
            case Take(peer=peer, message=message):
                self.take(device, peer, message)
            case Answering(peer=peer):
                self.post(device, peer, Reply(asking=self.hellos[device.id, peer, self.hearing]))
            case Acknowledged(peer=peer, session=session, statements=statements, whole=whole):
                if session is None:
                    self.reached["level at once"] += 1
                said = self.acknowledging(statements, whole)
                if session is None:
                    said = frozenset(device.disk.statements) - device.disk.bare
                self.take_acknowledgement(device, machine, peer, said)
                for checkpoint in whole:
                    self.check_whole(self.devices[peer], checkpoint, before=True)
            case Cut(peer=peer, why=why):
                raise AssertionError(f"{device.name} cuts {self.name(peer)}: {why}")

    def say(self, device: Device, peer: DeviceId, message: Message) -> None:
        if isinstance(message, Acknowledge):
            self.checks.acknowledged(device, self.acknowledging(message.statements, message.whole))
            for checkpoint in message.whole:
                self.check_whole(device, checkpoint)
        if isinstance(message, Want):
            have = set(message.objects) & device.disk.objects
            assert not have, f"{device.name} asks for objects that are durable there"
            here = message.session == NO_SESSION or device.disk.statements.keys() - self.stones(device)
            assert here, f"{device.name} wants what was removed"
        self.post(device, peer, message)

    def acknowledging(self, statements: Iterable[StatementId], whole: Iterable[StatementId]) -> frozenset[StatementId]:
        """What is acknowledged: of checkpoints those whose content is there."""
        known = self.checks.statements
        return frozenset(id for id in statements if not isinstance(known[id], Checkpoint)) | frozenset(whole)

    def check_whole(self, device: Device, checkpoint: CheckpointId, *, before: bool = False) -> None:
        """Every object of an acknowledged checkpoint, and of what it stands on, is durable there.

        `before`: it said so some time ago, and may have let go of it with the session since.
        """
        gone = device.let_go and (before or checkpoint not in device.disk.statements)
        if device.dead or device.restored or gone:
            return
        stack: list[StatementId] = [checkpoint]
        while stack:
            found = self.checks.statements[stack.pop()]
            assert isinstance(found, Checkpoint)
            lost = set(objects_of(found)) - device.disk.objects
            assert not lost, f"{device.name} acknowledges the content of {self.name(checkpoint)} and has it not"
            stack.extend(found.parents)

    def send_statements(
        self, device: Device, machine: Sync, peer: DeviceId, ids: tuple[StatementId, ...], *, eager: bool
    ) -> None:
        found = [device.disk.statements[id] for id in ids if id in device.disk.statements]
        self.checks.said(device, tuple(found))
        granted = {one.id for one in found if isinstance(one, Record) and one.to == peer}
        said = device.disk.acknowledged.get(peer, {})
        now = machine.peers[peer].incarnation
        before = granted & frozenset().union(*(seen for incarnation, seen in said.items() if incarnation != now))
        if before:
            self.say(device, peer, had(self.sid, before))
        found.sort(key=lambda one: not isinstance(one, Record))
        checkpoints = [one for one in found if isinstance(one, Checkpoint)]
        eager = eager and len(checkpoints) == 1
        objects = objects_of(checkpoints[0]) if eager else []
        if eager:
            self.reached["content sent along"] += 1
        machine.expects_content(peer, self.sid, [CheckpointId(one.id) for one in checkpoints], along=eager)
        for one in found:
            self.raws[one.id] = one
        entries = tuple(Entry(raw=one.id) for one in found)
        if entries:
            self.say(device, peer, Statements(session=self.sid, entries=entries, objects=tuple(objects)))

    def take(self, device: Device, peer: DeviceId, message: Message) -> None:
        assert device.part is not None
        if device.id in self.full:
            self.reached["full disk"] += 1
            self.happens(device, Hold(why="the disk is full"))
            return
        match message:
            case Statements(entries=entries, objects=objects):
                given = [self.raws[entry.raw] for entry in entries]
                fresh = [one for one in given if one.id not in device.part.known.statements]
                if len(fresh) < len(given):
                    self.reached["statement came again"] += 1
                self.came_on_link.setdefault((device.id, peer), set()).update(one.id for one in fresh)
                self.keep(device, peer, fresh, given, set(objects))
            case Part(name=name):
                if name in device.disk.objects:
                    self.reached["object came again"] += 1
                self.keep(device, peer, [], [], {name})
            case Had(records=records):
                came = self.came_on_link.get((device.id, peer), set())  # It went out before them.
                fresh_here = frozenset(records) - (device.part.known.statements.keys() - came)
                self._deny(device, fresh_here & came)
                self.denials.setdefault(device.id, set()).update(fresh_here)
            case _:
                raise AssertionError(f"{message} is not for the store")

    def keep(
        self,
        device: Device,
        peer: DeviceId,
        fresh: list[Statement],
        given: list[Statement],
        objects: set[bytes],
    ) -> None:
        """One transaction, and what it comes to."""
        part = device.part
        assert part is not None
        before_whole, before_held = self.sound(device), part.known.view.held
        if self.wide and not self.may_keep(device, fresh):
            return
        if fresh:
            self.note(device, "learns from", peer, [one.id for one in fresh])
        device.disk.unsynced.update({one.id: one for one in fresh})
        if self.crash_chance and self.rng.random() < self.crash_chance / 4:
            self.crash(device)
            return
        device.disk.sync()
        device.disk.objects |= objects
        device.part = part.learned(*fresh)
        if self.let_go(device):
            stones = [one.id for one in fresh if one.id in device.disk.statements]
            self.tell_of(device, stones, peer)
            return
        self.set_bare(device)
        self.checks.learned(device)
        denied = self.denials.get(device.id, set()) & {one.id for one in fresh}
        if denied:
            self._deny(device, frozenset(denied))
        view = self._view(device)
        durable = [one.id for one in given if one.id not in view.held | view.refused]
        durable += [id for id in before_held if id not in view.held | view.refused]
        for name in objects:
            self.happens(device, Arrived(name=name, source=peer))
        if device.part is None:
            return
        self.happens(
            device,
            Changed(
                session=self.sid,
                digest=self.digest(device),
                fresh={one.id: one.after for one in fresh},
                source=peer,
                whole=tuple(CheckpointId(id) for id in sorted(self.sound(device) - before_whole)),
                lacking=self.lacking(device),
                durable=tuple(dict.fromkeys(durable)),
            ),
        )
        self.look_for_content(device, peer)

    # Removed everywhere

    def may_keep(self, device: Device, fresh: list[Statement]) -> bool:
        """Whether it is a session that is here, or begins with what came: without its first record nothing is kept."""
        assert device.part is not None
        judged = device.part.learned(*fresh).known
        here = judged.statements.keys() & {self.session}
        return bool(here) or judged.view.removed or not fresh

    def let_go(self, device: Device) -> bool:
        """Where the session is removed and nothing of it is at work, nothing but tombstones is left of it."""
        part = device.part
        if part is None or not self.wide or not part.known.view.removed:
            return False
        if part.closing() is not None or (part.leg is not None and part.leg.running):
            self.reached["removed while at work"] += 1
            return False
        if part.leg is not None and part.leg.replied:
            self.reached["a reply went with what was removed"] += 1
        kept = {id: one for id, one in part.known.statements.items() if isinstance(one, Tombstone | Revocation)}
        if len(kept) < len(part.known.statements):
            self.checks.let_go(device, kept)
            self.reached["let go"] += 1
            self.note(device, "lets go of the session")
        device.disk.statements, device.disk.objects, device.disk.bare = kept, set(), frozenset()
        device.disk.unsynced.clear()
        device.disk.acknowledged_by = frozenset()
        known = Known(session=self.session, members=self.members, statements=dict(kept), kinds=self.kinds)
        device.part = replace(part, known=known, leg=None, bare=frozenset(), acknowledged_by=frozenset())
        return True

    def tell_of(self, device: Device, stones: list[StatementId], source: DeviceId | None) -> None:
        """Say to the machine that the session is gone but for these."""
        statements = device.disk.statements
        self.happens(
            device,
            Changed(
                session=self.sid,
                digest=self.digest(device) if statements else None,
                fresh={id: statements[id].after for id in stones},
                source=source,
                durable=tuple(stones),
                removed=True,
            ),
        )

    def let_go_late(self, device: Device) -> None:
        """What was at work when the session was removed has ended."""
        more = device.part is not None and len(device.part.known.statements) > len(self.stones(device))
        if more and self.let_go(device):
            self.tell_of(device, [], None)

    def stones(self, device: Device) -> list[StatementId]:
        assert device.part is not None
        known = device.part.known.statements
        return [id for id, one in known.items() if isinstance(one, Tombstone | Revocation)]

    def _actions(self) -> dict[Callable[[], None], float]:
        actions = super()._actions()
        if self.wide:
            actions[self.remove_any] = self.rng.choice([0.5, 1, 2])
        if self.late_chance:
            actions |= {self.replace_any: self.apart.choice([1, 3, 8]), self.see_any: 12, self.turn_any: 20}
        return actions

    def _begin_together(self) -> None:
        late, self.late_chance = self.late_chance, 0.0
        super()._begin_together()
        self.late_chance = late

    def remove(self, device: Device) -> None:
        if self.cut:
            self.reached["removal in a partition"] += 1
        super().remove(device)

    def fetch(self, device: Device) -> None:
        self.look_for_content(device, None)

    def drive(self, device: Device) -> None:
        """Work stops where the disk is full."""
        if device.id in self.full:
            self.reached["full disk stops work"] += 1
            return
        super().drive(device)
        self.let_go_late(device)

    def carry_owed(self, device: Device) -> None:
        super().carry_owed(device)
        self.let_go_late(device)

    def look_for_content(self, device: Device, source: DeviceId | None) -> None:
        if device.part is None:
            return
        wanted = [
            ObjectName(name)
            for one in reversed(device.disk.statements.values())
            if isinstance(one, Checkpoint)
            for name in objects_of(one)
            if name not in device.disk.objects
        ]
        if wanted:
            self.happens(device, Missing(session=self.sid, objects=tuple(wanted), source=source))

    def whole(self, device: Device) -> set[StatementId]:
        """The checkpoints whose content, and that of all they stand on, is on the disk."""
        statements = device.disk.statements
        whole: set[StatementId] = set()
        grew = True
        checkpoints = [one for one in statements.values() if isinstance(one, Checkpoint)]
        while grew:
            grew = False
            for one in checkpoints:
                stands = one.id not in whole and whole.issuperset(one.parents)
                if stands and device.disk.objects.issuperset(objects_of(one)):
                    whole.add(one.id)
                    grew = True
        return whole

    def sound(self, device: Device) -> set[StatementId]:
        """Those of them whose records are here, too: what may be acknowledged."""
        view = self._view(device)
        return self.whole(device) - view.held - view.refused

    def set_bare(self, device: Device) -> None:
        part = device.part
        assert part is not None
        checkpoints = {id for id, one in part.known.statements.items() if isinstance(one, Checkpoint)}
        bare = frozenset(checkpoints - self.whole(device))
        device.disk.bare = bare
        if bare != part.bare:
            device.part = replace(part, bare=bare)

    def lacking(self, device: Device) -> tuple[CheckpointId, ...]:
        whole = self.whole(device)
        checkpoints = [one for one in device.disk.statements.values() if isinstance(one, Checkpoint)]
        parents = {parent for one in checkpoints for parent in one.parents}
        return tuple(CheckpointId(one.id) for one in checkpoints if one.id not in parents and one.id not in whole)

    def digest(self, device: Device) -> bytes:
        chains = Chains({id: one.after for id, one in device.disk.statements.items()})
        return session_digest(chains.frontier(marked=False), self.lacking(device))

    def take_acknowledgement(
        self, device: Device, machine: Sync, peer: DeviceId, durable: frozenset[StatementId]
    ) -> None:
        assert device.part is not None
        if peer not in machine.peers:
            return
        incarnation = machine.peers[peer].incarnation
        if incarnation is None:
            return
        said = device.disk.acknowledged.setdefault(peer, {})
        said[incarnation] = said.get(incarnation, frozenset()) | durable
        here = [id for id in durable if id in device.part.known.statements]
        self.checks.told(device.id, peer, here)
        if any(isinstance(device.part.known.statements[id], Checkpoint) for id in here):
            device.disk.acknowledged_by |= {peer}
            device.part = replace(device.part, acknowledged_by=device.disk.acknowledged_by)

    # What the world does, in the words of the plain one

    def _persist(self, device: Device, statement: Statement, wish: Wish | None) -> None:
        if isinstance(statement, Checkpoint):
            device.disk.objects.update(objects_of(statement))
        super()._persist(device, statement, wish)
        if not self.let_go(device):
            self.set_bare(device)

    def _announce(self, device: Device, statement: Statement) -> None:
        crash, self.crash_chance = self.crash_chance, 0.0  # Who decides crashes between its outputs, and not within.
        self.tell(device, statement)
        self.crash_chance = crash

    def tell(self, device: Device, statement: Statement) -> None:
        self.happens(
            device,
            Changed(
                session=self.sid,
                digest=self.digest(device),
                fresh={statement.id: statement.after},
                lacking=self.lacking(device),
                removed=self.session not in device.disk.statements and self.wide,
            ),
        )

    def ask_any(self) -> None:
        self.refresh()
        device = self._some()
        if device is not None:
            machine = self.machine(device)
            for peer in machine.peers.values():
                peer.asked_ms = -SYNC_AGAIN_MS
            self.happens(device, Tick())

    def sync_any(self) -> None:
        """Disks fill up, and are made room on."""
        device = self._some()
        if device is None:
            return
        if device.id in self.full:
            self.make_room(device)
        elif self.rng.random() < self.full_chance:
            self.full.add(device.id)

    def make_room(self, device: Device) -> None:
        self.full.discard(device.id)
        self.happens(device, Hold(why=""))

    def exchange(self) -> None:
        self.refresh()
        for device in self.list:
            if device.up:
                machine = self.machine(device)
                for peer in machine.peers.values():
                    peer.asked_ms = -SYNC_AGAIN_MS
                self.happens(device, Tick())
        self.drain()

    def heal(self) -> None:
        self.full_chance = 0.0
        crash, self.crash_chance = self.crash_chance, 0.0
        self.catch_up()
        for device in self.list:
            if device.id in self.full:
                self.make_room(device)
        self.crash_chance = crash
        super().heal()
        self.refresh()
        self.end_what_was_removed()
        self.exchange()
        self.level_at_the_end()

    def end_what_was_removed(self) -> None:
        """Who is at work on a removed session lets go when that ends; until then the others have not what is there."""
        at_work = [d for d in self.list if d.up and d.part and d.part.leg and d.part.leg.running]
        for device in [d for d in at_work if self._view(d).removed]:
            self.reached["work on what was removed ends"] += 1
            for other in self.list:
                if other.up and device.disk.statements.keys() - other.disk.statements.keys():
                    level = self.machine(device).is_level(other.id, self.sid)
                    assert not level, f"{device.name} says that {other.name} has what was removed there"
            assert device.part is not None and device.part.leg is not None and device.part.leg.running is not None
            self._end(device, device.part.leg.running, cancelled=self.rng.random() < 0.5)
            self.carry_owed(device)
            self.settle_down()

    def start(self, device: Device) -> None:
        super().start(device)
        if device.part is not None:
            self.set_bare(device)

    def _sizes(self) -> list[int]:
        return super()._sizes() + [len(device.disk.objects) for device in self.list if device.part]

    def kept_sealed(self) -> set[bytes]:
        """What is kept by who only stores."""
        return set()

    def level_at_the_end(self) -> None:
        """What some device has of the content, all have, and each knows so of each."""
        up = [device for device in self.list if device.up]
        having = set().union(self.kept_sealed(), *(device.disk.objects for device in up))
        wanted = {
            name
            for device in up
            for one in device.disk.statements.values()
            if isinstance(one, Checkpoint)
            for name in objects_of(one)
        }
        for device in up:
            lost = (having & wanted) - device.disk.objects
            assert not lost, f"{device.name} did not get {len(lost)} objects that others have"
            for other in up:
                if other is not device and not wanted - having:
                    level = self.machine(device).is_level(other.id, self.sid)
                    assert level, f"{device.name} does not know that {other.name} has all"
                    lacks = self.machine(device).peers[other.id].lacks.get(self.sid, set())
                    assert lacks <= other.disk.bare, f"{device.name} believes that {other.name} lacks what it has"
        if len(up) > 1:
            self.reached["all level"] += 1

    def go_on(self) -> None:
        """As in the plain world; and whatever that adds is everywhere, too."""
        super().go_on()
        if self.crash_chance == 0:
            self.exchange()
            self.level_at_the_end()
