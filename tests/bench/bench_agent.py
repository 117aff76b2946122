"""Measures the agent: a turn of a long conversation against the plain module, and what its capsule weighs."""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import wasmtime
import zstandard
from tests.bench.harness import percentile, report

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "guest" / "build"))
import build  # type: ignore[import-not-found]  # noqa: E402 (the build script of the guest)

WORDS = (ROOT / "LICENSE").read_text().split()


def prose(dice: random.Random, words: int) -> str:
    """Text that packs about as well as prose and code do."""
    lines = [" ".join(dice.choice(WORDS) for _ in range(12)) for _ in range(max(1, words // 12))]
    return "\n".join(lines)


def replies(turns: int, words: int = 200, seed: int = 1) -> tuple[list[bytes], list[bytes]]:
    """Model and tool replies of a session: text and one call in each turn, `words` of output for each call."""
    dice = random.Random(seed)
    model, tool = [], []
    for turn in range(turns):
        command = {"type": "tool_use", "id": f"toolu_{turn}", "name": "bash", "input": {"command": prose(dice, 12)}}
        content = [{"type": "text", "text": prose(dice, 80)}, command]
        usage = {"input_tokens": 100, "cache_read_input_tokens": 9000, "output_tokens": 150}
        model.append(json.dumps({"content": content, "stop_reason": "tool_use", "usage": usage}).encode())
        tool.append(json.dumps({"output": prose(dice, words), "is_error": False}).encode())
    return model, tool


class TurnClock:
    """Runs a module whose effects are answered at once, and keeps the time that the guest itself took for each turn."""

    def __init__(self, wasm: bytes, args: dict[str, str]) -> None:
        self.engine = wasmtime.Engine()
        self.module = wasmtime.Module(self.engine, wasm)
        self.args = json.dumps(args).encode()

    def session(self, model: list[bytes], tool: list[bytes]) -> list[float]:
        """Milliseconds inside the guest from each model reply to the next model request."""
        store = wasmtime.Store(self.engine)
        state: dict[str, Any] = {"reply": b"", "since": 0.0, "spent": 0.0}
        turns: list[float] = []
        left = {"model": iter(model), "tool": iter(tool)}
        last = {"model": b'{"error":{"message":"over"}}', "tool": b'{"output":"none","is_error":true}'}

        def effect(op_at: int, op_len: int, at: int, length: int) -> int:
            state["spent"] += time.perf_counter() - state["since"]
            op = memory.read(store, op_at, op_at + op_len).decode()
            request = memory.read(store, at, at + length)
            if op == "model":
                turns.append(state["spent"] * 1000)
                state["spent"] = 0.0
            if op in left and b'"id":"notes"' not in request[:20]:
                state["reply"] = next(left[op], last[op])
            else:
                state["reply"] = last["tool"] if op == "tool" else b"{}" if op == "machine" else b'{"end":true}'
            state["since"] = time.perf_counter()
            return len(state["reply"])

        def reply(target: int, offset: int, length: int) -> None:
            state["spent"] += time.perf_counter() - state["since"]
            memory.write(store, state["reply"][offset : offset + length], target)
            state["since"] = time.perf_counter()

        def emit(at: int, length: int) -> None:
            pass

        def copy_args(target: int, room: int) -> int:
            memory.write(store, self.args[:room], target)
            return len(self.args)

        def again() -> None:
            countdown.set_value(store, 1_000_000)

        i32 = wasmtime.ValType.i32()
        kinds = {
            "effect": (4, 1, effect),
            "reply": (3, 0, reply),
            "emit": (2, 0, emit),
            "panic": (2, 0, emit),
            "args": (2, 1, copy_args),
            "yield": (0, 0, again),
        }
        imports = []
        for one in self.module.imports:
            takes, gives, act = kinds[one.name or ""]
            imports.append(wasmtime.Func(store, wasmtime.FuncType([i32] * takes, [i32] * gives), act))
        exports = wasmtime.Instance(store, self.module, imports).exports(store)
        memory, countdown = exports["memory"], exports.get("hhd_countdown")
        if any(one.name == "yield" for one in self.module.imports):
            memory.grow(store, 4)  # room for the stack of a pause, which here is never used
        state["since"] = time.perf_counter()
        exports["hhd_run"](store)
        return turns


def turn_figure(sessions: int = 12) -> None:
    """A turn after 200 messages, instrumented against plain."""
    build.compile_crates(build.WORKSPACE / "target", ["agent"])
    plain = build.plain_module(build.WORKSPACE / "target", "agent")
    instrumented = (build.MODULES / "agent.wasm").read_bytes()
    args = {"prompt": "go", "context_tokens": "10000000", "turn_limit": "1000"}
    clocks = [TurnClock(wasm, args) for wasm in (instrumented, plain)]
    model, tool = replies(120)
    for clock in clocks:
        clock.session(model, tool)
    ours, theirs, ratios = [], [], []
    for _ in range(sessions):
        a, b = (clock.session(model, tool)[100:120] for clock in clocks)
        ours += a
        theirs += b
        ratios.append(statistics.median(a) / statistics.median(b))
    report(
        "agent turn at 200 messages, instrumented against plain",
        "make bench (agent)",
        "warm",
        n=len(ours),
        median_ms=round(statistics.median(ours), 4),
        p99_ms=round(percentile(ours, 0.99), 4),
        other_median_ms=round(statistics.median(theirs), 4),
        other_p99_ms=round(percentile(theirs, 0.99), 4),
        ratio=round(statistics.median(ratios), 3),
        target=1.5,
    )


def capsule_figure(words: int, turns: int = 20) -> None:
    """The capsule of a session of 20 turns, without its module, against its packed conversation."""
    from hhd.node import capsules
    from hhd.runtime.outcomes import StopFlag

    model, tool = replies(turns, words)
    model.append(b'{"content":[{"type":"text","text":"Fixed."}],"stop_reason":"end_turn"}')
    notes = b'{"output":"Run the tests with pytest -q."}'
    machine = b'{"date":"2026-11-29","system":"Linux x86_64","tools":["git","python3"]}'
    left = {"model": iter(model), "tool": iter([notes, *tool]), "machine": iter([machine])}
    asked = {"model": 0, "tool": -1}
    conversation = b""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "session.hhd"
        capsules.new("agent", file, args={"prompt": "fix it"}, embed=False, force=False)
        reply: bytes | None = None
        while True:
            said = capsules.step(file, reply=reply, module=build.MODULES / "agent.wasm", stop=StopFlag())
            entry = said.capsule.journal.pending
            assert entry is not None, said
            asked[entry.op] = asked.get(entry.op, 0) + 1
            if entry.op == "model":
                messages = json.loads(entry.request)["messages"]
                conversation = json.dumps(messages, separators=(",", ":"), ensure_ascii=False).encode()
            if (entry.op, asked[entry.op]) in {("tool", turns), ("model", turns + 1), ("input", 1)}:
                weigh(said.capsule_bytes, said.dirty_pages, conversation, entry.op, turns)
            if entry.op == "input":
                return
            reply = next(left[entry.op])


def weigh(capsule_bytes: int, pages: int, conversation: bytes, pending: str, turns: int) -> None:
    """Report one capsule."""
    packed = len(zstandard.ZstdCompressor(level=3).compress(conversation))
    report(
        f"capsule after {turns} turns without module, pending on {pending}",
        "make bench (agent)",
        "warm",
        capsule_bytes=capsule_bytes,
        changed_pages=pages,
        conversation_bytes=len(conversation),
        conversation_packed_bytes=packed,
        target_bytes=2 * packed + 32 * 1024,
        share_of_target=round(capsule_bytes / (2 * packed + 32 * 1024), 3),
    )


def main() -> None:
    """Measure everything."""
    turn_figure()
    for words in (200, 1500):
        capsule_figure(words)


if __name__ == "__main__":
    main()
