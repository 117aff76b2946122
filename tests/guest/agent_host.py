"""The agent module and scripted replies for it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtime.runs import Answer

import hhd.runtime
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Finished, Slice, Waiting
from hhd_protocol.abi import EffectRequest, Snapshot

MODULE_FILE = Path(hhd.runtime.__file__).parent / "modules" / "agent.wasm"


@functools.cache
def agent_module() -> Module:
    """The shipped agent, compiled."""
    return Module.load(MODULE_FILE.read_bytes())


def encoded_args(**args: str) -> bytes:
    """Arguments as a host hands them over."""
    return json.dumps(args, sort_keys=True, separators=(",", ":")).encode()


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
