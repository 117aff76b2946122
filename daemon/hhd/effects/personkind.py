"""Effects that the person and the device themselves answer: the next words, and the facts of this machine."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from hhd.effects import machine
from hhd.effects.cancel import Cancel, Interrupted
from hhd.effects.executor import Ready, Waits, Why
from hhd.effects.interrupts import Interrupts
from hhd_protocol.journal import Entry


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An `input` request (`agent-effects.md`); `prompt` is of unknown origin."""

    prompt: str = ""
    why: str = ""


class Listener(Protocol):
    """Whoever can get words from the person."""

    def listen(self, asked: Asked) -> str | None:
        """The person's words; None if nobody is there to say any."""


@dataclass(frozen=True, kw_only=True)
class InputKind:
    """Answers `input` effects."""

    listener: Listener
    interrupts: Interrupts

    def prepare(self, entry: Entry) -> Ready | Waits:
        """Ask the person here and now: a session that only waits for words has begun nothing."""
        try:
            with self.interrupts.raised():
                words = self.listener.listen(parse(entry.request))
        except KeyboardInterrupt:
            return Waits(why=Why.CANCELLED, sentence="It waits for your words.")
        if words is None:
            return Waits(why=Why.ELSEWHERE, sentence="It waits for your words.")
        reply = json.dumps({"text": words}, ensure_ascii=False).encode("utf-8", "replace")
        return Ready(run=lambda cancel: reply, repeatable=True)

    def repeatable(self, request: bytes) -> bool:
        """The person can be asked again."""
        return True

    def refused(self, entry: Entry, message: str) -> bytes:
        """Not called: there is no question."""
        return json.dumps({"text": message}).encode()


@dataclass(frozen=True, kw_only=True)
class MachineKind:
    """Answers `machine` effects."""

    path: str | None
    today: Callable[[], datetime.date]

    def prepare(self, entry: Entry) -> Ready:
        """Facts cost and change nothing."""
        return Ready(run=self._run, repeatable=True)

    def repeatable(self, request: bytes) -> bool:
        """Facts can be asked for again."""
        return True

    def refused(self, entry: Entry, message: str) -> bytes:
        """Not called: there is no question."""
        return b"{}"

    def _run(self, cancel: Cancel) -> bytes:
        if cancel.is_set:
            raise Interrupted
        return machine.facts(self.today(), self.path)


def parse(request: bytes) -> Asked:
    """The request, as far as it is one."""
    try:
        return msgspec.json.decode(request, type=Asked)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Asked()
