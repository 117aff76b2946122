"""The border between a guest program and its host (`protocol/spec/guest-abi.md`): names and values, no code.

A `Snapshot` is a whole paused execution. It refers to a baseline, the memory right after instantiation of the same
instrumented module plus the Asyncify stack, and holds only what differs from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hhd_protocol.limits import PAGE_BYTES

ABI_VERSION = 1
IMPORT_MODULE = "hhd1"
ENTRY = "hhd_run"
COUNTDOWN = "hhd_countdown"
INSTRUMENTED_SECTION = "hhd.instrumented"
PAUSING_IMPORTS = ("effect", "yield")
PLAIN_IMPORTS = ("reply", "emit", "panic", "args")


@dataclass(frozen=True, kw_only=True)
class EffectRequest:
    """What a guest asks of the world: `op` names the kind, `request` is bytes whose meaning the kind fixes."""

    op: str
    request: bytes


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One paused execution.

    `entry`: the export to enter by when resuming. `memory_bytes`: size of linear memory, a multiple of 64 KiB.
    `page_numbers`: strictly ascending numbers of the 4 KiB pages that differ from the baseline (or from zeros where
    memory was grown). `pages`: their contents, in that order, as one or more buffers whose lengths add up to
    `len(page_numbers) * 4096`. `globals`: exported mutable globals by name, each as its bits in an unsigned integer
    (i32 and f32: 32 bits, i64 and f64: 64 bits), Asyncify's own left out.
    `asyncify_stack_bytes`: how much of the Asyncify stack is in use.
    """

    entry: str
    memory_bytes: int
    page_numbers: Sequence[int]
    pages: Sequence[bytes | memoryview]
    globals: Mapping[str, int]
    asyncify_stack_bytes: int

    def __post_init__(self) -> None:
        assert sum(len(piece) for piece in self.pages) == len(self.page_numbers) * PAGE_BYTES
