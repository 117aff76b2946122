"""One instance of a module with its store: memory and globals as raw bits.

It belongs to one thread at a time. Addresses into its memory stay mapped for the instance's life (the engine reserves
the whole 4 GiB of a 32-bit memory, so growing never moves it), but its length has to be asked anew whenever the guest
ran.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

from hhd.base.errors import RefusedError
from hhd.runtime import wasmtime_c as c
from hhd.runtime.engine import engine
from hhd.runtime.module import EXPORTS, Module
from hhd_protocol.limits import WASM_PAGE_BYTES

HostCall = Callable[[int, int], int | None]
"""(caller, address of the 16-byte slots of arguments and result) -> address of a trap, or None."""

_TABLE_ELEMENTS_MAX = 1_000_000
"""Eight bytes each; a large program has some ten thousand functions in its table."""

_TABLES_MAX = 16
_MEMORIES_MAX = 2
_INSTANCES_MAX = 2
"""The guest and the untouched twin that the baseline is read from."""


class Instance:
    """A guest's instance, and on demand an untouched twin of it: the baseline."""

    def __init__(self, module: Module, host: Mapping[str, HostCall], memory_bytes_max: int) -> None:
        self._module = module
        self._store = c.lib.wasmtime_store_new(engine(), None, None)
        self.context = int(c.lib.wasmtime_store_context(self._store))
        c.lib.wasmtime_store_limiter(
            self._store, memory_bytes_max, _TABLE_ELEMENTS_MAX, _INSTANCES_MAX, _TABLES_MAX, _MEMORIES_MAX
        )
        self._host = {name: _host_function(call) for name, call in host.items()}
        self._imports = self._make_imports()
        self._instance = self._instantiate()
        self._funcs = {name: self._export(self._instance, name).of.func for name in EXPORTS}
        self._memory = self._export(self._instance, "memory").of.item
        self._globals = {name: self._export(self._instance, name).of.item for name in module.shape.globals}
        self.address = int(c.lib.wasmtime_memory_data(self.context, self._memory) or 0)
        self._twin: c.Item | None = None

    def __del__(self) -> None:
        if store := getattr(self, "_store", None):
            c.lib.wasmtime_store_delete(store)

    def leak(self) -> None:
        """Never free what this holds: a thread that cannot be stopped still runs in it."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def call(self, name: str, *arguments: int, context: int | None = None) -> int | None:
        """Call an export of the ABI; `context` is the caller's when called from within a host function.

        Raises wasmtime_c.TrapError.
        """
        values = (c.Val * max(1, len(arguments)))(*(c.Val(c.I32, each) for each in arguments))
        results = (c.Val * 1)()
        expected, trap = len(EXPORTS[name][1]), ctypes.c_void_p()
        c.check(
            c.lib.wasmtime_func_call(
                context or self.context, self._funcs[name], values, len(arguments), results, expected, trap
            )
        )
        c.check_trap(trap)
        return results[0].bits & 0xFFFFFFFF if expected else None

    def memory_bytes(self, context: int | None = None) -> int:
        """How long linear memory is at this moment."""
        return int(c.lib.wasmtime_memory_data_size(context or self.context, self._memory))

    def grow(self, to_bytes: int) -> bool:
        """Grow memory to `to_bytes`; return whether that worked."""
        more = (to_bytes - self.memory_bytes()) // WASM_PAGE_BYTES
        try:
            c.check(c.lib.wasmtime_memory_grow(self.context, self._memory, more, ctypes.c_uint64()))
        except c.VendorError:
            return False
        return True

    def view(self) -> memoryview:
        """All of memory as it is now, writable, without a copy; it keeps this instance alive."""
        whole = (ctypes.c_char * self.memory_bytes()).from_address(self.address)
        whole.owner = self  # type: ignore[attr-defined]
        return memoryview(whole).cast("B")

    def global_bits(self, name: str, context: int | None = None) -> int:
        """The bits of a mutable global."""
        value = c.Val()
        c.lib.wasmtime_global_get(context or self.context, self._globals[name], value)
        return int(value.bits) & _mask(value.kind)

    def set_global_bits(self, name: str, bits: int, context: int | None = None) -> None:
        """Set a mutable global to `bits`, which fit its kind."""
        value = c.Val(self._module.shape.globals[name], bits)
        c.check(c.lib.wasmtime_global_set(context or self.context, self._globals[name], value))

    def baseline(self) -> tuple[int, int]:
        """Address and length of memory as instantiation leaves it: that of a twin which never runs."""
        if self._twin is None:
            self._twin = self._export(self._instantiate(), "memory").of.item
        address = int(c.lib.wasmtime_memory_data(self.context, self._twin) or 0)
        return address, int(c.lib.wasmtime_memory_data_size(self.context, self._twin))

    def _make_imports(self) -> ctypes.Array[c.Extern]:
        imports = (c.Extern * max(1, len(self._module.shape.imports)))()
        types = self._module.import_types()
        for extern, name, kind in zip(imports, self._module.shape.imports, types, strict=False):
            extern.kind = c.EXTERN_FUNC
            c.lib.wasmtime_func_new_unchecked(self.context, kind, self._host[name], None, None, extern.of.func)
        return imports

    def _instantiate(self) -> c.Instance:
        instance, trap = c.Instance(), ctypes.c_void_p()
        try:
            c.check(
                c.lib.wasmtime_instance_new(
                    self.context, self._module.address, self._imports, len(self._module.shape.imports), instance, trap
                )
            )
            c.check_trap(trap)
        except (c.VendorError, c.TrapError) as error:
            why = str(error).splitlines()[0][:200]
            raise RefusedError(f"The module was refused: it cannot be set up ({why}).") from error
        return instance

    def _export(self, instance: c.Instance, name: str) -> c.Extern:
        extern, raw = c.Extern(), name.encode()
        found = c.lib.wasmtime_instance_export_get(self.context, instance, raw, len(raw), extern)
        assert found, name
        return extern


def _mask(kind: int) -> int:
    return 0xFFFFFFFF if kind in (c.I32, c.F32) else 0xFFFFFFFFFFFFFFFF


def _host_function(call: HostCall) -> object:
    return c.HostFunction(lambda _env, caller, slots, _count: call(caller, slots))
