"""The verbs on capsules: make, step, run, look at, fork. Each returns what there is to say about it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.errors import RefusedError
from hhd.node import capsule_file
from hhd_protocol import capsule
from hhd_protocol.capsule import At, Capsule
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import LineId
from hhd_protocol.journal import Journal
from hhd_protocol.limits import EFFECT_BYTES_MAX

if TYPE_CHECKING:  # The runtime is loaded only by the verbs that run something.
    from hhd.runtime.outcomes import StopFlag

STATUS = {At.FRESH: "fresh", At.INTERRUPTED: "interrupted", At.EFFECT: "waiting", At.FINISHED: "finished"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a verb left behind: the capsule, how long its file is, and what this call did.

    `dirty_pages` are the pages that differ from the baseline, `checks` the interrupt checks passed by this call,
    `ran` whether it was a call that advances.
    """

    path: Path
    capsule: Capsule
    capsule_bytes: int
    dirty_pages: int
    checks: int
    wall_ms: float
    ran: bool

    @property
    def status(self) -> str:
        """One of fresh, interrupted, waiting and finished; an effect that is answered no longer waits."""
        at = self.capsule.at
        answered = at is At.EFFECT and self.capsule.journal.pending is None
        return STATUS[At.INTERRUPTED if answered or (at is At.FRESH and self.ran) else at]

    def fields(self) -> dict[str, object]:
        """The JSON object of `--json`."""
        value = self.capsule
        return {
            "status": self.status,
            "effect": effect_fields(value.journal),
            "dirty_pages": self.dirty_pages,
            "capsule_bytes": self.capsule_bytes,
            "wall_ms": round(self.wall_ms, 3),
            "checks": self.checks,
            "checks_total": value.checks,
            "steps": value.steps,
            "transcript_bytes": len(value.transcript),
            "program": value.program,
            "content": value.content_digest().hex(),
            "line": value.line.hex(),
        }


def effect_fields(journal: Journal) -> dict[str, object] | None:
    """The effect that a session waits for, None if it waits for none; a request that is not text is in base64."""
    entry = journal.pending
    if entry is None:
        return None
    try:
        request: dict[str, object] = {"request": entry.request.decode()}
    except UnicodeDecodeError:
        import base64

        request = {"request": None, "request_base64": base64.b64encode(entry.request).decode()}
    return {"index": entry.index, "op": entry.op, "state": entry.state.name.lower(), **request}


def new(
    program: str,
    out: Path,
    *,
    args: Mapping[str, str],
    embed: bool,
    force: bool,
    path_hint: str | None = None,
) -> Report:
    """Make a capsule of `program` at `out`, before its first instruction; without `embed` the module is left out.

    Raises RefusedError, with nothing written, when the module is refused or, without `force`, when `out` exists.
    """
    from hhd.node import programs
    from hhd.runtime.guest import Guest
    from hhd.runtime.module import Module
    from hhd.runtime.outcomes import Limits

    begin = time.perf_counter()
    raw_args = programs.encode_args(args)
    name, wasm = programs.find(program)
    value = Capsule(
        at=At.FRESH,
        program=name,
        module=capsule.Module.of(wasm, embed=embed),
        args=raw_args,
        line=LineId(os.urandom(16)),
        path_hint=path_hint,
    )
    Guest.start(Module.load(wasm), args=raw_args, limits=Limits(memory_bytes=value.limits.memory_bytes))
    length = capsule_file.write_new(out, value, force=force)
    return _report(out, value, length, begin=begin)


def step(
    path: Path,
    *,
    milliseconds: float | None = None,
    checks: int | None = None,
    reply: bytes | None = None,
    module: Path | None = None,
    stop: StopFlag,
) -> Report:
    """Advance the capsule at `path` by one slice, at most until an effect waits, the program ends or `stop` is set.

    `reply` answers the effect it waits for. Without one, a waiting or finished capsule is left as it is and reported.
    Raises RefusedError (nothing changed) or RolledBackError (the program failed, the file is as it was).
    """
    from hhd.node.capsule_session import CapsuleSession
    from hhd.runtime.outcomes import Slice

    begin = time.perf_counter()
    with CapsuleSession(path, module=_given(module)) as session:
        value = session.capsule
        journal = value.journal
        if reply is not None:
            if journal.pending is None:
                raise RefusedError(f"{path} waits for no effect, so the reply was not used and nothing was changed.")
            if len(reply) > EFFECT_BYTES_MAX:
                raise RefusedError(f"The reply has {len(reply)} bytes, more than the {EFFECT_BYTES_MAX} allowed.")
            journal = journal.answer(reply)
        if value.at is not At.FINISHED and journal.pending is None:
            session.advance(Slice(checks=checks, milliseconds=milliseconds), stop, journal=journal)
        return _report(path, session.capsule, session.file_bytes, begin=begin, checks_before=value.checks)


def run(path: Path, *, module: Path | None = None, stop: StopFlag) -> Report:
    """Advance the capsule at `path` until the program ends, an effect waits, or `stop` is set."""
    from hhd.node.capsule_session import CapsuleSession

    begin = time.perf_counter()
    with CapsuleSession(path, module=_given(module)) as session:
        before = session.capsule.checks
        while not stop.is_set and session.capsule.at is not At.FINISHED and session.capsule.journal.pending is None:
            session.advance(session.next_slice(), stop)
        return _report(path, session.capsule, session.file_bytes, begin=begin, checks_before=before)


def info(path: Path) -> Report:
    """Look at the capsule at `path`."""
    begin = time.perf_counter()
    value, length = capsule_file.read(path)
    return _report(path, value, length, begin=begin)


def transcript(path: Path) -> Iterator[bytes]:
    """Yield the transcript of the capsule at `path`, in parts; raises RefusedError at a damaged one."""
    value, _ = capsule_file.read(path)
    try:
        yield from value.transcript
    except FormatError as error:
        raise capsule_file.refusal(path, error) from error


def fork(path: Path, target: Path) -> Report:
    """Copy the capsule at `path` to `target`, where there must be nothing yet."""
    begin = time.perf_counter()
    raw = capsule_file.read_bytes(path)
    value = capsule_file.decode(raw, path)
    return _report(target, value, capsule_file.write_bytes(target, [raw]), begin=begin)


def _given(module: Path | None) -> bytes | None:
    if module is None:
        return None
    from hhd.node import programs

    return programs.read_wasm(module)


def _report(path: Path, value: Capsule, length: int, *, begin: float, checks_before: int | None = None) -> Report:
    return Report(
        path=path,
        capsule=value,
        capsule_bytes=length,
        dirty_pages=0 if value.execution is None else len(value.execution.pages),
        checks=0 if checks_before is None else value.checks - checks_before,
        wall_ms=(time.perf_counter() - begin) * 1000,
        ran=checks_before is not None,
    )
