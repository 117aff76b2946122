"""Plays the agent module against scripted replies, cut into slices, snapshots and processes at will."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hhd.runtime
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Failed, Finished, Interrupted, Slice, Waiting
from hhd_protocol.abi import EffectRequest, Snapshot

MODULE_FILE = Path(hhd.runtime.__file__).parent / "modules" / "agent.wasm"


@functools.cache
def agent_module() -> Module:
    """The shipped agent, compiled."""
    return Module.load(MODULE_FILE.read_bytes())


def encoded_args(**args: str) -> bytes:
    """Arguments as a host hands them over."""
    return json.dumps(args, sort_keys=True, separators=(",", ":")).encode()


Answer = Callable[[EffectRequest], bytes]


@dataclass
class Replies:
    """Answers from one queue for each effect; then with what ends a session. `asked` keeps every request."""

    model: list[Any] = field(default_factory=list)
    tool: list[Any] = field(default_factory=list)
    input: list[Any] = field(default_factory=list)
    machine: list[Any] = field(default_factory=list)
    notes: str | None = None
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def __call__(self, effect: EffectRequest) -> bytes:
        request = json.loads(effect.request)
        before = sum(op == effect.op and request.get("id") != "notes" for op, request in self.asked)
        self.asked.append((effect.op, request))
        if request.get("id") == "notes":
            return _encoded({"output": self.notes} if self.notes else {"output": "no such file", "is_error": True})
        queue: list[Any] = getattr(self, effect.op)
        last = {
            "model": {"error": {"message": "over"}},
            "tool": {"output": "ok"},
            "input": {"end": True},
            "machine": {},
        }
        return _encoded(queue[before] if before < len(queue) else last[effect.op])


def _encoded(reply: Any) -> bytes:
    return reply if isinstance(reply, bytes) else json.dumps(reply).encode()


def kept(snapshot: Snapshot) -> Snapshot:
    """A snapshot that no longer looks into the guest's memory."""
    return Snapshot(
        entry=snapshot.entry,
        memory_bytes=snapshot.memory_bytes,
        page_numbers=list(snapshot.page_numbers),
        pages=[bytes(piece) for piece in snapshot.pages],
        globals=dict(snapshot.globals),
        asyncify_stack_bytes=snapshot.asyncify_stack_bytes,
    )


def whole_run(args: bytes, answer: Answer) -> bytes:
    """The transcript of a run that only effects interrupt."""
    guest = Guest.start(agent_module(), args=args)
    transcript = b""
    while True:
        outcome = guest.run(Slice())
        transcript += guest.take_transcript()
        if isinstance(outcome, Finished):
            return transcript
        assert isinstance(outcome, Waiting), outcome
        guest.answer(answer(outcome.effect))


def cut_run(args: bytes, answer: Answer, dice: random.Random, checks_most: int) -> tuple[bytes, int]:
    """The transcript of a run through snapshots and new instances at random points, and how many there were."""
    module = agent_module()
    guest = Guest.start(module, args=args)
    transcript, latest, cuts = b"", b"", 0
    while True:
        outcome = guest.run(Slice(checks=dice.randint(1, checks_most)))
        transcript += guest.take_transcript()
        match outcome:
            case Finished():
                return transcript, cuts
            case Waiting(effect=effect):
                saved = kept(guest.snapshot())
                latest = answer(effect)
                guest = Guest.resume(module, saved, args=args, reply=latest, waiting=True)
            case Interrupted():
                saved = kept(guest.snapshot())
                guest = Guest.resume(module, saved, args=args, reply=latest)
            case Failed():
                raise AssertionError(outcome.reason)
        cuts += 1


def events(transcript: bytes) -> list[dict[str, Any]]:
    """The lines of a transcript."""
    return [json.loads(line) for line in transcript.decode().splitlines()]


def snapshots_at_effects(args: bytes, answer: Answer) -> Iterator[tuple[EffectRequest, Snapshot, bytes]]:
    """Each effect of a run with the snapshot taken there and the transcript so far."""
    guest = Guest.start(agent_module(), args=args)
    transcript = b""
    while True:
        outcome = guest.run(Slice())
        transcript += guest.take_transcript()
        if isinstance(outcome, Finished):
            return
        assert isinstance(outcome, Waiting), outcome
        yield outcome.effect, guest.snapshot(), transcript
        guest.answer(answer(outcome.effect))
