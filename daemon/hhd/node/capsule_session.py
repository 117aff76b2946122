"""One capsule being advanced: its file held, every step of its program saved by making the file anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.node.capsule_file import CapsuleFile, refusal
from hhd.node.driver import Driver
from hhd.node.foreign import Whence
from hhd.node.own import Owner
from hhd.node.standing import Standing, Step
from hhd.node.tally import Tally, tally_of
from hhd_protocol import capsule
from hhd_protocol.abi import Snapshot
from hhd_protocol.capsule import Capsule, Execution
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import LineId
from hhd_protocol.journal import encode_settled


class CapsuleSession(Driver):
    """The capsule at `path`, driven."""

    keeper: CapsuleKeeper

    def __init__(self, path: Path, *, module: bytes | None = None) -> None:
        """`module` is the wasm of a capsule that was made without it. Raises RefusedError, with nothing changed."""
        super().__init__(CapsuleKeeper(path, module=module))

    @property
    def capsule(self) -> Capsule:
        """What the file holds now."""
        return self.keeper.capsule

    @property
    def file_bytes(self) -> int:
        """The length of the file."""
        return self.keeper.file_bytes

    def __enter__(self) -> CapsuleSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CapsuleKeeper:
    """Keeps a session in the capsule at `path` (see `hhd.node.keeper.Keeper`)."""

    incremental = False
    intended = False

    def __init__(self, path: Path, *, module: bytes | None = None) -> None:
        """`module` is the wasm of a capsule that was made without it. Raises RefusedError, with nothing changed."""
        self._file = CapsuleFile(path)
        self._given = module
        self._standing = Standing.of(self._file.capsule)

    @property
    def capsule(self) -> Capsule:
        """What the file holds now."""
        return self._file.capsule

    @property
    def file_bytes(self) -> int:
        """The length of the file."""
        return self._file.length

    @property
    def name(self) -> str:
        """The file's name."""
        return str(self._file.path)

    @property
    def mark(self) -> bytes:
        """The id of the line of steps."""
        return self.capsule.line

    @property
    def standing(self) -> Standing:
        """Where the file's session stands."""
        return self._standing

    @property
    def owner(self) -> Owner:
        """Whether the file is this user's own, and where it was at work."""
        return self._file.owner

    def rest(self) -> None:
        """Nothing is put off in a file."""

    def close(self) -> None:
        """Let others advance it."""
        self._file.close()

    def save(self, step: Step) -> None:
        """Make the file anew, whole."""
        self._file.save(self._after(step))
        self._standing = step.standing

    def _after(self, step: Step) -> Capsule:
        """The capsule of `step`; raises FormatError where its parts contradict each other."""
        before, after, pause = self.capsule, step.standing, step.pause
        line = LineId(os.urandom(16))
        if pause is None:
            return replace(before, journal=after.journal, line=line)
        record = b"" if step.settled is None else encode_settled(step.settled)
        return replace(
            before,
            at=after.at,
            execution=None if pause.snapshot is None else Execution.of(pause.snapshot, before=before.execution),
            journal=after.journal,
            history=before.history.append(record),
            transcript=before.transcript.append(pause.emitted),
            checks=after.checks,
            steps=after.steps,
            line=line,
        )

    def snapshot(self) -> Snapshot:
        """The memory where it stands."""
        execution = self.capsule.execution
        assert execution is not None
        try:
            return execution.snapshot()
        except FormatError as error:
            raise refusal(self._file.path, error) from error

    def tally(self) -> Tally:
        """What it has asked and spent; raises RefusedError where history or transcript are damaged."""
        try:
            return tally_of(self.capsule)
        except FormatError as error:
            raise refusal(self._file.path, error) from error

    def whence(self) -> Whence:
        """What it says of where it is from."""
        value = self.capsule
        return Whence(
            kind="capsule",
            label="file",
            place=self.name,
            device=value.origin.device if value.origin else None,
            folder=value.path_hint,
            program=value.program,
            module=value.module.digest,
            journal=value.journal,
        )

    def wasm(self) -> bytes:
        """The module out of the file, the one given, or one that comes with hhd."""
        value, found = self.capsule, self._given
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
