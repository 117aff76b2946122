"""Drives the program of one session: slice by slice, every pause saved with whoever keeps it.

What is promised is durable before anybody hears of it: a pause is saved before it is reported, an effect's `started`
before it is begun, a reply before the guest gets it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from hhd.base.errors import RolledBackError
from hhd.node.keeper import Keeper, Own
from hhd.node.standing import Pause, Standing, Step, paused
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Failed, Finished, Interrupted, Limits, Outcome, Slice, StopFlag, Waiting
from hhd.store.pace import Pace
from hhd_protocol.errors import FormatError
from hhd_protocol.journal import Journal
from hhd_protocol.paused import At

DETOURS = (1_000, 100_000, 10_000_000)
"""Where a program is too deep in calls to be paused, its slice is run again, this many interrupt checks longer: a run
is the same each time, and most recursions come back up soon."""


class Driver:
    """The session that `keeper` keeps, which this process alone advances until `close`."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self._guest: Guest | None = None
        self._held: Step | None = None
        self._pace = Pace()
        self.dirty_pages = 0
        """Pages that the latest pause of this process differs in from the baseline."""
        self.emitted = b""
        """What the program said in the latest slice."""
        self.on_saved: Callable[[], None] = lambda: None
        """Called after each step that is durable now."""

    @property
    def standing(self) -> Standing:
        """Where it stands, durably or, while a pause is held back, once that is saved."""
        return self.keeper.standing if self._held is None else self._held.standing

    @property
    def owner(self) -> Own:
        """Whether it is this user's own, and where it was at work."""
        return self.keeper.owner

    def close(self) -> None:
        """Let others advance it."""
        self.keeper.close()

    def next_slice(self) -> Slice:
        """How far the program may run before its next checkpoint is due."""
        return Slice(milliseconds=self._pace.seconds * 1000)

    def record(self, journal: Journal) -> None:
        """Save `journal`: what became of the effect that the program waits for."""
        step = self._held or Step(standing=self.keeper.standing)
        self._save(replace(step, standing=replace(step.standing, journal=journal)))

    def flush(self) -> None:
        """Save the pause that was held back, if one was, and what else was put off: the session may rest here."""
        if self._held is not None:
            self._save(replace(self._held, rests=True))
        else:
            self.keeper.rest()

    def drop_guest(self) -> bool:
        """Give back the memory of a program that waits; it is put back from its pages when it goes on.

        May be called from another thread, while an effect is being answered. False where there is none to give back.
        """
        dropped, self._guest = self._guest, None
        return dropped is not None

    def _save(self, step: Step) -> None:
        try:
            self.keeper.save(step)
        except FormatError as error:
            raise self._undone(error) from error
        self._held = None
        self.on_saved()

    def _undone(self, error: FormatError) -> RolledBackError:
        """A program that passes a bound of its session is at fault like one that fails."""
        return RolledBackError(f"{self.keeper.name} is as it was: {error}.")

    def advance(self, slice: Slice, stop: StopFlag, *, journal: Journal | None = None, hold: bool = False) -> At:
        """Run one slice, save the pause and say where the program now stands; it must not wait for a reply.

        `journal` is one that is not saved yet: it becomes durable with this pause, or is gone with a failure, so it may
        hold a reply that can be given again, and nothing that was done. With `hold`, an effect that is now asked for is
        not saved yet but with the next `record` or `flush`: nothing of it is lost, since the program asks for the same
        again, but nobody may hear of it before. Raises RolledBackError, all as it was, when the program fails.
        """
        before = self.standing if journal is None else replace(self.standing, journal=journal)
        assert before.at is not At.FINISHED and before.journal.pending is None and self._held is None
        guest, outcome, checks = self._run(before, slice, stop)
        for further in DETOURS:
            if isinstance(outcome, Failed) and outcome.too_deep:
                guest, outcome, checks = self._run(before, Slice(checks=checks + further), stop)
        if isinstance(outcome, Failed):
            raise RolledBackError(f"{outcome.reason} {self.keeper.name} is as it was.")
        begin = time.perf_counter()
        pause = self._pause(guest, outcome, checks)
        try:
            step = paused(before, pause)
        except FormatError as error:
            raise self._undone(error) from error
        if hold and isinstance(outcome, Waiting):
            self._held = step
        else:
            self._save(step)
        if isinstance(outcome, Interrupted):
            self._pace.cost(time.perf_counter() - begin)
        self._guest = None if isinstance(outcome, Finished) else guest
        self.emitted = pause.emitted
        return self.standing.at

    def _run(self, before: Standing, slice: Slice, stop: StopFlag) -> tuple[Guest, Outcome, int]:
        """Run one slice from `before`; return the guest, how it ended and the interrupt checks it passed."""
        guest, self._guest = self._running(before), None
        checks = guest.checks
        outcome = guest.run(slice, stop=stop)
        return guest, outcome, guest.checks - checks

    def _pause(self, guest: Guest, outcome: Interrupted | Waiting | Finished, checks: int) -> Pause:
        finished = isinstance(outcome, Finished)
        snapshot = None if finished else guest.snapshot()
        self.dirty_pages = 0 if snapshot is None else len(snapshot.page_numbers)
        changed = guest.changed_pages(snapshot) if snapshot is not None and self.keeper.incremental else None
        asked = outcome.effect if isinstance(outcome, Waiting) else None
        return Pause(
            at=At.FINISHED if finished else At.INTERRUPTED if asked is None else At.EFFECT,
            snapshot=snapshot,
            changed=changed,
            emitted=guest.take_transcript(),
            checks=checks,
            asked=asked,
            asked_at=guest.asked_at,
        )

    def _running(self, before: Standing) -> Guest:
        """The program where `before` has it: the one that already runs here, or one put back from its pages."""
        guest = self._guest
        if guest is not None:
            if guest.waiting_for is not None:
                guest.answer(before.journal.latest_reply)
            return guest
        module = Module.load(self.keeper.wasm())
        limits = Limits(
            memory_bytes=before.limits.memory_bytes,
            transcript_bytes=max(0, before.limits.transcript_bytes - before.transcript_bytes),
        )
        if before.at is At.FRESH:
            return Guest.start(module, args=before.args, limits=limits)
        return Guest.resume(
            module,
            self.keeper.snapshot(),
            args=before.args,
            reply=before.journal.latest_reply,
            waiting=before.at is At.EFFECT,
            limits=limits,
        )
