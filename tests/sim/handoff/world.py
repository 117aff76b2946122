"""A seeded world whose devices hand the session to one another by the stages of `protocol/spec/handoff.md`.

All that may happen in the worlds of `tests/sim` happens here too, and its checks hold after each step. What is sent of
a handoff is lost, repeated and reordered like everything else; a process may die between any two outputs. In some
worlds links take the place of one another: what was said on the one before is lost with it, or comes late, and what is
said again on the next may overtake it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from tests.sim.basis import Message
from tests.sim.device import Device, Disk
from tests.sim.handoff.disk import HandoffDisk
from tests.sim.world import World

from hhd_protocol import handoff as machine
from hhd_protocol import holding
from hhd_protocol.handoff import (
    OVER,
    PENDING,
    UNTAKEN,
    Act,
    AnyMessage,
    Do,
    Event,
    Grant,
    Handoff,
    Happening,
    Needs,
    Offer,
    Persist,
    ReleaseTo,
    Send,
    Side,
    Stage,
    Took,
)
from hhd_protocol.holding import Append, CheckpointDraft, Refuse, Release, Why, Wish
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId
from hhd_protocol.statements import Checkpoint, Intent, Record, RecordKind, Role, Statement

MAIL_MAX = 200


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One message of a handoff under way."""

    source: DeviceId
    target: DeviceId
    message: AnyMessage
    link: int = 0
    """The number of the link that it was put on, of those that the two had."""


class HandoffWorld(World):
    """The world of one seed."""

    def __init__(self, seed: int, *, devices: int | None = None, calm: bool = False, real: bool = False) -> None:
        super().__init__(seed, devices=devices, calm=calm, real=real)
        self.mail: list[Mail] = []
        self.going: dict[DeviceId, dict[TransferId, Handoff]] = {}
        self.paused: dict[DeviceId, set[TransferId]] = {}
        self.staging: dict[tuple[DeviceId, TransferId], CheckpointId | None] = {}
        self.grants: dict[bytes, Grant] = {}
        self.signed_now: Statement | None = None
        self.begun = False
        self.links: dict[frozenset[DeviceId], int] = {}
        """How many links two devices had before the one that they have."""
        self.apart = random.Random(f"links {seed}")  # Of its own, so that worlds without stay what they were.
        self.replaces = not calm and self.apart.random() < 0.5
        self.death_chance = 0.0 if calm else self.rng.choice([0, 0.01, 0.05, 0.15])
        """How often a process dies between two outputs of a handoff."""
        for device in self.list:
            device.disk = HandoffDisk(**{one.name: getattr(device.disk, one.name) for one in fields(Disk)})

    def _actions(self) -> dict[Callable[[], None], float]:
        actions = super()._actions()
        del actions[self.release_any]
        weight = self.rng.choice([6, 12, 24])
        return {
            **actions,
            self.hand_off_any: weight,
            self.post_any: 90,
            self.stage_any: 70,
            self.due_any: 12,
            self.cancel_any: self.rng.choice([0, 0.5, 1.5]),
            self.show_to_a_third: 6,
            self.watch_any: 8,
        } | self._replacing(12)

    def _replacing(self, weight: float) -> dict[Callable[[], None], float]:
        return {self.replace_any: weight} if self.replaces else {}

    def storm(self) -> None:
        """The storm of the other worlds; before it, mostly handoffs, so that one is under way when it breaks."""
        self._begin_together()
        self.hand_off_any()
        busy: dict[Callable[[], None], float] = {
            self.post_any: 30,
            self.stage_any: 25,
            self.deliver_any: 20,
            self.drive_any: 25,
            self.due_any: 4,
            self.watch_any: 3,
            self.hand_off_any: 2,
            self.start_any: 2,
            self.cut_any: self.rng.choice([0, 0, 0.3, 1]),
            self.mend_any: 0.5,
            self.take_over_any: self.rng.choice([0, 0, 0, 0.5, 1]),
            self.crash_any: self.rng.choice([0, 0, 0.5]),
            self.back_up_any: self.rng.choice([0, 0.5]),
            self.restore_any: self.rng.choice([0, 0, 0.5]),
            self.die_any: self.rng.choice([0, 0, 0, 0.2]),
            self.show_to_a_third: 0.5,
            self.cancel_any: self.rng.choice([0, 0, 0.5]),
        } | self._replacing(8)
        weights = list(busy.values())
        for _ in range(self.rng.randrange(20, 90)):
            self.now_ms += self.rng.choice([1, 50, 900])
            self.rng.choices(list(busy), weights)[0]()
        super().storm()

    def _begin_together(self) -> None:
        if not self.begun:
            self.begun = True
            super()._begin_together()

    # What a person does

    def hand_off_any(self) -> None:
        owners = [d for d in self.list if d.up and self._view(d).owner == d.id]
        others = [d for d in self.list if d.role is Role.FULL]
        if owners and len(others) > 1:
            device = self.rng.choice(owners)
            self.hand_off(device, self.rng.choice([d for d in others if d is not device] or others))

    def hand_off(self, device: Device, target: Device) -> TransferId | None:
        """A person at `device` wants the session at `target`."""
        view = self._view(device)
        if target is device or view.token is None or view.main is None or self._part(device).may_append() is not None:
            return None
        if any(one.side is Side.SOURCE and not one.over for one in self._going(device).values()):
            return None  # One at a time.
        transfer = TransferId(self.rng.randbytes(16))
        offer = Offer(
            transfer=transfer,
            session=SessionId(self.session),
            hhd="sim",
            token=view.token.id,
            head=CheckpointId(view.main),
            needs=Needs(size_bytes=1, memory_bytes=1),
        )
        self.note(device, "wants to hand off to", target, transfer.hex()[:6])
        self._going(device)[transfer] = machine.wished(
            me=device.id, peer=target.id, offer=offer, cancel_running=self.rng.random() < 0.3
        )
        self.happen(device, transfer, Event(what=Happening.WISHED))
        return transfer

    def cancel_any(self) -> None:
        device = self._some()
        if device is not None:
            for transfer, one in list(self._going(device).items()):
                if not one.over and device.up:
                    self.reached["cancelled" if one.stage in (*PENDING, *UNTAKEN) else "cancelled too late"] += 1
                    self.happen(device, transfer, Event(what=Happening.CANCELLED, why="a person said so"))

    def show_to_a_third(self) -> None:
        """Somebody copies a release to a device that it is not for."""
        released = [grant for raw, grant in self.grants.items() if StatementId(raw) in self.checks.statements]
        if not released:
            return
        grant = self.rng.choice(released)
        others = [d for d in self.list if d.up and d.id not in (grant.by, grant.to)]
        if others and grant.transfer is not None:
            self.reached["release shown to a third device"] += 1
            message = ReleaseTo(transfer=grant.transfer, session=grant.session, statement=grant.raw)
            self._take_mail(self.rng.choice(others), Mail(source=grant.by, target=grant.to, message=message))

    # What happens by itself

    def post_any(self) -> None:
        if not self.mail:
            return
        at = self.rng.randrange(len(self.mail)) if self.rng.random() < 0.4 else 0
        mail = self.mail[at] if self.rng.random() < self.twice_chance else self.mail.pop(at)
        if self.rng.random() < self.loss_chance:
            self.reached["handoff message lost"] += 1
            return
        target = self.devices[mail.target]
        if self.linked(self.devices[mail.source], target):
            if mail.link != self.links.get(frozenset((mail.source, mail.target)), 0):
                self.reached["handoff message late on a replaced link"] += 1
            self._take_mail(target, mail)

    def replace_any(self) -> None:
        """Another link takes the place of the one that two have; each may say again what it waits to hear of."""
        pairs = [(a, b) for a in self.list for b in self.list if a.id < b.id and self.linked(a, b)]
        if not pairs:
            return
        two = self.apart.choice(pairs)
        pair = frozenset(one.id for one in two)
        self.links[pair] = self.links.get(pair, 0) + 1
        self.reached["link takes the place of another"] += 1
        for mail in [mail for mail in self.mail if {mail.source, mail.target} == pair]:
            if self.apart.random() < 0.4:
                self.mail.remove(mail)
                self.reached["handoff message lost with its link"] += 1
        for device in two:
            if self.apart.random() < 0.5:
                self.due(device)

    def stage_any(self) -> None:
        if self.staging:
            self._staged(*self.rng.choice(sorted(self.staging)))

    def due_any(self) -> None:
        device = self._some()
        if device is not None:
            self.due(device)

    def due(self, device: Device) -> None:
        for transfer in list(self._going(device)):
            if device.up:
                self.happen(device, transfer, Event(what=Happening.DUE))

    def watch_any(self) -> None:
        device = self._some()
        if device is not None:
            self.watch(device)

    def watch(self, device: Device) -> None:
        """See whether records that came in the meantime decide a handoff."""
        for transfer, one in list(self._going(device).items()):
            if device.up and (event := self._news(device, one)) is not None:
                self.happen(device, transfer, event)

    def _news(self, device: Device, one: Handoff) -> Event | None:
        part = self._part(device)
        view, record = part.known.view, one.record
        if view.token is None:
            return None
        if one.side is Side.SOURCE and one.stage in PENDING:
            if view.token.id == record.token:
                return None
            grant = self._grant_of(part.known.statements.get(view.token.id), one)
            return Event(what=Happening.BEATEN, why="beaten") if grant is None else self._signed_before(grant)
        if one.side is Side.TARGET and one.stage in UNTAKEN:
            grant = self._grant_of(part.known.statements.get(view.token.id), one)
            return None if grant is None else Event(what=Happening.RELEASE, grant=grant)
        if record.release is None or one.stage not in (Stage.RELEASED, Stage.TAKEN):
            return None
        grant = self.grants[record.release]
        release = StatementId(record.release)
        if view.token.id == release:
            return None
        if (after := self._following(part, view.token.id, release)) is not None:
            if one.side is Side.TARGET:
                return None
            if after.by == record.peer:  # A takeover by another does not say that who was handed it took it.
                return Event(what=Happening.TOOK, grant=grant)
        return Event(what=Happening.BEATEN, why="beaten")

    def _signed_before(self, grant: Grant) -> Event:
        self.reached["an own release came back"] += 1
        return Event(what=Happening.SIGNED, grant=grant)

    def _grant_of(self, statement: object, one: Handoff) -> Grant | None:
        grant = self.grants.get(statement.id) if isinstance(statement, Record) else None
        return grant if grant is not None and grant.transfer == one.record.transfer else None

    @staticmethod
    def _following(part: holding.Part, token: StatementId, release: StatementId) -> Record | None:
        """The record that follows a release on the way to the token that counts; None if that does not lead there."""
        at: StatementId | None = token
        while at is not None and isinstance(record := part.known.statements.get(at), Record):
            if record.prev == release:
                return record
            at = record.prev
        return None

    # Carrying out

    def _going(self, device: Device) -> dict[TransferId, Handoff]:
        """The handoffs in the memory of the device's process; after a start, what its disk says."""
        if device.id not in self.going:
            assert isinstance(device.disk, HandoffDisk)
            found = {t: machine.recover(kept) for t, kept in device.disk.journals.items()}
            self.going[device.id] = {
                transfer: machine.recovered(record, me=device.id, offer=self._offer_again(record))
                for transfer, record in found.items()
                if record is not None
            }
        return self.going[device.id]

    def _offer_again(self, record: machine.Record) -> Offer | None:
        if record.token is None:
            return None
        return Offer(
            transfer=record.transfer,
            session=record.session,
            hhd="sim",
            token=record.token,
            head=CheckpointId(record.token),
            needs=Needs(size_bytes=1, memory_bytes=1),
        )

    def happen(self, device: Device, transfer: TransferId, event: Event) -> None:
        one = self._going(device).get(transfer)
        if one is None or not device.up:
            return
        if event.what in (Happening.CANCELLED, Happening.FAILED, Happening.ABORT):
            event = self._news(device, one) or event  # What is known already comes before what is wanted.
        after, outputs = machine.handle(one, event)
        self._going(device)[transfer] = after
        for output in outputs:
            if self.death_chance and self.rng.random() < self.death_chance:
                self.reached[f"crash at {one.side.value} {one.stage.value}"] += 1
                self.crash(device)
                return
            if not self._do(device, after, event, output):
                return

    def _do(self, device: Device, one: Handoff, event: Event, output: machine.Output) -> bool:
        match output:
            case Persist(record=record):
                self._persist_stage(device, record, event)
            case Send(message=message):
                self._post_mail(device, one, message)
            case Do(act=act, head=head):
                self._act(device, one, act, head)
        return device.up

    def _persist_stage(self, device: Device, record: machine.Record, event: Event) -> None:
        assert isinstance(device.disk, HandoffDisk)
        before = device.disk.stage(record.transfer)
        grant = event.grant
        if record.stage is Stage.ABORTED and record.side is Side.SOURCE:
            mine = [raw for raw, g in self.grants.items() if g.transfer == record.transfer and g.by == device.id]
            kept = [raw for raw in mine if StatementId(raw) in device.disk.statements]
            assert not kept, f"{device.name} gives up a handoff that it released"
        if grant is not None and event.what is Happening.SIGNED and grant.raw not in self.checks.statements:
            assert self.signed_now is not None
            self._persist(device, self.signed_now, None)
            self._announce(device, self.signed_now)
        elif grant is not None:
            statement = self.checks.statements[StatementId(grant.raw)]
            assert isinstance(statement, Record)
            if record.stage is Stage.TAKEN:
                assert statement.to == device.id, f"{device.name} takes what was released to another"
            assert device.part is not None
            device.disk.unsynced[statement.id] = statement
            device.disk.sync()
            device.part = device.part.learned(statement)
            if record.denied:
                device.disk.denied |= {statement.id}
                device.part = replace(device.part, denied=device.disk.denied)
            self.checks.learned(device)
        device.disk.sync()
        device.disk.keep(record)
        machine.recover(device.disk.journals[record.transfer])
        self.reached[f"{record.side.value}: {record.stage.value}"] += 1
        self.note(device, f"{record.side.value}: {before.value} -> {record.stage.value}", record.transfer.hex()[:6])

    def _post_mail(self, device: Device, one: Handoff, message: AnyMessage) -> None:
        assert isinstance(device.disk, HandoffDisk)
        peer = self.devices[one.record.peer]
        if isinstance(message, ReleaseTo):
            assert message.statement in device.disk.statements, f"{device.name} sends a release that is not durable"
        if isinstance(message, Took):
            stage = device.disk.stage(message.transfer)
            taken = stage in (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED)
            assert taken, f"{device.name} says that it took what its journal says is {stage.value}"
        self.note(device, "says", message.is_about.value, "to", peer)
        if self.linked(device, peer) and len(self.mail) < MAIL_MAX:
            link = self.links.get(frozenset((device.id, peer.id)), 0)
            mail = Mail(source=device.id, target=peer.id, message=message, link=link)
            if any(replace(one, link=link) == mail and one.link != link for one in self.mail):
                self.reached["handoff message said again while the first is on a replaced link"] += 1
            self.mail.append(mail)

    def _take_mail(self, device: Device, mail: Mail) -> None:
        if not device.up:
            return
        message = mail.message
        going = self._going(device)
        one = going.get(message.transfer)
        if one is None:
            if isinstance(message, machine.Abort | machine.Superseded):
                return
            one = machine.unknown(
                me=device.id,
                side=machine.side_of(message),
                peer=mail.source,
                transfer=message.transfer,
                session=message.session,
            )
        elif one.record.peer != mail.source:
            return
        grant = None
        if isinstance(message, ReleaseTo | Took | machine.Already):
            grant = self.grants[message.statement]
        event = machine.event_of(message, grant=grant)
        if event.what is Happening.RELEASE and one.stage not in (Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED):
            event = self._may_take(device, one, event)
            if event is None:
                return
        going[message.transfer] = one
        self.happen(device, message.transfer, event)
        if message.transfer in self._going(device) if device.up else False:
            after = self._going(device)[message.transfer]
            if after.stage is Stage.NONE:
                del self._going(device)[message.transfer]

    def _may_take(self, device: Device, one: Handoff, event: Event) -> Event | None:
        """Whether the release that came can be taken now: its head is complete here, and no record beats it."""
        assert event.grant is not None
        part = self._part(device)
        statement = self.checks.statements[StatementId(event.grant.raw)]
        known = part.known.statements
        if statement.after is not None and statement.after not in known:
            return None
        if event.grant.to != device.id:
            return event  # The machine says no.
        if event.grant.head is not None and event.grant.head not in device.disk.statements:
            return None
        view = part.learned(statement).known.view
        if view.token is None or statement.id in view.held | view.refused:
            return None
        if view.token.id != statement.id:
            if self._following(part, view.token.id, statement.id) is not None:
                return None
            return Event(what=Happening.BEATEN, why="beaten")
        return event

    def _act(self, device: Device, one: Handoff, act: Act, head: CheckpointId | None) -> None:
        transfer = one.record.transfer
        match act:
            case Act.CHECK:
                fit = self.rng.random() > 0.05
                self.happen(device, transfer, Event(what=Happening.FIT if fit else Happening.UNFIT, why="no room"))
            case Act.STAGE:
                self.staging[device.id, transfer] = one.head
            case Act.PAUSE:
                self.paused.setdefault(device.id, set()).add(transfer)
                self._come_to_rest(device, one)
            case Act.RESUME:
                self.paused.get(device.id, set()).discard(transfer)
            case Act.LOAD:
                complete = head in device.disk.statements
                failed = self.rng.random() < 0.03
                if complete and not failed:
                    self.happen(device, transfer, Event(what=Happening.LOADED, head=head))
                elif failed:
                    self.happen(device, transfer, Event(what=Happening.FAILED, why="its program does not load"))
            case Act.SIGN:
                self._sign(device, one)
            case Act.CLEAN:
                self.paused.get(device.id, set()).discard(transfer)
                self.happen(device, transfer, Event(what=Happening.CLEANED))
            case Act.OPEN:
                self.reached["gate opened"] += 1

    def _sign(self, device: Device, one: Handoff) -> None:
        """Sign by the doors of `holding`; what it says first, that an effect was started, moves the head."""
        part, transfer = self._part(device), one.record.transfer
        if part.known.view.main != one.head:
            return self._come_to_rest(device, one)
        wish = Release(to=one.record.peer, transfer=transfer)
        outputs = holding.decide(part, wish, device.now_ms(self.now_ms))
        for output in outputs:
            if isinstance(output, Refuse):
                self._refused(device, wish, output.refusal.why)
                return self.happen(device, transfer, Event(what=Happening.FAILED, why=output.refusal.words))
        draft = next(output.draft for output in outputs if isinstance(output, holding.Persist))
        if isinstance(draft, CheckpointDraft) or not isinstance(draft, holding.RecordDraft):
            if self._carry_out(device, outputs, None):
                self._come_to_rest(device, one)
            return None
        statement = self.signer.sign(draft, device.id, device.incarnation, 10**12 + self.now_ms)
        if statement.id in self.checks.statements:
            return None
        self._name(device, statement)
        grant = Grant(
            raw=statement.id,
            by=device.id,
            to=draft.to,
            session=SessionId(self.session),
            transfer=draft.transfer,
            head=None if draft.head is None else CheckpointId(draft.head),
        )
        self.grants[grant.raw] = grant
        self.signed_now = statement
        return self.happen(device, transfer, Event(what=Happening.SIGNED, grant=grant))

    def _staged(self, device_id: DeviceId, transfer: TransferId) -> None:
        """What `sync` promises: it says that a head is durable at the target when it is."""
        device = self.devices[device_id]
        if not device.up or transfer not in self._going(device):
            del self.staging[device_id, transfer]
            return
        one = self._going(device)[transfer]
        target = self.devices[one.record.peer]
        if not self.linked(device, target) or one.stage not in PENDING:
            return
        wanted = one.head if one.head is not None else self._view(device).main
        assert device.part is not None
        if wanted in target.disk.unsynced and self.rng.random() >= self.lazy_chance:
            self.sync(target)
        if wanted is None:
            del self.staging[device_id, transfer]
            self.happen(device, transfer, Event(what=Happening.FAILED, why="no head leads"))
        elif wanted in target.disk.statements:
            del self.staging[device_id, transfer]
            took_ms = self.rng.choice([5, 500])
            event = machine.round_over(one, took_ms=took_ms, head=CheckpointId(wanted))
            self.happen(device, transfer, event)
        else:
            every = tuple(device.part.known.statements.values())
            durable = tuple(s for s in every if s.by != device.id or s.id in device.disk.statements)
            self._post(Message(source=device.id, target=target.id, statements=durable))

    def drive(self, device: Device) -> None:
        """A session that is to be paused comes to the border of a step, and begins nothing."""
        going = self._going(device)
        waiting = [t for t in sorted(self.paused.get(device.id, ())) if t in going and going[t].stage in PENDING]
        if not waiting:
            return super().drive(device)
        for transfer in waiting:
            if device.up:
                self._come_to_rest(device, self._going(device)[transfer])
        return None

    def _come_to_rest(self, device: Device, one: Handoff) -> None:
        transfer = one.record.transfer
        if not device.up:
            return None
        self.paused.setdefault(device.id, set()).add(transfer)
        part = self._part(device)
        if (event := self._news(device, one)) is not None:
            return self.happen(device, transfer, event)
        if self.wish(device, None) or not device.up:
            return None
        part = self._part(device)
        if part.leg is not None and part.leg.running is not None:
            if one.record.cancel_running:
                self.reached["cancelled what ran"] += 1
            return self._end(device, part.leg.running, cancelled=one.record.cancel_running)
        refusal = part.may_append()
        if refusal is not None and refusal.why is Why.STALE:
            device.part = part = replace(part, leg=None)
            refusal = part.may_append()
        if refusal is not None:
            return self.happen(device, transfer, Event(what=Happening.FAILED, why=refusal.words))
        if part.leg is not None and (part.leg.replied is not None or part.leg.unsaved):
            wish: Wish = Append(effects={}) if part.leg.replied is None else self._next_wish(device, part)
            self.wish(device, wish)
            return None
        main = part.known.view.main
        if main is None:
            return self.happen(device, transfer, Event(what=Happening.FAILED, why="it has no checkpoint"))
        if one.stage in (Stage.STAGED, Stage.READY) and one.head != main:
            self.happen(device, transfer, Event(what=Happening.PAUSED, head=CheckpointId(main)))
        return None

    def _persist(self, device: Device, statement: Statement, wish: Wish | None) -> None:
        """Who signed a release never acts again under what it had, as far as its own disk can say."""
        if isinstance(statement, Checkpoint | Intent) and not (isinstance(statement, Checkpoint) and statement.closing):
            for other in device.disk.statements.values():
                if isinstance(other, Record) and other.by == device.id and other.kind is RecordKind.RELEASE:
                    assert other.prev != statement.token, f"{device.name} goes on with what it released"
        super()._persist(device, statement, wish)

    def crash(self, device: Device) -> None:
        super().crash(device)
        self._forget(device)

    def restore(self, device: Device, backup: Disk) -> None:
        self._forget(device)
        super().restore(device, backup)

    def die(self, device: Device) -> None:
        super().die(device)
        self._forget(device)

    def _forget(self, device: Device) -> None:
        self.going.pop(device.id, None)
        self.paused.pop(device.id, None)
        self.staging = {key: head for key, head in self.staging.items() if key[0] != device.id}

    # The calm

    def heal(self) -> None:
        self.death_chance = 0.0
        super().heal()
        for device in self.list:
            if device.up and device.disk.unsynced:
                self.sync(device)  # What came lately is durable some time.
        for _ in range(60):
            if not self._unsettled():
                return
            for device in self.list:
                if device.up:
                    self.person_to(device)
                    self.watch(device)
                    if device.up:
                        self.due(device)
            self.now_ms += 11_000
            self.settle_handoffs()
        raise AssertionError(f"a handoff never ends: {self._unsettled()}")

    def settle_handoffs(self) -> None:
        """All messages of handoffs arrive, what is to be paused pauses, what is staged comes."""
        for _ in range(200):
            before = len(self.trace)
            while self.mail:
                mail = self.mail.pop(0)
                if self.linked(self.devices[mail.source], self.devices[mail.target]):
                    self._take_mail(self.devices[mail.target], mail)
            for device in self.list:
                if device.up and self.paused.get(device.id):
                    self.drive(device)
            for key in sorted(self.staging):
                if key in self.staging:
                    self._staged(*key)
            self.drain()
            if before == len(self.trace) and not self.mail:
                break
        self.settle_down()

    def _unsettled(self) -> list[str]:
        """Handoffs that are not over, though both sides are alive and neither is put out of the group."""
        left = []
        for device in self.list:
            if not device.up:
                continue
            for one in self._going(device).values():
                peer = self.devices[one.record.peer]
                if one.stage in OVER:
                    continue
                if peer.dead:
                    if one.stage in PENDING or one.stage in UNTAKEN:
                        self.happen(device, one.record.transfer, Event(what=Happening.CANCELLED, why="nobody there"))
                    self.reached["the other device is gone"] += 1
                    continue
                left.append(f"{device.name} {one.side.value} {one.stage.value} {one.record.transfer.hex()[:6]}")
        return left
