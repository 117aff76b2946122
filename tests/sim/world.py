"""One seeded world: a few devices, one person, one bad network, and the product's own code deciding on each device.

A world has a stormy part, in which anything happens at any time, and a calm one, in which the links come back, what is
alive wakes, and everything has to settle. Every random choice comes from the seed, so a seed is a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.sim.device import Device, request_of
from tests.sim.trouble import Trouble

from hhd_protocol.holding import (
    Refuse,
    Settle,
    TakeOver,
    Why,
    Word,
)
from hhd_protocol.statements import Checkpoint, Role


class World(Trouble):
    """The world of one seed; `run` it, or drive it by hand as the scripted scenarios do."""

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
        } | ({self.remove_any: often(0.3), self.fetch_any: often(8)} if self.wide else {})

    def heal(self) -> None:
        """Everything alive comes back, and what is known spreads until nothing changes."""
        self.note("the calm begins")
        self.cut.clear()
        self.crash_chance = self.loss_chance = self.twice_chance = self.lazy_chance = self.bare_chance = 0.0
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
        return [len(d.part.known.statements) - len(d.disk.bare) for d in self.list if d.part]

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
        if self._view(device).removed:
            self.reached["removed"] += 1
            outputs = self.wish(device, TakeOver(head=None, reason="go on"))
            whys = {output.refusal.why for output in outputs if isinstance(output, Refuse)}
            gone = self.session not in self._part(device).known.statements  # Nothing but a tombstone is left.
            assert Why.REMOVED in whys or (gone and whys), "it came back"
            return
        if self._view(device).beyond_removal:
            self.reached["newer work outlives a removal"] += 1
        refusal = part.may_append()
        if refusal is not None and refusal.why is not Why.STALE:
            if part.leg is not None and part.leg.running is not None:
                self._end(device, part.leg.running, cancelled=False)
            view = self._view(device)
            sealed = [id for id in view.sealed if isinstance(part.known.statements[id], Checkpoint)]
            heads = sorted((view.heads or set(sealed)) - device.disk.bare)
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
