"""What a guest may not have, and what is no module at all, is refused in one sentence; nothing else ever comes out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import wasmtime
from tests.runtime.instrument.host import ENGINE
from tests.runtime.instrument.programs import program

from hhd.runtime.instrument import claims_instrumented, insist_on_instrumented, instrument, leb, pausable
from hhd.runtime.instrument.module import FuncType, Module, encode, parse
from hhd_protocol import codec
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.limits import GUEST_LOCALS_MAX, PLAIN_MODULE_BYTES_MAX

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "guests"
ENTRY = '(memory (export "memory") 1) (func (export "hhd_run"))'
ASK = '(import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))'

TEXTS = {
    "(module)": "exports no memory named memory",
    '(module (memory 1) (func (export "hhd_run")))': "exports no memory named memory",
    '(module (memory (export "memory") 1))': "exports no function of its own named hhd_run",
    '(module (memory (export "memory") 1) (func (export "hhd_run") (param i32)))': "takes or returns something",
    '(module (import "hhd1" "yield" (func)) (memory (export "memory") 1) (func (export "hhd_run")))': "imports yield",
    f'(module (import "hhd1" "clock" (func)) {ENTRY})': "imports hhd1.clock, which is not part",
    f'(module (import "wasi_snapshot_preview1" "fd_write" (func)) {ENTRY})': "wasi_snapshot_preview1.fd_write, which",
    f'(module (import "hhd1" "\\1b[2J" (func)) {ENTRY})': r"imports hhd1.\\x1b\[2J, which",
    f'(module (import "hhd1" "emit" (func (param i32))) {ENTRY})': "imports emit with another type",
    f'(module (import "hhd1" "emit" (global i32)) {ENTRY})': "imports something that is not a function",
    f'(module (import "hhd1" "emit" (table 1 funcref)) {ENTRY})': "imports something that is not a function",
    '(module (import "hhd1" "memory" (memory 1)) (func (export "hhd_run")))': "something that is not a function",
    f"(module {ENTRY} (func $s) (start $s))": "has a start function",
    f'(module {ENTRY} (global (export "hhd_countdown") (mut i32) (i32.const 0)))': "exports hhd_countdown, a name",
    f'(module {ENTRY} (func (export "asyncify_get_state")))': "exports asyncify_get_state, a name",
    f'(module {ENTRY} (func (export "hhd_global_0")))': "exports hhd_global_0, a name",
    f'(module {ENTRY} (@custom "hhd.instrumented" "x"))': "says that it is instrumented already",
    f"(module {ENTRY} (memory 1))": "more than one memory",
    '(module (memory (export "memory") i64 1) (func (export "hhd_run")))': "shared or 64-bit memory",
    '(module (memory (export "memory") 1 1 shared) (func (export "hhd_run")))': "shared or 64-bit memory",
    f"(module {ENTRY} (table 1 funcref) (table 1 funcref))": "more than one table",
    f"(module {ASK} {ENTRY} (table funcref (elem $effect)))": "the imported function effect into its table",
    f"(module {ENTRY} (table 1 externref))": "a table of something else than functions",
    f"(module {ENTRY} (table 1 funcref) (func (table.set (i32.const 0) (ref.null func))))": "references, which a",
    f"(module {ENTRY} (table 1 funcref) (func (drop (table.get (i32.const 0)))))": "table reads",
    f"(module {ENTRY} (table 1 funcref) (func (drop (table.size))))": "table sizes",
    f"(module {ENTRY} (table 1 funcref) (func (table.copy (i32.const 0) (i32.const 0) (i32.const 1))))": "changes to",
    f"(module {ENTRY} (table 1 funcref) (elem func 0))": "passive element segment",
    f'(module {ENTRY} (data "x"))': "passive or unknown data segment",
    f"(module {ENTRY} (func (param externref)))": "references or a type that is unknown",
    f"(module {ENTRY} (func (local funcref)))": "references or a type that is unknown",
    f"(module {ENTRY} (func (result funcref) (unreachable)))": "references or a type that is unknown",
    f"(module {ENTRY} (global (mut v128) (v128.const i64x2 0 0)))": "mutable global of a vector type",
    f"(module {ENTRY} (global (mut externref) (ref.null extern)))": "global of a reference type",
    f"(module {ENTRY} (global i32 (i32.add (i32.const 1) (i32.const 2))))": "not a plain constant",
    f"(module {ENTRY} (tag))": "uses exceptions",
    f"(module {ENTRY} (func (throw_ref (unreachable))))": "uses exceptions",
    f"(module {ENTRY} (func $f (return_call $f)))": "uses tail calls",
    f"(module {ENTRY} (type $t (func)) (func (call_ref $t (ref.null $t))))": "references, which a snapshot",
    f"(module {ENTRY} (type (struct)))": "not a plain function type",
    f"(module {ENTRY} (rec (type (func)) (type (func))))": "not a plain function type",
    f"(module {ENTRY} (func (drop (i32.atomic.load (i32.const 0)))))": "uses threads",
    f"(module {ENTRY} (func (result v128) (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0))))": (
        "relaxed SIMD, whose results differ"
    ),
    f"(module {ENTRY} (func (drop (ref.i31 (i32.const 1)))))": "garbage-collected objects",
    f"(module {ENTRY} (func (drop (i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0)))))": "wide",
    "(component)": "a component is not accepted",
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_guest_may_not_have_is_refused_by_name(text: str) -> None:
    raw = bytes(wasmtime.wat2wasm(text))
    with pytest.raises(FormatError, match=TEXTS[text]) as caught:
        instrument(raw)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_the_entry_that_the_refused_ones_share_is_accepted() -> None:
    wasmtime.Module.validate(ENGINE, instrument(wasmtime.wat2wasm(f"(module {ASK} {ENTRY})")))


def body_module(body: bytes, locals_: bytes = b"\0") -> bytes:
    """A guest whose entry has this body."""
    text = wasmtime.wat2wasm(f"(module {ASK} {ENTRY})")
    module = parse(bytes(text))
    return encode(Module(**{**vars(module), "bodies": (locals_ + body,)}))


BODIES = {
    "more locals than anyone needs": (b"\x0b", b"\x01\xff\xff\xff\xff\x0f\x7f", TooLargeError, "locals"),
    "two groups of many locals": (
        b"\x0b",
        b"\x02" + (leb.u32(GUEST_LOCALS_MAX) + b"\x7f") * 2,
        TooLargeError,
        "locals",
    ),
    "more groups than bytes": (b"\x0b", b"\xff\xff\x03", FormatError, "more groups of locals than it has room"),
    "a local of no type": (b"\x0b", b"\x01\x01\x40", FormatError, "type that is unknown"),
    "no end": (b"\x01", b"\0", FormatError, "does not end"),
    "no end of a block": (b"\x02\x40\x0b", b"\0", FormatError, "does not end"),
    "code after the end": (b"\x0b\x01", b"\0", FormatError, "left over after the end"),
    "an else alone": (b"\x03\x40\x0b\x05\x0b", b"\0", FormatError, "else without its if"),
    "two elses": (b"\x03\x40\x0b\x41\0\x04\x40\x05\x05\x0b\x0b", b"\0", FormatError, "else without its if"),
    "a branch out of the function": (b"\x0c\x01\x0b", b"\0", FormatError, "leads out of its function"),
    "a table of branches out of the function": (b"\x41\0\x0e\x01\0\x09\x0b", b"\0", FormatError, "out of its function"),
    "a table of more branches than bytes": (b"\x41\0\x0e\xff\xff\xff\xff\x0f\0\x0b", b"\0", FormatError, "more labels"),
    "a call of nothing": (b"\x10\x63\x0b", b"\0", FormatError, "calls a function that it does not have"),
    "an indirect call without a type": (b"\x41\0\x11\x63\0\x0b", b"\0", FormatError, "type or table that it does not"),
    "a block type of nothing": (b"\x02\x63\x0b\x0b", b"\0", FormatError, "type that is unknown"),
    "a number that never ends": (b"\x41" + b"\x80" * 11 + b"\0\x1a\x0b", b"\0", FormatError, "longer than 32 bits"),
    "a number cut short": (b"\x41\x80", b"\0", FormatError, "ends in the middle"),
    "a local of nothing": (b"\x03\x40\x20\x63\x1a\x0b\x0b", b"\0", FormatError, "names a local that it does not have"),
    "a global of nothing": (b"\x03\x40\x23\x63\x1a\x0b\x0b", b"\0", FormatError, "names a global that it does not"),
    "operands from nowhere": (b"\x03\x40\x6a\x1a\x0b\x0b", b"\0", FormatError, "takes operands that are not there"),
    "operands of another type": (b"\x03\x40\x42\0\x45\x1a\x0b\x0b", b"\0", FormatError, "an operand of another type"),
    "operands left behind": (b"\x03\x40\x42\0\x0b\x0b", b"\0", FormatError, "leaves operands behind"),
    "a change to the table": (b"\x41\0\x26\0\x0b", b"\0", FormatError, "changes to a table"),
    "an unknown instruction": (b"\xff\0\x0b", b"\0", FormatError, "an unknown instruction"),
    "another memory": (b"\x41\0\x28\x42\x01\0\x1a\x0b", b"\0", FormatError, "more than one memory"),
    "blocks within blocks": (b"\x02\x40" * 9000 + b"\x0b" * 9001, b"\0", TooLargeError, "nested deeper"),
}


@pytest.mark.parametrize("name", BODIES)
def test_code_that_does_not_hold_together_is_refused(name: str) -> None:
    body, locals_, error, sentence = BODIES[name]
    with pytest.raises(error, match=sentence):
        instrument(body_module(body, locals_))


def test_what_would_grow_without_bound_is_refused() -> None:
    locals_ = b"\x01" + leb.u32(GUEST_LOCALS_MAX) + b"\x7f"
    uses = b"".join(b"\x20" + leb.u32(number) + b"\x1a" for number in range(GUEST_LOCALS_MAX))
    asks = b"\x41\0\x41\0\x41\0\x41\0\x10\0\x1a" * 2000
    with pytest.raises(TooLargeError, match="too large to be made pausable"):
        instrument(body_module(asks + uses + b"\x0b", locals_))
    with pytest.raises(TooLargeError, match=f"at most {PLAIN_MODULE_BYTES_MAX}"):
        instrument(b"\0asm\x01\0\0\0" + bytes(PLAIN_MODULE_BYTES_MAX))


def test_constructs_within_constructs_do_not_multiply() -> None:
    """A site deep within blocks costs each block around it a few bytes, whatever their number."""
    body = b"\x02\x40" * 1900 + b"\x41\0\x41\0\x41\0\x41\0\x10\0\x1a" * 2000 + b"\x0b" * 1901
    raw = body_module(body)
    assert len(instrument(raw)) < 20 * len(raw)


@pytest.mark.parametrize("fixture", ["indirect", "memory_growth", "effects"])
def test_a_truncated_module_is_refused(fixture: str) -> None:
    """Only where whole sections after the code are missing can what is left be a module."""
    raw = (FIXTURES / f"{fixture}.wasm").read_bytes()
    accepted = []
    for length in range(len(raw)):
        try:
            instrument(raw[:length])
        except FormatError:
            continue
        accepted.append(length)
    whole = [length for length in accepted if encode(parse(raw[:length])).startswith(encode(parse(raw))[:100])]
    assert len(accepted) == len(whole) <= 4, "a custom section of names and the data come after the code"
    instrument(raw)


def damaged(raw: bytes, dice: random.Random) -> bytes:
    """`raw` with a few bytes changed, left out or put in."""
    out = bytearray(raw)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(8, len(out))
        act = dice.random()
        if act < 0.7:
            out[place] = dice.choice((dice.randrange(256), out[place] ^ 1 << dice.randrange(8), 0x0B, 0x80, 0x7F))
        elif act < 0.85:
            del out[place : place + dice.randint(1, 3)]
        else:
            out[place:place] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 3)))
    return bytes(out)


def fuzz(seed: int, rounds: int) -> tuple[int, int]:
    """Damage modules; whatever is refused is refused as a format error, and what was valid stays valid."""
    dice = random.Random(seed)
    sources = [path.read_bytes() for path in sorted(FIXTURES.glob("*.wasm"))]
    sources += [bytes(wasmtime.wat2wasm(program(number))) for number in range(seed, seed + 6)]
    refused = valid = 0
    for _ in range(rounds):
        raw = damaged(dice.choice(sources), dice)
        try:
            out = pausable(raw)
        except FormatError as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        try:
            wasmtime.Module.validate(ENGINE, raw)
        except wasmtime.WasmtimeError:
            continue
        valid += 1
        wasmtime.Module.validate(ENGINE, out)
    return refused, valid


def test_damaged_modules_are_refused_or_stay_valid() -> None:
    refused, valid = fuzz(1, 1500)
    assert refused > 300 and valid > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", [100, 200])
def test_many_damaged_modules_are_refused_or_stay_valid(seed: int) -> None:
    refused, valid = fuzz(seed, 8000)
    assert refused > 1500 and valid > 250


CLAIM = wasmtime.wat2wasm((Path(__file__).resolve().parents[3] / "guest/testguests/without_checks.wat").read_text())


def test_a_module_that_says_it_is_instrumented_is_taken_at_its_word_but_for_its_state() -> None:
    assert claims_instrumented(bytes(CLAIM))
    assert pausable(bytes(CLAIM)) == bytes(CLAIM)


def without_section(module: Module) -> Module:
    return Module(**{**vars(module), "customs": ()})


def stamped(stamp: codec.Value) -> tuple[tuple[str, bytes], ...]:
    return (("hhd.instrumented", codec.encode(stamp)),)


FALSE_CLAIMS = {
    "hides globals": (
        {"globals": parse(bytes(CLAIM)).globals * 90},
        FormatError,
        "hides globals that a snapshot would miss",
    ),
    "exports no countdown": ({"exports": parse(bytes(CLAIM)).exports[:1]}, FormatError, "exports no function"),
    "has a start function": ({"start": 1}, FormatError, "start function"),
    "has no memory": ({"memory": None, "exports": ()}, FormatError, "exports no memory"),
    "is of a later version": ({"customs": stamped({"abi": 2, "pass": 1})}, NewerVersionError, "guest ABI 2"),
    "names no version": ({"customs": stamped({"pass": 1})}, FormatError, "not for which guest ABI"),
    "has a stamp that is no map": ({"customs": stamped([1])}, FormatError, "not for which guest ABI"),
    "has two stamps": ({"customs": stamped({"abi": 1}) * 2}, FormatError, "does not say once"),
    "imports a clock": (
        {"imports": (type(parse(bytes(CLAIM)).imports[0])(module="hhd1", name="clock", type_index=0),)},
        FormatError,
        "imports hhd1.clock",
    ),
}


@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_a_claim_that_its_structure_belies_is_refused(name: str) -> None:
    change, error, sentence = FALSE_CLAIMS[name]
    raw = encode(Module(**{**vars(parse(bytes(CLAIM))), **change}))
    for act in (insist_on_instrumented, pausable):
        with pytest.raises(error, match=sentence):
            act(raw)


def test_our_own_output_is_accepted_as_instrumented() -> None:
    insist_on_instrumented(instrument((FIXTURES / "indirect.wasm").read_bytes()))


def test_types_may_repeat() -> None:
    kinds = (FuncType(b"", b""),) * 3
    module = parse(body_module(b"\x0b"))
    instrument(encode(Module(**{**vars(module), "types": module.types + kinds})))
