"""The Asyncify stack of a guest: where its calls lie while it is paused.

It is the last part of memory as the host made it, before anything the guest grows: two words, padded to 16 bytes, that
say to where it is filled and where it ends, then the frames. Nothing that lies there is believed.
"""

from __future__ import annotations

import ctypes
import struct

from hhd.base.errors import RefusedError
from hhd.runtime.instance import Instance
from hhd_protocol.limits import ASYNCIFY_STACK_WASM_PAGES, WASM_PAGE_BYTES

_BYTES = ASYNCIFY_STACK_WASM_PAGES * WASM_PAGE_BYTES
_HEADER_BYTES = 16

ROOM_BYTES = _BYTES - _HEADER_BYTES
"""What there is for frames."""


class PauseStack:
    """The stack of one instance, made by growing its memory."""

    def __init__(self, instance: Instance) -> None:
        """Raises RefusedError where memory cannot be grown by the room for it."""
        self._instance = instance
        self.base = instance.memory_bytes()
        self.end = self.base + _BYTES
        if not instance.grow(self.end):
            raise RefusedError("The module was refused: its memory leaves no room for the stack of a pause.")
        self._wiped_from = 0
        self.fill(0)

    def fill(self, used: int) -> None:
        """Say that `used` bytes of frames are there: 0 before a pause."""
        start = self.base + _HEADER_BYTES
        header = struct.pack("<II", start + used, self.end)
        ctypes.memmove(self._instance.address + self.base, header, len(header))

    def used(self) -> int:
        """Bytes of frames, as the guest left the words: anything at all if it is not in order."""
        raw = ctypes.string_at(self._instance.address + self.base, 4)
        return int.from_bytes(raw, "little") - self.base - _HEADER_BYTES

    def in_order(self) -> bool:
        """Whether a pause left frames, and no more than there is room for."""
        return 0 < self.used() <= ROOM_BYTES

    def restored(self, used: int) -> None:
        """Frames were put back by the host, and zeros after them."""
        self.fill(used)
        self._wiped_from = used

    def wipe(self, used: int) -> None:
        """Set to zero what earlier, deeper pauses left after the first `used` bytes."""
        before, self._wiped_from = self._wiped_from, used
        begin = self._instance.address + self.base + _HEADER_BYTES
        ctypes.memset(begin + used, 0, max(0, before - used))

    def note(self) -> None:
        """Remember how far the pause that was just made reaches."""
        self._wiped_from = max(self._wiped_from, self.used())
