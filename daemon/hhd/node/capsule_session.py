"""One capsule being advanced: its file held, its program running slice by slice, every pause saved.

What is promised is on disk before anybody hears of it: a pause is saved before it is reported, an effect's `started`
before it is begun, a reply before the guest gets it.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from hhd.base.errors import RefusedError, RolledBackError
from hhd.node.capsule_file import CapsuleFile, refusal
from hhd.node.own import Owner
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Failed, Finished, Interrupted, Limits, Outcome, Slice, StopFlag, Waiting
from hhd_protocol import capsule
from hhd_protocol.capsule import At, Capsule, Execution
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import LineId
from hhd_protocol.journal import Journal

DETOURS = (1_000, 100_000, 10_000_000)
"""Where a program is too deep in calls to be paused, its slice is run again, this many interrupt checks longer: a run
is the same each time, and most recursions come back up soon."""


class CapsuleSession:
    """The capsule at `path`, which this process alone advances until `close`."""

    def __init__(self, path: Path, *, module: bytes | None = None) -> None:
        """`module` is the wasm of a capsule that was made without it. Raises RefusedError, with nothing changed."""
        self._file = CapsuleFile(path)
        self._given = module
        self._guest: Guest | None = None
        self._held: Capsule | None = None
        self.dirty_pages = 0
        """Pages that the latest pause of this process differs in from the baseline."""

    @property
    def capsule(self) -> Capsule:
        """What the file holds now, or will hold once the pause that is held back is saved."""
        return self._file.capsule if self._held is None else self._held

    @property
    def path(self) -> Path:
        """The name of the file."""
        return self._file.path

    @property
    def owner(self) -> Owner:
        """Whether the file is this user's own, and where it was at work."""
        return self._file.owner

    @property
    def file_bytes(self) -> int:
        """The length of the file."""
        return self._file.length

    def close(self) -> None:
        """Let others advance it."""
        self._file.close()

    def __enter__(self) -> CapsuleSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, journal: Journal) -> None:
        """Save `journal`: what became of the effect that the program waits for."""
        self._save(dataclasses.replace(self.capsule, journal=journal, line=LineId(os.urandom(16))))

    def flush(self) -> None:
        """Save the pause that was held back, if one was."""
        if self._held is not None:
            self._save(self._held)

    def _save(self, value: Capsule) -> None:
        self._file.save(value)
        self._held = None

    def advance(self, slice: Slice, stop: StopFlag, *, journal: Journal | None = None, hold: bool = False) -> At:
        """Run one slice, save the pause and say where the program now stands; it must not wait for a reply.

        `journal` is one that is not saved yet: it becomes durable with this pause, or is gone with a failure, so it may
        hold a reply that can be given again, and nothing that was done. With `hold`, an effect that is now asked for is
        not saved yet but with the next `record` or `flush`: nothing of it is lost, since the program asks for the same
        again, but nobody may hear of it before. Raises RolledBackError, the file as it was, when the program fails.
        """
        before = self.capsule if journal is None else dataclasses.replace(self.capsule, journal=journal)
        assert before.at is not At.FINISHED and before.journal.pending is None
        guest, outcome, checks = self._run(before, slice, stop)
        for further in DETOURS:
            if isinstance(outcome, Failed) and outcome.too_deep:
                guest, outcome, checks = self._run(before, Slice(checks=checks + further), stop)
        if isinstance(outcome, Failed):
            raise RolledBackError(f"{outcome.reason} {self._file.path} is as it was.")
        try:
            paused = self._paused(before, guest, outcome, checks)
            if hold and isinstance(outcome, Waiting):
                self._held = paused
            else:
                self._save(paused)
        except FormatError as error:
            raise RolledBackError(f"{self._file.path} is as it was: {error}.") from error
        if not isinstance(outcome, Finished):
            self._guest = guest
        return self.capsule.at

    def _run(self, before: Capsule, slice: Slice, stop: StopFlag) -> tuple[Guest, Outcome, int]:
        """Run one slice from `before`; return the guest, how it ended and the interrupt checks it passed."""
        guest, self._guest = self._running(before), None
        checks = guest.checks
        outcome = guest.run(slice, stop=stop)
        return guest, outcome, guest.checks - checks

    def _paused(self, before: Capsule, guest: Guest, outcome: Interrupted | Waiting | Finished, checks: int) -> Capsule:
        """The capsule of this pause; raises FormatError where a bound is passed."""
        emitted = guest.take_transcript()
        if len(before.transcript) + len(emitted) > before.limits.transcript_bytes:
            raise TooLargeError(f"the program said more than {before.limits.transcript_bytes} bytes")
        line = LineId(os.urandom(16))
        if isinstance(outcome, Finished):
            self.dirty_pages = 0
            return before.advanced(at=At.FINISHED, execution=None, emitted=emitted, checks=checks, line=line)
        snapshot = guest.snapshot()
        self.dirty_pages = len(snapshot.page_numbers)
        asked = outcome.effect if isinstance(outcome, Waiting) else None
        if asked is not None and before.journal.settled >= before.limits.effects:
            raise TooLargeError(f"the program asked for more than {before.limits.effects} effects")
        return before.advanced(
            at=At.INTERRUPTED if asked is None else At.EFFECT,
            execution=Execution.of(snapshot, before=before.execution),
            emitted=emitted,
            checks=checks,
            line=line,
            asked=asked,
        )

    def _running(self, before: Capsule) -> Guest:
        """The program where `before` has it: the one that already runs here, or one put back from its pages."""
        guest = self._guest
        if guest is not None:
            if guest.waiting_for is not None:
                guest.answer(before.journal.latest_reply)
            return guest
        module = Module.load(self._wasm(before))
        limits = Limits(
            memory_bytes=before.limits.memory_bytes,
            transcript_bytes=max(0, before.limits.transcript_bytes - len(before.transcript)),
        )
        if before.execution is None:
            return Guest.start(module, args=before.args, limits=limits)
        try:
            snapshot = before.execution.snapshot()
        except FormatError as error:
            raise refusal(self._file.path, error) from error
        return Guest.resume(
            module,
            snapshot,
            args=before.args,
            reply=before.journal.latest_reply,
            waiting=before.at is At.EFFECT,
            limits=limits,
        )

    def _wasm(self, value: Capsule) -> bytes:
        found = self._given
        try:
            if value.module.packed is not None:
                return capsule.module_bytes(value.module)
        except FormatError as error:
            raise refusal(self._file.path, error) from error
        if found is None:
            from hhd.node.programs import builtin_module

            found = builtin_module(value.module.digest)
        if found is None:
            raise RefusedError(
                f"{self._file.path} was made without its module {value.module.digest.hex()[:16]}, which this hhd does "
                f"not have; name it with --module."
            )
        if capsule.Module.of(found, embed=False) != value.module:
            raise RefusedError(f"The module given is not the one that {self._file.path} was made with.")
        return found
