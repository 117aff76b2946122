"""Random guest programs that end: every kind of construct, branch and call, with operands on the stack around them."""

from __future__ import annotations

import random

TYPES = ("i32", "i64", "f32", "f64")
FUNCTIONS = 5
LOCALS = {"i32": 2, "i64": 2, "f32": 1, "f64": 2}
HEAD = """
(module
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (global $fuel (mut i32) (i32.const {fuel}))
  (global $kept (mut i64) (i64.const 0))
  (func $say_i64 (param i64) (i64.store (i32.const 16) (local.get 0)) (call $emit (i32.const 16) (i32.const 8)))
  (func $say_i32 (param i32) (i32.store (i32.const 16) (local.get 0)) (call $emit (i32.const 16) (i32.const 4)))
  (func $say_f64 (param f64) (f64.store (i32.const 16) (local.get 0)) (call $emit (i32.const 16) (i32.const 8)))
  (func $say_f32 (param f32) (f32.store (i32.const 16) (local.get 0)) (call $emit (i32.const 16) (i32.const 4)))
"""
BINARY = {
    "i32": ("add", "sub", "mul", "xor", "rotl", "and"),
    "i64": ("add", "sub", "mul", "xor", "rotl", "or"),
    "f32": ("add", "sub", "mul", "div"),
    "f64": ("add", "sub", "mul", "div"),
}
COMPARE = {"i32": ("lt_s", "eq", "gt_u"), "i64": ("lt_s", "ne"), "f32": ("lt", "ne"), "f64": ("ge", "eq")}


def program(seed: int, *, fuel: int = 60) -> str:
    """The text of a guest module drawn from `seed`; `fuel` bounds its calls and turns of loops."""
    return _Program(random.Random(seed), fuel).text()


class _Program:
    def __init__(self, dice: random.Random, fuel: int) -> None:
        self.dice = dice
        self.fuel = fuel
        self.signatures = [(self.types(0, 3), self.types(0, 2)) for _ in range(FUNCTIONS)]

    def types(self, least: int, most: int) -> list[str]:
        return [self.dice.choice(TYPES) for _ in range(self.dice.randint(least, most))]

    def text(self) -> str:
        parts = [HEAD.format(fuel=self.fuel)]
        for number, (params, results) in enumerate(self.signatures):
            parts.append(f"  (type $t{number} (func {wrap('param', params)} {wrap('result', results)}))")
        names = " ".join(f"$f{number}" for number in range(FUNCTIONS))
        parts.append(f"  (table {FUNCTIONS} funcref) (elem (i32.const 0) {names})")
        for number, (params, results) in enumerate(self.signatures):
            body = _Body(self, params, results).text()
            parts.append(f"  (func $f{number} {wrap('param', params)} {wrap('result', results)} {body})")
        parts.append(f'  (func (export "hhd_run") {_Body(self, [], []).text()}))')
        return "\n".join(parts)


def wrap(word: str, types: list[str]) -> str:
    return f"({word} {' '.join(types)})" if types else ""


class _Body:
    """Draws one function: a flat list of instructions beside the types on the stack."""

    def __init__(self, program: _Program, params: list[str], results: list[str]) -> None:
        self.program = program
        self.dice = program.dice
        self.results = results
        kinds = list(params)
        for kind, count in LOCALS.items():
            kinds += [kind] * count
        self.locals = {kind: [n for n, each in enumerate(kinds) if each == kind] for kind in TYPES}
        self.declared = kinds[len(params) :]
        self.out: list[str] = []
        self.labels: list[list[str]] = [results]
        self.room = 60

    def text(self) -> str:
        self.out.append("global.get $fuel i32.const 0 i32.le_s if")
        for kind in self.results:
            self.push(kind)
        self.out.append("return end global.get $fuel i32.const 1 i32.sub global.set $fuel")
        self.sequence([], self.results, 0)
        return wrap("local", self.declared) + "\n    " + "\n    ".join(self.out)

    def push(self, kind: str) -> None:
        """Push a value: a local, or a constant."""
        if self.dice.random() < 0.6:
            self.out.append(f"local.get {self.dice.choice(self.locals[kind])}")
        else:
            self.out.append(f"{kind}.const {self.dice.randint(-9, 99)}")

    def sequence(self, stack: list[str], results: list[str], depth: int) -> None:
        """Instructions that take `stack` and leave `results`."""
        stack = list(stack)
        for _ in range(self.dice.randint(2, 9)):
            self.room -= 1
            if self.room < 0:
                break
            if self.step(stack, depth):
                return
        if stack != results:
            self.out += ["drop"] * len(stack)
            for kind in results:
                self.push(kind)

    def step(self, stack: list[str], depth: int) -> bool:
        """One random act; True when nothing after it is reached."""
        act = self.dice.choice(ACTS)
        if act == "leave":
            return depth > 0 and self.dice.random() < 0.4 and self.leave(stack)
        if act in ("block", "loop", "if") and depth > 4:
            act = "push"
        getattr(self, f"do_{act}")(stack, depth)
        return False

    def do_push(self, stack: list[str], depth: int) -> None:
        kind = self.dice.choice(TYPES)
        self.push(kind)
        stack.append(kind)

    def do_operate(self, stack: list[str], depth: int) -> None:
        if stack:
            self.push(stack[-1])
            self.out.append(f"{stack[-1]}.{self.dice.choice(BINARY[stack[-1]])}")

    def do_set(self, stack: list[str], depth: int) -> None:
        if stack:
            word = self.dice.choice(("local.set", "local.tee"))
            self.out.append(f"{word} {self.dice.choice(self.locals[stack[-1]])}")
            if word == "local.set":
                stack.pop()

    def do_say(self, stack: list[str], depth: int) -> None:
        if stack:
            self.out.append(f"call $say_{stack.pop()}")

    def do_select(self, stack: list[str], depth: int) -> None:
        if stack:
            self.push(stack[-1])
            self.condition()
            self.out.append("select")

    def do_kept(self, stack: list[str], depth: int) -> None:
        self.out.append("global.get $kept i64.const 3 i64.mul i64.const 1 i64.add global.set $kept global.get $kept")
        stack.append("i64")

    def do_effect(self, stack: list[str], depth: int) -> None:
        self.out.append("i32.const 0 i32.const 1 i32.const 16 i32.const 8 call $effect")
        stack.append("i32")

    def do_call(self, stack: list[str], depth: int) -> None:
        number = self.dice.randrange(FUNCTIONS)
        params, results = self.program.signatures[number]
        taken = 0
        while taken < len(params) and stack[len(stack) - taken - 1 :][:1] == [params[taken]] and taken == 0:
            taken += 1
        if taken:
            stack.pop()
        for kind in params[taken:]:
            self.push(kind)
        if self.dice.random() < 0.3:
            self.out.append(f"i32.const {number} call_indirect (type $t{number})")
        else:
            self.out.append(f"call $f{number}")
        stack += results

    def do_block(self, stack: list[str], depth: int) -> None:
        self.construct("block", stack, depth)

    def do_loop(self, stack: list[str], depth: int) -> None:
        self.construct("loop", stack, depth)

    def do_if(self, stack: list[str], depth: int) -> None:
        self.construct("if", stack, depth)

    def construct(self, word: str, stack: list[str], depth: int) -> None:
        count = self.dice.randint(0, min(2, len(stack)))
        params = stack[len(stack) - count :]
        results = self.program.types(0, 2) if self.dice.random() < 0.7 else list(params)
        if word == "if":
            self.condition()
        self.out.append(f"{word} {wrap('param', params)} {wrap('result', results)}")
        self.labels.append(params if word == "loop" else results)
        if word == "loop":
            self.out.append("global.get $fuel i32.const 0 i32.le_s if")
            for kind in self.results:
                self.push(kind)
            self.out.append("return end global.get $fuel i32.const 1 i32.sub global.set $fuel")
        self.sequence(params, results, depth + 1)
        if word == "if" and (params != results or self.dice.random() < 0.6):
            self.out.append("else")
            self.sequence(params, results, depth + 1)
        self.out.append("end")
        self.labels.pop()
        del stack[len(stack) - count :]
        stack += results

    def condition(self) -> None:
        kind = self.dice.choice(TYPES)
        self.push(kind)
        self.push(kind)
        self.out.append(f"{kind}.{self.dice.choice(COMPARE[kind])}")

    def do_branch(self, stack: list[str], depth: int) -> None:
        """A conditional branch, with what it carries."""
        label = self.dice.randrange(len(self.labels))
        carried = self.labels[-1 - label]
        for kind in carried:
            self.push(kind)
        self.condition()
        self.out.append(f"br_if {label}")
        stack += carried

    def leave(self, stack: list[str]) -> bool:
        """An end that nothing passes: a branch, a table of branches, a return; sometimes with dead code behind it."""
        label = self.dice.randrange(len(self.labels))
        carried = self.labels[-1 - label]
        word = self.dice.choice(("br", "br_table", "return"))
        for kind in self.results if word == "return" else carried:
            self.push(kind)
        if word == "br_table":
            alike = [n for n in range(len(self.labels)) if self.labels[-1 - n] == carried]
            some = [self.dice.choice(alike) for _ in range(self.dice.randint(1, 4))]
            self.out.append(f"local.get {self.locals['i32'][0]} br_table {' '.join(map(str, some))} {label}")
        else:
            self.out.append("return" if word == "return" else f"br {label}")
        if self.dice.random() < 0.5:
            self.out.append("loop i32.const 1 drop br 0 end unreachable")
        return True


ACTS = (
    *("push",) * 5,
    *("operate",) * 4,
    *("set",) * 3,
    *("say",) * 2,
    *("call",) * 3,
    *("branch",) * 3,
    *("block", "loop", "if") * 2,
    *("select", "kept", "effect", "leave"),
)
