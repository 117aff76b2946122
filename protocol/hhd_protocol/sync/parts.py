"""Things that come in parts, put together in order; what came before a cut is gone on from.

What is held is what came, never what was announced. Nothing is believed of it: whoever asked for it compares the whole
with its name.
"""

from __future__ import annotations

from hhd_protocol.errors import FormatError
from hhd_protocol.limits import SYNC_SPOOL_BYTES_MAX
from hhd_protocol.sync.messages import Part


class Parts:
    """What has been begun, by name."""

    def __init__(self, *, bytes_max: int = SYNC_SPOOL_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._begun: dict[bytes, bytearray] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """How many bytes are held of what is not whole."""
        return self._bytes

    def begun(self, name: bytes) -> int:
        """How many bytes of it are here."""
        return len(self._begun.get(name, b""))

    def add(self, part: Part) -> bytes | None:
        """Take in a part; return the whole once it is, None before. What came already is passed over.

        Raises FormatError where a stretch between it and what is here is missing.
        """
        if part.offset == 0 and len(part.content) == part.total:
            self.drop(part.name)
            return part.content
        held = self._begun.setdefault(part.name, bytearray())
        if part.offset > len(held):
            if not held:
                del self._begun[part.name]
            raise FormatError("parts of an object came with a gap between them")
        fresh = part.content[len(held) - part.offset :]
        held += fresh
        self._bytes += len(fresh)
        if len(held) == part.total:
            self.drop(part.name)
            return bytes(held)
        while self._bytes > self._bytes_max:
            self.drop(next(iter(self._begun)))  # The oldest: it is begun anew when it is asked for again.
        return None

    def drop(self, name: bytes) -> None:
        """Forget what came of it."""
        self._bytes -= len(self._begun.pop(name, b""))
