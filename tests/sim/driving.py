"""What a simulated device does for its session: it asks `holding` what is next, and carries that out in order."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from tests.sim.basis import Message
from tests.sim.device import Device, Guest, request_of
from tests.sim.network import Network
from tests.sim.signing import RealSigner

from hhd_protocol import holding
from hhd_protocol.holding import (
    Append,
    Output,
    Part,
    Persist,
    Refuse,
    Run,
    Send,
    Start,
    Stop,
    Why,
    Wish,
)
from hhd_protocol.ids import EffectId, Sha256, StatementId
from hhd_protocol.statements import Checkpoint, Progress, Record, RecordKind, Statement


class Driving(Network):
    """A world whose devices advance the session, and may crash between any two outputs."""

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
        self.checks.stands(device, statement)
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
        self.checks.kept(device, part.leg, statement)
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
            self.checks.loads(device, self._view(device).main)
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
