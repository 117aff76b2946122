"""How fast a link may send: a token bucket, in bytes a second."""

from __future__ import annotations

BURST_SECONDS = 0.05
"""What may go at once after a pause: a small message never waits, and no router's queue is filled."""

BURST_BYTES_MIN = 16 * 1024
"""At slow rates a burst is at least this, else every message would go in crumbs."""


class Bucket:
    """Bytes that may be sent now; what is sent may run into debt by one batch, which is waited for afterwards."""

    def __init__(self, bytes_per_second: float, now: float) -> None:
        assert bytes_per_second > 0
        self._rate = bytes_per_second
        self._burst = max(bytes_per_second * BURST_SECONDS, BURST_BYTES_MIN)
        self._tokens = self._burst
        self._at = now

    def allowed(self, now: float) -> float:
        """Return how many bytes may go at `now`, in seconds of a clock that never goes back; not more than 0: none."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self._tokens

    def spend(self, count: int) -> None:
        """Note that `count` bytes went."""
        self._tokens -= count

    @property
    def wait_seconds(self) -> float:
        """How long after `allowed` said none some may go: enough for a tenth of a burst, not for a single byte."""
        return max(0.0, self._burst / 10 - self._tokens) / self._rate
