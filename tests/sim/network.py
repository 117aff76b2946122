"""The messages of simulated devices: statements, questions of who wakes, acknowledgements."""

from __future__ import annotations

from dataclasses import replace

from tests.sim.basis import MESSAGES_MAX, Basis, Message
from tests.sim.device import Device

from hhd_protocol.ids import StatementId
from hhd_protocol.statements import Checkpoint, Record, Statement


class Network(Basis):
    """A world whose devices exchange what they know, over links that lose, repeat and reorder."""

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
                self._content_comes(device, fresh)
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
        here = [id for id in message.durable if id in device.part.known.statements]
        self.checks.told(device.id, message.source, here)
        if any(isinstance(device.part.known.statements[id], Checkpoint) for id in here):
            device.disk.acknowledged_by |= {message.source}
            device.part = replace(device.part, acknowledged_by=device.disk.acknowledged_by)

    def sync(self, device: Device) -> None:
        """What came is durable, and only then acknowledged."""
        assert device.part is not None
        fresh = frozenset(device.disk.unsynced)
        device.disk.sync()
        view = self._view(device)
        durable = fresh - view.held - view.refused - device.disk.bare
        if durable:
            self._acknowledge(device, durable)

    def _acknowledge(self, device: Device, durable: frozenset[StatementId]) -> None:
        for other in self.list:
            if other is not device and self.linked(device, other):
                self.checks.acknowledged(device, durable)
                self._post(Message(source=device.id, target=other.id, durable=durable, incarnation=device.incarnation))

    def _content_comes(self, device: Device, fresh: list[Statement]) -> None:
        """With the record of a checkpoint its content comes, or later (`fetch`)."""
        late = {s.id for s in fresh if isinstance(s, Checkpoint) and self._is_late()}
        if late:
            self.reached["content comes later"] += 1
            self._lacks(device, device.disk.bare | late)

    def _is_late(self) -> bool:
        return bool(self.bare_chance) and self.rng.random() < self.bare_chance

    def _lacks(self, device: Device, bare: frozenset[StatementId]) -> None:
        assert device.part is not None
        device.disk.bare = bare
        device.part = replace(device.part, bare=bare)

    def fetch(self, device: Device) -> None:
        """What content is missing comes from those that have it and are linked."""
        came: set[StatementId] = set()
        for other in self.list:
            if other is not device and self.linked(device, other):
                came |= device.disk.bare & other.disk.statements.keys() - other.disk.bare
        if came:
            device.disk.sync()
            self._lacks(device, device.disk.bare - came)
            self.note(device, "gets the content of", came)
            durable = frozenset(came & device.disk.statements.keys()) - self._view(device).held
            self._acknowledge(device, durable - self._view(device).refused)

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

    def exchange(self) -> None:
        """Everybody asks everybody, and all messages arrive."""
        for device in self.list:
            for other in self.list:
                if device is not other and device.up and other.up:
                    self._post(self._question(device, other))
        self.drain()
        for device in self.list:
            if device.up and device.disk.bare:
                self.fetch(device)
        self.drain()

    def drain(self) -> None:
        for _ in range(5000):
            if not self.messages:
                return
            self.receive(self.messages.pop(0))
        raise AssertionError("the devices talk for ever")
