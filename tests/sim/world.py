"""One seeded world: a few devices, one person, one bad network, and the product's own code deciding on each device.

A world has a stormy part, in which anything happens at any time, and a calm one, in which the links come back, what is
alive wakes, and everything has to settle. Every random choice comes from the seed, so a seed is a test.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from tests.sim.checks import Checks
from tests.sim.device import Device, Disk, Guest, request_of
from tests.sim.signing import CheapSigner, RealSigner, Signer

from hhd_protocol import holding
from hhd_protocol.fencing import View
from hhd_protocol.holding import (
    Append,
    Around,
    CheckpointDraft,
    GoOnFrom,
    Output,
    Part,
    Persist,
    Refuse,
    Release,
    Run,
    Send,
    Settle,
    Start,
    Stop,
    TakeOver,
    Why,
    Wish,
    Word,
)
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId, TransferId
from hhd_protocol.statements import Checkpoint, EffectKind, Intent, Progress, Record, RecordKind, Role, Statement

NAMES = ("laptop", "desktop", "server", "studio", "tablet")
POSITIONS_MAX = 64
MESSAGES_MAX = 400


@dataclass(frozen=True, kw_only=True)
class Message:
    """What travels. `have`: the sender's question, None for none; `answers`: the number of the question it answers;
    `lost`: what the receiver acknowledged before and does not have; `durable`: an acknowledgement."""

    source: DeviceId
    target: DeviceId
    statements: tuple[Statement, ...] = ()
    have: frozenset[StatementId] | None = None
    asking: int | None = None
    answers: int | None = None
    lost: frozenset[StatementId] = frozenset()
    durable: frozenset[StatementId] | None = None
    incarnation: bytes = b""


class World:
    """The world of one seed; `run` it, or drive it by hand as the scripted scenarios do."""

    def __init__(self, seed: int, *, devices: int | None = None, calm: bool = False, real: bool = False) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        rng = self.rng
        self.now_ms = 0
        self.trace: list[tuple[object, ...]] = []
        self.reached: Counter[str] = Counter()
        self.names: dict[bytes, str] = {}
        self.signer: Signer = RealSigner() if real else CheapSigner()
        self.messages: list[Message] = []
        self.cut: set[frozenset[DeviceId]] = set()
        self.content: dict[StatementId, Guest] = {}
        self.crash_chance = 0.0 if calm else rng.choice([0, 0.01, 0.03, 0.1])
        self.loss_chance = 0.0 if calm else rng.choice([0, 0.05, 0.3])
        self.twice_chance = 0.0 if calm else rng.choice([0, 0.1, 0.3])
        self.lazy_chance = 0.0 if calm else rng.choice([0, 0.2, 0.8])
        """How often what came is not synced at once."""
        count = devices if devices is not None else rng.choice([2, 2, 3, 3, 4, 5])
        self.devices: dict[DeviceId, Device] = {}
        for name in NAMES[:count]:
            device = Device(id=self.signer.device(name), name=name, role=Role.FULL)
            device.boot_ms = rng.randrange(10**6)
            self.devices[device.id] = device
            self.names[device.id] = name
        if count > 2 and not calm and rng.random() < 0.2:
            self.list[-1].role = rng.choice([Role.STORE_ONLY, Role.CONTROLLER])
        self.members = {device.id: device.role for device in self.list}
        self.checks = Checks(self)
        first = self.list[0]
        first.openings = 1
        create = self.signer.create(first.id, first.incarnation)
        self.session = create.id
        self.names[create.id] = "create#1"
        self.kinds: dict[EffectId, EffectKind] = {}
        for position in range(POSITIONS_MAX):
            kind = rng.choices([EffectKind.TOOL, EffectKind.INPUT, EffectKind.REPEATABLE], [8, 1, 1])[0]
            self.kinds[self.signer.effect(position)] = EffectKind.TOOL if calm else kind
            self.names[self.signer.effect(position)] = f"effect{position}"
        first.disk.statements[create.id] = create
        first.disk.tip = create.id
        self.checks.signed(first, create)
        for device in self.list:
            device.open(self.session, self.members, self.kinds, self.now_ms)

    @property
    def list(self) -> list[Device]:
        return list(self.devices.values())

    def name(self, thing: object) -> str:
        """The thing in words, for the trace."""
        if isinstance(thing, bytes):
            return self.names.get(thing, thing.hex()[:8])
        if isinstance(thing, Device):
            return thing.name
        if isinstance(thing, frozenset | set | tuple | list):
            return "{" + ", ".join(sorted(self.name(one) for one in thing)) + "}"
        return str(thing)

    def note(self, *what: object) -> None:
        self.trace.append((self.now_ms, *what))

    def story(self) -> str:
        """The whole trace, a line an event."""
        return "\n".join(f"{entry[0]:>8} " + " ".join(self.name(one) for one in entry[1:]) for entry in self.trace)

    # The stormy part, and the calm one

    def run(self) -> Counter[str]:
        """Live through the whole world; raises AssertionError, the first line saying what does not hold."""
        self.storm()
        self.heal()
        self.checks.at_the_end()
        self.go_on()
        return self.reached

    def storm(self) -> None:
        rng = self.rng
        if rng.random() < 0.6:
            self._begin_together()
        actions = self._actions()
        weights = list(actions.values())
        for _ in range(rng.randrange(30, 140)):
            self.now_ms += rng.choice([1, 50, 900, 4000])
            rng.choices(list(actions), weights)[0]()
            self._wake_sleepers()

    def _begin_together(self) -> None:
        """Some worlds begin with a session that is under way and known everywhere."""
        chances = self.crash_chance, self.loss_chance, self.lazy_chance
        self.crash_chance = self.loss_chance = self.lazy_chance = 0.0
        for _ in range(self.rng.randrange(8)):
            self.drive(self.list[0])
        self.settle_down()
        self.crash_chance, self.loss_chance, self.lazy_chance = chances

    def _actions(self) -> dict[Callable[[], None], float]:
        def often(weight: float) -> float:
            return weight * self.rng.choice([0, 0.5, 1, 1, 3])

        return {
            self.deliver_any: 40,
            self.drive_any: 40,
            self.ask_any: 8,
            self.sync_any: 5,
            self.person_moves: 4,
            self.take_over_any: often(3),
            self.go_on_from_any: often(1),
            self.release_any: often(4),
            self.settle_any: often(4),
            self.revoke_any: often(0.6),
            self.revoke_each_other: often(0.4),
            self.crash_any: often(1.5),
            self.start_any: 6,
            self.sleep_any: often(1.5),
            self.back_up_any: often(2),
            self.restore_any: often(2),
            self.die_any: often(0.25),
            self.cut_any: often(1.5),
            self.mend_any: 2,
            self.jump_any: 0.5,
        }

    def heal(self) -> None:
        """Everything alive comes back, and what is known spreads until nothing changes."""
        self.note("the calm begins")
        self.cut.clear()
        self.crash_chance = self.loss_chance = self.twice_chance = self.lazy_chance = 0.0
        self.now_ms += 60_000
        for device in self.list:
            if not device.dead:
                if device.asleep_until_ms is not None:
                    device.asleep_until_ms = self.now_ms
                elif device.part is None:
                    self.start(device)
        self._wake_sleepers()
        self.settle_down()

    def settle_down(self) -> None:
        """All that is up exchange what they know and write what they owe, until nothing changes."""
        for _ in range(12):
            before = self._sizes()
            self.exchange()
            for device in self.list:
                if device.up:
                    self.carry_owed(device)
            if before == self._sizes():
                return
        raise AssertionError("the devices still have news for one another after twelve rounds")

    def _sizes(self) -> list[int]:
        return [len(device.part.known.statements) for device in self.list if device.part]

    def exchange(self) -> None:
        """Everybody asks everybody, and all messages arrive."""
        for device in self.list:
            for other in self.list:
                if device is not other and device.up and other.up:
                    self._post(self._question(device, other))
        self.drain()

    def drain(self) -> None:
        for _ in range(5000):
            if not self.messages:
                return
            self.receive(self.messages.pop(0))
        raise AssertionError("the devices talk for ever")

    def go_on(self) -> None:
        """A person goes to a device that may own the session, and the session comes one effect further."""
        able = [d for d in self.list if d.up and d.role is Role.FULL and d.id not in self._view(d).revoked]
        if not able:
            self.reached["nobody left"] += 1
            return
        owner = self._view(able[0]).owner
        device = next((d for d in able if d.id == owner), able[0])
        self.person_to(device)
        part = self._part(device)
        refusal = part.may_append()
        if refusal is not None and refusal.why is not Why.STALE:
            if part.leg is not None and part.leg.running is not None:
                self._end(device, part.leg.running, cancelled=False)
            view = self._view(device)
            sealed = [id for id in view.sealed if isinstance(part.known.statements[id], Checkpoint)]
            heads = sorted(view.heads or sealed)
            outputs = self.wish(device, TakeOver(head=self.rng.choice(heads) if heads else None, reason="go on"))
            if not heads and any(isinstance(o, Refuse) for o in outputs):
                self.reached["nothing left"] += 1
                return
        self.settle_down()
        self.checks.one_owner(device.id)
        start = None
        for _ in range(40):
            self.drive(device)
            if start is None and device.part and device.part.leg is not None:
                start = device.guest.position
            elif start is not None and device.guest.position > start:
                self.exchange()
                self.checks.at_the_end()
                self.checks.one_owner(device.id)
                return
            pending = self.signer.effect(device.guest.position)
            if self.may_start(device, pending) in (Why.UNCERTAIN, Why.OTHER_REQUEST):
                self.wish(device, Settle(effect=pending, word=self.rng.choice(list(Word))))
        raise AssertionError(f"the session does not go on at {device.name}, which owns it: {self._stuck(device)}")

    def _stuck(self, device: Device) -> str:
        part = self._part(device)
        refusal = part.may_append() or part.may_start(
            self.signer.effect(device.guest.position), request_of(device.guest), device.now_ms(self.now_ms)
        )
        return refusal.words if refusal else f"no door is shut, {part.leg}"

    # What happens to devices

    def _some(self, *, up: bool = True) -> Device | None:
        found = [d for d in self.list if not d.dead and d.up is up]
        return self.rng.choice(found) if found else None

    def crash(self, device: Device) -> None:
        self.note(device, "crashes")
        self.reached["crash"] += 1
        if device.part is not None and device.part.leg is not None and device.part.leg.running is not None:
            self.reached["crash while an effect ran"] += 1
        if device.disk.unsynced:
            self.reached["unsynced writes lost"] += 1
        device.crash()
        self.checks.forgot(device)

    def crash_any(self) -> None:
        device = self._some()
        if device is not None:
            self.crash(device)

    def start(self, device: Device) -> None:
        if self.rng.random() < 0.5:
            device.boot_ms = self.rng.randrange(10**6) - self.now_ms
            device.slept_ms = 0
        device.open(self.session, self.members, self.kinds, self.now_ms)
        self.note(device, "starts")
        self.ask_everybody(device)

    def start_any(self) -> None:
        down = [d for d in self.list if d.part is None and not d.dead]
        if down:
            self.start(self.rng.choice(down))

    def sleep_any(self) -> None:
        device = self._some()
        if device is not None:
            length_ms = self.rng.choice([5_000, 31_000, 120_000])
            device.asleep_until_ms = self.now_ms + length_ms
            device.slept_ms += length_ms
            self.note(device, "sleeps for", length_ms, "ms")

    def _wake_sleepers(self) -> None:
        for device in self.list:
            if device.asleep_until_ms is not None and self.now_ms >= device.asleep_until_ms:
                device.slept_ms += self.now_ms - device.asleep_until_ms
                device.asleep_until_ms = None
                now = device.read_clocks(self.now_ms)
                if now.slept_since(device.clocks):
                    device.wake(self.now_ms)
                    self.reached["wake"] += 1
                    self.note(device, "wakes")
                    self.ask_everybody(device)
                device.clocks = now

    def jump_any(self) -> None:
        self.rng.choice(self.list).wall_ms += self.rng.choice([-(10**9), 10**9])
        self.reached["clock jumped"] += 1

    def back_up_any(self) -> None:
        device = self.rng.choice(self.list)
        if not device.dead:
            device.backups.append(device.disk.copy())
            self.note(device, "is backed up")

    def restore_any(self) -> None:
        found = [d for d in self.list if d.backups and not d.dead]
        if found:
            device = self.rng.choice(found)
            self.restore(device, self.rng.choice(device.backups))

    def restore(self, device: Device, backup: Disk) -> None:
        if device.part is not None:
            device.crash()
        self.note(device, "is restored from a backup")
        self.reached["restore"] += 1
        self.checks.restored(device, backup)
        device.disk = backup.copy()
        device.restored = True
        self.start(device)

    def die(self, device: Device) -> None:
        self.note(device, "dies for ever")
        self.reached["death"] += 1
        device.crash()
        device.dead = True
        self.checks.forgot(device)

    def die_any(self) -> None:
        alive = [d for d in self.list if not d.dead]
        if len(alive) > 1:
            self.die(self.rng.choice(alive))

    # The network

    def linked(self, device: Device, other: Device) -> bool:
        return device.up and other.up and frozenset((device.id, other.id)) not in self.cut

    def cut_any(self) -> None:
        if self.rng.random() < 0.3:
            away = self.rng.choice(self.list)
            pairs = [frozenset((away.id, other.id)) for other in self.list if other is not away]
        else:
            pairs = [frozenset(d.id for d in self.rng.sample(self.list, 2))]
        self.cut.update(pairs)
        self.note("links are cut:", *pairs)
        self.reached["partition"] += 1

    def mend_any(self) -> None:
        if self.cut:
            link = self.rng.choice(sorted(self.cut, key=sorted))
            self.cut.discard(link)
            self.note("a link is back:", link)

    def _post(self, message: Message) -> None:
        source, target = self.devices[message.source], self.devices[message.target]
        self.checks.said(source, message.statements)
        if self.linked(source, target) and len(self.messages) < MESSAGES_MAX:
            self.messages.append(message)

    def deliver_any(self) -> None:
        if not self.messages:
            return self.ask_any()
        at = self.rng.randrange(len(self.messages)) if self.rng.random() < 0.5 else 0
        message = self.messages[at] if self.rng.random() < self.twice_chance else self.messages.pop(at)
        if self.rng.random() < self.loss_chance:
            self.reached["message lost"] += 1
            return None
        if self.linked(self.devices[message.source], self.devices[message.target]):
            self.receive(message)
        return None

    def receive(self, message: Message) -> None:
        device, source = self.devices[message.target], self.devices[message.source]
        part = device.part
        if part is None or not device.up:
            return
        if message.durable is not None:
            self._take_acknowledgement(device, message)
        if message.statements or message.answers is not None:
            fresh = [s for s in message.statements if s.id not in part.known.statements]
            if fresh:
                self.note(device, "learns from", source, [s.id for s in fresh])
                device.disk.unsynced.update({s.id: s for s in fresh})
                device.part = part.learned(*fresh)
                self.checks.learned(device)
            if message.lost and message.answers == device.asking:
                self._deny(device, message.lost)
            if message.answers == device.asking:
                device.answered |= {source.id}
            if fresh and self.rng.random() >= self.lazy_chance:
                self.sync(device)
        if message.have is not None:
            self._answer(device, source, message)

    def _answer(self, device: Device, source: Device, question: Message) -> None:
        assert device.part is not None and question.have is not None
        known = device.part.known.statements
        said = device.disk.acknowledged.get(source.id, {})
        before = [ids for incarnation, ids in said.items() if incarnation != question.incarnation]
        self._post(
            Message(
                source=device.id,
                target=source.id,
                statements=tuple(s for s in known.values() if s.id not in question.have),
                answers=question.asking,
                lost=frozenset().union(*before) - question.have,
            )
        )
        if not question.have <= known.keys():
            self._post(self._question(device, source))

    def _deny(self, device: Device, lost: frozenset[StatementId]) -> None:
        """A peer remembers what this device acknowledged before: tokens among it were held by what it was then."""
        assert device.part is not None
        granted = {
            id
            for id in lost
            if isinstance(record := device.part.known.statements.get(id), Record) and record.to == device.id
        }
        if granted - device.part.denied:
            device.disk.sync()
            device.disk.denied |= granted
            device.part = replace(device.part, denied=device.disk.denied)
            self.reached["already taken"] += 1
            self.note(device, "is told that it had", granted)

    def _take_acknowledgement(self, device: Device, message: Message) -> None:
        assert device.part is not None and message.durable is not None
        said = device.disk.acknowledged.setdefault(message.source, {})
        said[message.incarnation] = said.get(message.incarnation, frozenset()) | message.durable
        if any(isinstance(device.part.known.statements.get(id), Checkpoint) for id in message.durable):
            device.disk.acknowledged_by |= {message.source}
            device.part = replace(device.part, acknowledged_by=device.disk.acknowledged_by)

    def sync(self, device: Device) -> None:
        """What came is durable, and only then acknowledged."""
        assert device.part is not None
        fresh = frozenset(device.disk.unsynced)
        device.disk.sync()
        view = self._view(device)
        durable = fresh - view.held - view.refused
        if durable:
            for other in self.list:
                if other is not device and self.linked(device, other):
                    self.checks.acknowledged(device, durable)
                    self._post(
                        Message(source=device.id, target=other.id, durable=durable, incarnation=device.incarnation)
                    )

    def sync_any(self) -> None:
        device = self._some()
        if device is not None and device.disk.unsynced:
            self.sync(device)

    def _question(self, device: Device, other: Device) -> Message:
        assert device.part is not None
        return Message(
            source=device.id,
            target=other.id,
            have=frozenset(device.part.known.statements),
            asking=device.asking,
            incarnation=device.incarnation,
        )

    def ask_everybody(self, device: Device) -> None:
        for other in self.list:
            if other is not device and self.linked(device, other):
                self._post(self._question(device, other))

    def ask_any(self) -> None:
        device = self._some()
        if device is not None:
            self.ask_everybody(device)

    # What a device does for its session

    def _part(self, device: Device) -> Part:
        """The part with its circumstances as they are now."""
        assert device.part is not None
        connected = frozenset(
            other.id
            for other in self.list
            if other is not device and other.role is Role.FULL and self.linked(device, other)
        )
        around = Around(woke_ms=device.woke_ms, connected=connected, answered=device.answered, attached=device.attached)
        if device.part.around != around:
            device.part = replace(device.part, around=around)
        return device.part

    def _view(self, device: Device) -> View:
        assert device.part is not None
        return device.part.known.view

    def wish(self, device: Device, wish: Wish | None) -> list[Output]:
        """Decide and carry out until the wish is done, refused, or the device crashed; return the last list."""
        for _ in range(20):
            part = self._part(device)
            outputs = holding.decide(part, wish, device.now_ms(self.now_ms))
            if not self._carry_out(device, outputs, wish):
                return outputs
            if not outputs or isinstance(outputs[-1], holding.Done | Refuse):
                for output in outputs:
                    if isinstance(output, Refuse):
                        self._refused(device, wish, output.refusal.why)
                return outputs
        raise AssertionError(f"{device.name} decides for ever: {wish}")

    def _refused(self, device: Device, wish: Wish | None, why: Why) -> None:
        self.reached[f"refused: {why.value}"] += 1
        self.checks.refusal(device, why)

    def _carry_out(self, device: Device, outputs: list[Output], wish: Wish | None) -> bool:
        """Carry out in order; False when the device crashed on the way."""
        drafts = [output.draft for output in outputs if isinstance(output, Persist)]
        statement: Statement | None = None
        if drafts:
            at_ms = 10**12 + device.wall_ms + self.now_ms if isinstance(self.signer, RealSigner) else 0
            statement = self.signer.sign(drafts[0], device.id, device.incarnation, abs(at_ms))
            self._name(device, statement)
        for output in outputs:
            if self.crash_chance and self.rng.random() < self.crash_chance:
                self.crash(device)
                return False
            match output:
                case Persist():
                    assert statement is not None
                    self._persist(device, statement, wish)
                case Send():
                    assert statement is not None
                    self._announce(device, statement)
                case Run(effect=effect):
                    self._run(device, effect)
                case Stop(effect=effect):
                    self._end(device, effect, cancelled=self.rng.random() < 0.3)
        return True

    def _name(self, device: Device, statement: Statement) -> None:
        word = type(statement).__name__.lower()
        if isinstance(statement, Record):
            word = f"{statement.kind.value}#{statement.number}"
        elif isinstance(statement, Checkpoint) and statement.closing:
            word = "closing"
        self.names.setdefault(statement.id, f"{device.name}.{len(self.names)}:{word}")

    def _persist(self, device: Device, statement: Statement, wish: Wish | None) -> None:
        part = device.part
        assert part is not None
        if isinstance(statement, Checkpoint):
            self.content[statement.id] = self._guest_after(device, statement, wish)
        device.disk.sync()
        device.disk.statements[statement.id] = statement
        device.disk.tip = statement.id
        said = dict(vars(statement))
        self.note(
            device,
            "writes",
            statement.id,
            "after",
            statement.after or "nothing",
            {self.name(k): v.value for k, v in (said.get("journal") or said.get("effects") or {}).items()},
            [x for x in (said.get("head"), *said.get("parents", ())) if x],
        )
        self.checks.signed(device, statement)
        device.part = part.signed(statement)
        if isinstance(statement, Checkpoint) and not statement.closing:
            device.guest = self.content[statement.id]
        if isinstance(statement, Record):
            self._count_record(statement)
            device.guest = self._guest_at(statement.head)
        self.checks.learned(device)

    def _count_record(self, record: Record) -> None:
        self.reached[record.kind.value] += 1
        if record.kind is RecordKind.TAKEOVER:
            before = self.checks.statements.get(record.prev) if record.prev else None
            if isinstance(before, Record) and before.kind is RecordKind.RELEASE:
                target = self.devices[before.to]
                if before.id not in target.disk.statements:
                    self.reached["takeover of a release in flight"] += 1

    def _guest_at(self, head: StatementId | None) -> Guest:
        return Guest() if head is None else self.content[head]

    def _guest_after(self, device: Device, checkpoint: Checkpoint, wish: Wish | None) -> Guest:
        """The program's state in the content of a checkpoint that is being written."""
        before = self._guest_at(checkpoint.parents[0] if checkpoint.parents else None)
        effect = self.signer.effect(before.position)
        said = checkpoint.effects.get(effect)
        if said is None:
            return before
        if said in (Progress.ANSWERED, Progress.SETTLED):
            reply = before.last_reply
            if device.part is not None and device.part.leg is not None and device.part.leg.replied is not None:
                reply = device.part.leg.replied[1]
            elif said is Progress.SETTLED:
                reply = sha256(b"said by the person" + checkpoint.token).digest()
            return Guest(position=before.position + 1, progress=None, last_reply=reply[:20])
        return replace(before, progress=Progress.STARTED if said is Progress.STARTED else Progress.ASKED)

    def _announce(self, device: Device, statement: Statement) -> None:
        assert device.part is not None
        records = tuple(s for s in device.part.known.statements.values() if isinstance(s, Record))
        for other in self.list:
            if other is not device and self.linked(device, other):
                self._post(Message(source=device.id, target=other.id, statements=(*records, statement)))

    def _run(self, device: Device, effect: EffectId) -> None:
        self.note(device, "RUNS", effect)
        self.checks.ran(device, effect, request_of(device.guest))

    def _end(self, device: Device, effect: EffectId, *, cancelled: bool) -> None:
        """The running effect ended, with a reply or without."""
        part = device.part
        assert part is not None and part.leg is not None
        if cancelled:
            device.part = replace(part, leg=replace(part.leg, running=None))
            self.note(device, "cancels", effect)
            return
        salt = b"" if self.rng.random() < 0.5 else self.rng.randbytes(8)
        reply = Sha256(sha256(effect + request_of(device.guest) + salt).digest())
        device.part = replace(part, leg=replace(part.leg, running=None, replied=(effect, reply)))
        self.note(device, "has a reply to", effect)

    def carry_owed(self, device: Device) -> None:
        """End what has to end, and write what is owed, until nothing is."""
        for _ in range(10):
            outputs = self.wish(device, None)
            if not outputs:
                return

    def drive_any(self) -> None:
        owners = [d for d in self.list if d.up and self._view(d).owner == d.id]
        device = self.rng.choice(owners) if owners and self.rng.random() < 0.6 else self._some()
        if device is not None:
            self.drive(device)

    def drive(self, device: Device) -> None:
        """One step of whoever drives the session on this device."""
        part = self._part(device)
        if part.leg is None:
            if self.wish(device, None) or not device.up:
                return
            part = self._part(device)
            refusal = part.may_append()
            if refusal is not None:
                if self._view(device).owner == device.id:
                    self._refused(device, None, refusal.why)
                return
            device.part = part.loaded()
            device.guest = self._guest_at(self._view(device).main)
            self.note(device, "loads", self._view(device).main or "the beginning")
            return
        outputs = holding.decide(part, None, device.now_ms(self.now_ms))
        if outputs:
            self._carry_out(device, outputs, None)
            return
        if part.leg.running is not None:
            self._end(device, part.leg.running, cancelled=self.rng.random() < 0.1)
            return
        refusal = part.may_append()
        if refusal is not None and (part.fenced or not (part.leg.replied or part.leg.unsaved)):
            self._refused(device, None, refusal.why)
            device.part = replace(part, leg=None)
            return
        self.wish(device, self._next_wish(device, part))

    def _next_wish(self, device: Device, part: Part) -> Wish:
        assert part.leg is not None
        effect = self.signer.effect(device.guest.position)
        if part.leg.replied is not None:
            return Append(effects={part.leg.replied[0]: Progress.ANSWERED})
        if part.leg.unsaved or self.rng.random() < 0.05:
            return Append()
        if self.rng.random() < 0.03:
            device.part = replace(part, leg=replace(part.leg, unsaved=True))
        if device.guest.progress is None:
            return Append(effects={effect: Progress.ASKED})
        return Start(effect=effect, request=request_of(device.guest))

    def may_start(self, device: Device, effect: EffectId) -> Why | None:
        part = self._part(device)
        refusal = part.may_start(effect, request_of(device.guest), device.now_ms(self.now_ms))
        return refusal.why if refusal else None

    # The person

    def person_to(self, device: Device) -> None:
        for other in self.list:
            other.attached = other is device and device.up

    def person_moves(self) -> None:
        device = self._some()
        if device is not None:
            self.person_to(device)

    def take_over_any(self) -> None:
        device = self._some()
        if device is not None:
            heads = sorted(self._view(device).heads)
            head = self.rng.choice([None, *heads])
            self.wish(device, TakeOver(head=head, reason="a person said so"))

    def go_on_from_any(self) -> None:
        device = self._some()
        if device is not None:
            found = [s.id for s in self._part(device).known.statements.values() if isinstance(s, Checkpoint)]
            if found:
                self.wish(device, GoOnFrom(head=self.rng.choice(sorted(found)), reason="another way"))

    def release_any(self) -> None:
        owners = [d for d in self.list if d.up and self._view(d).owner == d.id]
        if owners:
            device = self.rng.choice(owners)
            target = self.rng.choice(self.list)
            self.wish(device, Release(to=target.id, transfer=TransferId(self.rng.randbytes(16))))

    def settle_any(self) -> None:
        owners = [d for d in self.list if d.up and self._view(d).owner == d.id]
        if owners:
            device = self.rng.choice(owners)
            part = self._part(device)
            if part.leg is None or part.may_append() is not None:
                return
            effect = self.signer.effect(device.guest.position)
            why = self.may_start(device, effect)
            if why in (Why.UNCERTAIN, Why.OTHER_REQUEST):
                self.reached["settled"] += 1
                self.wish(device, Settle(effect=effect, word=self.rng.choice(list(Word))))

    def revoke(self, device: Device, target: Device) -> None:
        """Revoke `target` at `device`: what is known there of it up to some statement counts."""
        part = device.part
        assert part is not None
        theirs = [s.id for s in part.known.statements.values() if s.by == target.id]
        last = self.rng.choice([None, *theirs]) if self.rng.random() < 0.3 else (theirs[-1] if theirs else None)
        statement = self.signer.revoke(target.id, last, device.id, part.after, device.incarnation)
        self.names[statement.id] = f"{device.name}.{len(self.names)}:revocation of {target.name}"
        self.reached["revocation"] += 1
        if device.id in {r.device for r in self.checks.revocations() if r.by == target.id}:
            self.reached["mutual revocation"] += 1
        self._persist(device, statement, None)
        self._announce(device, statement)

    def revoke_any(self) -> None:
        full = [d for d in self.list if d.up and d.role is Role.FULL]
        if full and len(self.list) > 2:
            device = self.rng.choice(full)
            target = self.rng.choice(self.list)
            if target is not device and target.id not in self._view(device).revoked and self._holds(device):
                self.revoke(device, target)

    def revoke_each_other(self) -> None:
        full = [d for d in self.list if d.up and d.role is Role.FULL]
        if len(full) > 2:
            one, other = self.rng.sample(full, 2)
            if self._holds(one) and self._holds(other):
                self.cut.add(frozenset((one.id, other.id)))
                self.revoke(one, other)
                self.revoke(other, one)

    def _holds(self, device: Device) -> bool:
        """Whether the device knows the session, and is not revoked as far as it knows."""
        view = self._view(device)
        return view.token is not None and device.id not in view.revoked


__all__ = ["CheckpointDraft", "Intent", "World"]
