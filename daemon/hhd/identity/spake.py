"""SPAKE2 over a short code, by the PyPI package `spake2` (the one place that knows it).

It is pure Python and not of constant time: how long a scalar product takes tells something of the scalar's weight. A
code is used for one exchange and then never again, so there is nothing to add up; that is why it is tolerable here,
and must not be used for a secret that lasts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from hhd_protocol.ids import DeviceId
from hhd_protocol.pairing import Side


class Spake:
    """One side of one exchange (`hhd_protocol.pairing.Pake`); the two sides are not alike, so none can be reflected."""

    def __init__(
        self, side: Side, code: str, *, guesser: DeviceId, shower: DeviceId, random: Callable[[int], bytes]
    ) -> None:
        """`guesser`, `shower`: the devices as the channel proved them; the key depends on them, as on the code."""
        spake2: Any = importlib.import_module("spake2")  # 30 ms, and only who pairs needs it.
        kind = spake2.SPAKE2_A if side is Side.GUESSER else spake2.SPAKE2_B
        password = b"hhd pairing " + code.encode("ascii")
        self._spake: Any = kind(password, idA=guesser, idB=shower, entropy_f=random)
        # A plain Exception, and what about half of all 32 bytes raise.
        not_on_curve: Any = importlib.import_module("spake2.ed25519_basic").NotOnCurve
        self._errors: tuple[type[Exception], ...] = (ValueError, spake2.SPAKEError, not_on_curve)

    def start(self) -> bytes:
        """Return the message for the other side, 33 bytes."""
        return bytes(self._spake.start())

    def finish(self, message: bytes) -> bytes:
        """Return the key, 32 bytes; raises ValueError for what is no message of the other side."""
        try:
            return bytes(self._spake.finish(message))
        except self._errors as error:
            raise ValueError("not a message of the other side") from error
