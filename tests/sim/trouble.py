"""What goes wrong with devices and links, and what the person does."""

from __future__ import annotations

from tests.sim.device import Device, Disk
from tests.sim.driving import Driving

from hhd_protocol.holding import (
    GoOnFrom,
    Release,
    Settle,
    TakeOver,
    Why,
    Word,
)
from hhd_protocol.ids import TransferId
from hhd_protocol.statements import Checkpoint, Role


class Trouble(Driving):
    """A world in which anything happens at any time."""

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

    def remove_any(self) -> None:
        """A person removes the session everywhere, at a device where nothing of it is at work."""
        device = self._some()
        if device is not None and device.role is Role.FULL and self._holds(device):
            leg = self._part(device).leg
            if leg is None or not (leg.running or leg.replied or leg.unsaved):
                self.remove(device)

    def remove(self, device: Device) -> None:
        part = self._part(device)
        covers = [s.id for s in part.known.statements.values() if isinstance(s, Checkpoint)]
        statement = self.signer.remove(self._view(device), covers, device.id, part.after, device.incarnation)
        self.names[statement.id] = f"{device.name}.{len(self.names)}:tombstone"
        self.reached["removal"] += 1
        self._persist(device, statement, None)
        self._announce(device, statement)

    def fetch_any(self) -> None:
        device = self._some()
        if device is not None:
            self.fetch(device)

    def _holds(self, device: Device) -> bool:
        """Whether the device knows the session, and is not revoked as far as it knows."""
        view = self._view(device)
        return view.token is not None and device.id not in view.revoked
