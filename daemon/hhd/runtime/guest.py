"""A guest program that runs slice by slice, can be read out at any pause and put back elsewhere.

The driver of Asyncify (`protocol/spec/guest-abi.md`, "Stopping and resuming"). Its rules:

* A position in a run is a number of interrupt checks. What a snapshot holds depends on the position alone, not on how
  the run was cut: the countdown is set to zero and what earlier pauses left in the Asyncify stack is wiped.
* Nothing the guest says is believed: lengths and offsets are held against its memory as it is at that moment, its
  exports are called only from outside, and an import that is called at the wrong time ends the run.
* After anything but a pause the instance is thrown away; the snapshot it came from stays good.
"""

from __future__ import annotations

import ctypes
import struct
import time
import weakref
from collections.abc import Callable

from hhd.base.text import visible
from hhd.runtime import wasmtime_c as c
from hhd.runtime.copies import MemoryCopy
from hhd.runtime.instance import HostCall, Instance
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Failed, Finished, Interrupted, Limits, Outcome, Slice, StopFlag, Waiting
from hhd.runtime.pages import changed_runs
from hhd.runtime.pause_stack import PauseStack
from hhd.runtime.restoring import misfit, restore
from hhd.runtime.thread import Watch, run_watched
from hhd_protocol.abi import COUNTDOWN, ENTRY, EffectRequest, Snapshot
from hhd_protocol.limits import (
    ARGS_BYTES_MAX,
    EFFECT_BYTES_MAX,
    OP_BYTES_MAX,
    PAGE_BYTES,
)

_CHECKS_AT_MOST = 65_536
"""Checks between two looks of the host: one at first, then twice as many each time until the aim below is reached. In
the quickest loops, two nanoseconds a check, the looks cost 2%; work fifty times slower that follows at once is looked
at after 7 ms."""

_LOOK_SECONDS = 0.0003
"""The time between two looks that is aimed at: a look costs 2 to 3 microseconds."""

_PANIC_BYTES_MAX = 4096
_OP_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_.-")
_NORMAL, _UNWINDING, _REWINDING = 0, 1, 2

_slots = {count: struct.Struct("<" + "I12x" * count) for count in range(5)}


class Guest:
    """One running, paused or ended program. Use it from one thread at a time."""

    def __init__(self, module: Module, args: bytes, limits: Limits) -> None:
        assert len(args) <= ARGS_BYTES_MAX
        self._module, self._args, self._limits = module, args, limits
        calls: dict[str, _Import] = {
            "effect": Guest._effect,
            "reply": Guest._reply_part,
            "emit": Guest._emit,
            "panic": Guest._panic,
            "args": Guest._copy_args,
            "yield": Guest._yield,
        }
        self._instance = Instance(
            module, {name: self._guarded(call) for name, call in calls.items()}, limits.memory_bytes
        )
        self._stack = PauseStack(self._instance)

        self.checks = 0
        """Interrupt checks run so far by this guest, since `start` or `resume`."""
        self.asked_at = 0
        """Where in memory the request of the latest effect lies, as the guest said."""
        self._copy: MemoryCopy | None = None
        self._transcript = bytearray()
        self._reply = b""
        self._effect_asked: EffectRequest | None = None
        self._effect_answered = False
        self._begun = False
        self._ended: Finished | Failed | None = None

        # what one run needs
        self._mode = _NORMAL
        self._outside = True
        self._fault: str | None = None
        self._panic_text: str | None = None
        self._watch = Watch()
        self._stop = StopFlag()
        self._own_stop, self._time_is_up = False, False
        self._left: int | None = None
        self._deadline: float | None = None
        self._chunk, self._pace, self._looked = 0, 1, 0.0

    @staticmethod
    def start(module: Module, *, args: bytes, limits: Limits | None = None) -> Guest:
        """A program at its beginning. Raises RefusedError if the module does not fit the limits."""
        return Guest(module, args, limits or Limits())

    @staticmethod
    def resume(
        module: Module,
        snapshot: Snapshot,
        *,
        args: bytes,
        reply: bytes = b"",
        waiting: bool = False,
        limits: Limits | None = None,
    ) -> Guest:
        """A program where `snapshot` left it.

        `reply` is the latest reply it was given (empty if none); with `waiting`, the answer to the effect that it
        stands in. Raises RefusedError for a snapshot that cannot belong to this module.
        """
        guest = Guest(module, args, limits or Limits())
        restore(guest._instance, guest._stack, module.shape, snapshot, guest._limits.memory_bytes)
        guest._reply, guest._begun = reply, snapshot.asyncify_stack_bytes > 0
        if waiting and not guest._begun:
            raise misfit("a program that has not begun cannot wait for an effect")
        guest._effect_answered = waiting
        return guest

    @property
    def memory_bytes(self) -> int:
        """Linear memory as it is now, the Asyncify stack included."""
        return self._instance.memory_bytes()

    @property
    def over(self) -> bool:
        """Whether it finished or failed."""
        return self._ended is not None

    @property
    def waiting_for(self) -> EffectRequest | None:
        """The effect it stands in, None unless the last run ended in `Waiting` and no answer was given yet."""
        return self._effect_asked

    def take_transcript(self) -> bytes:
        """What was emitted since this was last called. After `Failed` it has no worth: the snapshot is from before."""
        taken = bytes(self._transcript)
        self._transcript.clear()
        return taken

    def answer(self, reply: bytes) -> None:
        """Give the effect that it waits for its reply; the next `run` goes on from there."""
        assert self._effect_asked is not None, "it waits for nothing"
        assert len(reply) <= EFFECT_BYTES_MAX
        self._effect_asked, self._effect_answered, self._reply = None, True, reply

    def run(self, slice: Slice, *, stop: StopFlag | None = None) -> Outcome:
        """Run until the slice is over, `stop` is set, an effect is asked for, the program ends or fails.

        At least one interrupt check is passed, unless it ends before. Errors of the host (MemoryError,
        KeyboardInterrupt) are raised once the guest came to rest, and end it.
        """
        assert self._ended is None and self._effect_asked is None, "it cannot run on"
        self._stop = stop or StopFlag()
        self._own_stop, self._time_is_up = False, False
        self._left = slice.checks
        self._looked = time.perf_counter()
        self._deadline = None if slice.milliseconds is None else self._looked + slice.milliseconds / 1000
        self._pace = 1
        self._watch = Watch()
        outcome: list[Outcome] = []
        self._ended = Failed(reason="The program was interrupted from outside.")
        came_back = run_watched(
            lambda: outcome.append(self._drive()),
            self._watch,
            stuck_seconds=self._limits.stuck_seconds,
            cpu_seconds=self._limits.cpu_seconds,
            stop=self._stop_from_watch,
        )
        if not came_back:
            self._instance.leak()
            seconds = f"{self._limits.stuck_seconds:g}"
            self._ended = Failed(
                reason=f"The program ran for {seconds} s without reaching an interrupt check and was given up.",
                stuck=True,
            )
            return self._ended
        found = outcome[0]
        self._ended = found if isinstance(found, Finished | Failed) else None
        return found

    def snapshot(self) -> Snapshot:
        """The whole state of a pause (or of a program that has not begun).

        Its `pages` are views into the guest's memory, good until the next `run`.
        """
        assert self._ended is None, "only a paused program has a state to save"
        address, size = self._instance.address, self._instance.memory_bytes()
        used = self._stack.used() if self._begun else 0
        self._stack.wipe(used)
        view = self._instance.view()
        runs = changed_runs(address, size, *self._instance.baseline())
        return Snapshot(
            entry=ENTRY,
            memory_bytes=size,
            page_numbers=[page for first, end in runs for page in range(first, end)],
            pages=[view[first * PAGE_BYTES : end * PAGE_BYTES] for first, end in runs],
            globals={name: self._instance.global_bits(name) for name in self._module.shape.saved_globals},
            asyncify_stack_bytes=used,
        )

    def changed_pages(self, snapshot: Snapshot) -> list[int] | None:
        """The pages of `snapshot`, just taken, that may differ from those of the one this was last called with.

        None the first time: there was none before.
        """
        first = self._copy is None
        if self._copy is None:
            self._copy = MemoryCopy(self._limits.memory_bytes)
        changed = self._copy.update(self._instance.address, snapshot.page_numbers)
        return None if first else changed

    # driving; all of this happens on the guest's own thread

    def _drive(self) -> Outcome:
        instance = self._instance
        self._fault = self._panic_text = None
        self._mode, self._outside = _NORMAL, True
        try:
            if self._begun:
                instance.call("asyncify_start_rewind", self._stack.base)
                self._mode = _REWINDING
            else:
                self._set_countdown(instance.context)
            self._begun, self._outside = True, False
            instance.call(ENTRY)
            self._outside = True
            if self._mode == _NORMAL and instance.call("asyncify_get_state") == _NORMAL:
                self._count_passed(instance.context)
                return Finished()
            if self._mode != _UNWINDING or instance.call("asyncify_get_state") != _UNWINDING:
                return Failed(reason="The program came back in a state that no pause and no end leaves.")
            instance.call("asyncify_stop_unwind")
            return self._paused()
        except (c.TrapError, c.VendorError) as error:
            reason = self._why(error)
            return Failed(reason=reason, too_deep=reason is _TOO_DEEP)

    def _paused(self) -> Outcome:
        if not self._stack.in_order():
            return Failed(reason=_TOO_DEEP, too_deep=True)
        self._stack.note()
        self._instance.set_global_bits(COUNTDOWN, 0)
        if self._effect_asked is not None:
            return Waiting(effect=self._effect_asked)
        if self._time_is_up:
            return Failed(reason=f"The program used its {self._limits.cpu_seconds:g} s of processor time.")
        return Interrupted()

    def _why(self, error: c.TrapError | c.VendorError) -> str:
        if self._fault is not None:
            return self._fault
        code = error.code if isinstance(error, c.TrapError) else None
        if self._mode == _UNWINDING:  # a frame that finds no room traps, before it writes or after
            return _TOO_DEEP
        if self._panic_text is not None:
            text = self._panic_text
            return f"The program panicked: {text}" + ("" if text.endswith((".", "!", "?")) else ".")
        if code == c.TRAP_STACK_OVERFLOW:
            return "The program called itself too deeply."
        if code == c.TRAP_OUT_OF_BOUNDS:
            return "The program reached outside its memory."
        if code == c.TRAP_UNREACHABLE:
            return "The program gave up without saying why."
        return f"The program failed: {_shown(str(error).rpartition('wasm trap: ')[2])}."

    def _stop_from_watch(self, time_is_up: bool) -> None:
        self._own_stop, self._time_is_up = True, self._time_is_up or time_is_up

    # imports

    def _guarded(self, call: _Import) -> HostCall:
        me = weakref.ref(self)  # else a guest would keep itself alive, with all its memory, until a collection

        def guarded(caller: int, slots: int) -> int | None:
            self = me()
            assert self is not None, "whoever runs a guest holds it"
            try:
                context = c.lib.wasmtime_caller_context(caller)
                if self._outside:
                    raise _Fault("called the host while the host was calling it")
                if self._mode == _UNWINDING:
                    raise _Fault("called the host while it was being paused")
                if self._mode == _REWINDING and call not in (Guest._yield, Guest._effect):
                    raise _Fault("called the host before it was resumed")
                call(self, context, slots)
                return None
            except _Fault as fault:
                self._fault = f"The program {fault}."
            except (c.TrapError, c.VendorError) as error:
                self._fault = self._why(error)
            except BaseException as error:  # noqa: BLE001 (raised again in the thread that asked)
                self._watch.error = error
                self._fault = "The host failed."
            return int(c.lib.wasmtime_trap_new(b"host", 4))

        return guarded

    def _yield(self, context: int, _slots_at: int) -> None:
        self._watch.beats += 1
        now = time.perf_counter()
        if self._mode == _REWINDING:
            if self._effect_answered:
                raise _Fault("was resumed at another place than it was paused at")
            self._resumed(context)
            return
        self.checks += self._chunk
        if self._left is not None:
            self._left -= self._chunk
        took, self._looked = now - self._looked, now
        self._pace = max(1, min(2 * self._pace, int(self._chunk * _LOOK_SECONDS / max(took, 1e-7)), _CHECKS_AT_MOST))
        self._chunk = 0
        if self._left == 0 or self._due(now):
            self._unwind(context)
        else:
            self._set_countdown(context)

    def _effect(self, context: int, slots: int) -> None:
        if self._mode == _REWINDING:
            if not self._effect_answered:
                raise _Fault("was resumed at another place than it was paused at")
            self._effect_answered = False
            self._resumed(context)
            ctypes.c_uint64.from_address(slots).value = len(self._reply)
            return
        op_at, op_bytes, request_at, request_bytes = _arguments(slots, 4)
        if not 1 <= op_bytes <= OP_BYTES_MAX:
            raise _Fault("asked for an effect whose name has a length that is not allowed")
        if request_bytes > EFFECT_BYTES_MAX:
            raise _Fault(f"asked for an effect with {request_bytes} bytes, more than the {EFFECT_BYTES_MAX} allowed")
        op = self._bytes(context, op_at, op_bytes)
        if not _OP_LETTERS.issuperset(op):
            raise _Fault("asked for an effect whose name has letters that are not allowed")
        request = self._bytes(context, request_at, request_bytes)
        self._count_passed(context)
        self._unwind(context)
        self.asked_at = request_at
        self._effect_asked = EffectRequest(op=op.decode("ascii"), request=request)

    def _reply_part(self, context: int, slots: int) -> None:
        to, offset, length = _arguments(slots, 3)
        if offset + length > len(self._reply):
            raise _Fault("asked for more of a reply than there is")
        self._put(context, to, memoryview(self._reply)[offset : offset + length])

    def _emit(self, context: int, slots: int) -> None:
        at, length = _arguments(slots, 2)
        if len(self._transcript) + length > self._limits.transcript_bytes:
            raise _Fault("emitted more than its transcript may hold")
        self._transcript += self._bytes(context, at, length)

    def _panic(self, context: int, slots: int) -> None:
        at, length = _arguments(slots, 2)
        whole = self._bytes(context, at, length)[:_PANIC_BYTES_MAX]
        self._panic_text = visible(whole.decode("utf-8", "replace"), one_line=True) or "(it did not say why)"

    def _copy_args(self, context: int, slots: int) -> None:
        to, room = _arguments(slots, 2)
        self._put(context, to, memoryview(self._args)[:room])
        ctypes.c_uint64.from_address(slots).value = len(self._args)

    # the clock of checks; the countdown is read and set in `yield` and `effect` only: elsewhere the guest may hold it
    # in a local

    def _due(self, now: float) -> bool:
        return self._stop.is_set or self._own_stop or (self._deadline is not None and now >= self._deadline)

    def _set_countdown(self, context: int) -> None:
        """Let the guest run to the next look: the check after `chunk - 1` others calls `yield`."""
        self._chunk = self._pace if self._left is None else min(self._pace, self._left)
        self._instance.set_global_bits(COUNTDOWN, self._chunk - 1, context)

    def _passed(self, context: int) -> int:
        """Checks passed since the countdown was set, held to what is possible, since a guest may lie."""
        left = self._instance.global_bits(COUNTDOWN, context)
        return max(0, min(self._chunk - 1, self._chunk - 1 - left))

    def _count_passed(self, context: int) -> None:
        passed = self._passed(context) if self._chunk else 0
        self.checks += passed
        if self._left is not None:
            self._left -= passed
        self._chunk = 0

    def _resumed(self, context: int) -> None:
        self._outside = True
        self._instance.call("asyncify_stop_rewind", context=context)
        self._outside = False
        self._mode = _NORMAL
        self._set_countdown(context)

    def _unwind(self, context: int) -> None:
        self._outside = True
        self._stack.fill(0)
        self._instance.call("asyncify_start_unwind", self._stack.base, context=context)
        self._outside = False
        self._mode = _UNWINDING

    # the guest's memory

    def _bytes(self, context: int, at: int, length: int) -> bytes:
        if at + length > self._instance.memory_bytes(context):
            raise _Fault("handed over bytes that lie outside its memory")
        return ctypes.string_at(self._instance.address + at, length)

    def _put(self, context: int, at: int, piece: memoryview) -> None:
        if at + len(piece) > self._instance.memory_bytes(context):
            raise _Fault("asked for bytes at a place outside its memory")
        ctypes.memmove(self._instance.address + at, bytes(piece), len(piece))


_Import = Callable[[Guest, int, int], None]
"""(guest, context, address of the slots of arguments and result)."""

_TOO_DEEP = "The program was too deep in calls to be paused: its calls do not fit the stack for a pause."


class _Fault(Exception):
    """A guest broke the ABI; the message goes on after "The program"."""


def _arguments(slots: int, count: int) -> tuple[int, ...]:
    """The arguments of an import as unsigned 32-bit integers."""
    return _slots[count].unpack(ctypes.string_at(slots, 16 * count))


def _shown(message: str) -> str:
    return visible(" ".join(message.split())[:200], one_line=True)
