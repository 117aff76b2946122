"""A host of a few dozen lines for the tests of the passes: it knows the guest ABI and nothing else of `hhd.runtime`.

No conftest may import this: the engine's signal handlers have to come after those of pytest.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import wasmtime

from hhd.runtime.instrument import instrument

STACK_WASM_PAGES = 4


def engine() -> wasmtime.Engine:
    """With the settings that make a run the same everywhere."""
    config = wasmtime.Config()
    config.cranelift_nan_canonicalization = True
    config.wasm_threads = False
    config.wasm_relaxed_simd = False
    config.wasm_gc = False
    config.wasm_function_references = False
    config.wasm_exceptions = False
    config.wasm_tail_call = False
    config.max_wasm_stack = 2 * 1024 * 1024
    return wasmtime.Engine(config)


ENGINE = engine()


class Guest(Exception):
    """The guest failed: what it said in `panic`, or the trap."""


@dataclass
class State:
    """A paused execution, all of it."""

    memory: bytes
    globals: dict[str, int | float]
    stack_base: int


@dataclass
class Run:
    """One program with its arguments and replies; `transcript` grows over its slices."""

    module: wasmtime.Module
    arguments: dict[str, str] = field(default_factory=dict)
    replies: list[bytes] = field(default_factory=list)
    transcript: bytearray = field(default_factory=bytearray)
    asked: list[tuple[bytes, bytes]] = field(default_factory=list)
    state: State | None = None
    reply: bytes = b""
    waiting: bool = False
    slices: int = 0
    stack_used_most: int = 0
    checks: int = 0

    def to_end(self, checks: int | None = None) -> bytes:
        """Run in slices of `checks` checks, each in a new instance; return the transcript."""
        while not self.slice(checks):
            self.slices += 1
        return bytes(self.transcript)

    def slice(self, checks: int | None = None) -> bool:
        """Run until finished (True), or paused (False) by an effect or after `checks` checks."""
        one = Slice(self, checks)
        try:
            return one.run()
        finally:
            one.store.close()  # the callbacks hold the slice, so the collector would come late


def run_cut(text: str, cuts: Sequence[int] = (0, 1, 2, 5), replies: Sequence[bytes] = ()) -> dict[object, bytes]:
    """Transcripts: of the plain module under "plain", of the instrumented one under its checks a slice."""
    plain = bytes(wasmtime.wat2wasm(text))
    pausable = wasmtime.Module(ENGINE, instrument(plain))
    runs: dict[object, bytes] = {"plain": Run(wasmtime.Module(ENGINE, plain), replies=list(replies)).to_end()}
    for checks in (None, *cuts):
        runs[checks] = Run(pausable, replies=list(replies)).to_end(checks)
    return runs


class Slice:
    """One stretch of a run in an instance of its own."""

    def __init__(self, run: Run, checks: int | None) -> None:
        self.run_ = run
        self.checks = checks
        self.store = wasmtime.Store(ENGINE)
        self.said = ""
        names = {"effect": self.effect, "reply": self.reply, "emit": self.emit, "panic": self.panic}
        names |= {"args": self.args, "yield": self.yield_}
        imports = [
            wasmtime.Func(self.store, one.type, names[one.name])  # type: ignore[index, arg-type]
            for one in run.module.imports
        ]
        self.exports = wasmtime.Instance(self.store, run.module, imports).exports(self.store)
        self.memory: wasmtime.Memory = self.exports["memory"]  # type: ignore[assignment]
        if run.state is None:
            self.base = self.memory.grow(self.store, STACK_WASM_PAGES) * 65536
        else:
            self.base = run.state.stack_base

    def run(self) -> bool:
        run = self.run_
        if run.state is not None:
            self.restore(run.state)
            self.call("asyncify_start_rewind", self.base)
        if self.instrumented():
            self.countdown.set_value(self.store, 2**31 - 1 if self.checks is None else self.checks)
        try:
            self.call("hhd_run")
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            raise Guest(self.said or str(error)) from error
        if not self.instrumented():
            return True
        run.checks += (2**31 - 1 if self.checks is None else self.checks) - self.countdown.value(self.store)
        if self.call("asyncify_get_state") == 0:
            return True
        assert self.call("asyncify_get_state") == 1
        self.call("asyncify_stop_unwind")
        run.state = self.save()
        return False

    def instrumented(self) -> bool:
        return "hhd_countdown" in self.exports

    @property
    def countdown(self) -> wasmtime.Global:
        return self.exports["hhd_countdown"]  # type: ignore[return-value]

    def call(self, name: str, *arguments: int) -> object:
        return self.exports[name](self.store, *arguments)  # type: ignore[operator]

    # What the guest may call

    def yield_(self) -> None:
        if self.ended_rewind():
            return
        if self.goes_on():
            return
        self.unwind()

    def goes_on(self) -> bool:
        """Whether the guest runs on after a check; sets its countdown anew if so."""
        if self.checks is None:
            self.countdown.set_value(self.store, 2**31 - 1)
        return self.checks is None

    def effect(self, op: int, op_len: int, request: int, request_len: int) -> int:
        run = self.run_
        if self.ended_rewind():
            run.reply = run.replies.pop(0)
            return len(run.reply)
        run.asked.append((self.read(op, op_len), self.read(request, request_len)))
        if not self.instrumented():
            run.reply = run.replies.pop(0)
            return len(run.reply)
        self.unwind()
        return 0

    def reply(self, target: int, offset: int, length: int) -> None:
        offset, length = offset & 0xFFFFFFFF, length & 0xFFFFFFFF
        if offset + length > len(self.run_.reply):
            raise Guest("a range outside the reply")
        self.write(target, self.run_.reply[offset : offset + length])

    def emit(self, pointer: int, length: int) -> None:
        self.run_.transcript += self.read(pointer, length)

    def panic(self, pointer: int, length: int) -> None:
        self.said = self.read(pointer, length).decode(errors="replace")

    def args(self, target: int, capacity: int) -> int:
        raw = json.dumps(self.run_.arguments, sort_keys=True).encode()
        self.write(target, raw[: capacity & 0xFFFFFFFF])
        return len(raw)

    # Pausing

    def ended_rewind(self) -> bool:
        if not self.instrumented() or self.call("asyncify_get_state") != 2:
            return False
        self.call("asyncify_stop_rewind")
        return True

    def unwind(self) -> None:
        end = self.base + STACK_WASM_PAGES * 65536
        self.write(self.base, (self.base + 8).to_bytes(4, "little") + end.to_bytes(4, "little"))
        self.call("asyncify_start_unwind", self.base)

    def save(self) -> State:
        used = int.from_bytes(self.read(self.base, 4), "little") - self.base
        self.run_.stack_used_most = max(self.run_.stack_used_most, used)
        return State(
            memory=self.read(0, self.memory.data_len(self.store)),
            globals={name: self.exports[name].value(self.store) for name in self.mutable_globals()},  # type: ignore[union-attr]
            stack_base=self.base,
        )

    def restore(self, state: State) -> None:
        missing = len(state.memory) - self.memory.data_len(self.store)
        self.memory.grow(self.store, missing // 65536)
        self.write(0, state.memory)
        for name, value in state.globals.items():
            self.exports[name].set_value(self.store, value)  # type: ignore[union-attr]

    def mutable_globals(self) -> list[str]:
        kinds = [(one.name, one.type) for one in self.run_.module.exports]
        return [name for name, kind in kinds if isinstance(kind, wasmtime.GlobalType) and kind.mutable]

    def read(self, pointer: int, length: int) -> bytes:
        pointer, length = pointer & 0xFFFFFFFF, length & 0xFFFFFFFF
        if pointer + length > self.memory.data_len(self.store):
            raise Guest("a range outside memory")
        return ctypes.string_at(self.address() + pointer, length)

    def write(self, pointer: int, raw: bytes) -> None:
        pointer &= 0xFFFFFFFF
        if pointer + len(raw) > self.memory.data_len(self.store):
            raise Guest("a range outside memory")
        ctypes.memmove(self.address() + pointer, raw, len(raw))

    def address(self) -> int:
        return ctypes.addressof(self.memory.data_ptr(self.store).contents)
