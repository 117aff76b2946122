"""Turns any guest module into one that can be paused, or says in one sentence why it cannot.

Nothing but this package is needed: the module of another author is not run through an optimiser (its author did that
or chose not to), so no tool can be missing, and a stranger's bytes are only ever read by Python.
"""

from __future__ import annotations

from hhd.runtime.instrument.code import decode
from hhd.runtime.instrument.module import I32, KIND_FUNCTION, KIND_GLOBAL, KIND_MEMORY, Module, parse
from hhd.runtime.instrument.passes import HOST_EXPORTS, IMPORT_TYPES, insist_on_imports, instrument_binary
from hhd_protocol import codec
from hhd_protocol.abi import ABI_VERSION, COUNTDOWN, INSTRUMENTED_SECTION
from hhd_protocol.errors import FormatError, NewerVersionError

_STAMP_BYTES_MAX = 1024
"""A stamp has two small numbers; a later version may add some."""
_OWN_GLOBALS_MAX = 82
"""State, frame pointer and shelf (at most 16 of each type), which mean nothing while the guest is paused."""


def pausable(wasm: bytes) -> bytes:
    """Return `wasm` itself when it is instrumented already, else instrumented as a stranger's.

    Raises FormatError (or one of its kinds) with one sentence.
    """
    if not claims_instrumented(wasm):
        return instrument(wasm)
    insist_on_instrumented(wasm)
    return wasm


def instrument(wasm: bytes, *, trusted: bool = False) -> bytes:
    """Return `wasm` with interrupt checks, and with the means to leave its stack and come back to it.

    `trusted` says that it is our own build: its memory functions and its allocator, known by their names, then run
    without checks. Raises FormatError (or one of its kinds) with one sentence.
    """
    return instrument_binary(wasm, trusted=trusted).module


def claims_instrumented(wasm: bytes) -> bool:
    """Whether a module has the section that says so; anyone can write it.

    Raises FormatError for what is not a module.
    """
    return any(name == INSTRUMENTED_SECTION for name, _ in parse(wasm).customs)


def insist_on_instrumented(wasm: bytes) -> None:
    """Raise FormatError unless a module that says it is instrumented has no state that a snapshot would miss.

    That checks stand everywhere is *not* shown by this: a host has to stop a module that claims it falsely.
    """
    module = parse(wasm)
    _insist_on_stamp(module)
    insist_on_imports(module, (*IMPORT_TYPES,))
    if module.start is not None:
        raise FormatError("the module has a start function, which could not be paused")
    memory = module.export("memory")
    if module.memory is None or memory is None or memory.kind != KIND_MEMORY:
        raise FormatError("the module exports no memory named memory")
    for name, kind in HOST_EXPORTS:
        export = module.export(name)
        if export is None or export.kind != KIND_FUNCTION or module.type_of(export.index) != kind:
            raise FormatError(f"the module says that it is instrumented, but exports no function {name} as it should")
    countdown = module.export(COUNTDOWN)
    if countdown is None or countdown.kind != KIND_GLOBAL:
        raise FormatError(f"the module says that it is instrumented, but exports no global {COUNTDOWN}")
    found = module.globals[countdown.index]
    if found.value_type != I32 or not found.mutable:
        raise FormatError(f"the module says that it is instrumented, but its global {COUNTDOWN} is of another type")
    exported = {export.index for export in module.exports if export.kind == KIND_GLOBAL}
    hidden = [index for index, one in enumerate(module.globals) if one.mutable and index not in exported]
    if len(hidden) > _OWN_GLOBALS_MAX:
        raise FormatError("the module says that it is instrumented, but hides globals that a snapshot would miss")
    for body in module.bodies:
        decode(body, module.types)


def _insist_on_stamp(module: Module) -> None:
    stamps = [content for name, content in module.customs if name == INSTRUMENTED_SECTION]
    if len(stamps) != 1:
        raise FormatError("the module does not say once that it is instrumented")
    stamp = codec.decode(stamps[0], bytes_max=_STAMP_BYTES_MAX)
    version = stamp.get("abi") if isinstance(stamp, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError("the module says that it is instrumented, but not for which guest ABI")
    if version > ABI_VERSION:
        raise NewerVersionError(f"the module is made for guest ABI {version}; this program knows up to {ABI_VERSION}")
